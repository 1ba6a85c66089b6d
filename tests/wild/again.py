# SPDX-License-Identifier: Apache-2.0
"""What the tool says now of a set that was labelled: python -m tests.wild.again DRAW.jsonl --folder DIR --answers DIR.

Checks the units that the entries of the draw were seen from, as `tests.wild.gather` did, and keeps the answers as that
does; `tests.wild.calibrate` holds them against the labels. A set that was looked at for repairs says how they work on
what they were made for, no more.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.wild.gather import asked


def units(drawn: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Repository, commit and unit of every entry, once each; those with labelled warnings first."""
    warned = {(r["repository"], r["commit"], r["unit"]) for r in drawn if r["kind"] == "warning"}
    every = {(r["repository"], r["commit"], r["unit"]) for r in drawn}
    return [*sorted(warned), *sorted(every - warned)]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("draws", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    drawn = [json.loads(line) for path in given.draws for line in path.read_text().splitlines()]
    given.answers.mkdir(parents=True, exist_ok=True)
    folder = given.folder.resolve()

    def line(place: tuple[int, tuple[str, str, str]]) -> str:
        number, (repository, commit, unit) = place
        name = repository.replace("/", "+")
        return asked((number, name, folder / name / unit), folder, commit, given.answers)

    with ThreadPoolExecutor(given.jobs) as pool:
        for said in pool.map(line, enumerate(units(drawn))):
            sys.stdout.write(said)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
