# SPDX-License-Identifier: Apache-2.0
"""Every line of the table in docs/command-line.md, in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.cli.bad_input import CASES, KERNEL, Case

from warplens_tools.arch.load import query_devices


def skipped(case: Case) -> str:
    """Why a case cannot be tried here; "" where it can."""
    if "compiler" in case.needs and not shutil.which("nvcc"):
        return "needs nvcc"
    if "no nvdisasm" in case.needs and shutil.which("nvdisasm"):
        return "nvdisasm is on the PATH"
    return "there is a GPU" if "no gpu" in case.needs and query_devices().devices else ""


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_bad_input_is_a_sentence_and_a_status(case: Case, tmp_path: Path) -> None:
    if why := skipped(case):
        pytest.skip(why)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "k.cu").write_text(KERNEL)
    case.prepare(folder)
    shim = tmp_path / "warplens"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m warplens "$@"\n')
    shim.chmod(0o755)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {case.command.replace('warplens ', f'{shim} ', 1)}"],
        cwd=folder,
        env=os.environ | {"WARPLENS_CACHE": str(tmp_path / "cache"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    said = done.stdout + done.stderr
    assert done.returncode == case.status, said
    assert case.says in said
    assert "Traceback" not in said
    assert {path: path.read_bytes() for path in before} == before
