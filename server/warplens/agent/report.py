"""Turns what a search did into the plain data of its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from warplens.agent.actions import KernelSpace
from warplens.agent.result import Change, Control, Offer, OptimizeResult, Proof, Tried
from warplens.agent.versions import Node, best_first, moves_of
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Interval, Timing, Verdict
from warplens_tools.arch.gpu import Limits
from warplens_tools.arch.occupancy import occupancy
from warplens_tools.evidence import Resources
from warplens_tools.text import SourceText, unified_diff

_RESOURCES = (
    ("registers per thread", "", "registers"),
    ("stack", "byte/thread", "stack_bytes"),
    ("spill stores", "byte/thread", "spill_store_bytes"),
    ("spill loads", "byte/thread", "spill_load_bytes"),
    ("static shared memory", "byte/block", "shared_bytes"),
)


def proven(
    result: OptimizeResult,
    text: SourceText,
    node: Node,
    confirmation: Confirmation,
    baseline: Baseline,
    limits: Limits,
) -> OptimizeResult:
    """The answer with the winner's diff and its proof."""
    candidate, verdict = node.ask.candidate, confirmation.verdict
    timing = program_timing(verdict)
    steps = "; ".join(move.title for move in moves_of(node))
    gain = f"{timing.speedup.median:.2f}x" if timing is not None else "faster"
    caveats = dict.fromkeys(move.caveat for move in moves_of(node) if move.caveat)
    return msgspec.structs.replace(
        result,
        reason=f"{result.kernel} is {gain} as fast: {steps}",
        diff=unified_diff(text, node.text, path=result.path.lstrip("/")),
        edits=candidate.edits,
        proof=Proof(
            verdict=verdict,
            program=confirmation.program,
            answers=candidate.answers,
            changes=tuple(_changes(verdict, node, baseline, limits)),
            caveat="; ".join(caveats),
        ),
    )


def tried(nodes: Sequence[Node]) -> tuple[Tried, ...]:
    """All candidates with a verdict, in the order they were handed out."""
    return tuple(_tried(node, node.verdict) for node in nodes if node.verdict is not None)


def nothing_found(nodes: Sequence[Node]) -> str:
    """One sentence for a search without a winner."""
    if not nodes:
        return "there is nothing to try: no rewrite applies and no number in the kernel is tunable"
    states = Counter(node.verdict.state for node in nodes if node.verdict is not None)
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in states.most_common())
    return f"nothing faster was found in {len(nodes)} candidates ({counts})"


def control_of(nodes: Sequence[Node]) -> Control:
    """What chance found."""
    best = best_first(nodes)
    verdict = best[0].verdict if best else None
    timing = program_timing(verdict) if verdict is not None else None
    return Control(
        tried=len(nodes),
        speedup=timing.speedup if timing is not None else None,
        title=best[0].ask.candidate.title if best else "",
    )


def offers(space: KernelSpace, text: SourceText, path: str) -> Iterator[Offer]:
    """Single steps as offers, unproven."""
    for proposal in space.propose(text):
        after, move = text.apply(list(proposal.edits)), proposal.move
        yield Offer(
            kernel=space.kernel,
            title=move.title,
            rule=move.rule,
            diff=unified_diff(text, after, path=path.lstrip("/")),
            edits=proposal.edits,
            answers=move.answers,
            gain=move.gain,
            probability=move.probability,
            caveat=move.caveat,
        )


def program_timing(verdict: Verdict) -> Timing | None:
    """The timing with the cache as the program leaves it, else the flushed one."""
    return next((t for t in verdict.timings if t.cache == "program"), next(iter(verdict.timings), None))


def _tried(node: Node, verdict: Verdict) -> Tried:
    candidate, timing = node.ask.candidate, program_timing(verdict)
    speedup: Interval | None = timing.speedup if timing is not None else None
    return Tried(
        candidate.id,
        candidate.parent,
        candidate.title,
        candidate.origin,
        verdict.state,
        verdict.reason,
        speedup,
    )


def _changes(verdict: Verdict, node: Node, baseline: Baseline, limits: Limits) -> Iterator[Change]:
    timing = program_timing(verdict)
    if timing is not None:
        yield Change("kernel time", "ns", timing.baseline_ns.median, timing.candidate_ns.median)
    before, after = verdict.baseline_resources or baseline.compiled.resources, verdict.resources
    if after is None:
        return
    for metric, unit, field in _RESOURCES:
        yield Change(metric, unit, float(getattr(before, field)), float(getattr(after, field)))
    shape, candidate = baseline.timing, node.ask.candidate
    dynamic = candidate.dynamic_shared_bytes
    if candidate.block is None and not _keeps_geometry(node):
        return
    yield Change(
        "theoretical occupancy",
        "",
        _occupancy(limits, before, shape.block, shape.dynamic_shared_bytes),
        _occupancy(
            limits,
            after,
            candidate.block or shape.block,
            shape.dynamic_shared_bytes if dynamic is None else dynamic,
        ),
    )


def _keeps_geometry(node: Node) -> bool:
    """Whether no step could have changed the launch: rewrites, unroll factors and launch bounds do not."""
    steers_compiler = ("unroll", "launch bounds")
    changes = [change for move in moves_of(node) for change in move.changes]
    return all("=" not in change or change.startswith(steers_compiler) for change in changes)


def _occupancy(limits: Limits, resources: Resources, block: tuple[int, int, int], dynamic: int) -> float:
    x, y, z = block
    result = occupancy(
        limits,
        block_threads=x * y * z,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes + dynamic,
    )
    return result.occupancy
