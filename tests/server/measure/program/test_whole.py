# SPDX-License-Identifier: Apache-2.0
"""Whether a rebuilt program does the same as the original."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.measure.program.whole import ROUNDING, ProgramRun, difference, require_success, run_program
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.run.probe.visit import Command


def ran(stdout: str, status: int = 0) -> ProgramRun:
    return ProgramRun(status, 1.0, stdout, "")


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e"))))
def test_the_same_output_never_differs(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert difference([ran(text)], [ran(text)], rounding=0.0) == ""


@pytest.mark.parametrize(
    ("before", "after", "exact", "said"),
    [
        (["ok\n"], "no\n", False, "prints 'no'"),
        (["ok\n"], "ok\nmore\n", False, "prints 2 lines"),
        (["sum 1.234567\n"], "sum 1.234568\n", False, ""),
        (["sum 1.234567\n"], "sum 1.234568\n", True, "prints"),
        (["sum 1.2\n"], "sum 1.3\n", False, "prints"),
        (["errors 0\n"], "errors 1\n", False, "prints"),
        (["took 3.1 ms\n", "took 2.9 ms\n"], "took 1.5 ms\n", True, ""),
        (["took 3.1 ms\n", "took 2.9 ms\n"], "failed\n", True, "prints"),
        (["a\n", "a\nb\n"], "c\n", True, ""),
    ],
)
def test_differences(before: list[str], after: str, exact: bool, said: str) -> None:
    found = difference([ran(text) for text in before], [ran(after)], rounding=0.0 if exact else ROUNDING)
    assert said in found
    assert bool(said) == bool(found)


def test_an_exit_status_differs() -> None:
    assert "exits with 1" in difference([ran("")], [ran("", 1)], rounding=ROUNDING)


def test_a_failing_program_is_refused_with_its_last_words() -> None:
    with pytest.raises(InputError, match=r"exits with 3: cannot open data\.bin"):
        require_success(ProgramRun(3, 0.1, "", "reading\ncannot open data.bin\n"))
    with pytest.raises(InputError, match="killed by signal 11"):
        require_success(ProgramRun(-11, 0.1, "", ""))


def test_a_program_runs_with_its_arguments_directory_and_variables(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['WHO'], sys.argv[1])"
    command = Command((sys.executable, "-c", code, "word"), str(tmp_path), {"WHO": "me"})
    assert run_program(command, 20).stdout == f"{tmp_path} me word\n"
    with pytest.raises(TimeLimitError, match=r"within 0\.2 s"):
        run_program(Command((sys.executable, "-c", "import time; time.sleep(9)"), str(tmp_path)), 0.2)
