# SPDX-License-Identifier: Apache-2.0
"""A cache on a disk that is truly full, or fills while the compiler works."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.cli.bad_input import KERNEL

from warplens.cli.main import run

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """300 KB, as a disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("ballast", [0, 150, 290, 299])
def test_a_cache_on_a_full_disk_is_said(
    disk: Path,
    tmp_path: Path,
    ballast: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (disk / "ballast").write_bytes(b"x" * (ballast << 10))
    monkeypatch.setenv("WARPLENS_CACHE", str(disk / "cache"))
    (tmp_path / "k.cu").write_text(KERNEL)
    status = run(["check", str(tmp_path / "k.cu"), "--arch", "sm_90", "--format", "json"])
    report = json.loads(capfd.readouterr().out)
    (failed,) = [u for u in report["unknown"] if u["failed"]]
    assert status == 2
    assert "full" in failed["why"] or "cannot be written" in failed["why"]
    assert "WARPLENS_CACHE" in failed["remedy"]
    assert [k["name"] for k in report["files"][0]["kernels"]] == ["scale"], "the text was looked at"
