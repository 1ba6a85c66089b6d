# SPDX-License-Identifier: Apache-2.0
"""What every finding may promise: gains inside a launch, ranges, confidence, severity, and one finding a cause."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.machine.kernels import COPY, view_of

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.cuda.facts.unsettled import unsettled_macro
from warplens_tools.earned import UNLAUNCHED
from warplens_tools.evidence import KernelEvidence, LaunchTiming, Observation
from warplens_tools.finding import Confidence, Finding, Gain, RelatedSpan, Severity
from warplens_tools.kernel import KernelView
from warplens_tools.micro.registry import TOOLS
from warplens_tools.settle import SPREAD, WARNED, one_a_cause, one_a_place, one_warning, settle, within_launch
from warplens_tools.testing import odd_evidence, views
from warplens_tools.text import SourceText, Span

KERNEL = "__global__ void k(float *a) { a[threadIdx.x] = 1; }"
LAUNCH = "void run(float *a) { k<<<1056, 256>>>(a); }"


def timed(nanoseconds: float, share: float | None = None) -> KernelView:
    timing = LaunchTiming(
        "CUPTI", 1, (132, 1, 1), (256, 1, 1), 0, nanoseconds, nanoseconds, nanoseconds, share
    )
    (view,) = views(KERNEL, evidence={"k": KernelEvidence(timing=timing)})
    return view


def finding(
    gain: Gain | None,
    confidence: Confidence = "high",
    severity: Severity = "warning",
    slug: str = "uncoalesced-global-read",
    kernel: str = "k",
    line: int = 1,
) -> Finding:
    seen = (Observation("source", "tree-sitter", "sectors per request", 32.0),)
    span = Span(line, 31, line, 45)
    return Finding("WL101", slug, kernel, span, severity, confidence, "It is so.", "Do so.", seen, gain)


def test_a_launch_gains_no_more_than_its_work() -> None:
    assert within_launch(timed(SHORTEST_KERNEL_NS), Gain.of(300.0, 300.0)) == Gain.of(1.0, 1.0)
    twice = within_launch(timed(2 * SHORTEST_KERNEL_NS), Gain.of(1648.0, 1648.0))
    assert twice.high <= 2.0
    long = within_launch(timed(1e9), Gain.of(4.0, 8.0))
    assert (long.estimate, long.high) == (4.0, 8.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((3.0, 1.5, 6.0), (3.0, 1.5, 6.0)),
        ((6.9, 3.5, 8.0), (4.0, 2.0, 8.0)),
        ((16.0, 8.0, 16.0), (8.0, 4.0, 16.0)),
    ],
)
def test_a_large_promise_leads_with_its_low_end_where_the_block_is_not_known(
    before: tuple[float, float, float], after: tuple[float, float, float]
) -> None:
    (view,) = views(KERNEL + LAUNCH)
    promised = finding(Gain(*before), "medium")
    sure = settle(view, promised, of_program=True).gain
    assert sure is not None
    assert (sure.estimate, sure.low) == before[:2]
    unsure = settle(
        view, msgspec.structs.replace(promised, missing=("the block size",)), of_program=True
    ).gain
    assert unsure == Gain(*after)


@pytest.mark.parametrize(("before", "estimate"), [(3.0, 3.0), (8.0, 8.0), (18.0, 12.0), (32.0, 16.0)])
def test_a_large_promise_is_drawn_to_what_is_sure_where_the_grid_is_not_known(
    before: float, estimate: float
) -> None:
    (view,) = views(KERNEL + LAUNCH)
    promised = msgspec.structs.replace(finding(Gain.of(before, before), "medium"), missing=("the grid size",))
    told = settle(view, promised, of_program=True).gain
    assert told is not None
    assert (told.estimate, told.high) == (estimate, before)
    assert told.low <= told.estimate


def test_less_than_the_model_is_off_by_is_no_warning_where_nothing_was_measured() -> None:
    (view,) = views(f"{KERNEL}\n{LAUNCH}", evidence={"k": odd_evidence("k")})
    told = [
        settle(view, finding(Gain.of(gain, gain), "medium"), of_program=False).severity for gain in (1.4, 1.6)
    ]
    assert told == ["information", "warning"]


@given(st.floats(100.0, 1e9), st.floats(1.0, 3000.0), st.floats(1.0, 10.0))
def test_a_bounded_gain_is_a_gain_below_what_was_promised(
    duration: float, ratio: float, wider: float
) -> None:
    gain = within_launch(timed(duration), Gain.of(ratio, ratio * wider))
    assert 1.0 <= gain.low <= gain.estimate <= gain.high <= ratio * wider + 0.01
    assert gain.estimate <= max(duration / SHORTEST_KERNEL_NS, 1.0) + 0.01


def test_what_the_model_counts_is_in_the_time_before_and_one_wait_stays() -> None:
    view = view_of(COPY)
    duration = view.launching.counted
    assert duration is not None
    assert duration > SHORTEST_KERNEL_NS
    before = within_launch(view, Gain.of(1000.0, 1000.0))
    counted = within_launch(view, Gain.of(1000.0, 1000.0), counted=True)
    assert counted.estimate < before.estimate
    assert counted.estimate <= duration / SHORTEST_KERNEL_NS + 0.01


@pytest.mark.parametrize("sure", ["high", "medium"])
def test_a_range_is_as_narrow_as_the_confidence(sure: Confidence) -> None:
    gain = settle(timed(1e9), finding(Gain.of(4.0, 80.0), sure), of_program=False).gain
    assert gain is not None
    assert gain.estimate / gain.low <= SPREAD[sure] + 0.01
    assert gain.high / gain.estimate <= SPREAD[sure] + 0.01


@pytest.mark.parametrize(
    ("gain", "share", "confidence", "severity", "told"),
    [
        (WARNED - 0.02, None, "high", "warning", "information"),
        (WARNED + 0.02, None, "high", "warning", "warning"),
        (23.0, None, "high", "information", "warning"),
        (23.0, None, "medium", "information", "information"),
        # Nothing of a kernel with a hundredth of the time can gain a twentieth.
        (23.0, 0.01, "high", "warning", "information"),
        (23.0, 0.5, "high", "warning", "warning"),
    ],
)
def test_severity_follows_the_expected_gain_of_the_program(
    gain: float, share: float | None, confidence: Confidence, severity: Severity, told: Severity
) -> None:
    found = finding(Gain.of(gain, gain), confidence, severity)
    assert settle(timed(1e9, share), found, of_program=False).severity == told


def test_high_confidence_needs_the_launch_and_what_is_missing_is_named() -> None:
    (view,) = views(KERNEL, evidence={"k": odd_evidence("k")})
    told = settle(view, finding(Gain.of(2.0, 2.0)), of_program=False)
    assert told.confidence == "medium"
    assert "the grid size" in told.missing
    told = settle(view, finding(None), of_program=False)
    assert told.confidence == "medium"
    assert not told.missing
    (view,) = views(f"{KERNEL}\n{LAUNCH}")
    assert settle(view, finding(Gain.of(2.0, 2.0)), of_program=False).confidence == "medium"
    (view,) = views(f"{KERNEL}\n{LAUNCH}", evidence={"k": odd_evidence("k")})
    told = settle(view, finding(Gain.of(2.0, 2.0)), of_program=False)
    assert "the grid size" not in told.missing
    assert "the block size" not in told.missing


def test_a_kernel_that_nobody_launches_and_a_line_that_a_build_may_leave_out_get_no_warning() -> None:
    promised = finding(Gain.of(8.0, 8.0), "medium")
    (launched,) = views(f"{KERNEL}\n{LAUNCH}", evidence={"k": odd_evidence("k")})
    assert settle(launched, promised, of_program=False).severity == "warning"
    (view,) = views(KERNEL, evidence={"k": odd_evidence("k")})
    told = settle(view, promised, of_program=False)
    assert told.severity == "information"
    assert UNLAUNCHED in told.missing
    body = "\n#ifdef WITH_CUB\n;\n#else\na[threadIdx.x] = 1;\n#endif\na[0] = 1;"
    text = f"__global__ void k(float *a) {{ {body} }}\n{LAUNCH}"
    (view,) = views(text, evidence={"k": odd_evidence("k")})
    told = settle(view, msgspec.structs.replace(promised, span=Span(5, 1, 5, 4)), of_program=False)
    assert (told.severity, told.missing[0]) == ("information", "whether WITH_CUB is defined")
    after = settle(view, msgspec.structs.replace(promised, span=Span(7, 1, 7, 4)), of_program=False)
    assert after.severity == "warning"


@pytest.mark.parametrize(
    ("above", "condition", "macro"),
    [
        ("", "#ifdef FAST", "FAST"),
        ("", "#if defined(FAST) && __CUDA_ARCH__ >= 800", "FAST"),
        ("", "#if 0\n#elif FAST", "FAST"),
        ("", "#if __CUDA_ARCH__ >= 800 // FAST", ""),
        ("", "#if 1", ""),
        ("#define FAST 1", "#ifdef FAST", ""),
    ],
)
def test_what_nobody_defines_leaves_open_what_is_compiled(above: str, condition: str, macro: str) -> None:
    (view,) = views(f"{above}\n__global__ void k(float *a) {{\n{condition}\na[0] = 1;\n#endif\n}}")
    line = view.text.text.splitlines().index("a[0] = 1;") + 1
    assert unsettled_macro(view.text, view.kernel, line) == macro
    assert unsettled_macro(view.text, view.kernel, line + 2) == ""


def test_what_was_measured_misses_nothing() -> None:
    (view,) = views(KERNEL, evidence={"k": odd_evidence("k")})
    seen = Observation("counters", "ncu", "sectors per request", 32.0)
    measured = msgspec.structs.replace(finding(Gain.of(2.0, 2.0)), evidence=(seen,))
    told = settle(view, measured, of_program=False)
    assert (told.confidence, told.missing) == ("high", ())


def test_one_cause_on_one_line_is_one_finding() -> None:
    gain = Gain.of(2.0, 2.0)
    read, write = finding(gain), finding(gain, slug="uncoalesced-global-write")
    write = msgspec.structs.replace(write, span=Span(1, 50, 1, 60))
    other = finding(gain, slug="low-ilp")
    below = finding(gain, slug="uncoalesced-global-write", line=9)
    families = {tool.slug: tool.family for tool in TOOLS}
    kept = one_a_cause((read, write, other, below), families)
    assert [f.slug for f in kept] == ["uncoalesced-global-read", "low-ilp", "uncoalesced-global-write"]
    assert [r.span for r in kept[0].related] == [write.span]


def test_one_copy_is_told_once_for_all_its_kernels() -> None:
    small = finding(Gain.of(1.2, 1.2), kernel="a", slug="pageable-transfer")
    large = finding(Gain.of(1.8, 1.8), kernel="b", slug="pageable-transfer")
    assert one_a_place([(small,), (large,), ()]) == [(), (large,), ()]


def test_what_several_kernels_call_is_told_once_with_each_place() -> None:
    gain, places = Gain.of(1.2, 1.2), (Span(5, 1, 5, 9), Span(9, 1, 9, 9))
    told = [
        msgspec.structs.replace(
            finding(gain, kernel=name), related=(RelatedSpan(place, f"{name} calls it here"),)
        )
        for name, place in zip(("a", "b"), places, strict=True)
    ]
    kept, gone = one_a_place([(told[0],), (told[1],)])
    assert [r.span for r in kept[0].related] == list(places)
    assert gone == ()


def test_variants_of_a_kernel_are_one_warning() -> None:
    text = SourceText("x = powf(y, 2);\n  x = powf(y, 3);\nz = powf(y, 2);\n")
    small = finding(Gain.of(1.6, 1.6), kernel="a", line=1)
    large = finding(Gain.of(1.8, 1.8), kernel="b", line=2)
    other = finding(Gain.of(1.6, 1.6), kernel="c", line=3)
    kept = one_warning([(small,), (large,), (other,)], text)
    assert [[f.severity for f in group] for group in kept] == [["information"], ["warning"], ["warning"]]
    assert [r.span for r in kept[1][0].related] == [small.span]
    assert kept[2] == (other,)
    # the element is what counts where it is named, and barriers of two kernels have nothing to do with each other
    named = [msgspec.structs.replace(f, message=f"{f.kernel} reads u[i + {f.line}].") for f in (small, other)]
    assert [f[0].severity for f in one_warning([(f,) for f in named], text)] == ["warning", "information"]
    waits = SourceText("__syncthreads();\n__syncthreads();\n")
    assert one_warning([(small,), (large,)], waits) == [(small,), (large,)]
    # what is no cost is told of each
    plain = [(finding(None, kernel="a", line=1),), (finding(None, kernel="b", line=2),)]
    assert one_warning(plain, text) == plain


def test_what_only_a_matching_key_comes_to_is_promised_nothing() -> None:
    source = COPY.replace(
        "    o[i] = a[i];\n",
        "    if (a[i] == o[0] && a[i + 1] == o[1] && a[i + 2] == o[2])\n        o[i] = a[i];\n",
    )
    view = view_of(source, lines=(3, 4, 5, 6))
    told = settle(view, finding(Gain.of(3.0, 3.0), line=5), of_program=False)
    assert (told.gain, told.severity) == (None, "information")
    assert "how often the branch of line 4 is taken" in told.missing
    beside = settle(view, finding(Gain.of(3.0, 3.0), line=3), of_program=False)
    assert beside.gain is not None
    around = settle(view, finding(Gain.of(3.0, 3.0), line=5), of_program=True)
    assert around.gain is not None


def settled(text: str) -> Finding:
    """What is promised of the kernel `k` of a unit, compiled or not."""
    (view,) = [v for v in views(text) if v.kernel.name == "k"]
    return settle(view, finding(Gain.of(4.0, 8.0)), of_program=False)


@pytest.mark.parametrize("inner", ["static __global__", "__global__ void static", "namespace { __global__"])
def test_what_only_its_unit_could_launch_and_does_not_is_promised_nothing(inner: str) -> None:
    void = "" if "void" in inner else " void"
    text = f"{inner}{void} k(float *a) {{ a[threadIdx.x] = 1; }}{' }' if 'namespace' in inner else ''}\n"
    said = settled(f"{text}void run(float *a) {{ /* k<<<9, 256>>>(a); */ }}")
    assert (said.gain, said.severity) == (None, "information")
    assert settled(f"{text}void run(float *a) {{ k<<<1056, 256>>>(a); }}").gain is not None
    # A pointer to it may be launched anywhere.
    assert settled(f"{text}auto pointer = &k;").gain is not None


def test_what_another_unit_may_launch_is_promised_a_gain() -> None:
    assert settled(KERNEL).gain is not None
