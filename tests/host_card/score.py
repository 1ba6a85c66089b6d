# SPDX-License-Identifier: Apache-2.0
"""A batch of exploits and honest candidates scored with no GPU: `tests/bench/judge_score.py` on the card in software.

    python -m tests.host_card.score BATCH --json FILE [--only WORDS] [--at-once 2] [--seconds 3600] [--patience 10]

Its programs have less to do, as `smaller.toml` says; entries of programs that it does not name are left out. Nothing is
timed: an honest candidate is accepted here if it compares right, an exploit is caught if it does not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from tests.gpu import batches
from tests.host_card.toolkit import environment

HERE = Path(__file__).parent
SMALLER = HERE / "smaller.toml"
_GIVEN = ("--at-once", "1"), ("--each", "4"), ("--seconds", "3600"), ("--patience", "10")


def shrunk(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """A program with less to do.

    Raises:
        ValueError: a size is not there once.
    """
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    return text


def smaller_programs() -> Mapping[str, list[tuple[str, str]]]:
    """By program, as batches name it."""
    return msgspec.toml.decode(SMALLER.read_bytes(), type=dict[str, list[tuple[str, str]]])


def shrink_into(folder: Path, batch: str) -> None:
    """A batch, and its programs with less to do, in a folder; entries of other programs are left out."""
    known = smaller_programs()
    shutil.copytree(batches.BATCHES, folder, dirs_exist_ok=True)
    for name, pairs in known.items():
        program = folder / name
        program.write_text(shrunk(program.read_text(), pairs))
    path = folder / f"{batch}.toml"
    head, *entries = re.split(r"^(?=\[\[candidate\]\])", path.read_text(), flags=re.M)
    common = re.search(r'^program = "(.*)"', head, re.M)

    def program_of(entry: str) -> str:
        own = re.search(r'^program = "(.*)"', entry, re.M)
        found = own or common
        return found[1] if found is not None else ""

    path.write_text(head + "".join(entry for entry in entries if program_of(entry) in known))


def main(words: Sequence[str]) -> int:
    """Score, with defaults for what was not said."""
    if not words or words[0].startswith("-"):
        sys.stderr.write(__doc__ or "")
        return 2
    rest = [word for name, value in _GIVEN if name not in words for word in (name, value)]
    with tempfile.TemporaryDirectory(prefix="host-card-") as folder:
        shrink_into(Path(folder), words[0])
        chosen = {**environment(), "WARPLENS_BATCHES": folder}
        script = HERE.parent / "bench" / "judge_score.py"
        command = [sys.executable, str(script), *words, *rest, "--crowd-only"]
        return subprocess.run(command, env={**os.environ, **chosen}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
