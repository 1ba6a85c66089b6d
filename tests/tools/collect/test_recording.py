# SPDX-License-Identifier: Apache-2.0
"""Recordings keep what Warplens reads of a report, and damaged ones are bad input."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planted.trimmed import trimmed, write_recording

from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.profiled import ProfiledLaunch, counter_evidence
from warplens_tools.collect.recording import SUFFIX, read_recording
from warplens_tools.collect.report_gpu import report_gpu
from warplens_tools.errors import InputError
from warplens_tools.toolchain.locate import resolve_toolchain

REPORT = Path(__file__).parents[2] / "data" / "reports" / "tr.ncu-rep"


@pytest.fixture(scope="module")
def launches() -> tuple[ProfiledLaunch, ...]:
    return read_report(REPORT, toolchain=resolve_toolchain())


def test_a_recording_tells_of_the_launch_what_its_report_does(
    launches: tuple[ProfiledLaunch, ...], tmp_path: Path
) -> None:
    path = tmp_path / f"tr{SUFFIX}"
    write_recording(path, launches)
    launch, *_ = read_recording(path)
    assert launch == trimmed(launches[0])
    before, after = counter_evidence(launches[0]), counter_evidence(launch)
    assert (after.stalls, after.grid, after.advice) == (before.stalls, before.grid, before.advice)
    assert after.metrics[names.DURATION] == before.metrics[names.DURATION]
    assert set(after.metrics) < set(before.metrics), "Warplens asks for less than a report may hold"
    assert [x.offset for x in launch.instructions] == [x.offset for x in launches[0].instructions]
    assert report_gpu(launch) == report_gpu(launches[0])


def test_the_same_launches_give_the_same_bytes(launches: tuple[ProfiledLaunch, ...], tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_recording(tmp_path / name, launches)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@given(data=st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(gzip.compress)))
def test_what_is_no_recording_is_bad_input(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bad") / f"bad{SUFFIX}"
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_recording(path)


def test_a_truncated_recording_is_bad_input(launches: tuple[ProfiledLaunch, ...], tmp_path: Path) -> None:
    path = tmp_path / f"tr{SUFFIX}"
    write_recording(path, launches)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError):
        read_recording(path)
    with pytest.raises(InputError):
        read_recording(tmp_path / "none.json.gz")
