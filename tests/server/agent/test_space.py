# SPDX-License-Identifier: Apache-2.0
"""What may be tried: quick with dozens of rewrites, tuned where rewrites bring numbers, all of it legal."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import msgspec
import pytest
from tests.server.agent.bench import timed
from tests.server.agent.snippets import LIMITS
from tests.tools.tunable.test_extract import read

from warplens.agent.actions import KernelSpace
from warplens.agent.moves import TOGETHER
from warplens.agent.priors import Cause
from warplens.agent.searcher import Policy
from warplens.agent.templates import TemplateSource
from warplens.agent.tree import SearchTree
from warplens.agent.versions import Ask, Versions
from warplens_tools.finding import Gain
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.process.task import UNATTENDED
from warplens_tools.rewrite.base import Rewrite
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText
from warplens_tools.tunable.extract import KINDS, extract
from warplens_tools.tunable.parameter import ParameterKind

PROGRAMS = Path(__file__).parents[2] / "suite/programs"
#: Of CPU time: a version must be proposed for well within a tenth of a second.
QUICK_SECONDS = 0.1


def dozens(count: int = 40) -> list[Rewrite]:
    """As many rewrites as there will be: those there are, several times over."""
    return [
        msgspec.structs.replace(REWRITES[i % len(REWRITES)], slug=f"{REWRITES[i % len(REWRITES)].slug}-{i}")
        for i in range(count)
    ]


@pytest.mark.parametrize("program", ["matmul.cu", "layer_norm.cu", "nbody.cu"])
def test_a_version_is_proposed_for_quickly_with_forty_rewrites(program: str) -> None:
    text = SourceText.read(PROGRAMS / program)
    kernel = read(text.text).model.kernels[0].qualified_name
    space = KernelSpace(text, path=program, kernel=kernel, limits=LIMITS, rewrites=dozens())
    versions = Versions(text, path=program, kernel=kernel, space=space)
    versions.ideas(versions.root)  # the user's own file was parsed and read for its findings before
    # what thousands of other tests have left is not this one's to collect
    gc.disable()
    start = time.process_time()
    node = next(
        n
        for idea in versions.ideas(versions.root)
        if idea.made and (p := idea.make(UNATTENDED)) and (n := versions.grow(versions.root, p))
    )
    ideas = versions.ideas(node)
    took = time.process_time() - start
    gc.enable()
    assert took < QUICK_SECONDS
    assert len(ideas) > 40


def test_a_rewrite_is_applied_when_it_is_chosen_and_not_before() -> None:
    applied: list[str] = []

    def counting(rewrite: Rewrite) -> Rewrite:
        def apply(*arguments: object) -> object:
            applied.append(rewrite.slug)
            return rewrite.apply(*arguments)  # type: ignore[arg-type]

        return msgspec.structs.replace(rewrite, apply=apply)

    text = SourceText.read(PROGRAMS / "matmul.cu")
    causes = [Cause("WL104", "missing-cache-reuse", "matmul", "high", Gain(64.0, 1.0, 64.0))]
    space = KernelSpace(
        text,
        path="m.cu",
        kernel="matmul",
        limits=LIMITS,
        rewrites=list(map(counting, REWRITES)),
        causes=causes,
    )
    search = SearchTree(text, path="m.cu", kernel="matmul", space=space)
    (first,) = search.ask()
    assert first.move.answers == ("WL104",) and "WL104" in first.move.why
    assert set(applied) <= {rewrite.slug for rewrite in REWRITES if "missing-cache-reuse" in rewrite.answers}


@pytest.mark.thorough
def test_steps_that_are_worked_out_beforehand_change_nothing_in_what_is_asked() -> None:
    text = SourceText.read(PROGRAMS / "softmax.cu")
    kernel = read(text.text).model.kernels[0].qualified_name
    applied: list[str] = []

    def counting(rewrite: Rewrite) -> Rewrite:
        def apply(*arguments: object) -> object:
            applied.append(rewrite.slug)
            return rewrite.apply(*arguments)  # type: ignore[arg-type]

        return msgspec.structs.replace(rewrite, apply=apply)

    def asked(*, ahead: bool) -> list[tuple[str, tuple[str, ...]]]:
        space = KernelSpace(
            text, path="s.cu", kernel=kernel, limits=LIMITS, rewrites=list(map(counting, REWRITES))
        )
        search = SearchTree(text, path="s.cu", kernel=kernel, space=space)
        found: list[Ask] = []
        for speedup in (1.3, 0.8, 1.6):
            while ahead and search.prepare():
                pass
            before = len(applied)
            asks = search.ask(3)
            # whatever is asked of a version that was there before was worked out already
            fresh = any(search.versions.by_id[a.candidate.parent].ask in asks for a in asks)
            assert not ahead or fresh or len(applied) == before
            for ask in asks:
                search.tell(ask.candidate.id, timed(ask.candidate.id, speedup))
            found += asks
        return [(ask.candidate.text_hash, ask.move.changes) for ask in found]

    assert asked(ahead=True) == asked(ahead=False)


def test_what_fails_beforehand_is_raised_where_it_is_chosen() -> None:
    def apply(*_: object) -> object:
        raise ValueError("planted")

    text = SourceText.read(PROGRAMS / "matmul.cu")
    broken = [msgspec.structs.replace(REWRITES[0], apply=apply)]
    space = KernelSpace(text, path="m.cu", kernel="matmul", limits=LIMITS, rewrites=broken)
    search = SearchTree(text, path="m.cu", kernel="matmul", space=space)
    idea = next(idea for idea in search.versions.ideas(search.versions.root) if idea.ahead is not None)
    assert idea.ahead is not None and idea.ahead() and not idea.ahead()
    with pytest.raises(ValueError, match="planted"):
        idea.make(UNATTENDED)


def test_what_was_worked_out_beforehand_promises_what_is_expected_when_it_is_chosen() -> None:
    text = SourceText.read(PROGRAMS / "matmul.cu")
    space = KernelSpace(text, path="m.cu", kernel="matmul", limits=LIMITS, rewrites=REWRITES)
    search = SearchTree(text, path="m.cu", kernel="matmul", space=space)
    while search.prepare():
        pass
    space.learn([Cause("WL104", "missing-cache-reuse", "matmul", "high", Gain(64.0, 1.0, 64.0))], {})
    (first,) = search.ask()
    assert first.move.answers == ("WL104",) and first.move.gain == 64.0


def test_the_largest_confident_gain_is_tried_first() -> None:
    """A spill that launch bounds cause: they come before any unroll factor."""
    code = """__global__ void __launch_bounds__(1024) f(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
    for (int k = 0; k < n; ++k) x[i] += k;
}
void go(float* x, int n) { f<<<(n + 255) / 256, 256>>>(x, n); }
"""
    causes = [
        Cause("WL101", "register-spills", "f", "high", Gain(14.0, 1.0, 20.0)),
        Cause("WL102", "low-ilp", "f", "medium", Gain(1.5, 1.0, 2.0)),
    ]
    text = SourceText(code)
    space = KernelSpace(text, path="k.cu", kernel="f", limits=LIMITS, causes=causes)
    for seed in range(20):
        search = SearchTree(text, path="k.cu", kernel="f", space=space, seed=seed)
        (first,) = search.ask()
        assert first.move.changes[0].startswith("launch bounds, threads=")


def test_what_has_no_room_is_left_out_unless_a_finding_asks_for_it() -> None:
    text = SourceText.read(PROGRAMS / "matmul.cu")
    plain = KernelSpace(text, path="m.cu", kernel="matmul", limits=LIMITS, busy={"dram": 0.97})
    assert not [p for p in plain.propose(text) if p.move.rule == "parameter:block"]
    cause = Cause("WL105", "occupancy-block-size", "matmul", "high", Gain(1.5, 1.0, 2.0))
    asked = KernelSpace(
        text, path="m.cu", kernel="matmul", limits=LIMITS, busy={"dram": 0.97}, causes=[cause]
    )
    assert [p for p in asked.propose(text) if p.move.rule == "parameter:block"]


def test_idioms_are_a_source_of_their_own() -> None:
    text = SourceText.read(PROGRAMS / "matmul.cu")
    space = KernelSpace(text, path="m.cu", kernel="matmul", limits=LIMITS, rewrites=REWRITES, idioms=IDIOMS)
    assert [source.name for source in space.sources] == ["idioms", "rewrites", "parameters", "templates"]
    product = next(p for p in space.propose(text) if p.move.rule == "matrix-product")
    found = {p.name for p in space.template(text.apply(list(product.edits))).parameters}
    assert {"kProductDepth", "kProductThreadsX", "kProductOutputsX", "kProductBlocks"} <= found
    without = KernelSpace(
        text, path="m.cu", kernel="matmul", limits=LIMITS, idioms=IDIOMS, without=("idioms",)
    )
    assert "idioms" not in {source.name for source in without.sources}


def test_numbers_that_a_rewrite_brings_are_tuned_in_its_range() -> None:
    text = SourceText.read(PROGRAMS / "matmul.cu")
    space = KernelSpace(text, path="m.cu", kernel="matmul", limits=LIMITS, rewrites=REWRITES)
    tiled = next(p for p in space.propose(text) if p.move.rule == "shared-tile")
    after = text.apply(list(tiled.edits))
    found = {p.name: (p.value, p.domain) for p in space.template(after).parameters}
    declared = next(r for r in REWRITES if r.slug == "shared-tile").ranges
    assert {"kTileDepth", "kThreadsX", "kThreadsY"} <= found.keys()
    for name, values in declared.items():
        if name in found:
            value, domain = found[name]
            assert set(values) <= {value, *domain}
    text = SourceText.read(PROGRAMS / "rgb_to_gray.cu")
    space = KernelSpace(text, path="m.cu", kernel="rgb2gray", limits=LIMITS, rewrites=REWRITES)
    widened = next(p for p in space.propose(text) if p.move.rule == "widen-access")
    assert "kVector" not in {p.name for p in space.template(text.apply(list(widened.edits))).parameters}


def test_every_kind_of_parameter_says_what_it_is_for() -> None:
    assert KINDS.keys() == set(ParameterKind.__args__)  # type: ignore[attr-defined]
    assert all(kind.name == name and 0 < kind.chance < 1 < kind.gain for name, kind in KINDS.items())


def test_the_default_of_an_argument_is_a_block_size() -> None:
    file = read((PROGRAMS / "dot.cu").read_text("utf-8"))
    kernel = file.model.kernel("dot_product")
    assert kernel is not None
    (block,) = extract(file, kernel, LIMITS).parameters
    assert (block.name, block.value) == ("block.x", 256)


def test_kernels_that_share_a_block_size_change_together_or_not_at_all() -> None:
    pair = """__global__ void f(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void g(float* x) { %s }
void go(float* x, int n) {
    int block = 256;
    f<<<(n + block - 1) / block, block>>>(x);
    g<<<(n + block - 1) / block, block>>>(x);
}
"""
    free = read(pair % "__shared__ float s[256]; s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];")
    (block,) = extract(free, free.model.kernels[0], LIMITS).parameters
    assert len(block.places) == 2, "the variable and the other kernel's array"
    bound = read(pair % "x[blockIdx.x * 512] = threadIdx.x;")
    template = extract(bound, bound.model.kernels[0], LIMITS)
    assert not template.parameters and "g is launched with it" in template.refused[0].reason


def test_a_tree_with_real_rewrites_asks_only_what_is_legal_and_new() -> None:
    text = SourceText.read(PROGRAMS / "matmul.cu")
    space = KernelSpace(text, path="m.cu", kernel="matmul", limits=LIMITS, rewrites=REWRITES)
    search: Policy = SearchTree(text, path="m.cu", kernel="matmul", space=space)
    asks = [ask for _ in range(12) for ask in search.ask(1)]
    texts = {text.apply(list(ask.candidate.edits)).text for ask in asks}
    assert len(texts) == 12
    assert not any(space.illegal(SourceText(changed)) for changed in texts)


def test_a_row_to_a_warp_is_unlikely_where_outputs_lie_in_a_plane() -> None:
    def promised(name: str, kernel: str, rule: str = "warp-per-row") -> float:
        text = SourceText.read(PROGRAMS / f"{name}.cu")
        space = KernelSpace(text, path="m.cu", kernel=kernel, limits=LIMITS, rewrites=REWRITES)
        search: Policy = SearchTree(text, path="m.cu", kernel=kernel, space=space)
        ideas = search.promising(search.versions.root)
        return next(idea.move.expected for idea in ideas if idea.move.rule == rule)

    assert promised("matmul", "matmul") == pytest.approx(0.1 * promised("matvec", "mat_vec_kernel"))
    several = "several-outputs"
    assert promised("matvec", "mat_vec_kernel", several) == pytest.approx(
        0.2 * promised("matmul", "matmul", several)
    )


SOLID = """
__global__ void solid(float* out, int nx, int ny) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < nx && j < ny) out[j * nx + i] = i * 0.5f + j;
}
void run(float* out, int nx, int ny) {
    dim3 block(16, 16);
    dim3 grid((nx + block.x - 1) / block.x, (ny + block.y - 1) / block.y);
    solid<<<grid, block>>>(out, nx, ny);
}
"""


def test_rows_of_threads_that_take_sectors_apart_come_last() -> None:
    text = SourceText(SOLID)
    space = KernelSpace(text, path="/k.cu", kernel="solid", limits=LIMITS)
    expected = {step.move.changes[0]: step.move.expected for step in space.by_parameter(text)}
    assert expected["block.x=4"] < 0.3 * expected["block.y=4"] == pytest.approx(0.3 * expected["block.x=64"])
    (templates,) = (source for source in space.sources if source.name == "templates")
    assert isinstance(templates, TemplateSource)
    study = templates.study(text)
    assert study is not None
    assert dict(zip(study.names, map(min, study.values), strict=True)) == {"block.x": 8, "block.y": 2}


def test_all_numbers_together_are_drawn_no_further_up_than_one_of_them() -> None:
    text = SourceText(SOLID)
    space = KernelSpace(text, path="/k.cu", kernel="solid", limits=LIMITS)
    tree = SearchTree(text, path="/k.cu", kernel="solid", space=space)
    (together,) = (i.move for i in tree.versions.ideas(tree.versions.root) if i.move.changes == (TOGETHER,))
    assert together.tunes
    drawn = [
        tree_of.expectation(tree_of.versions.root, together, noisy=True) for tree_of in trees(space, text)
    ]
    assert max(abs(one - together.expected) for one in drawn) < 5 * (0.03 + 2 * together.expected)


def trees(space: KernelSpace, text: SourceText) -> list[SearchTree]:
    return [SearchTree(text, path="/k.cu", kernel="solid", space=space, seed=n) for n in range(20)]
