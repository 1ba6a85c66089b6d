# SPDX-License-Identifier: Apache-2.0
"""`warplens optimize`: a faster version of a kernel with its proof, or what was tried."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warplens.agent.result import OptimizeResult, Proof
from warplens.cli.interrupt import cancel_token
from warplens.cli.main import EXIT_CLEAN, EXIT_FAILED
from warplens.cli.streams import console, say, write_json
from warplens.measure.verdict import SPANS, Conditions, Interval, Timing
from warplens.service.edited import prove_edited
from warplens.service.optimize import OptimizeOptions, apply_result, optimize_path
from warplens.service.service import Service

Switch = Parameter(negative="")


def optimize(
    file: Path,
    *,
    kernel: str = "",
    budget: int | None = None,
    seconds: float | None = None,
    apply: Annotated[bool, Switch] = False,
    resume: Annotated[bool, Switch] = False,
    control: Annotated[bool, Switch] = False,
    seed: int = 0,
    arch: str = "",
    edited: Path | None = None,
    host_edits: Annotated[bool | None, Parameter(negative="--no-host-edits")] = None,
    lower_precision: Annotated[bool | None, Parameter(negative="--no-lower-precision")] = None,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Search for a faster version of a kernel, and prove it right and faster on this machine's GPU.

    The program that the file belongs to is built and run. Exits with 0 also when nothing faster was found, with 2
    where nothing could be measured.

    Parameters
    ----------
    file
        The file that holds the kernel.
    kernel
        The kernel's name, plain or qualified; the hottest by total time if left out.
    budget
        Candidates to judge at most; the setting if left out.
    seconds
        Seconds to search at most; the setting if left out.
    apply
        Write the proven version over the file. Nothing is written if the file changed meanwhile.
    resume
        Go on with the last run on the same text, program and card: no verdict is paid for twice.
    control
        Spend the same budget by chance as well, for comparison.
    seed
        Seed of the search.
    arch
        Architecture to compile for, such as sm_90; the card's own if left out.
    edited
        Judge this version of the file instead of searching for one.
    host_edits
        Judge edits of host code too, from outside the program. They run host code that you did not write;
        the setting if left out.
    lower_precision
        Let a kernel win whose results are less precise, as half precision, bfloat16 or TF32 leave them;
        the setting if left out.
    format
        Text for people, or one JSON object.
    """
    options = OptimizeOptions(
        kernel=kernel,
        candidates=budget,
        seconds=seconds,
        arch=arch,
        host_edits=host_edits,
        lower_precision=lower_precision,
        seed=seed,
        resume=resume,
        control=control,
    )
    service, cancel = Service(Path.cwd()), cancel_token()
    if edited is not None:
        result = prove_edited(service, file, edited, options, progress=say, cancel=cancel)
    else:
        result = optimize_path(service, file, options, progress=say, cancel=cancel)
    if format == "json":
        write_json(result)
    else:
        print_result(console(), result)
    if apply and result.proof is not None:
        apply_result(result)
        sys.stderr.write(f"warplens: written to {result.path}\n")
    return EXIT_FAILED if result.outcome == "unproven" else EXIT_CLEAN


def print_result(terminal: Console, result: OptimizeResult) -> None:
    """The diff and its proof, or the offers, and the table of what was tried."""
    terminal.print(Text(result.reason, style="bold"))
    if result.remedy:
        terminal.print(Text(f"  → {result.remedy}"))
    if result.diff:
        terminal.print(Text(result.diff))
    if result.proof is not None:
        for line in proof_lines(result, result.proof):
            terminal.print(Text(line))
    for offer in result.offers:
        gain = f"; if it works, about {offer.gain:.2f}x" if offer.promises else ""
        terminal.print(Text(f"unproven: {offer.title} ({offer.kernel}{gain})"))
        terminal.print(Text(offer.diff, style="dim"))
    if result.tried:
        terminal.print(_tried_table(result))
    if result.spent is not None:
        spent = result.spent
        resumed = f", {spent.resumed} of them from an earlier run" if spent.resumed else ""
        terminal.print(
            Text(
                f"{spent.candidates} candidates{resumed} in {spent.seconds:.1f} s; stopped by {spent.stopped}"
            )
        )
    if result.control is not None:
        best = _factor(result.control.speedup) if result.control.speedup is not None else "nothing faster"
        terminal.print(Text(f"random-search baseline, {result.control.tried} candidates: {best}"))
    for unknown in result.unknown:
        terminal.print(Text(f"not known: {unknown.what}: {unknown.why}"))


def proof_lines(result: OptimizeResult, proof: Proof) -> list[str]:
    """The proof in words: times, the program's gain, what changed, under which conditions."""
    outside = proof.verdict.outside
    lines = [*(outside.sentences() if outside is not None else ())]
    lines += [_timing_line(timing) for timing in proof.verdict.timings]
    lines += proof.verdict.further.sentences() if proof.verdict.further is not None else ()
    share = result.baseline.share if result.baseline is not None else None
    if share is not None:
        lines.append(f"the kernel is {share:.0%} of the program's kernel time")
    if proof.program is not None:
        before, after = proof.program.baseline_seconds.median, proof.program.candidate_seconds.median
        lines.append(f"whole program {before:.3f} s → {after:.3f} s: {_factor(proof.program.speedup)}")
    if proof.answers:
        lines.append(f"answers {', '.join(proof.answers)}")
    lines += [
        f"{change.metric} {change.before:g} → {change.after:g}{' ' + change.unit if change.unit else ''}"
        for change in proof.changes
        if change.before != change.after and change.metric != "kernel time"
    ]
    if proof.caveat:
        lines.append(f"results may change: {proof.caveat}")
    conditions = proof.verdict.conditions or result.conditions
    return [*lines, _conditions_line(conditions)] if conditions is not None else lines


def _timing_line(timing: Timing) -> str:
    cache = "cache as in the program" if timing.cache == "program" else "L2 flushed"
    return (
        f"{_time(timing.baseline_ns, timing)} → {_time(timing.candidate_ns, timing)}: {_factor(timing.speedup)}; "
        f"noise {timing.noise:.2%}, {timing.rounds} rounds, {SPANS.get(timing.span, cache)}"
    )


def _time(of: Interval, timing: Timing) -> str:
    return f"{of.median / 1e3:.2f} µs" if timing.span == "launch" else f"{of.median / 1e6:.3f} ms"


def _factor(speedup: Interval) -> str:
    return f"{speedup.median:.3f}x (95 %: {speedup.low:.3f} to {speedup.high:.3f})"


def _conditions_line(conditions: Conditions) -> str:
    parts = [conditions.gpu, f"driver {conditions.driver}", f"CUDA {conditions.cuda}"]
    if conditions.sm_clock_mhz is not None:
        parts.append(f"SM {conditions.sm_clock_mhz:.0f} MHz")
    if conditions.memory_clock_mhz is not None:
        parts.append(f"memory {conditions.memory_clock_mhz:.0f} MHz")
    if conditions.throttling:
        parts.append(f"throttled: {', '.join(conditions.throttling)}")
    return ", ".join(parts)


def _tried_table(result: OptimizeResult) -> Table:
    table = Table("", "step", "on", "verdict", "speedup", box=None, pad_edge=False)
    for row in result.tried:
        speedup = f"{row.speedup.median:.3f}" if row.speedup is not None else ""
        verdict = row.state.replace("_", " ") + (f": {row.reason}" if row.reason and not speedup else "")
        table.add_row(row.id, Text(row.title), row.parent, Text(verdict), speedup)
    return table
