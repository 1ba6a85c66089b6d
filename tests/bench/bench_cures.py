# SPDX-License-Identifier: Apache-2.0
"""What findings on other people's kernels promised, against what their cures gained.

    python tests/bench/bench_cures.py FOLDER --out FILE [--seconds 170] [--at-once 14] [--promise-only] [NAME …]

FOLDER stays outside the repository: it holds other people's code. Each folder in it is a pair, `base.cu`, a program
that launches one kernel as its repository does, `cure.cu`, the same with the cure of one finding applied as its
message says, and `pair.json`:

    {"repository": "owner/name", "commit": "…", "path": "src/a.cu", "line": 12, "code": "WL101",
     "kernel": "name", "base_line": 40, "outside": false, "apart": false,
     "promised_before": [1.0, 1.5, 2.0]}

`line` is the repository's, `base_line` that of `base.cu`. `outside` says that the cause stands in the host's code, so
that the whole timeline counts; `apart` that the judge is not asked, who would refuse the cure or take too long;
`promised_before` is what was promised before repairs that had seen these pairs.

The promise is the one that the finding makes on `base.cu`, for the card that is here. What was gained is the judge's
timing of the base against the cure, in place; where it does not time the cure (other results by rounding, another
layout of the host's) both programs run in turns, and the medians of their launches are compared. Pairs are examined
side by side, each in a process of its own, with one of them at the card; what is not begun within `--seconds` is left
out. `--promise-only` needs no card.

Only names, lines, codes and figures are written.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.survey import survey_run
from warplens.measure.verdict import Candidate
from warplens.service.edited import edits_between
from warplens.service.service import CheckOptions, Service
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import driver_version, present_gpus
from warplens_tools.collect.cupti import trace_timeline
from warplens_tools.errors import WarplensError
from warplens_tools.finding import Finding
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.probe.library import probe_library
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain
from warplens_tools.toolchain.symbols import unit_free_name

FLAGS = ("-std=c++17",)
#: Findings that promise less are not asked about.
LEAST = 1.2
#: Within which factor, either way, a promise shall lie of what was gained: the middle one, and nine of ten.
MIDDLE, NEARLY_ALL = 1.25, 2.0
#: A gain is measured, not proven: the program's own inputs alone, and a short clock.
SETTINGS = MeasureSettings(
    measure_identical=True, perturb_inputs=False, flush_cache=False, timing_seconds=0.3, learn_seconds=0.5
)
#: Turns of both programs where the judge has no timing; seconds of one run.
TURNS, RUN_LIMIT = 2, 30.0
#: Seconds after which one pair is given up.
GIVEN_UP = 120.0


_KEPT = ("repository", "commit", "path", "line", "code", "kernel", "promised_before")


class Pair(msgspec.Struct, frozen=True):
    """What `pair.json` says, as far as it is read."""

    repository: str
    path: str
    line: int
    code: str
    kernel: str
    commit: str | None = ""
    #: What the finding promised before repairs that had seen these pairs: low, expected, most.
    promised_before: tuple[float, float, float] | None = None
    base_line: int = 0
    outside: bool = False
    #: The judge is not asked: he would refuse the cure, or take too long.
    apart: bool = False


def promise(pair: Pair, folder: Path) -> dict[str, Any]:
    """What the finding on the base says: low, expected and most; with "failed" where it is not told."""
    service = Service(folder, editor={"flags": list(FLAGS)})
    report = service.check([folder / "base.cu"], CheckOptions(tier="binary"))
    told = [f for file in report.files for f in file.findings if f.code == pair.code and f.gain is not None]
    kernels = [f for f in told if (f.kernel or "").rsplit("::", 1)[-1] == pair.kernel]
    if not kernels:
        other = {f.code: f.gain.estimate for file in report.files for f in file.findings if f.gain}
        return {"failed": "the finding is not made of this program, or promises nothing", "others": other}
    hit = min(kernels, key=lambda f: _order(f, pair))
    assert hit.gain is not None
    said = {"low": hit.gain.low, "expected": hit.gain.estimate, "most": hit.gain.high}
    return {"promise": said, "severity": hit.severity, "confidence": hit.confidence}


def _order(finding: Finding, pair: Pair) -> tuple[bool, float]:
    """The line that was asked about first, then the largest promise."""
    return finding.line != pair.base_line, -(finding.gain.estimate if finding.gain is not None else 0.0)


def judged(pair: Pair, folder: Path) -> dict[str, Any]:
    """The judge's verdict on the cure, with what was gained where it timed it."""
    base = folder / "base.cu"
    edits = edits_between(SourceText.read(base), SourceText.read(folder / "cure.cu"))
    work = Workload(str(base), str(base), flags=FLAGS, time_limit=RUN_LIMIT)
    with Judge(work, kernel=pair.kernel, settings=SETTINGS) as judge:
        baseline = judge.baseline()
        (verdict,) = judge.judge([Candidate("cure", str(base), pair.kernel, edits, title="the cure")])
    row: dict[str, Any] = {"state": verdict.state, "reason": verdict.reason[:200]}
    row["kernel_us"] = round(baseline.timing.median_ns / 1e3, 2)
    for timing in verdict.timings:
        if timing.cache == "program":
            gained = [round(x, 3) for x in msgspec.structs.astuple(timing.speedup)]
            row |= {"gained": gained, "by": "the judge"}
    return row


