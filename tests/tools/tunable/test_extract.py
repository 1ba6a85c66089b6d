# SPDX-License-Identifier: Apache-2.0
"""Parameter templates: what is found in natural code, what is left alone, and that nothing breaks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import PATIENCE
from tests.server.agent.snippets import GUARDED, LIMITS, SNIPPETS, STRIDED, Snippet
from tests.standard import STANDARD

from warplens.agent.actions import KernelSpace
from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.extract import extract, illegal, launch_geometry
from warplens_tools.tunable.parameter import Geometry, Template, edits_for
from warplens_tools.tunable.source import File

#: sm_90, from the CUDA programming guide's table of compute capabilities.

named = pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)


def read(code: str) -> File:
    text = SourceText(code)
    return File(text, parse(text, "k.cu"))


def template(code: str) -> Template:
    file = read(code)
    return extract(file, file.model.kernels[0], LIMITS)


def changed(code: str, name: str, value: int) -> str:
    parameter = next(p for p in template(code).parameters if p.name == name)
    return SourceText(code).apply(list(edits_for(parameter, value))).text


@named
def test_the_right_numbers_are_tuned(snippet: Snippet) -> None:
    found = template(snippet.code)
    assert {p.name: p.value for p in found.parameters} == snippet.tuned
    reasons = {r.name: r.reason for r in found.refused}
    for name, part in snippet.refused.items():
        assert part in reasons[name]
    assert reasons.keys() == snippet.refused.keys()


@named
def test_every_place_holds_the_value_it_stands_for(snippet: Snippet) -> None:
    file = read(snippet.code)
    for parameter in template(snippet.code).parameters:
        assert parameter.value not in parameter.domain
        for place in parameter.places:
            written = file.text.slice(place.span)
            assert written == (str(parameter.value + place.offset) if not place.prefix else "")


@named
def test_no_value_breaks_the_syntax_or_hides_the_parameter(snippet: Snippet) -> None:
    before = read(snippet.code)
    for parameter in template(snippet.code).parameters:
        for value in parameter.domain:
            text = before.text.apply(list(edits_for(parameter, value)))
            after = read(text.text)
            assert after.model.errors == before.model.errors == ()
            name = before.model.kernels[0].name
            if not illegal(before, after, name, LIMITS) and value > 1:
                again = {p.name: p.value for p in template(text.text).parameters}
                assert again.get(parameter.name, value) == value


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(SNIPPETS))
def test_chains_of_steps_stay_legal_and_parse(data: st.DataObject, snippet: Snippet) -> None:
    baseline = SourceText(snippet.code)
    kernel = read(snippet.code).model.kernels[0].qualified_name
    space = KernelSpace(baseline, path="k.cu", kernel=kernel, limits=LIMITS)
    text = baseline
    for _ in range(3):
        proposals = space.propose(text)
        if not proposals:
            break
        text = text.apply(list(data.draw(st.sampled_from(proposals)).edits))
        model = parse(text, "k.cu")
        assert model.errors == ()
        for site in model.launches_of(model.kernels[0]):
            x, y, z = site.block_value
            if x is not None and y is not None and z is not None:
                assert x * y * z <= 1024
                assert x * y * z % 32 == 0 or snippet.name.startswith("unroll")


def test_the_grid_literal_follows_the_block() -> None:
    code = next(s.code for s in SNIPPETS if "ceiling" in s.name)
    assert "scale<<<(n + 127) / 128, 128>>>" in changed(code, "block.x", 128)


def test_shared_extents_indices_and_sizes_follow_the_block() -> None:
    smooth = changed(next(s.code for s in SNIPPETS if "repeats the block" in s.name), "block.x", 512)
    assert "s[512]" in smooth and "blockIdx.x * 512" in smooth and "(n + 511) / 512, 512" in smooth
    stage = changed(next(s.code for s in SNIPPETS if "dynamic shared" in s.name), "block.x", 64)
    assert "<<<(n + 63) / 64, 64, 64 * sizeof(float)>>>" in stage


def test_launch_bounds_and_template_arguments_follow_the_block() -> None:
    poly = changed(next(s.code for s in SNIPPETS if "repeat the block, and" in s.name), "block.x", 512)
    assert "__launch_bounds__(512, 2)" in poly
    fill = changed(next(s.code for s in SNIPPETS if "that is the block size" in s.name), "block.x", 128)
    assert "fill<128><<<(n + 127) / 128, 128>>>" in fill


def test_numbers_are_put_where_there_were_none() -> None:
    bounds = changed(
        next(s.code for s in SNIPPETS if "above the block" in s.name), "launch bounds, blocks", 2
    )
    assert "__launch_bounds__(1024, 2)" in bounds
    dot = changed(next(s.code for s in SNIPPETS if "unroll pragmas" in s.name), "unroll, line 5", 2)
    assert "# pragma unroll 2\n" in dot


def test_a_floor_division_is_only_given_divisors() -> None:
    code = next(s.code for s in SNIPPETS if "floor" in s.name)
    (parameter,) = template(code).parameters
    assert parameter.domain == (32, 64, 128)


def test_a_constant_grid_must_still_cover_the_data() -> None:
    code = GUARDED + "void go(float* x) { const int n = 1024; scale<<<n / 256, 256>>>(x, 2.0f, n); }"
    before = read(code)
    verdicts = {
        value: illegal(before, read(changed(code, "block.x", value)), "scale", LIMITS)
        for value in (128, 512, 768)
    }
    assert verdicts[128] == verdicts[512] == ""
    assert verdicts[768] == "768 threads instead of 1024 in x"


def test_reductions_that_halve_the_block_only_get_powers_of_two() -> None:
    code = """__global__ void reduce(float* x) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        __syncthreads();
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    }
    if (!threadIdx.x) x[blockIdx.x] = s[0];
}
void go(float* x, int n) { int t = 256; reduce<<<(n + t - 1) / t, t, t * sizeof(float)>>>(x); }"""
    (parameter,) = template(code).parameters
    assert parameter.domain == (32, 64, 128, 512, 1024)


def test_a_value_per_warp_limits_the_block() -> None:
    code = """__global__ void k(float* x) {
    __shared__ float per_warp[8];
    per_warp[threadIdx.x / 32] = x[blockIdx.x * blockDim.x + threadIdx.x];
}
void go(float* x, int n) { k<<<(n + 127) / 128, 128>>>(x); }"""
    (parameter,) = template(code).parameters
    assert max(parameter.domain) == 256


@pytest.mark.parametrize(
    ("tile", "reason"),
    [(64, "4096 threads per block"), (32, "")],
)
def test_tiles_that_do_not_fit_the_card_are_illegal(tile: int, reason: str) -> None:
    code = next(s.code for s in SNIPPETS if "square tile" in s.name)
    assert illegal(read(code), read(changed(code, "TILE", tile)), "matmul", LIMITS) == reason


def test_a_tile_beyond_the_shared_memory_is_illegal() -> None:
    code = """#define TILE 64
