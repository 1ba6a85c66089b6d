# SPDX-License-Identifier: Apache-2.0
"""Measures the judge on a GPU: python tests/bench/judge.py [--only PART ...] [--out FILE].

Parts: `aa` (the baseline against itself), `gain` (a true 3 %), `faults` (planted wrong, endless and faulting
candidates), `exploits` (every batch in tests/gpu/exploits), `programs` (tests/gpu/programs.toml), `smallest` (the
smallest gain found below 20 us), `cost` (of a visit and of a candidate), `throughput` (the pipeline against one step
after another), `confirm` (a winner's second examination), `limits` (of time). Writes JSON, by default
docs/benchmarks/judge.json; parts that are not measured now stay there as they are, and `runs` says of each where and
when it was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import WarplensError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain, tool_version

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench.judge_exploits import measure as measure_exploits  # noqa: E402
from tests.bench.judge_limits import measure_limits  # noqa: E402
from tests.gpu.catalogue import Program, catalogue  # noqa: E402

PROGRAMS = ROOT / "tests/gpu/programs"
#: The baseline's own code is measured as any other.
SETTINGS = MeasureSettings(measure_identical=True)
Edits = Sequence[Sequence[str]]


def say(text: str) -> None:
    """One line of progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def candidate(path: Path, name: str, edits: Edits) -> Candidate:
    """A candidate that replaces the first occurrence of each old text."""
    text = SourceText.read(path)
    made = []
    for old, new in edits:
        start = text.text.index(old)
        made.append(TextEdit(text.span(start, start + len(old)), new))
    return Candidate(name, str(path), "", tuple(made), title=name)


def workload(name: str, *arguments: str, **more: Any) -> Workload:
    """A program of the tests, or of the examples."""
    path = PROGRAMS / f"{name}.cu"
    path = path if path.exists() else ROOT / f"examples/first/{name}.cu"
    return Workload(str(path), str(path), arguments=arguments, **more)


def judged(
    work: Workload, candidates: Mapping[str, Edits], *, kernel: str = "", settings: MeasureSettings = SETTINGS
) -> tuple[Any, list[Verdict], float]:
    """The baseline, the verdicts, and the seconds that judging took."""
    path = Path(work.source)
    with Judge(work, kernel=kernel, settings=settings) as judge:
        baseline = judge.baseline()
        started = time.monotonic()
        verdicts = judge.judge([candidate(path, n, e) for n, e in candidates.items()])
        return baseline, list(verdicts), time.monotonic() - started


def brief(verdict: Verdict) -> dict[str, Any]:
    """A verdict in a line of JSON."""
    found: dict[str, Any] = {"state": verdict.state, "reason": verdict.reason}
    for timing in verdict.timings:
        found[timing.cache] = {
            "speedup": [round(x, 4) for x in msgspec.structs.astuple(timing.speedup)],
            "noise": round(timing.noise, 4),
            "rounds": timing.rounds,
            "candidate_us": round(timing.candidate_ns.median / 1e3, 3),
        }
    return found


def measure_aa() -> dict[str, Any]:
    """The baseline's own code, 40 times for each of five kernels from microseconds to 20 milliseconds."""
    sizes = [("affine", "256"), ("product",), ("affine", "8192"), ("affine", "65536"), ("long_run",)]
    rows: list[dict[str, Any]] = []
    for name, *arguments in sizes:
        many: dict[str, Edits] = {f"same {i}": [] for i in range(40)}
        row: dict[str, Any] = {"program": " ".join([name, *arguments])}
        try:
            baseline, verdicts, seconds = judged(workload(name, *arguments), many)
        except WarplensError as error:
            rows.append(row | {"failed": str(error)})
            continue
        off = [abs(t.speedup.median - 1) for v in verdicts for t in v.timings]
        row |= {
            "kernel_us": round(baseline.timing.median_ns / 1e3, 2),
            "states": dict(Counter(v.state for v in verdicts)),
            "largest_difference": round(max(off), 4),
            "seconds": round(seconds, 2),
        }
        rows.append(row)
        say(f"aa {row}")
    judged_states = [row["states"] for row in rows if "states" in row]
    return {
        "kernels": rows,
        "false_faster": sum(states.get("faster", 0) for states in judged_states),
        "of": sum(sum(states.values()) for states in judged_states),
    }


def measure_gain() -> dict[str, Any]:
    """A true 3 %: 40 of 1042 trips removed (a few of them shorter than the others), 20 times at several lengths."""
    rows = []
    for blocks in ("132", "2048", "16384", "131072"):
        edits = {f"gain {i}": [["WASTE 42", f"WASTE 2{' ' * i}"]] for i in range(20)}
        baseline, verdicts, _ = judged(workload("wasted", blocks), edits)
        ratios = [v.timings[0].speedup.median for v in verdicts if v.timings]
        rows.append(
            {
                "blocks": int(blocks),
                "kernel_us": round(baseline.timing.median_ns / 1e3, 2),
                "states": dict(Counter(v.state for v in verdicts)),
                "speedup": round(median(ratios), 4) if ratios else None,
            }
        )
        say(f"gain {rows[-1]}")
    return {"kernels": rows}