def in_turns(pair: Pair, folder: Path, gpu: Gpu, place: Path) -> dict[str, Any]:
    """Both programs run in turns: the base's time over the cure's, in the middle and at both ends, as gained."""
    built = {name: _build(folder / f"{name}.cu", place / name, gpu.arch) for name in ("base", "cure")}
    library = probe_library(resolve_toolchain())
    took: dict[str, list[float]] = {"base": [], "cure": []}
    printed: dict[str, str] = {}
    with gpu_lock(gpu.uuid, f"timing {pair.kernel}", timeout=GIVEN_UP):
        for turn in range(TURNS):
            for name in ("base", "cure") if turn % 2 == 0 else ("cure", "base"):
                command = Command((str(built[name]),), str(place))
                spent, printed[name] = (
                    (_span(command, library, place), "")
                    if pair.outside
                    else _launch(pair, command, library, place)
                )
                took[name].append(spent)
    gains = sorted(b / c for b in took["base"] for c in took["cure"])
    gained = median(took["base"]) / median(took["cure"])
    by = "the timeline of both programs" if pair.outside else "both programs in turns"
    return {
        "gained": [round(gained, 3), round(gains[0], 3), round(gains[-1], 3)],
        "by": by,
        "prints_alike": printed["base"] == printed["cure"] if not pair.outside else None,
        "kernel_us": round(median(took["base"]), 2),
    }


def _build(source: Path, output: Path, arch: str) -> Path:
    nvcc = resolve_toolchain().require("nvcc").path
    command = [nvcc, "-O3", *FLAGS, "-lineinfo", f"-arch={arch}", "-w", "-o", str(output), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=GIVEN_UP)
    return output


def _launch(pair: Pair, command: Command, library: Path, place: Path) -> tuple[float, str]:
    """Microseconds of the kernel's launches of the shape that takes longest, in the middle and without the first; and
    what the program prints."""
    found, run = survey_run(command, library, place, RUN_LIMIT)
    shapes = [s for s in found if _named(s.mangled, pair.kernel) and s.samples]
    if not shapes:
        raise ValueError(f"{pair.kernel} was not timed among {[unit_free_name(s.mangled) for s in found]}")
    slowest = max(shapes, key=lambda s: s.total_ns)
    return median(slowest.samples[1:] or slowest.samples) / 1e3, str(run.stdout)


def _named(mangled: str, kernel: str) -> bool:
    return re.search(rf"\b{re.escape(kernel)}\b", unit_free_name(mangled)) is not None


def _span(command: Command, library: Path, place: Path) -> float:
    """Microseconds from the device's first activity to the end of its last."""
    seen = trace_timeline(command, library, workdir=place / "trace", gpu_name="", time_limit=RUN_LIMIT)
    return seen.span_ns / 1e3


def examined(pair: Pair, folder: Path, promise_only: bool) -> dict[str, Any]:
    """Everything about one pair."""
    row: dict[str, Any] = promise(pair, folder)
    if promise_only:
        return row
    if not (pair.outside or pair.apart):
        row |= _tried(lambda: judged(pair, folder))
    if "gained" not in row:
        with tempfile.TemporaryDirectory() as place:
            row |= _tried(lambda: in_turns(pair, folder, present_gpus()[0], Path(place)))
    if "gained" in row and "promise" in row:
        row["ratio"] = round(row["promise"]["expected"] / row["gained"][0], 3)
    return row


