"""Examines the findings on programs with a known cause, on their repaired twins, and on tuned controls.

    python tests/planted/evaluate.py [--tier source|binary] [--arch sm_90] [--json FILE] [--gpu] [NAME …]

A program marks the line of its cause with `// expect: slug`, and the kernel with `// class: …` on the line
before it. `NAME.fixed.cu` is the same program with the cause removed. What is asked of each tier:

    top-1, top-3   the cause is the first, or one of the first three, in its kernel's list
    line           the finding stands within two lines of the mark
    class          the kernel's class is the marked one
    twins          the finding is gone from the repaired program
    controls       no finding of severity warning or above

With `--gpu` the programs are also timed on this machine's card: what the finding promised beside what the twin
gained, and what Nsight Compute's own rules say of the same kernels.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.service.report import FileReport, FindingReport
from warplens.service.service import CheckOptions, Service
from warplens_tools.arch.load import driver_version, load_gpu
from warplens_tools.collect.toolchain import resolve_toolchain, tool_version
from warplens_tools.evidence import Tier

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.planted.on_card import Rules, Run, ask_rules, names_cause, time_programs

HERE = Path(__file__).parent
_EXPECT = re.compile(r"//\s*expect:\s*([\w-]+)")
_CLASS = re.compile(r"//\s*class:\s*(\w+)")
LINES_APART = 2


class Mark(msgspec.Struct, frozen=True):
    """What one planted program says of itself."""

    slug: str
    line: int
    bound: str
    #: The line of the class mark: the kernel is the next one. The cause may stand in the host's code.
    above: int


class Outcome(msgspec.Struct, frozen=True):
    """What was found of one planted program and its twin."""

    program: str
    slug: str
    kernel: str
    #: 1 is first; None where the cause was not found.
    rank: int | None
    #: Lines between the finding and the mark; None where it was not found.
    lines_apart: int | None
    bound: str
    expected_bound: str
    gain: float | None
    #: Slugs of the kernel's findings, best first.
    found: tuple[str, ...]
    #: Slugs of severity warning and above in the twin, and whether the cause is gone from it.
    twin: tuple[str, ...]
    twin_clean: bool


class Alarm(msgspec.Struct, frozen=True):
    """What was said about one control."""

    program: str
    warnings: tuple[str, ...]
    information: tuple[str, ...]


class Score(msgspec.Struct, frozen=True):
    """One tier's examination."""

    tier: str
    arch: str
    outcomes: tuple[Outcome, ...]
    controls: tuple[Alarm, ...]

    def share(self, *, within: int) -> float:
        """Share of the programs whose cause is among the first `within` findings."""
        return _share([o.rank is not None and o.rank <= within for o in self.outcomes])

    @property
    def line(self) -> float:
        """Share of the programs whose cause was found within two lines of its mark."""
        return _share([o.lines_apart is not None and o.lines_apart <= LINES_APART for o in self.outcomes])

    @property
    def bound(self) -> float:
        """Share of the programs whose class is the marked one."""
        return _share([o.bound == o.expected_bound for o in self.outcomes])

    @property
    def twins(self) -> float:
        """Share of the twins from which the finding is gone."""
        return _share([o.twin_clean for o in self.outcomes])

    @property
    def silent(self) -> float:
        """Share of the controls without a warning."""
        return _share([not c.warnings for c in self.controls])


class Measured(msgspec.Struct, frozen=True):
    """One planted program on the card. Times in microseconds."""

    program: str
    kernel: str
    planted_us: float | None
    fixed_us: float | None
    measured_gain: float | None
    predicted_gain: float | None
    #: Predicted over measured, or its inverse where that is above 1.
    factor: float | None
    #: Place of the first of Nsight Compute's rules that names the cause, 1 is first; None where none does.
    ncu_rank: int | None
    #: Its first rule with the largest estimate, per cent.
    ncu_first: str
    problem: str = ""


class Card(msgspec.Struct, frozen=True):
    """The examination's part on a card."""

    gpu: str
    driver: str
    ncu: str
    date: str
    programs: tuple[Measured, ...]
    #: By control: its kernels' times, and the largest speedup that Nsight Compute's rules claim, per cent.
    controls: dict[str, tuple[dict[str, float], float | None]]
    #: What Nsight Compute read and said, by program.
    rules: dict[str, Rules]


def planted(names: Sequence[str] = ()) -> list[Path]:
    """The planted programs, by name; all where none is named."""
    every = sorted(p for p in HERE.glob("*.cu") if not p.name.endswith(".fixed.cu"))
    return [p for p in every if not names or p.stem in names]


