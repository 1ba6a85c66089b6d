# SPDX-License-Identifier: Apache-2.0
"""A search by files on the card of this machine: ask, evaluate and tell as processes, each killed once at random.

    python tests/bench/bench_exchange.py [PROGRAM] [--candidates 16] [--seed 1] [--json FILE]

As JSON, written anew after every step: what was asked and answered, whether an answer ever changed, whether a text was
asked twice, and the result. Exits with 1 where something was lost, judged twice after it was answered, or no result
came.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from warplens_tools.arch.load import present_gpus

ROOT = Path(__file__).parents[2]
ROUNDS = 20


class Sides:
    """The three commands on one folder, and what was seen of them."""

    def __init__(self, program: Path, folder: Path, candidates: int, seed: int) -> None:
        self.folder, self._draw = folder, random.Random(seed)
        options = ["--budget", str(candidates), "--seconds", "600", "--format", "json"]
        search = ["optimize", str(program)]
        self._commands = {
            "ask": [*search, "--ask", str(folder), *options],
            "evaluate": ["evaluate", str(folder)],
            "tell": [*search, "--tell", str(folder), *options],
        }
        self.killed: dict[str, float] = {}
        self.log: list[dict[str, Any]] = []
        #: The first content of each answer.
        self.answers: dict[str, str] = {}
        self.changed: list[str] = []
        #: What a killed process had measured and not yet written, at most.
        self._usual: dict[str, float] = {}

    def step(self, what: str) -> dict[str, Any] | None:
        """One command, killed at random the first time that it has run once before; its JSON where there is any."""
        usual = self._usual.get(what)
        if usual is not None and what not in self.killed:
            self.killed[what] = self._draw.uniform(0.2, 0.9) * usual
            self._run(what, self.killed[what])
        status, output = self._run(what, None)
        if status not in (0, 1):
            raise SystemExit(f"{what} failed: {output[-1500:]}")
        found = output.strip()
        return json.loads(found) if found.startswith("{") else None

    def _run(self, what: str, limit: float | None) -> tuple[int, str]:
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "warplens", *self._commands[what]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=ROOT,
        )
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            output, errors = "", ""
        seconds = time.monotonic() - started
        if limit is None:
            self._usual[what] = seconds
        self.log.append({"what": what, "seconds": seconds, "killed": limit is not None})
        self._look()
        return process.returncode, output if process.returncode in (0, 1) else output + errors

    def _look(self) -> None:
        for path in sorted((self.folder / "answers").glob("*.json")):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if self.answers.setdefault(path.name, digest) != digest:
                self.changed.append(path.name)


def standing(sides: Sides, result: dict[str, Any] | None) -> dict[str, Any]:
    """What is known so far."""
    asks = {p.name: json.loads(p.read_text()) for p in (sides.folder / "asks").glob("*.json")}
    texts = [a["text_hash"] for name, a in asks.items() if name.startswith("judge-")]
    return {
        "command": "python tests/bench/bench_exchange.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": present_gpus()[0].name,
        "driver": present_gpus()[0].driver,
        "asked": len(asks),
        "answered": len(sides.answers),
        "unanswered": sorted(set(asks) - set(sides.answers)),
        "answers_that_changed": sides.changed,
        "texts_asked_twice": len(texts) - len(set(texts)),
        "killed_after_seconds": sides.killed,
        "steps": sides.log,
        "outcome": result and result["outcome"],
        "reason": result and result["reason"],
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?", type=Path, default=ROOT / "tests/gpu/programs/product.cu")
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["WARPLENS_HOME"] = str(Path(place) / "store")
        project = Path(place) / "project"
        project.mkdir()
        program = Path(shutil.copy(options.program, project))
        sides = Sides(program, Path(place) / "asks", options.candidates, options.seed)
        result: dict[str, Any] | None = None
        for turn in range(3 * ROUNDS):
            what = ("ask", "evaluate", "tell")[turn % 3]
            said = sides.step(what)
            step = sides.log[-1]
            sys.stderr.write(f"{what}: {step['seconds']:.1f} s, {len(sides.answers)} answers\n")
            if what != "evaluate" and said is not None and "outcome" in said:
                result = said
            found = standing(sides, result)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1) + "\n")
            if result is not None:
                break
    whole = result is not None and not found["unanswered"] and not sides.changed and len(sides.killed) == 3
    if not options.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0 if whole and not found["texts_asked_twice"] else 1


if __name__ == "__main__":
    sys.exit(main())
