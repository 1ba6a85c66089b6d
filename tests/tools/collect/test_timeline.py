# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.collect.nsys import read_sqlite, read_timeline
from warplens_tools.collect.timeline import Activity, HostCall, build_timeline
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.toolchain.locate import Toolchain

EXPORT = Path(__file__).parents[2] / "data/reports/saxpy_transpose.nsys.sqlite"


def test_the_recorded_export() -> None:
    timeline = read_sqlite(EXPORT)
    assert timeline.origin == "nsys 2025.3.2.0"
    assert timeline.gpu_name == "NVIDIA H200"
    transpose, saxpy = timeline.kernels
    assert (transpose.launches, transpose.total_ns) == (3, 2906885)
    assert saxpy.block == (256, 1, 1)
    assert timeline.launches is not None
    assert timeline.launches.count == 6
    assert timeline.synchronisations[0].name == "cudaDeviceSynchronize"
    assert timeline.busy_ns + sum(timeline.idle_ns.values()) == timeline.span_ns


def test_an_export_without_its_optional_tables(tmp_path: Path) -> None:
    copy = tmp_path / "old.sqlite"
    copy.write_bytes(EXPORT.read_bytes())
    with sqlite3.connect(copy) as base:
        for table in ("StringIds", "TARGET_INFO_GPU", "META_DATA_EXPORT", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            base.execute(f"DROP TABLE {table}")
    base.close()
    timeline = read_sqlite(copy)
    assert timeline.kernels[0].launches == 6, "without names all launches are one kernel"
    assert set(timeline.idle_ns) == {"unknown"}


@settings(max_examples=30)
@given(st.integers(0, EXPORT.stat().st_size - 1), st.binary(max_size=40))
def test_a_damaged_export_is_refused_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    damaged = tmp_path_factory.mktemp("nsys") / "damaged.sqlite"
    damaged.write_bytes(EXPORT.read_bytes()[:cut] + junk)
    try:
        read_sqlite(damaged)
    except InputError as error:
        assert str(damaged) in str(error)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as base:
        base.execute("CREATE TABLE cats (name TEXT)")
    base.close()
    with pytest.raises(InputError, match="no GPU activity"):
        read_sqlite(other)


def test_a_report_without_nsys_says_what_to_do(tmp_path: Path) -> None:
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"x")
    with pytest.raises(MissingToolError) as caught:
        read_timeline(report, toolchain=Toolchain({}, {}), workdir=tmp_path)
    assert "nsys export" in caught.value.remedy


def kernel(start: float, end: float, correlation: int | None = None) -> Activity:
    return Activity(start, end, "kernel", "k", correlation)


def test_gaps_are_told_apart() -> None:
    activities = [
        kernel(0, 10, 1),
        kernel(14, 20, 2),
        kernel(60, 70, 3),
        kernel(100, 110, 4),
        kernel(115, 120),
    ]
    calls = [
        HostCall(-2, -1, "cudaLaunchKernel", 1),
        HostCall(5, 6, "cudaLaunchKernel", 2),
        HostCall(6, 25, "cudaDeviceSynchronize"),
        HostCall(50, 55, "cudaLaunchKernel", 3),
        HostCall(90, 95, "cudaLaunchKernel", 4),
    ]
    timeline = build_timeline(activities, calls, origin="test")
    assert timeline is not None
    assert timeline.idle_ns == {"launch": 4, "synchronisation": 40, "host": 30, "unknown": 5}
    assert timeline.gaps[0].length_ns == 40


def test_transfers_small_serial_and_pageable() -> None:
    def copy(start: float, end: float, size: int) -> Activity:
        return Activity(
            start, end, "transfer", "copy", bytes=size, direction="host to device", host_memory="pageable"
        )

    timeline = build_timeline([copy(0, 10, 100), copy(20, 90, 1 << 20), kernel(80, 120)], [], origin="test")
    assert timeline is not None
    (total,) = timeline.transfers
    assert (total.host_memory, total.count, total.bytes) == ("pageable", 2, 100 + (1 << 20))
    assert (total.small_count, total.small_ns) == (1, 10)
    assert (total.serial_count, total.serial_ns) == (1, 10), "the second copy overlaps the kernel"


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100), st.sampled_from(["kernel", "transfer"])))
)
def test_time_is_either_busy_or_idle(spans: list[tuple[int, int, str]]) -> None:
    activities = [Activity(s, s + n, "kernel" if k == "kernel" else "transfer", k) for s, n, k in spans]
    timeline = build_timeline(activities, [], origin="test")
    assert (timeline is None) == (not spans)
    if timeline is not None:
        points = {t for s, n, _ in spans for t in range(s, s + n)}
        assert timeline.busy_ns == len(points)
        assert timeline.busy_ns + sum(timeline.idle_ns.values()) == timeline.span_ns
