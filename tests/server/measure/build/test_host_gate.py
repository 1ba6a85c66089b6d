# SPDX-License-Identifier: Apache-2.0
"""Whether host code is the baseline's is decided on what the host compiler is given; with the real compiler."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.measure.build.host_texts import ALLOWED, BASE, REFUSED

from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_split import HostSplit
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.errors import CompileError
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def gates() -> Iterator[tuple[HostGates, Path]]:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    with tempfile.TemporaryDirectory() as place:
        unit, folder = Path(place) / "unit.cu", Path(place) / "build"
        unit.write_text(BASE)
        flags = flags_of(Workload(str(unit), str(unit)))
        split = HostSplit(unit, unit, toolchain=toolchain, flags=flags, arch="sm_90", timeout=120)
        fence = Fence(toolchain, flags, MeasureSettings())
        yield HostGates(split, BASE, folder, fence), folder


def answer(gates: tuple[HostGates, Path], old: str, new: str) -> str:
    assert old in BASE
    try:
        return gates[0].why_not(BASE.replace(old, new, 1), gates[1] / "candidate", UNATTENDED)
    except CompileError as error:
        return f"does not compile: {error}"


@pytest.mark.parametrize("name", ALLOWED)
def test_device_code_and_sizes_are_allowed(gates: tuple[HostGates, Path], name: str) -> None:
    assert answer(gates, *ALLOWED[name]) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_else_the_host_compiler_sees_is_refused(gates: tuple[HostGates, Path], name: str) -> None:
    assert answer(gates, *REFUSED[name]) != ""


def test_a_refusal_shows_what_changes(gates: tuple[HostGates, Path]) -> None:
    assert "n = 1024" in answer(gates, *REFUSED["a count"])
    assert "kShared" in answer(gates, *REFUSED["a constant that a host loop uses"])
    assert "more than sizes" in answer(gates, *REFUSED["a grid that calls"])
