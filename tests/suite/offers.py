# SPDX-License-Identifier: Apache-2.0
"""What the search's first steps on programs are worth on the GPU of this machine: judged in place, without a search.

    python -m tests.suite.offers FILE.cu ... [--most 3] [--seconds 150] [--json FILE]

Of each program, the kernel that takes longest, unless a line `kernel=NAME` says which. Of its rewrites those are judged
that promise most, each on the whole kernel. The result is written after every program; none begins after `--seconds`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warplens.agent.actions import KernelSpace
from warplens.agent.edits import text_hash
from warplens.agent.versions import speedup_of
from warplens.measure.judge import Judge
from warplens.measure.verdict import Candidate
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import WarplensError
from warplens_tools.process.task import Task
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText

#: Seconds that one program's candidates may take.
_EACH = 40.0


def offers(path: Path, kernel: str, most: int) -> Iterator[Candidate]:
    """The steps that promise most, each text once."""
    text = SourceText.read(path)
    space = KernelSpace(
        text, path=str(path), kernel=kernel, limits=load_architecture("sm_90").limits, rewrites=REWRITES
    )
    steps = sorted(
        space.by_rewrite(text),
        key=lambda p: p.move.expected,
        reverse=True,
    )
    seen = {text_hash(text)}
    for step in steps:
        after = text.apply(list(step.edits))
        key = text_hash(after)
        if key in seen or len(seen) > most or space.illegal(after):
            continue
        seen.add(key)
        geometry = space.geometry(after)
        yield Candidate(
            id=step.move.changes[0],
            path=str(path),
            kernel=kernel,
            edits=step.edits,
            title=step.move.title,
            text_hash=key,
            grid=geometry.grid,
            block=geometry.block,
            dynamic_shared_bytes=geometry.dynamic_shared_bytes,
            asks_program=not geometry.known,
        )


def judged(path: Path, most: int, seconds: float) -> dict[str, Any]:
    """One program's row."""
    said = re.search(r"\bkernel=(\w+)", path.read_text())
    started = time.monotonic()
    row: dict[str, Any] = {"program": path.stem, "kernel": said[1] if said else ""}
    try:
        with Judge(Workload(str(path), str(path)), kernel=row["kernel"]) as judge:
            baseline = judge.baseline()
            row["kernel"], row["median_ns"] = baseline.kernel, baseline.timing.median_ns
            candidates = list(offers(path, row["kernel"], most))
            row["tried"] = {}

            def tell(verdict: Any) -> None:
                row["tried"][verdict.candidate] = {
                    "state": verdict.state,
                    "speedup": speedup_of(verdict),
                    "reason": verdict.reason[:300],
                }

            with Task().within(seconds) as task:
                judge.judge(candidates, task=task, on_verdict=tell)
    except WarplensError as error:
        row["error"] = str(error)[:400]
    row["seconds"] = round(time.monotonic() - started, 1)
    return row


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    begun, rows = time.monotonic(), list[dict[str, Any]]()
    for path in given.files:
        left = given.seconds - (time.monotonic() - begun)
        if left <= 0:
            break
        rows.append(row := judged(path, given.most, min(left, _EACH)))
        tried = " ".join(
            f"{name} {one['state']}" + (f" {one['speedup']:.2f}x" if one["speedup"] else "")
            for name, one in row.get("tried", {}).items()
        )
        sys.stdout.write(f"{row['program']}: {row.get('error', '')}{tried} ({row['seconds']} s)\n")
        sys.stdout.flush()
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