def controls(names: Sequence[str] = ()) -> list[Path]:
    """The tuned programs."""
    return [p for p in sorted((HERE / "controls").glob("*.cu")) if not names or p.stem in names]


def twin_of(path: Path) -> Path:
    """The repaired program of a planted one."""
    return path.with_name(f"{path.stem}.fixed.cu")


def mark_of(path: Path) -> Mark:
    """The one mark of a planted program."""
    lines = path.read_text("utf-8").splitlines()
    ((line, slug),) = [(n, s) for n, text in enumerate(lines, 1) for s in _EXPECT.findall(text)]
    above, bound = next((n, b) for n, text in enumerate(lines, 1) for b in _CLASS.findall(text))
    return Mark(slug, line, bound, above)


def examine(names: Sequence[str], tier: Tier, arch: str) -> Score:
    """Check every program, twin and control at a tier."""
    programs, tuned = planted(names), controls(names)
    paths = [*programs, *map(twin_of, programs), *tuned]
    report = Service(HERE).check(paths, CheckOptions(tier=tier, arch=arch or None))
    by_name = {Path(file.path).name: file for file in report.files}
    outcomes = tuple(_outcome(p, by_name[p.name], by_name[twin_of(p).name]) for p in programs)
    return Score(
        tier, arch or load_gpu(None).arch, outcomes, tuple(_alarm(p, by_name[p.name]) for p in tuned)
    )


def _outcome(path: Path, file: FileReport, twin: FileReport) -> Outcome:
    mark = mark_of(path)
    kernel = next(k for k in file.kernels if k.line > mark.above)
    listed = [f for f in file.findings if f.kernel == kernel.qualified_name]
    rank = next((n for n, f in enumerate(listed, 1) if f.slug == mark.slug), None)
    hit = listed[rank - 1] if rank is not None else None
    still = {f.slug for f in twin.findings}
    return Outcome(
        program=path.stem,
        slug=mark.slug,
        kernel=kernel.qualified_name,
        rank=rank,
        lines_apart=abs(hit.line - mark.line) if hit is not None else None,
        bound=kernel.bottleneck.bound,
        expected_bound=mark.bound,
        gain=hit.gain.estimate if hit is not None and hit.gain is not None else None,
        found=tuple(f.slug for f in listed),
        twin=_loud(twin.findings),
        twin_clean=mark.slug not in still,
    )


def _alarm(path: Path, file: FileReport) -> Alarm:
    loud = _loud(file.findings)
    quiet = tuple(f.slug for f in file.findings if f.severity in ("information", "hint"))
    return Alarm(path.stem, loud, quiet)


def _loud(findings: Sequence[FindingReport]) -> tuple[str, ...]:
    return tuple(f.slug for f in findings if f.severity in ("warning", "error"))


def _share(held: Sequence[bool]) -> float:
    return sum(held) / len(held) if held else 0.0


def shares(score: Score) -> dict[str, float]:
    """Every share of the examination by its name, 0 to 1."""
    return {
        "top-1": score.share(within=1), "top-3": score.share(within=3), "line": score.line,
        "class": score.bound, "twins": score.twins, "controls": score.silent,
    }  # fmt: skip


def nvcc_version() -> str:
    """The compiler of the binary tier, e.g. "nvcc 13.0.88"; "" where there is none."""
    tool = resolve_toolchain().find("nvcc")
    return f"nvcc {tool_version(tool)}" if tool is not None else ""


