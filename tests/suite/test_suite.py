# SPDX-License-Identifier: Apache-2.0
"""The suite is whole: each program is listed, has its kernel, and is right on the CPU, an expert's version too."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from tests.host_cuda import HostProgram, same_results
from tests.suite.catalogue import Program, programs

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText

HERE = Path(__file__).parent
PROGRAMS = {program.name: program for program in programs()}


def _marked(chosen: Iterable[Program]) -> list[ParameterSet]:
    """Parameters of a test that compiles these."""
    return [
        pytest.param(program, id=program.name, marks=pytest.mark.thorough if program.thorough else ())
        for program in chosen
    ]


def test_the_catalogue_is_what_is_in_the_folder() -> None:
    assert {path.stem for path in (HERE / "programs").glob("*.cu")} == set(PROGRAMS)
    assert {path.stem for path in (HERE / "experts").glob("*.cu")} <= set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_its_kernel_whole(name: str) -> None:
    program = PROGRAMS[name]
    kernel = parse(SourceText(program.path.read_text()), str(program.path)).kernel(program.kernel)
    assert kernel is not None
    assert not kernel.broken


@pytest.mark.compiler
@pytest.mark.parametrize("program", _marked(PROGRAMS.values()))
@pytest.mark.sampled(12)
def test_a_program_is_right_whatever_the_order_of_its_threads(program: Program) -> None:
    host = HostProgram(program.path.read_text())
    host.run(*program.small)
    host.run(*program.small, order=3)


@pytest.mark.compiler
@pytest.mark.parametrize("program", _marked(p for p in PROGRAMS.values() if p.has_cpp_expert))
@pytest.mark.sampled(3)
def test_an_experts_version_says_the_same(program: Program) -> None:
    same_results(program.path.read_text(), program.expert.read_text(), *program.small, relative=1e-3)