__global__ void k(float* x) { __shared__ float t[TILE][TILE]; t[threadIdx.x % TILE][0] = 1; x[0] = t[0][0]; }
void go(float* x) { k<<<1, 32>>>(x); }"""
    assert "shared memory" in illegal(read(code), read(changed(code, "TILE", 128)), "k", LIMITS)


def test_geometry_is_told_where_constants_fix_it() -> None:
    code = GUARDED + "void go(float* x) { const int n = 1000; scale<<<(n + 255) / 256, 256>>>(x, 2.0f, n); }"
    geometry = launch_geometry(read(code), read(changed(code, "block.x", 128)), "scale")
    assert geometry == Geometry(grid=(8, 1, 1), block=(128, 1, 1))


def test_geometry_is_left_open_where_the_program_computes_it() -> None:
    code = next(s.code for s in SNIPPETS if "ceiling" in s.name)
    assert launch_geometry(read(code), read(changed(code, "block.x", 128)), "scale") == Geometry(known=False)


def test_geometry_is_left_open_where_a_function_is_passed_its_block() -> None:
    code = GUARDED + (
        "void run(float* x, int n, int block) {"
        "    int grid = (n + block - 1) / block; scale<<<grid, block>>>(x, 2.0f, n); }"
        "void go(float* x, int n) { run(x, n, 256); }"
    )
    assert launch_geometry(read(code), read(changed(code, "block.x", 128)), "scale") == Geometry(known=False)


def test_a_block_apart_from_its_grid_is_told_alone() -> None:
    code = STRIDED + "void go(float* x, int n, int b) { scale<<<b, 256>>>(x, 2.0f, n); }"
    geometry = launch_geometry(read(code), read(changed(code, "block.x", 128)), "scale")
    assert geometry == Geometry(block=(128, 1, 1))


@pytest.mark.compiler
@pytest.mark.slow
@named
@pytest.mark.sampled(8)
def test_every_first_step_compiles(snippet: Snippet, tmp_path: Path) -> None:
    """One translation unit with the kernel after every step, each in its own namespace."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on PATH")
    baseline = SourceText(snippet.code.replace("count_blocks(n)", "n / 256 + 1"))
    kernel = parse(baseline, "k.cu").kernels[0].qualified_name
    space = KernelSpace(baseline, path="k.cu", kernel=kernel, limits=LIMITS)
    unit = tmp_path / "k.cu"
    with unit.open("w") as file:
        for index, proposal in enumerate([None, *space.propose(baseline)[::6]]):
            text = baseline if proposal is None else baseline.apply(list(proposal.edits))
            undefined = "".join(f"#undef {name}\n" for name in re.findall(r"#define (\w+)", text.text))
            title = "as it was" if proposal is None else proposal.move.title
            file.write(f"// {title}\nnamespace s{index} {{\n{text.text}\n}}\n{undefined}")
    command = [nvcc, *STANDARD, "-arch=sm_90", "-cubin", "-o", str(tmp_path / "k.cubin"), str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{unit.read_text()}"
