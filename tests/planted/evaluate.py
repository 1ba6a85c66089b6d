# SPDX-License-Identifier: Apache-2.0
"""Examines the findings on programs with a known cause, on their repaired twins, and on tuned controls.

    python tests/planted/evaluate.py [--tier source|binary|counters] [--recordings PLACE] [--json FILE] [--gpu] [NAME …]

What is asked of each tier is in `tests.planted.scoring`. The counters tier judges recordings: those of
`tests/planted/recordings`, those of a folder or of an archive of Nsight Compute's reports (`--recordings`), or with
`--gpu` those made on this machine's card now (`--keep` keeps them).

With `--gpu` the programs are also timed on this machine's card: what the finding promised beside what the twin
gained, and what Nsight Compute's own rules say of the same kernels.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from warplens_tools.arch.load import driver_version, load_gpu
from warplens_tools.toolchain.locate import resolve_toolchain, tool_version

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.planted.on_card import OUTSIDE, Rules, Run, ask_rules, names_cause, recorded_rules, time_programs
from tests.planted.record import collect, convert
from tests.planted.scoring import (
    RECORDINGS,
    Outcome,
    Score,
    controls,
    examine,
    examine_recorded,
    factors,
    planted,
    recordings_in,
    shares,
    twin_of,
)


class Measured(msgspec.Struct, frozen=True):
    """One planted program on the card. Times in microseconds: of the kernel, or of the whole timeline (`OUTSIDE`)."""

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


def nvcc_version() -> str:
    """The compiler of the binary tier, e.g. "nvcc 13.0.88"; "" where there is none."""
    tool = resolve_toolchain().find("nvcc")
    return f"nvcc {tool_version(tool)}" if tool is not None else ""


def table(score: Score) -> str:
    """The examination as text: a line per program, then the shares."""
    rows = [
        f"{o.program:22} {o.slug:27} rank {o.rank or '-'!s:2} line {_or_dash(o.lines_apart):3} "
        f"{o.bound:8}{'' if o.bound == o.expected_bound else '!':1} gain {_or_dash(o.gain):6} "
        f"{'TWIN ' if o.twin_clean is False else ''}{' '.join(o.found)} | {' '.join(o.twin)}"
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
        outside = {n for o in score.outcomes if o.slug in OUTSIDE for n in _files(o)}
        runs = time_programs([*programs, *map(twin_of, programs), *tuned], folder, gpu.arch, outside)
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
    run, twin = (runs[name] for name in _files(outcome))
    before, after = run.span, twin.span
    if outcome.slug not in OUTSIDE:
        before = run.kernels.get(kernel)
        after = twin.kernels.get(kernel, sum(twin.kernels.values()) or None)
    gained = before / after if before and after else None
    factor = outcome.gain / gained if outcome.gain and gained else None
    said = rules.advice if rules is not None else ()
    return Measured(
        program=outcome.program,
        kernel=kernel,
        planted_us=before,
        fixed_us=after,
        measured_gain=gained and round(gained, 3),
        predicted_gain=outcome.gain,
        factor=factor and round(max(factor, 1 / factor), 2),
        ncu_rank=rules_rank(outcome.slug, rules),
        ncu_first=said[0][0] if said else "",
        problem="; ".join(filter(None, (run.problem, twin.problem, rules.problem if rules else ""))),
    )


def _files(outcome: Outcome) -> tuple[str, str]:
    """The planted program and its twin."""
    return f"{outcome.program}.cu", f"{outcome.program}.fixed.cu"


def rules_rank(slug: str, rules: Rules | None) -> int | None:
    """Place of the first of Nsight Compute's rules that names the cause, 1 is first; None where none does."""
    said = rules.advice if rules is not None else ()
    return next((n for n, (_, _, words) in enumerate(said, 1) if names_cause(slug, words)), None)


def rules_table(score: Score, rules: Mapping[str, Rules]) -> str:
    """What Nsight Compute's rules said of the same launches, a line per program; how often they named the cause."""
    asked = {p.stem: rules[p.name] for p in planted() if p.name in rules}
    ranks = {o.program: rules_rank(o.slug, asked[o.program]) for o in score.outcomes if o.program in asked}
    rows = [
        f"{name:22} ncu rank {_or_dash(ranks[name]):3} first {rule} {_or_dash(speedup and round(speedup))} %"
        for name, ((rule, speedup, _), *_) in ((name, asked[name].advice) for name in ranks)
    ]
    firsts, thirds = (sum(r is not None and r <= most for r in ranks.values()) for most in (1, 3))
    rows.append(f"ncu's rules name the cause first in {firsts} of {len(ranks)}, among three in {thirds}")
    return "\n".join(rows)


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


def recorded(names: Sequence[str], place: Path | None, keep: Path | None, seconds: float | None) -> Path:
    """The folder of recordings to judge: kept ones, those of `place`, or with `seconds` those made here now."""
    if place is None and seconds is None:
        return RECORDINGS
    if place is not None and place.is_dir() and recordings_in(place):
        return place
    into = keep or Path(tempfile.mkdtemp(prefix="warplens-recordings-"))
    into.mkdir(parents=True, exist_ok=True)
    if place is not None:
        convert(place, into)
    elif problems := collect(names, into, seconds or 0.0):
        sys.stdout.write("\n".join(problems) + "\n")
    return into


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine and print; see the module's text."""
    options = _options(arguments)
    said = " ".join(arguments if arguments is not None else sys.argv[1:])
    kept: dict[str, object] = {
        "command": f"python tests/planted/evaluate.py {said}".strip(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "compiler": nvcc_version() if options.tier != "source" else "",
    }
    if options.tier == "counters":
        seconds = options.seconds if options.gpu else None
        recordings = recordings_in(recorded(options.names, options.recordings, options.keep, seconds))
        score = examine_recorded(options.names, recordings, options.arch)
        rules = recorded_rules(recordings)
        sys.stdout.write(f"{table(score)}\n{rules_table(score, rules)}\n")
        apart = factors(score)
        if apart:
            sys.stdout.write(
                f"promised against gained: median factor {statistics.median(apart.values()):.2f}\n"
            )
        kept["factors"] = apart
        kept["rules"] = {o.program: rules_rank(o.slug, rules.get(f"{o.program}.cu")) for o in score.outcomes}
    else:
        score = examine(options.names, options.tier, options.arch)
        sys.stdout.write(table(score) + "\n")
    kept |= {"shares": shares(score), "findings": score}
    if options.gpu and options.tier != "counters":
        card = measure(score, options.names, options.seconds, options.reports)
        sys.stdout.write(card_table(card) + "\n")
        kept["card"] = card
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tier", default="binary", choices=("source", "binary", "counters"))
    parser.add_argument("--arch", default="", help="an architecture; the card that is here, else sm_90")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--gpu", action="store_true", help="use this machine's card too")
    parser.add_argument("--seconds", type=float, default=600.0, help="after which the card is asked no more")
    parser.add_argument("--reports", type=Path, help="keep Nsight Compute's reports in this archive")
    parser.add_argument("--recordings", type=Path, help="a folder of recordings, or reports to record")
    parser.add_argument("--keep", type=Path, help="keep the recordings in this folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
