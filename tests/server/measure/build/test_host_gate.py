# SPDX-License-Identifier: Apache-2.0
"""Whether host code is the baseline's is decided on what the host compiler is given; with the real compiler."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiled import unit_file
from tests.patience import PATIENCE
from tests.server.measure.build.host_texts import ALLOWED, BASE, REFUSED, together

from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gate import HostGate, take_apart
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_split import HostSplit
from warplens.measure.build.host_tokens import closing
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.errors import CompileError
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import WITHOUT_SPECIAL_FUNCTIONS
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = pytest.mark.compiler

#: Texts that all allowed edits are tried in.
PARTS = 4


def opened(place: Path) -> tuple[HostSplit, HostGates]:
    """The compiler's split of BASE, and its gates."""
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    unit = unit_file(BASE)
    flags = flags_of(Workload(str(unit), str(unit), flags=WITHOUT_SPECIAL_FUNCTIONS))
    split = HostSplit(unit, unit, toolchain=toolchain, flags=flags, arch="sm_90", timeout=PATIENCE)
    return split, HostGates(split, BASE, place / "build", Fence(toolchain, flags, MeasureSettings()))


@pytest.fixture(scope="module")
def gates() -> Iterator[tuple[HostGates, Path]]:
    with tempfile.TemporaryDirectory() as place:
        yield opened(Path(place))[1], Path(place) / "build"


@pytest.fixture(scope="module")
def gate() -> Iterator[HostGate]:
    with tempfile.TemporaryDirectory() as place:
        yield opened(Path(place))[0].gate(BASE, Path(place) / "own", die_with_parent, UNATTENDED)


def answer(gates: tuple[HostGates, Path], old: str, new: str) -> str:
    assert old in BASE
    try:
        return gates[0].why_not(BASE.replace(old, new, 1), gates[1] / "candidate", UNATTENDED)
    except CompileError as error:
        return f"does not compile: {error}"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.sampled(1)
def test_device_code_and_sizes_are_allowed(gates: tuple[HostGates, Path], part: int) -> None:
    """Several in one text, as the compiler takes as long for one: what is refused is then found one by one."""
    names = list(ALLOWED)[part::PARTS]
    if why := gates[0].why_not(together(BASE, names), gates[1] / "candidate", UNATTENDED):
        assert {name: answer(gates, *ALLOWED[name]) for name in names} == dict.fromkeys(names, ""), why
        pytest.fail(f"together only: {why}")


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.sampled(25)
def test_whatever_else_the_host_compiler_sees_is_refused(gates: tuple[HostGates, Path], name: str) -> None:
    assert answer(gates, *REFUSED[name]) != ""


def test_a_refusal_shows_what_changes(gates: tuple[HostGates, Path]) -> None:
    assert "n = 1024" in answer(gates, *REFUSED["a count"])
    assert "kShared" in answer(gates, *REFUSED["a constant that a host loop uses"])
    assert "more than sizes" in answer(gates, *REFUSED["a grid that calls"])


@given(st.data())
@settings(max_examples=60)
def test_whatever_is_put_into_main_is_refused(gate: HostGate, data: st.DataObject) -> None:
    """Tried on the tokens that the host compiler is given: nothing of these becomes a size, wherever it stands."""
    host = gate.side.host
    start = max(index for index, token in enumerate(host.tokens) if token == "main")
    end = closing(host.tokens, host.tokens.index("{", start))
    at = data.draw(st.integers(start + 4, end))
    more = data.draw(st.sampled_from([["exit", "(", "1", ")", ";"], [";", "{"], ["++"], ["=", "0"], ["["]]))
    edited = [*host.tokens[:at], *more, *host.tokens[at:]]
    assert gate.why_not(take_apart(msgspec.structs.replace(host, tokens=edited), gate.side)) != ""


def test_candidates_may_be_compared_at_once(tmp_path: Path) -> None:
    """Whoever asks for the baseline's line numbers while another does waits for them."""
    _, fresh = opened(tmp_path)
    old, new = ALLOWED["lines more above what says its line"]

    def why(number: int) -> str:
        return fresh.why_not(BASE.replace(old, new, 1), tmp_path / str(number), UNATTENDED)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(why, range(4))) == [""] * 4
