# SPDX-License-Identifier: Apache-2.0
"""Turns what a search did into the plain data of its answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens import __version__
from warplens.agent.actions import KernelSpace
from warplens.agent.edits import text_hash
from warplens.agent.problem import Problem
from warplens.agent.result import Change, Control, Offer, OptimizeResult, Proof, Tried
from warplens.agent.versions import Node, best_first, moves_of, state_of
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.arch.gpu import Limits
from warplens_tools.arch.occupancy import occupancy
from warplens_tools.errors import MissingToolError
from warplens_tools.evidence import Resources
from warplens_tools.text import SourceText, unified_diff

#: Block and dynamic shared bytes of a launch.
_Shape = tuple[tuple[int, int, int], int]
_RESOURCES = (
    ("registers per thread", "", "registers"),
    ("stack", "byte/thread", "stack_bytes"),
    ("spill stores", "byte/thread", "spill_store_bytes"),
    ("spill loads", "byte/thread", "spill_load_bytes"),
    ("static shared memory", "byte/block", "shared_bytes"),
)


class Win(msgspec.Struct, frozen=True):
    """A candidate that was confirmed."""

    candidate: Candidate
    title: str
    caveat: str
    rules: tuple[str, ...]
    #: No step changed the launch, so the baseline's shape is the candidate's.
    keeps_geometry: bool = True


def proven(
    result: OptimizeResult,
    text: SourceText,
    node: Node,
    confirmation: Confirmation,
    baseline: Baseline,
    limits: Limits,
) -> OptimizeResult:
    """The answer with the winner's diff and its proof."""
    moves = moves_of(node)
    win = Win(
        candidate=node.ask.candidate,
        title="; ".join(move.title for move in moves),
        caveat="; ".join(dict.fromkeys(move.caveat for move in moves if move.caveat)),
        rules=tuple(dict.fromkeys(rule for move in moves for rule in move.rules)),
        keeps_geometry=all(map(_keeps_geometry, state_of(node).values())),
    )
    return proven_by(result, text, win, confirmation, baseline, limits)


def proven_by(
    result: OptimizeResult,
    text: SourceText,
    win: Win,
    confirmation: Confirmation,
    baseline: Baseline,
    limits: Limits,
) -> OptimizeResult:
    """The answer with a candidate's diff and its proof."""
    candidate = win.candidate
    timing = confirmation.verdict.program_timing
    gain = f"{timing.speedup.median:.2f}x as fast" if timing is not None else "faster"
    outside = confirmation.verdict.outside is not None
    what = f"judged from outside, {result.kernel}'s program" if outside else result.kernel
    shape = _shape(candidate, baseline) if win.keeps_geometry or candidate.block is not None else None
    return msgspec.structs.replace(
        result,
        outcome="faster",
        reason=f"{what} is {gain}: {win.title}",
        diff=unified_diff(text, text.apply(list(candidate.edits)), path=result.name),
        edits=candidate.edits,
        proof=Proof(
            verdict=confirmation.verdict,
            program=confirmation.program,
            answers=candidate.answers,
            rules=win.rules,
            changes=tuple(_changes(confirmation.verdict, baseline, shape, limits)),
            caveat=win.caveat,
        ),
        unknown=tuple(dict.fromkeys([*result.unknown, *confirmation.unknown])),
    )


def tried(nodes: Sequence[Node], fell: Mapping[str, Verdict]) -> tuple[Tried, ...]:
    """All candidates with a verdict, in the order they were handed out; `fell` are those that did not hold when they
    were measured again, by candidate."""
    return tuple(_tried(n.ask.candidate, n.verdict, fell) for n in nodes if n.verdict is not None)


def _tried(candidate: Candidate, verdict: Verdict, fell: Mapping[str, Verdict]) -> Tried:
    again = fell.get(candidate.id)
    if again is None:
        return tried_candidate(candidate, verdict)
    said = msgspec.structs.replace(verdict, state=again.state, reason=f"when measured again: {again.reason}")
    return tried_candidate(candidate, said)


