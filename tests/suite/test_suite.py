# SPDX-License-Identifier: Apache-2.0
"""The suite is whole: each program is listed, has its kernel, and is right on the CPU, an expert's version too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host_cuda import HostProgram, same_results
from tests.suite.catalogue import Program, programs

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText

HERE = Path(__file__).parent
PROGRAMS = {program.name: program for program in programs()}


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
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_whatever_the_order_of_its_threads(name: str) -> None:
    program = PROGRAMS[name]
    host = HostProgram(program.path.read_text())
    host.run(*program.small)
    host.run(*program.small, order=3)


def _with_cpp_expert() -> list[Program]:
    return [program for program in PROGRAMS.values() if program.has_cpp_expert]


@pytest.mark.compiler
@pytest.mark.parametrize("program", _with_cpp_expert(), ids=lambda program: program.name)
def test_an_experts_version_says_the_same(program: Program) -> None:
    same_results(program.path.read_text(), program.expert.read_text(), *program.small, relative=1e-3)
