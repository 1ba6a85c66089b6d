# SPDX-License-Identifier: Apache-2.0
"""The configuration on docs/editors/neovim.md, in the Neovim of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "editors" / "neovim.md"
NVIM = shutil.which("nvim")


@pytest.mark.compiler
@pytest.mark.skipif(NVIM is None, reason="Neovim is not installed")
def test_finding_lens_hover_and_quick_fix(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "first" / "transpose.cu", tmp_path)
    _configure(tmp_path / "config" / "nvim")
    seen = _session(tmp_path)
    assert "tile[threadIdx.x][threadIdx.y + j]" in seen["finding"]["message"]
    assert seen["finding"]["source"] == "warplens"
    lines = (ROOT / "examples" / "first" / "transpose.cu").read_text().splitlines()
    assert "void transpose(" in lines[seen["lens"]["range"]["start"]["line"]]
    assert "WL108" in seen["hover"]["contents"]["value"]
    assert seen["action"] == "Pad the rows of tile (unproven)"
    assert any("tile[kTile][kTile + 1]" in line for line in seen["text"])
    assert (tmp_path / "transpose.cu").read_text().splitlines() == seen["text"]


def _configure(folder: Path) -> None:
    """Write the page's files for this version of Neovim, below the folder that is `~/.config/nvim`."""
    said = subprocess.run([str(NVIM), "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"NVIM v0\.(\d+)", said)
    older = match is not None and int(match[1]) < 11
    for block in re.findall(r"```lua\n(.*?)```", PAGE.read_text(), re.DOTALL):
        title, _, text = block.partition("\n")
        if older == ("before 0.11" in title):
            path = folder / re.sub(r"^-- ~/\.config/nvim/|,.*", "", title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def _session(folder: Path) -> dict[str, Any]:
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_DATA_HOME": str(folder / "data"),
    }
    script = Path(__file__).parent / "neovim" / "session.lua"
    run = subprocess.run(
        [str(NVIM), "--headless", "-c", f"luafile {script}", "-c", "cquit"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return seen