def measure_smallest() -> dict[str, Any]:
    """Below 20 us: the smallest true gain that is found in 18 of 20, by ever more trips of a short loop removed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [_smallest(Path(folder) / f"wasted_{trips}.cu", trips) for trips in (100, 300)]
    return {"kernels": rows}


def _smallest(source: Path, trips: int) -> dict[str, Any]:
    waste = trips // 10 * 2
    text = (PROGRAMS / "wasted.cu").read_text()
    text = text.replace("#define TRIPS 1000", f"#define TRIPS {trips}")
    source.write_text(text.replace("#define WASTE 42", f"#define WASTE {waste}"))
    tried: list[dict[str, Any]] = []
    with Judge(Workload(str(source), str(source), arguments=("132",)), settings=SETTINGS) as judge:
        kernel_us = judge.baseline().timing.median_ns / 1e3
        for fewer in range(2, waste + 1, max(2, trips // 50)):
            percent = round(100 * fewer / (trips + waste - fewer), 1)
            edits = [[f"#define WASTE {waste}", f"#define WASTE {waste - fewer}"]]
            verdicts = judge.judge([candidate(source, f"{percent} % {i}", edits) for i in range(20)])
            found = sum(v.state == "faster" for v in verdicts)
            states = dict(Counter(v.state for v in verdicts))
            tried.append({"percent": percent, "found": found, "of": len(verdicts), "states": states})
            say(f"smallest {kernel_us:.1f} us, {percent} %: {found} of {len(verdicts)}")
            if found >= 18:
                break
    smallest = next((row["percent"] for row in tried if row["found"] >= 18), None)
    return {"kernel_us": round(kernel_us, 2), "smallest_percent": smallest, "tried": tried}


START = "    int column = blockIdx"
FAULTS: dict[str, tuple[str, Edits]] = {
    "wrong": ("wrong", [["+ shift[column]", "+ shift[column] * 1.001f"]]),
    "endless": (
        "hung",
        [[START, f"    while (in[0] != 7.25f) if (__ldcv(in + 1) == 1e30f) break;\n{START}"]],
    ),
    "after the hang": ("slower", [["for (int row", "for (int pass = 0; pass < 2; ++pass) for (int row"]]),
    "trap": ("crashed", [[START, f'    if (blockIdx.x == 3) asm volatile("trap;");\n{START}']]),
    "out of bounds": ("crashed", [[START, f"    if (blockIdx.x == 3) out[1ll << 40] = 1;\n{START}"]]),
    "stray write": ("wrong", [[START, f"    if (threadIdx.x == 9) ((float*)gain)[5] = 1;\n{START}"]]),
    "after the faults": ("same", []),
}


def measure_faults() -> dict[str, Any]:
    """Each fault gets its verdict, and what comes after it is measured."""
    _, verdicts, seconds = judged(workload("affine"), {name: edits for name, (_, edits) in FAULTS.items()})
    rows = {v.candidate: {"expected": FAULTS[v.candidate][0], **brief(v)} for v in verdicts}
    say("\n".join(f"fault {name}: {row['state']}" for name, row in rows.items()))
    right = sum(row["state"] == row["expected"] for row in rows.values())
    return {"right": right, "of": len(rows), "seconds": round(seconds, 2), "candidates": rows}


def measure_programs() -> dict[str, Any]:
    """Each program is measured against itself, or refused by name; the examples beside those of the tests."""
    examples = [
        Program(name, "examples", ("same",))
        for name in ("transpose", "nearest", "normalize_rows", "filter_bank", "lennard_jones")
    ]
    rows = []
    for program in [*catalogue(), *examples]:
        work = workload(program.name, *program.arguments, flags=program.flags)
        row: dict[str, Any] = {"name": program.title, "field": program.field, "hostile": program.hostile}
        try:
            baseline, (verdict,), seconds = judged(work, {"same": []}, kernel=program.kernel)
            row |= {"kernel": baseline.kernel, "kernel_us": round(baseline.timing.median_ns / 1e3, 2)}
            row |= {"seconds": round(seconds, 2), **brief(verdict)}
        except WarplensError as error:
            row |= {"state": "refused", "reason": f"{type(error).__name__}: {error}"}
        row["right"] = row["state"] in program.states and program.said in row["reason"]
        rows.append(row)
        say(
            f"program {row['name']}: {row['state']}{'' if row['right'] else ', expected ' + '/'.join(program.states)}"
        )
    return {"right": sum(row["right"] for row in rows), "of": len(rows), "programs": rows}


def measure_cost() -> dict[str, Any]:
    """A visit beyond the program's own start, and candidates a second within one visit."""
    work = workload("product")
    shares = [[f"k < n; ++k) sum += a[row * n + k] * {i}.0f / {i}.0f"] for i in range(1, 33)]
    old = "k < n; ++k) sum += a[row * n + k]"
    many: dict[str, Edits] = {f"candidate {i}": [[old, new]] for i, (new,) in enumerate(shares)}
    path = Path(work.source)
    with Judge(work, settings=SETTINGS) as judge:
        own = judge.baseline().program.seconds
        stamps: list[float] = []
        started = time.monotonic()
        judge.judge([candidate(path, "one", [])])
        one = time.monotonic() - started
        verdicts = judge.judge(
            [candidate(path, n, e) for n, e in many.items()],
            on_verdict=lambda _: stamps.append(time.monotonic()),
        )
    costs = {part: median([v.cost[part] for v in verdicts]) for part in verdicts[0].cost}
    spent = stamps[-1] - stamps[0]
    found = {
        "program_seconds": round(own, 3),
        "one_candidate_seconds": round(one, 3),
        "visit_beyond_program_seconds": round(one - own - costs["build"], 3),
        "candidates_in_one_visit": len(verdicts),
        "candidates_per_second": round((len(stamps) - 1) / spent, 1),
        "median_cost_seconds": {name: round(value, 4) for name, value in costs.items()},
        "states": dict(Counter(v.state for v in verdicts)),
    }
    say(f"cost {found}")
    return found