def nothing_found(nodes: Sequence[Node], stopped: str, fell: Mapping[str, Verdict]) -> str:
    """One sentence for a search without a winner."""
    if not nodes and stopped == "time":
        return "the time was over before a candidate was judged"
    if not nodes:
        return "there is nothing to try: no rewrite applies and no number in the kernel is tunable"
    verdicts = ((node.ask.candidate.id, node.verdict) for node in nodes if node.verdict is not None)
    states = Counter(fell.get(id_, verdict).state for id_, verdict in verdicts)
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in states.most_common())
    found = f"nothing faster was found in {len(nodes)} candidates ({counts})"
    if fell:
        found += f"; the fastest did not hold when measured again: {next(iter(fell.values())).reason}"
    return found


def control_of(nodes: Sequence[Node]) -> Control:
    """What chance found."""
    best = best_first(nodes)
    verdict = best[0].verdict if best else None
    timing = verdict.program_timing if verdict is not None else None
    return Control(
        tried=len(nodes),
        speedup=timing.speedup if timing is not None else None,
        title=best[0].ask.candidate.title if best else "",
    )


def offers(space: KernelSpace, text: SourceText, name: str) -> Iterator[Offer]:
    """Single steps as offers, unproven."""
    for proposal in space.propose(text):
        after, move = text.apply(list(proposal.edits)), proposal.move
        yield Offer(
            kernel=space.kernel,
            title=move.title,
            rule=move.rule,
            diff=unified_diff(text, after, path=name),
            edits=proposal.edits,
            answers=move.answers,
            gain=move.gain,
            probability=move.probability,
            expected=space.promised(move.answers),
            caveat=move.caveat,
        )


def tried_candidate(candidate: Candidate, verdict: Verdict) -> Tried:
    """One line of the table of what was tried."""
    timing = verdict.program_timing
    return Tried(
        id=candidate.id,
        parent=candidate.parent,
        title=candidate.title,
        origin=candidate.origin,
        state=verdict.state,
        reason=verdict.reason,
        speedup=timing.speedup if timing is not None else None,
    )


def _changes(verdict: Verdict, baseline: Baseline, shape: _Shape | None, limits: Limits) -> Iterator[Change]:
    timing = verdict.program_timing
    if timing is not None and timing.span == "launch":
        yield Change("kernel time", "ns", timing.baseline_ns.median, timing.candidate_ns.median)
    before, after = verdict.baseline_resources or baseline.compiled.resources, verdict.resources
    if after is None:
        return
    for metric, unit, field in _RESOURCES:
        yield Change(metric, unit, float(getattr(before, field)), float(getattr(after, field)))
    if shape is not None:
        old = (baseline.timing.block, baseline.timing.dynamic_shared_bytes)
        occupied = [_occupancy(limits, r, s) for r, s in ((before, old), (after, shape))]
        yield Change("theoretical occupancy", "", *occupied)


def _shape(candidate: Candidate, baseline: Baseline) -> _Shape:
    dynamic = candidate.dynamic_shared_bytes
    return (
        candidate.block or baseline.timing.block,
        baseline.timing.dynamic_shared_bytes if dynamic is None else dynamic,
    )


def _keeps_geometry(change: str) -> bool:
    """Whether a change cannot have touched the launch: rewrites, unroll factors and launch bounds do not."""
    return "=" not in change or change.startswith(("unroll", "launch bounds"))


def _occupancy(limits: Limits, resources: Resources, shape: _Shape) -> float:
    (x, y, z), dynamic = shape
    return occupancy(
        limits,
        block_threads=x * y * z,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes + dynamic,
    ).occupancy


def unproven(
    problem: Problem, spaces: Sequence[KernelSpace], error: MissingToolError, *, most: int = 10
) -> OptimizeResult:
    """The most promising edits where nothing can be measured, with the reason; answers to findings first."""
    found = [offer for space in spaces for offer in offers(space, problem.text, problem.name)]
    expected = {id(offer): offer.probability * math.log(max(offer.gain, 1.0)) for offer in found}
    found.sort(key=lambda offer: (not offer.answers, -expected[id(offer)]))
    return OptimizeResult(
        version=1,
        tool=f"warplens {__version__}",
        path=problem.path,
        kernel=spaces[0].kernel if len(spaces) == 1 else "",
        outcome="unproven",
        reason=str(error),
        remedy=error.remedy,
        baseline_hash=text_hash(problem.text),
        name=problem.name,
        offers=tuple(found[:most]),
        seed=problem.seed,
    )
