# SPDX-License-Identifier: Apache-2.0
"""One search as a person starts it: what it answered, what it said meanwhile, and when it was how good."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.suite.catalogue import Program
from tests.suite.seconds import spent

from warplens_tools.process.guard import die_with_parent

ROOT = Path(__file__).parents[2]
#: Seconds beyond twice its own that a search may take to confirm its winner.
_CONFIRMING = 120.0


class Watched(msgspec.Struct):
    """A command that ended: its status, its answer, and the lines it said with the seconds since it began."""

    status: int | None
    answer: str
    said: list[str]
    seconds: float


def watched(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Watched:
    """Run a command whose standard error is a terminal, to which alone it says what it does."""
    master, terminal = pty.openpty()
    started, said = time.monotonic(), list[str]()

    def listen() -> None:
        # the terminal's other end closed is an error here, and an end
        with contextlib.suppress(OSError), os.fdopen(master, errors="replace") as heard:
            for line in heard:
                said.append(f"{time.monotonic() - started:7.2f} {line.rstrip()}")

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    with subprocess.Popen(
        die_with_parent(command),
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        env=dict(environment),
        cwd=ROOT,
        start_new_session=True,
    ) as process:
        os.close(terminal)
        try:
            answer, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            answer, _ = process.communicate()
            said.append(f"{seconds:7.2f} did not end in time")
    listening.join(1.0)
    return Watched(process.returncode, answer, said, round(time.monotonic() - started, 1))


def searched(
    program: Program,
    options: Sequence[str],
    seconds: float,
    environment: Mapping[str, str],
    kept: Path | None,
) -> dict[str, Any]:
    """What the command says of one program, in a store of its own; `kept` is a folder for all of it."""
    command = [sys.executable, "-m", "warplens", "optimize", str(program.path), "--kernel", program.kernel]
    with tempfile.TemporaryDirectory() as home:
        began = time.time()
        done = watched(
            [*command, *options, "--format", "json"],
            {**environment, "WARPLENS_HOME": home},
            2 * seconds + _CONFIRMING,
        )
        curve = risen(Path(home) / "warplens.sqlite3", began)
        went = spent(Path(home) / "warplens.sqlite3", began)
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"{program.name}.json").write_text(done.answer)
            (kept / f"{program.name}.said").write_text("\n".join(done.said) + "\n")
            for file in Path(home).glob("warplens.sqlite3*"):
                shutil.copy(file, kept / f"{program.name}{file.name.removeprefix('warplens')}")
    if done.status not in (0, 1) or not done.answer.strip():
        return {"error": "\n".join(done.said)[-800:] or "said nothing", "wall_seconds": done.seconds}
    answer = json.loads(done.answer)
    proof = answer.get("proof") or {}
    timings = proof["verdict"]["timings"] if proof else []
    states = [entry["state"] for entry in answer["tried"]]
    own = (answer.get("baseline") or {}).get("median_ns")
    return {
        "kernel_us": round(own / 1e3, 2) if own else None,
        "outcome": answer["outcome"],
        "reason": answer["reason"],
        "speedup": timings[0]["speedup"] if timings else None,
        "judged": answer["spent"]["candidates"],
        "states": {state: states.count(state) for state in dict.fromkeys(states)},
        "title": proof.get("title", ""),
        "diff": proof.get("diff", ""),
        "wall_seconds": done.seconds,
        **went,
        "curve": curve,
        "half_gain_seconds": half_gain(curve, timings[0]["speedup"]["median"] if timings else 1.0),
    }


def risen(store: Path, began: float) -> list[tuple[float, float]]:
    """When a search had which best speedup: seconds since it `began` (of the epoch), and the factor."""
    if not store.exists():
        return []
    with contextlib.closing(sqlite3.connect(store)) as connection:
        told = connection.execute(
            "SELECT at, payload FROM steps WHERE kind = 'tell' ORDER BY number"
        ).fetchall()
    best, curve = 1.0, list[tuple[float, float]]()
    for at, payload in told:
        verdict = json.loads(payload)
        speedup = verdict["timings"][0]["speedup"]["median"] if verdict.get("timings") else 0.0
        if verdict["state"] == "faster" and speedup > best:
            best = speedup
            curve.append((round(at - began, 1), round(best, 3)))
    return curve


def half_gain(curve: Sequence[tuple[float, float]], final: float) -> float | None:
    """Seconds until half of the final logarithmic gain was judged; None where nothing was gained."""
    if final <= 1.0:
        return None
    return next((at for at, best in curve if math.log(best) >= math.log(final) / 2), None)
