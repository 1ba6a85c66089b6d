# SPDX-License-Identifier: Apache-2.0
"""What is said of code nobody here wrote: python -m tests.wild.gather FOLDER --answers DIR [--files N] [--jobs N].

FOLDER holds one folder a repository, fetched for the run and never committed, with `heads.txt` beside them: a line of
folder name (owner+repository) and commit each; `tests.wild.commands` says how its files are compiled. Files with
kernels are taken round by round, each repository's in an order drawn from --seed, and checked as a user would with a
compiler and no GPU. DIR gets the answer for each, numbered in the order drawn; what is there already is not asked
again. `tests.wild.draw` draws from the answers what readers label.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_KERNEL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s+)?void")
#: Seconds for one file: a check that takes longer is counted as said nothing.
_PATIENCE = 900


def drawn(
    folder: Path, files: int, seed: int, most: Mapping[str, int] | None = None
) -> Iterator[tuple[str, Path]]:
    """Repository and file, round by round, each repository's files in an order of its own, and no more than `most`."""
    draw = random.Random(seed)
    waiting: dict[str, list[Path]] = {}
    for repository in sorted(p for p in folder.iterdir() if p.is_dir()):
        found = sorted(p for p in repository.rglob("*.cu") if _KERNEL.search(p.read_text(errors="replace")))
        draw.shuffle(found)
        waiting[repository.name] = (
            found[len(found) - min(most[repository.name], len(found)) :]
            if most and repository.name in most
            else found
        )
    taken = 0
    while taken < files and any(waiting.values()):
        for name, found in waiting.items():
            if found and taken < files:
                taken += 1
                yield name, found.pop()


def checked(path: Path) -> dict[str, Any]:
    """The answer of `warplens check` for one file; with "failed" where there is none."""
    command = [sys.executable, "-m", "warplens", "check", str(path), "--tier", "binary"]
    command += ["--format", "json", "--fail-on", "never", "--jobs", "1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {_PATIENCE} s"}
    if not done.stdout.strip():
        return {"failed": done.stderr.strip()}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def asked(place: tuple[int, str, Path], folder: Path, commit: str, answers: Path) -> str:
    """Check one file and keep the answer; a line on it."""
    number, repository, path = place
    out = answers / f"{number:04}.json"
    if out.exists():
        return ""
    began = time.monotonic()
    answer = checked(path)
    row = {
        "repository": repository.replace("+", "/"),
        "commit": commit,
        "path": str(path.relative_to(folder / repository)),
        "root": str(folder / repository),
        "answer": answer,
    }
    out.write_text(json.dumps(row))
    failed = answer.get("failed") or compile_error(answer)
    return f"{number} {repository} {row['path']} {time.monotonic() - began:.0f} s {failed}\n"


def compile_error(answer: dict[str, Any]) -> str:
    """The first message of the compiler's where the file does not compile; else ""."""
    found = (f["message"] for file in answer["files"] for f in file["findings"] if f["code"] == "WL901")
    return next(found, "")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", nargs="*", default=[], help="owner+repository=FILES for some repositories")
    given = parser.parse_args()
    folder = given.folder.resolve()
    lines = (folder / "heads.txt").read_text().splitlines()
    heads = {name: commit for name, commit, *_ in (line.split() for line in lines)}
    given.answers.mkdir(parents=True, exist_ok=True)
    most = {name: int(files) for name, files in (word.split("=") for word in given.most)}
    found = drawn(folder, given.files, given.seed, most)
    places = [(i, name, path) for i, (name, path) in enumerate(found)]
    with ThreadPoolExecutor(given.jobs) as pool:
        for line in pool.map(lambda p: asked(p, folder, heads[p[1]], given.answers), places):
            sys.stdout.write(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
