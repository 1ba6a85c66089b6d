# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warplens_tools.collect.match import line_mapping, match_launches, report_kernel_name
from warplens_tools.collect.ncu_csv import parse_csv
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.evidence import CompiledKernel, Instruction, InstructionCounters, Resources, SourceLine
from warplens_tools.text import SourceText, Span

REPORTS = Path(__file__).parents[2] / "data/reports"
TEXT = (REPORTS / "saxpy_transpose.cu").read_text()
SOURCE = (REPORTS / "saxpy_transpose.source_sass.csv").read_text()
ELSEWHERE = "/home/other/t.cu"


def model_of(text: str, *names: str) -> SourceModel:
    lines = text.splitlines()
    kernels = []
    for name in names:
        plain = name.rsplit("::", 1)[-1]
        line = next(i for i, x in enumerate(lines, 1) if f"{plain}(" in x)
        span = Span(line, 1, line, len(lines[line - 1]) + 1)
        kernels.append(Kernel(plain, name, (), span, span, span))
    return SourceModel("/here/now.cu", tuple(kernels), (), (), ())


def placed(launch: ProfiledLaunch, line: int, text: str = TEXT) -> ProfiledLaunch:
    """The launch as a .ncu-rep made elsewhere holds it: with lines, and the source of then."""
    instructions = tuple(
        msgspec.structs.replace(i, place=SourceLine(ELSEWHERE, line)) for i in launch.instructions
    )
    return msgspec.structs.replace(launch, instructions=instructions, sources={ELSEWHERE: text})


def test_a_report_made_elsewhere_is_matched_by_content() -> None:
    moved = TEXT.replace("__global__ void tr", "// a line that was added\n\n__global__ void tr")
    launches = [placed(launch, 2 + i) for i, launch in enumerate(parse_csv(SOURCE))]
    found = match_launches(launches, model_of(moved, "saxpy", "tr"), SourceText(moved), report="r.ncu-rep")
    assert set(found.counters) == {"saxpy", "tr"}
    assert set(found.counters["tr"].lines) == {5}, "the store stands two lines lower now"
    assert found.counters["tr"].lines[5]["memory_l2_theoretical_sectors_global"] == 75497472
    assert found.unknown == ()


def test_a_changed_line_is_dropped_and_said() -> None:
    changed = TEXT.replace("out[x*n+y]=in[y*n+x]", "out[y*n+x]=in[x*n+y]")
    launches = [placed(launch, 2 + i) for i, launch in enumerate(parse_csv(SOURCE))]
    found = match_launches(
        launches, model_of(changed, "saxpy", "tr"), SourceText(changed), report="r.ncu-rep"
    )
    assert found.counters["tr"].lines == {}
    (doubt,) = found.unknown
    assert "1 changed lines of tr" in doubt.what
    assert "lines 3 of r.ncu-rep" in doubt.why


def test_a_kernel_the_file_does_not_define_is_said() -> None:
    found = match_launches(
        parse_csv(SOURCE), model_of(TEXT, "saxpy"), SourceText(TEXT), report="r.csv", gpu_name="NVIDIA L4"
    )
    assert set(found.counters) == {"saxpy"}
    assert [u.what for u in found.unknown] == ["lines of saxpy in r.csv", "counters of tr"]


def test_another_gpu_is_said() -> None:
    launches = parse_csv((REPORTS / "saxpy_transpose.raw.csv").read_text())
    found = match_launches(
        launches, model_of(TEXT, "saxpy", "tr"), SourceText(TEXT), report="r.csv", gpu_name="NVIDIA L4"
    )
    assert "recorded on NVIDIA H200" in found.unknown[0].why


def test_identical_code_takes_the_lines_of_this_build() -> None:
    launch = parse_csv(SOURCE)[0]
    path = "/here/now.cu"
    ours = tuple(
        Instruction(0x100 + x.offset, *opcode(x), (), lines=(SourceLine(path, 2),))
        for x in launch.instructions
    )
    compiled = CompiledKernel("_Z5saxpy", "saxpy", "saxpy", "sm_90", Resources(16), ours)
    found = match_launches(
        [launch], model_of(TEXT, "saxpy"), SourceText(TEXT), report="r.csv", compiled=[compiled]
    )
    assert found.counters["saxpy"].lines[2]["memory_l2_theoretical_sectors_global"] == 25165824
    assert found.unknown == ()


def opcode(instruction: InstructionCounters) -> tuple[str, tuple[str, ...]]:
    words = instruction.text.split()
    first = words[1] if words[0].startswith("@") else words[0]
    name, *modifiers = first.split(".")
    return name, tuple(modifiers)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("saxpy(int, float, const float *, float *)", "saxpy"),
        ("void ns::scale<(int)4, float>(T2 *, int)", "ns::scale"),
        ("void <unnamed>::k<float>(float*)", "(anonymous namespace)::k"),
        ("void ns::(anonymous namespace)::k<Op<int>>(Op<int>)", "ns::(anonymous namespace)::k"),
        ("k", "k"),
    ],
)
def test_names_as_reports_print_them(written: str, name: str) -> None:
    assert report_kernel_name(ProfiledLaunch("ncu", written)) == name


def test_two_namespaces_are_two_kernels() -> None:
    text = "__global__ void k(int) {}\n"
    model = model_of(text, "a::k")
    other = ProfiledLaunch("ncu", "b::k(int)")
    assert match_launches([other], model, SourceText(text), report="r").counters == {}
    plain = ProfiledLaunch("ncu", "k(int)")
    assert set(match_launches([plain], model, SourceText(text), report="r").counters) == {"a::k"}


def test_line_mapping_keeps_order_and_drops_changes() -> None:
    assert line_mapping("a\nb\nc\n", "x\na\nc\n") == {1: 2, 3: 3}
