# SPDX-License-Identifier: Apache-2.0
"""Every line of the table in docs/command-line.md: in this process, or in a shell where it says something to one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.cli.bad_input import CASES, KERNEL, Case

from warplens.cli.main import run
from warplens_tools.arch.load import query_devices


def skipped(case: Case) -> str:
    """Why a case cannot be tried here; "" where it can."""
    if "compiler" in case.needs and not shutil.which("nvcc"):
        return "needs nvcc"
    if "no nvdisasm" in case.needs and shutil.which("nvdisasm"):
        return "nvdisasm is on the PATH"
    return "there is a GPU" if "no gpu" in case.needs and query_devices().devices else ""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One cache of what is compiled, with nothing in it at first."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "k.cu").write_text(KERNEL)
    return folder


#: What only a shell does, or only another process can be given: redirections, pipes, variables.
SHELL = re.compile(r"[|<>$]|^\w+=")


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
@pytest.mark.sampled(16)
def test_bad_input_is_a_sentence_and_a_status(
    case: Case, folder: Path, cache: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if why := skipped(case):
        pytest.skip(why)
    case.prepare(folder)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WARPLENS_CACHE", cache)
    status = in_a_shell(case.command, folder) if SHELL.search(case.command) else run(case.command.split()[1:])
    said = "".join(capfd.readouterr())
    assert status == case.status, said
    assert case.says in said
    assert "Traceback" not in said
    assert {path: path.read_bytes() for path in before} == before


def in_a_shell(command: str, folder: Path) -> int:
    """The exit status of a line, whose `warplens` is a new process."""
    shim = folder.parent / "warplens"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m warplens "$@"\n')
    shim.chmod(0o755)
    line = f"set -o pipefail; {command.replace('warplens ', f'{shim} ', 1)}"
    environment = os.environ | {"PYTHONUTF8": "1"}
    return subprocess.run(
        ["/bin/bash", "-c", line], env=environment, check=False, stdin=subprocess.DEVNULL
    ).returncode
