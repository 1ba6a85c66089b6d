# SPDX-License-Identifier: Apache-2.0
"""Timelines from CUPTI activity records: the probe's own code writes them here, from handmade activities."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warplens_tools.collect.cupti import read_trace
from warplens_tools.errors import InputError
from warplens_tools.run.probe.library import SOURCES
from warplens_tools.run.probe.records import (
    Failed,
    Record,
    TracedActivity,
    TracedCall,
    TraceEnd,
    read_records,
)
from warplens_tools.toolchain.locate import resolve_toolchain

END = TraceEnd(cupti=26, dropped=0)
CPP = Path(__file__).parents[1] / "run/cpp/trace_test.cpp"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace's C++, with handmade activities in CUPTI's place."""
    tools = resolve_toolchain()
    compiler, cupti, cuda = (tools.find(n) for n in ("host_compiler", "cupti_headers", "cuda_headers"))
    if compiler is None or cupti is None or cuda is None:
        pytest.skip("no C++ compiler, or no CUPTI headers")
    program = tmp_path_factory.mktemp("trace") / "trace_test"
    sources = [CPP, SOURCES / "trace.cpp", SOURCES / "record.cpp"]
    flags = [
        "-std=c++17",
        "-O1",
        "-pthread",
        "-Wall",
        "-Wextra",
        f"-I{SOURCES}",
        f"-I{cupti.path}",
        f"-I{cuda.path}",
    ]
    subprocess.run([compiler.path, *flags, *map(str, sources), "-o", str(program)], check=True)
    return program


def written(writer: Path, folder: Path, repeats: int) -> list[Record]:
    """What the C++ writes of so many repeats of its handmade program."""
    result = folder / "trace.jsonl"
    subprocess.run([writer, result, str(repeats)], check=True)
    return list(read_records(result))


def kernel(start: int, end: int, correlation: int = 0, device: int = 0) -> TracedActivity:
    """A kernel's run."""
    return TracedActivity("kernel", start, end, device, correlation, "_Z1kv", (1, 1, 1), (32, 1, 1), 16)


@pytest.mark.compiler
def test_what_the_probe_writes_is_read_whole(writer: Path, tmp_path: Path) -> None:
    timeline = read_trace(written(writer, tmp_path, 1), gpu_name="NVIDIA H200")
    assert (timeline.origin, timeline.gpu_name) == ("CUPTI activity 26", "NVIDIA H200")
    (saxpy,) = timeline.kernels
    assert (saxpy.name, saxpy.launches, saxpy.total_ns) == (
        "saxpy(int, float, float const*, float*)",
        1,
        3000,
    )
    assert (saxpy.grid, saxpy.block, saxpy.registers) == ((64, 1, 1), (256, 1, 1), 24)
    (copy,) = timeline.transfers
    assert (copy.direction, copy.host_memory, copy.bytes, copy.serial_count) == (
        "host to device",
        "pinned",
        4096,
        1,
    )
    assert (timeline.span_ns, timeline.busy_ns) == (4800, 3600), (
        "of nanoseconds since 1970, to the last digit"
    )
    assert timeline.launches is not None and timeline.launches.count == 1, (
        "a call inside another is not counted"
    )
    assert [c.name for c in timeline.synchronisations] == ["cudaDeviceSynchronize"]
    assert timeline.idle_ns == {"launch": 1200}, (
        "the kernel's own call is the runtime's, under way before the gap"
    )


@pytest.mark.compiler
def test_a_long_trace_is_cut_and_says_so(writer: Path, tmp_path: Path) -> None:
    records = written(writer, tmp_path, 70_000)
    assert (
        isinstance(records[-1], TraceEnd)
        and records[-1].dropped == 4 * 70_000 - 200_000 + 3 * 70_000 - 200_000
    )
    assert len(records) == 400_001


def test_the_busiest_device_stands_for_the_program() -> None:
    records: list[Record] = [kernel(0, 10), kernel(0, 50, device=1), kernel(60, 90, device=1), END]
    assert read_trace(records, gpu_name="").busy_ns == 80


def test_calls_of_other_threads_are_not_inner_ones() -> None:
    calls = [
        TracedCall(0, 100, "cudaLaunchKernel_v7000", 1, thread=1),
        TracedCall(10, 20, "cudaLaunchKernel_v7000", 2, thread=2),
        TracedCall(30, 40, "cuLaunchKernel", 3, thread=1),
    ]
    records: list[Record] = [*calls, kernel(50, 60, 3), END]
    timeline = read_trace(records, gpu_name="")
    assert timeline.launches is not None
    assert timeline.launches.count == 2


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "before its trace was complete"),
        ([kernel(0, 1)], "before its trace was complete"),
        ([END], "used no GPU"),
        ([kernel(5, 1), END], "used no GPU"),
        ([Failed("CUPTI records no activities")], "cannot be traced: CUPTI records no activities"),
    ],
)
def test_what_is_missing_is_said(records: list[Record], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_trace(records, gpu_name="")