def measure_throughput() -> dict[str, Any]:
    """32 candidates by the pipeline, against the same steps one after another: a build, a program, a judgement each."""
    work, path = workload("product"), PROGRAMS / "product.cu"
    old = "k < n; ++k) sum += a[row * n + k]"
    many = [
        candidate(path, f"candidate {i}", [[old, f"{old} * {i}.0f / {i}.0f"]])
        for i in range(1, CANDIDATES + 1)
    ]

    def seconds(settings: MeasureSettings, batches: Sequence[Sequence[Candidate]]) -> float:
        with Judge(work, settings=settings) as judge:
            judge.baseline()
            started = time.monotonic()
            for batch in batches:
                judge.judge(batch)
            return time.monotonic() - started

    one_by_one = msgspec.structs.replace(SETTINGS, build_jobs=1, candidates_per_visit=1)
    # in turns, so that neither has the warmer machine
    pipeline, steps = [], []
    for _ in range(3):
        pipeline.append(seconds(SETTINGS, [many]))
        steps.append(seconds(one_by_one, [[c] for c in many]))
    found = {
        "candidates": CANDIDATES,
        "cpu_cores": os.cpu_count(),
        "pipeline_seconds": round(median(pipeline), 2),
        "one_after_another_seconds": round(median(steps), 2),
        "ratio": round(median(s / p for s, p in zip(steps, pipeline, strict=True)), 2),
    }
    say(f"throughput {found}")
    return found


def measure_confirm() -> dict[str, Any]:
    """A padded tile, measured again in fresh processes and in the rebuilt program."""
    work = workload("transpose")
    path = Path(work.source)
    with Judge(work, settings=SETTINGS) as judge:
        started = time.monotonic()
        baseline = judge.baseline()
        best = candidate(path, "padded tile", [["[kTile][kTile]", "[kTile][kTile + 1]"]])
        confirmed = judge.confirm(best)
    found = {
        "seconds": round(time.monotonic() - started, 2),
        "share": round(baseline.timing.share or 0, 3),
        "verdict": brief(confirmed.verdict),
        "program": msgspec.to_builtins(confirmed.program),
        "unknown": [f"{u.what}: {u.why}" for u in confirmed.unknown],
    }
    say(f"confirm {found}")
    return found


CANDIDATES = 32
PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "faults": measure_faults,
    "exploits": measure_exploits,
    "limits": measure_limits,
    "programs": measure_programs,
    "cost": measure_cost,
    "throughput": measure_throughput,
    "confirm": measure_confirm,
    "gain": measure_gain,
    "smallest": measure_smallest,
    "aa": measure_aa,
}


def _where() -> dict[str, Any]:
    """Where and when a part was measured."""
    gpu = present_gpus()[0]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": gpu.name,
        "driver": gpu.driver,
        "nvcc": tool_version(resolve_toolchain().require("nvcc")),
    }


def main() -> None:
    """Measure, and write after every part, so that a lost machine loses one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, default=ROOT / "docs/benchmarks/judge.json")
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    result["command"] = "python tests/bench/judge.py, in parts (--only ...)"
    result["settings"] = msgspec.to_builtins(SETTINGS)
    result["runs"] = {k: v for k, v in result.get("runs", {}).items() if k not in options.only}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        try:
            result[name] = PARTS[name]()
        except WarplensError as error:
            result[name] = {"failed": f"{type(error).__name__}: {error}"}
            say(f"{name} failed: {error}")
        result["runs"][name] = _where()
        options.out.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
