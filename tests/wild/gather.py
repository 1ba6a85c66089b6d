# SPDX-License-Identifier: Apache-2.0
"""What is said of code that nobody here wrote: python -m tests.wild.gather FOLDER --out FILE [--files 40] [--seed 0].

FOLDER holds one folder a repository, fetched for the run and never committed, with `heads.txt` beside them: a line of
folder name (owner+repository) and commit each. Files with kernels are drawn, as many from each repository as there
are, round by round; each is checked as a user would. FILE gets a line of JSON for every warning, and for every kernel
without one, for readers to label; only path, line, names and figures are written, none of the code.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_KERNEL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s+)?void")
#: Seconds for one file: a check that takes longer is counted as said nothing.
_PATIENCE = 120


def drawn(folder: Path, files: int, seed: int) -> Iterator[tuple[str, Path]]:
    """Repository and file, round by round, each repository's files in an order of its own."""
    draw = random.Random(seed)
    waiting: dict[str, list[Path]] = {}
    for repository in sorted(p for p in folder.iterdir() if p.is_dir()):
        found = sorted(p for p in repository.rglob("*.cu") if _KERNEL.search(p.read_text(errors="replace")))
        draw.shuffle(found)
        waiting[repository.name] = found
    taken = 0
    while taken < files and any(waiting.values()):
        for name, found in waiting.items():
            if found and taken < files:
                taken += 1
                yield name, found.pop()


def checked(path: Path) -> dict[str, Any] | None:
    """The file's part of the answer of `warplens check`."""
    command = [sys.executable, "-m", "warplens", "check", str(path), "--format", "json", "--fail-on", "never"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return None
    if not done.stdout.strip():
        return None
    answers = json.loads(done.stdout)["files"]
    return next((f for f in answers if Path(f["path"]).name == path.name), None)


def rows(repository: str, commit: str, root: Path, path: Path) -> Iterator[dict[str, Any]]:
    """What is to be labelled of one file."""
    answer = checked(path)
    place = {
        "repository": repository.replace("+", "/"),
        "commit": commit,
        "path": str(path.relative_to(root)),
    }
    if answer is None:
        yield {**place, "kind": "nothing said"}
        return
    warned: set[str] = set()
    for finding in answer["findings"]:
        if finding["severity"] not in ("warning", "error"):
            continue
        warned.add(finding["kernel"])
        gain = finding.get("gain")
        yield {
            **place,
            "kind": "warning",
            "kernel": finding["kernel"],
            "line": finding["span"]["line"],
            "code": finding["code"],
            "slug": finding["slug"],
            "confidence": finding["confidence"],
            "gain": gain and [gain["low"], gain["estimate"], gain["high"]],
            "label": "",
            "reason": "",
        }
    for kernel in answer["kernels"]:
        if kernel["qualified_name"] not in warned and kernel["name"] not in warned:
            bound = (kernel.get("bottleneck") or {}).get("class", "unknown")
            yield {
                **place,
                "kind": "silent",
                "kernel": kernel["qualified_name"],
                "line": kernel["name_line"],
                "bound": bound,
                "label": "",
                "reason": "",
            }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    lines = (given.folder / "heads.txt").read_text().splitlines()
    heads = {name: commit for name, commit, *_ in (line.split() for line in lines)}
    with given.out.open("w", encoding="utf-8") as out:
        for repository, path in drawn(given.folder, given.files, given.seed):
            root = given.folder / repository
            for row in rows(repository, heads[repository], root, path):
                out.write(json.dumps(row) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
