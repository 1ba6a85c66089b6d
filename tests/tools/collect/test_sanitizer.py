# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.collect.sanitizer import TOOLS, Fault, examine, parse_reports
from warplens_tools.errors import TimeLimitError, ToolFailedError
from warplens_tools.evidence import SourceLine
from warplens_tools.toolchain.locate import Tool, Toolchain

RECORDED = Path(__file__).parents[2] / "data/sanitizer"


def stands_in(folder: Path, *commands: str) -> Toolchain:
    program = folder / "compute-sanitizer"
    program.write_text("\n".join(["#!/bin/sh", *commands]) + "\n")
    program.chmod(0o755)
    return Toolchain({"compute-sanitizer": Tool("compute-sanitizer", str(program), "a test")}, {})


def read(name: str, tool: str) -> tuple[Fault, ...]:
    """Recorded on an H200 with compute-sanitizer 2025.3.1, cut after the first reports."""
    return parse_reports(tool, (RECORDED / f"{name}.txt").read_text())


def test_the_same_report_of_many_threads_is_one_fault() -> None:
    (fault,) = read("memcheck", "memcheck")
    assert fault.message == "Invalid __global__ write of size 4 bytes"
    assert (fault.function, fault.place) == ("overrun(float *, int)", SourceLine("faulty.cu", 7))
    assert fault.count == 6
    assert "by thread (0,0,0) in block (4,0,0)" in fault.detail
    assert "is out of bounds" in fault.detail
    (askew,) = read("misaligned", "memcheck")
    assert "is misaligned" in askew.detail
    assert askew.place == SourceLine("faulty.cu", 35)


def test_a_race_names_both_accesses() -> None:
    (fault,) = read("racecheck", "racecheck")
    assert fault.message == "Race reported between Write access and Read access"
    assert fault.function == "reverse(const float *, float *)"
    assert (fault.place, fault.others) == (SourceLine("faulty.cu", 12), (SourceLine("faulty.cu", 13),))
    assert fault.count == 4096


def test_reads_before_writes_and_uneven_barriers() -> None:
    (read_first,) = read("initcheck", "initcheck")
    assert read_first.message == "Uninitialized __global__ memory read of size 4 bytes"
    assert read_first.place == SourceLine("faulty.cu", 18)
    (barrier,) = read("synccheck", "synccheck")
    assert barrier.message == "Barrier error detected. Divergent thread(s) in warp"
    assert barrier.place == SourceLine("faulty.cu", 27)


def test_calls_that_fail_after_a_fault_are_no_faults_of_their_own() -> None:
    failed = "========= Program hit cudaErrorLaunchFailure (error 719) on CUDA API call to cudaFree."
    (alone,) = parse_reports("memcheck", failed)
    assert alone.function == ""
    both = (RECORDED / "memcheck.txt").read_text() + failed
    assert [f.function for f in parse_reports("memcheck", both)] == ["overrun(float *, int)"]


def test_nothing_is_found_where_nothing_is_reported() -> None:
    assert read("clean", "memcheck") == ()
    assert parse_reports("memcheck", "") == ()


def test_a_program_that_fails_by_itself_is_no_fault_of_its_kernels(tmp_path: Path) -> None:
    chain = stands_in(tmp_path, "echo '========= COMPUTE-SANITIZER'", "exit 3")
    with pytest.raises(ToolFailedError, match="memcheck ended with 3 and no report"):
        examine("memcheck", ["./a"], toolchain=chain)


def test_reports_count_whatever_the_program_ends_with(tmp_path: Path) -> None:
    record = RECORDED / "memcheck.txt"
    chain = stands_in(tmp_path, f'echo "$@" > {tmp_path}/said', f"cat {record}", "exit 1")
    found = examine("memcheck", ["./a", "-n"], toolchain=chain, kernel="scale", launches=2)
    assert found.faults
    said = (tmp_path / "said").read_text()
    assert "--kernel-name kns=scale --launch-count 2" in said
    assert said.endswith("./a -n\n")


def test_a_program_without_end_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(TimeLimitError):
        examine("racecheck", ["./a"], toolchain=stands_in(tmp_path, "sleep 600"), time_limit=1.0)


@given(st.text(alphabet="= \nabcError:at+0x in.cu:1[]hazards()", max_size=400))
def test_any_output_is_read(output: str) -> None:
    assert all(fault.count >= 1 and fault.tool == "memcheck" for fault in parse_reports("memcheck", output))


@given(st.integers(0, 4000), st.sampled_from(TOOLS))
def test_a_cut_output_is_read(keep: int, tool: str) -> None:
    whole = (RECORDED / f"{tool}.txt").read_text()
    faults = parse_reports(tool, whole[:keep])
    assert len(faults) <= max(1, len(parse_reports(tool, whole)) + 1)
    assert all(isinstance(f.place, SourceLine | None) for f in faults)
