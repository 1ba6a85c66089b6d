# SPDX-License-Identifier: Apache-2.0
"""Candidates a minute of one search with one process, with the pool on one and more cards, and on Ray.

    python tests/bench/bench_pool.py [--candidates N] [--ways one,pool1,pool2,ray] [--json FILE] [PROGRAM…]

Each way judges the same candidates of the same programs (those that random search with one seed hands out, repeated
to the number asked for, so that no verdict changes what is asked), in a store and with a cache of baselines of its own.
Printed as JSON: candidates a minute of judging alone, the noise floors (how far the baseline is from itself in the same
visits), whether the ways' verdicts agree, and on which cards each candidate met its baseline. Two programs at once from
two processes, on a card each, are `--together`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from warplens.agent.actions import KernelSpace
from warplens.agent.judging import JudgeSession
from warplens.agent.random_search import RandomSearch
from warplens.measure.judge_settings import Allowed
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.optimize import OpenJudge, causes_of, inputs_of, open_judge
from warplens.service.pooled import chosen_cards, opener
from warplens.service.service import Service
from warplens.service.workloads import workload_of
from warplens_tools.arch.load import present_gpus

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    ROOT / "tests/gpu/programs" / f"{name}.cu" for name in ("product", "heat3d", "black_scholes", "spmv_csr")
]


def ways(name: str) -> OpenJudge:
    """What opens the judge of a way."""
    if name == "one":
        return open_judge
    return opener(None, "local") if name == "ray" else opener(int(name.removeprefix("pool")))


def asked(program: Path, kernel: str, count: int) -> list[Candidate]:
    """The candidates, the same for every way."""
    inputs = inputs_of(Service(ROOT), program)
    space = KernelSpace(
        inputs.text(),
        path=str(program),
        kernel=kernel,
        limits=inputs.gpu.limits,
        rewrites=inputs.rewrites,
        causes=causes_of(inputs.report()),
    )
    search = RandomSearch(inputs.text(), path=str(program), kernel=kernel, space=space, seed=1)
    found = [ask.candidate for ask in search.ask(count)]
    if not found:
        raise SystemExit(f"nothing can be tried on {program.name}")
    # the same again under other names: each is built and measured anew
    turns = range(-(-count // len(found)))
    again = [msgspec.structs.replace(c, id=f"{c.id}.{turn}") for turn in turns for c in found]
    return again[:count]


def measure(program: Path, name: str, count: int) -> dict[str, Any]:
    """One program judged one way."""
    inputs = inputs_of(Service(ROOT), program)
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded)
    with tempfile.TemporaryDirectory() as cache:
        kept, os.environ["WARPLENS_CACHE"] = os.environ.get("WARPLENS_CACHE"), cache
        try:
            with ways(name)(workload, "", "", Allowed()) as judge:
                return {"program": program.name, "way": name, **_judged(judge, program, count)}
        finally:
            os.environ.pop("WARPLENS_CACHE") if kept is None else os.environ.update(WARPLENS_CACHE=kept)


def _judged(judge: JudgeSession, program: Path, count: int) -> dict[str, Any]:
    started = time.monotonic()
    kernel = judge.baseline().kernel
    opened = time.monotonic() - started
    candidates = asked(program, kernel, count)
    started = time.monotonic()
    verdicts = judge.judge(candidates)
    seconds = time.monotonic() - started
    noises = [t.noise for v in verdicts for t in v.timings]
    return {
        "candidates": len(verdicts),
        "seconds_to_open": opened,
        "seconds": seconds,
        "per_minute": 60 * len(verdicts) / seconds,
        "noise_median": statistics.median(noises) if noises else None,
        "cards": Counter(v.conditions.uuid for v in verdicts if v.conditions is not None),
        "states": {v.candidate: _state(v) for v in verdicts},
    }


def _state(verdict: Verdict) -> str:
    return verdict.state


def together(programs: list[Path], count: int) -> dict[str, Any]:
    """Two programs at once, each on a card of its own, against each alone."""
    cards = chosen_cards(0)[:2]
    pair = list(zip(programs, cards, strict=False))
    alone = [_on(program, card, count) for program, card in pair]
    rows: list[dict[str, Any]] = [{} for _ in pair]

    def work(number: int) -> None:
        rows[number] = _on(*pair[number], count)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(pair))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"alone": alone, "together": rows}


def _on(program: Path, card: str, count: int) -> dict[str, Any]:
    """In a process that sees one card."""
    import subprocess

    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [
            sys.executable,
            __file__,
            str(program),
            "--ways",
            "one",
            "--candidates",
            str(count),
            "--json",
            out.name,
        ]
        subprocess.run(
            command, env={**os.environ, "CUDA_VISIBLE_DEVICES": card}, check=True, stdout=sys.stderr
        )
        row: dict[str, Any] = json.loads(Path(out.name).read_text())["rows"][0]
        return row


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--ways", default="one,pool1")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    programs = [p.absolute() for p in options.programs] or PROGRAMS
    rows = []
    for program in programs:
        for name in options.ways.split(","):
            rows.append(measure(program, name, options.candidates))
            sys.stderr.write(f"{program.name} {name}: {rows[-1]['per_minute']:.1f} a minute\n")
    differing = {
        program.name: sorted(
            candidate
            for candidate in {c for r in rows if r["program"] == program.name for c in r["states"]}
            if len({r["states"].get(candidate) for r in rows if r["program"] == program.name}) > 1
        )
        for program in programs
    }
    result: dict[str, Any] = {
        "command": "python tests/bench/bench_pool.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {', '.join(g.name for g in present_gpus())}",
        "rows": rows,
        "verdicts_that_differ": differing,
    }
    if options.together:
        result["two_at_once"] = together(programs, options.candidates)
    text = json.dumps(result, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