def table(score: Score) -> str:
    """The examination as text: a line per program, then the shares."""
    rows = [
        f"{o.program:22} {o.slug:27} rank {o.rank or '-'!s:2} line {_or_dash(o.lines_apart):3} "
        f"{o.bound:8}{'' if o.bound == o.expected_bound else '!':1} gain {_or_dash(o.gain):6} "
        f"{'' if o.twin_clean else 'TWIN '}{' '.join(o.found)} | {' '.join(o.twin)}"
        for o in score.outcomes
    ]
    rows += [
        f"control {c.program:22} {' '.join(c.warnings) or 'silent'} ({' '.join(c.information)})"
        for c in score.controls
    ]
    said = ", ".join(f"{name} {share:.0%}" for name, share in shares(score).items())
    rows.append(f"{score.tier} on {score.arch}, {len(score.outcomes)} programs: {said}")
    return "\n".join(rows)


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def measure(score: Score, names: Sequence[str], seconds: float, keep: Path | None) -> Card:
    """Time everything and ask Nsight Compute's rules until `seconds` are over."""
    deadline = time.monotonic() + seconds
    gpu = load_gpu(None)
    programs, tuned = planted(names), controls(names)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        runs = time_programs([*programs, *map(twin_of, programs), *tuned], folder, gpu.arch)
        asked = [(f"{o.program}.cu", o.kernel.rsplit("::", 1)[-1]) for o in score.outcomes]
        asked += [(p.name, max(k, key=lambda n: k[n])) for p in tuned if (k := runs[p.name].kernels)]
        rules = ask_rules(asked, folder, deadline, keep)
    tool = resolve_toolchain().find("ncu")
    return Card(
        gpu=gpu.name,
        driver=driver_version(),
        ncu=tool_version(tool) if tool is not None else "",
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        programs=tuple(_measured(o, runs, rules.get(f"{o.program}.cu")) for o in score.outcomes),
        controls={p.stem: (runs[p.name].kernels, _claim(rules.get(p.name))) for p in tuned},
        rules=rules,
    )


def _measured(outcome: Outcome, runs: dict[str, Run], rules: Rules | None) -> Measured:
    kernel = outcome.kernel.rsplit("::", 1)[-1]
    run, twin = runs[f"{outcome.program}.cu"], runs[f"{outcome.program}.fixed.cu"]
    before = run.kernels.get(kernel)
    after = twin.kernels.get(kernel, sum(twin.kernels.values()) or None)
    gained = before / after if before and after else None
    factor = outcome.gain / gained if outcome.gain and gained else None
    said = rules.advice if rules is not None else ()
    hits = [n for n, (_, _, words) in enumerate(said, 1) if names_cause(outcome.slug, words)]
    return Measured(
        program=outcome.program,
        kernel=kernel,
        planted_us=before,
        fixed_us=after,
        measured_gain=gained and round(gained, 3),
        predicted_gain=outcome.gain,
        factor=factor and round(max(factor, 1 / factor), 2),
        ncu_rank=hits[0] if hits else None,
        ncu_first=said[0][0] if said else "",
        problem="; ".join(filter(None, (run.problem, twin.problem, rules.problem if rules else ""))),
    )


def _claim(rules: Rules | None) -> float | None:
    return max((s for _, s, _ in rules.advice if s is not None), default=None) if rules is not None else None


def card_table(card: Card) -> str:
    """What the card said, a line per program."""
    rows = [
        f"{m.program:22} {_us(m.planted_us)} -> {_us(m.fixed_us)} us  measured {_or_dash(m.measured_gain):7} "
        f"predicted {_or_dash(m.predicted_gain):7} factor {_or_dash(m.factor):6} ncu {_or_dash(m.ncu_rank):3} "
        f"{m.ncu_first} {m.problem[:80]}"
        for m in card.programs
    ]
    rows += [f"control {n:22} {k} ncu claims {c} %" for n, (k, c) in card.controls.items()]
    factors = [m.factor for m in card.programs if m.factor is not None]
    asked = [m for m in card.programs if m.ncu_first]
    rows.append(
        f"{card.gpu}, driver {card.driver}, ncu {card.ncu}, {card.date}: median factor "
        f"{statistics.median(factors) if factors else float('nan'):.2f} of {len(factors)}; ncu's rules name the cause "
        f"first in {sum(m.ncu_rank == 1 for m in asked)} of {len(asked)}"
    )
    return "\n".join(rows)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:9.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine and print; see the module's text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tier", default="binary", choices=("source", "binary"))
    parser.add_argument("--arch", default="", help="an architecture; the card that is here, else sm_90")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--gpu", action="store_true", help="time the programs on this machine's card too")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which no more rules are asked")
    parser.add_argument("--reports", type=Path, help="keep Nsight Compute's reports in this archive")
    options = parser.parse_args(arguments)
    score = examine(options.names, options.tier, options.arch)
    sys.stdout.write(table(score) + "\n")
    said = " ".join(arguments if arguments is not None else sys.argv[1:])
    kept: dict[str, object] = {
        "command": f"python tests/planted/evaluate.py {said}".strip(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "compiler": nvcc_version() if options.tier == "binary" else "",
        "shares": shares(score),
        "findings": score,
    }
    if options.gpu:
        card = measure(score, options.names, options.seconds, options.reports)
        sys.stdout.write(card_table(card) + "\n")
        kept["card"] = card
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