def _tried(what: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return what()
    except (WarplensError, subprocess.SubprocessError, ValueError) as error:
        return {"problem": str(error)[:300]}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far promises above `LEAST` lie from what was gained, now and before repairs that had seen the pairs;
    `factor` is the ratio or its inverse, whichever is above 1."""
    timed = [r for r in rows if "gained" in r]
    now = [r | {"said": r["promise"]["expected"]} for r in timed if "promise" in r]
    before = [r | {"said": r["promised_before"][1]} for r in timed if r["promised_before"]]
    return {"pairs": len(rows), "measured": len(timed), "now": _shares(now), "before": _shares(before)}


def _shares(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    asked = [r | {"ratio": r["said"] / r["gained"][0]} for r in rows if r["said"] > LEAST]
    factors = [max(r["ratio"], 1 / r["ratio"]) for r in asked]
    found: dict[str, Any] = {"promised_above_1.2_and_measured": len(asked)}
    if not factors:
        return found
    return found | {
        "repositories": len({r["repository"] for r in asked}),
        "codes": len({r["code"] for r in asked}),
        "median_ratio": round(median(r["ratio"] for r in asked), 3),
        "median_factor": round(median(factors), 3),
        "share_within_1.25": round(sum(f <= MIDDLE for f in factors) / len(factors), 3),
        "share_within_2": round(sum(f <= NEARLY_ALL for f in factors) / len(factors), 3),
        "largest_factor": round(max(factors), 2),
    }


class Run:
    """One run of the command; its figures are written after each pair."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self._ends = options, time.monotonic() + options.seconds
        self.rows: dict[str, dict[str, Any]] = {}

    def go(self, folders: Sequence[Path]) -> None:
        """Examine the pairs side by side."""
        if not self.options.promise_only:
            probe_library(resolve_toolchain())  # built once, not by each
        with ThreadPoolExecutor(self.options.at_once) as pool:
            for name, row in pool.map(self._one, folders):
                if row:
                    self.rows[name] = row
                    say(told(name, row))
                    self._write()
        say(json.dumps(summary(list(self.rows.values()))))

    def _one(self, folder: Path) -> tuple[str, dict[str, Any]]:
        left = self._ends - time.monotonic()
        if left <= 0:
            return folder.name, {}
        command = [sys.executable, __file__, str(folder.parent), "--one", folder.name]
        command += ["--promise-only"] if self.options.promise_only else []
        limit = GIVEN_UP if self.options.promise_only else min(GIVEN_UP, left)
        pair = msgspec.json.decode((folder / "pair.json").read_bytes(), type=Pair)
        row = {k: getattr(pair, k) for k in _KEPT}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return folder.name, row | {"problem": f"nothing after {limit:.0f} s"}
        if done.returncode:
            said = (done.stderr.strip() or "no message").splitlines()[-1]
            return folder.name, row | {"problem": f"crashed: {said[:200]}"}
        return folder.name, row | json.loads(done.stdout.splitlines()[-1])

    def _write(self) -> None:
        if self.options.out is None:
            return
        gpus = present_gpus()
        rows = [row for _, row in sorted(self.rows.items())]
        result = {
            "command": "python tests/bench/bench_cures.py FOLDER",
            "date": datetime.now(UTC).date().isoformat(),
            "gpu": gpus[0].name if gpus else "",
            "driver": driver_version(),
            "summary": summary(rows),
            "pairs": rows,
        }
        self.options.out.parent.mkdir(parents=True, exist_ok=True)
        self.options.out.write_text(json.dumps(result, indent=1) + "\n")


def told(name: str, row: dict[str, Any]) -> str:
    """A pair in a line."""
    said = row.get("promise")
    promised = f"{said['low']}..{said['expected']}..{said['most']}" if said else "no promise"
    gained = f"gained {row['gained'][0]} ratio {row.get('ratio')} by {row['by']}" if "gained" in row else ""
    why = f"{row.get('state', '')} {row.get('problem', row.get('reason', ''))[:90]}"
    return f"{name:20} {row['code']} {promised:20} {gained} {why}"


def say(text: str) -> None:
    """One line of progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--at-once", type=int, default=14)
    parser.add_argument("--promise-only", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.one:
        folder = options.folder / options.one
        pair = msgspec.json.decode((folder / "pair.json").read_bytes(), type=Pair)
        sys.stdout.write(json.dumps(examined(pair, folder, options.promise_only)) + "\n")
        return
    folders = [p.parent for p in sorted(options.folder.resolve().glob("*/pair.json"))]
    Run(options).go([p for p in folders if not options.names or p.name in options.names])


if __name__ == "__main__":
    main()
