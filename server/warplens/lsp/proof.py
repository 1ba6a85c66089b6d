# SPDX-License-Identifier: Apache-2.0
"""A search's answer as an edit to offer, with its proof as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens.agent.result import Offer as Unproven
from warplens.agent.result import OptimizeResult, Proof, Tried
from warplens.lsp.markdown import flat, table, unknown_list
from warplens.lsp.proposals import Offer
from warplens.measure.verdict import State
from warplens.present.proof import conditions_words, expected_words, proof_words
from warplens.present.words import counted, gain
from warplens_tools.finding import Fix


def offer_of(result: OptimizeResult) -> Offer:
    """What a search comes to; no edits where nothing faster was found, or nothing asks for one unmeasured."""
    if result.outcome == "unproven":
        return _unproven(result)
    if result.proof is None:
        return Offer(result.kernel, _nothing(result), "same", (), _page(result))
    return Offer(result.kernel, _gain(result.kernel, result.proof), "faster", result.edits, _page(result))


def offer_of_fix(result: OptimizeResult, fix: Fix) -> Offer:
    """What judging one fix comes to: the fix itself, whatever the verdict."""
    if result.proof is not None:
        return offer_of(result)
    state: State = result.tried[0].state if result.tried else "unproven"
    # Faster in one visit and not when measured again is not faster.
    state = "unproven" if state == "faster" else state
    title = f"{fix.title}: {state.replace('_', ' ')}"
    return Offer(result.kernel, title, state, fix.edits, _page(result))


def _unproven(result: OptimizeResult) -> Offer:
    asked = [offer for offer in result.offers if offer.answers]
    if not asked:
        return Offer(result.kernel, _nothing_asked(result), "unproven", (), "")
    first = asked[0]
    why = f"**Unproven:** {result.reason.rstrip('.')}."
    remedy = f"To have it measured: {result.remedy}." if result.remedy else ""
    caveat = f"Results may change: {first.caveat}." if first.caveat else ""
    parts = [why, remedy, expected_words(first), caveat, _others(asked[1:])]
    proof = "\n\n".join(part for part in parts if part)
    return Offer(first.kernel, f"{first.title} (unproven)", "unproven", first.edits, proof)


#: Titles that a sentence lists at most.
_MOST_NAMED = 3


def _nothing_asked(result: OptimizeResult) -> str:
    """Why there is no edit: what would be tried where it could be measured is no advice where it cannot."""
    name = result.kernel or "The file"
    titles = list(dict.fromkeys(offer.title for offer in result.offers))
    named = "; ".join(titles[:_MOST_NAMED]) + ("; …" if len(titles) > _MOST_NAMED else "")
    tried = f" A measurement would try {counted(len(titles), 'edit')}: {named}." if titles else ""
    reason = f"{result.reason[:1].upper()}{result.reason[1:]}".rstrip(".")
    return f"{name}: no finding asks for an edit, so none is offered unmeasured. {reason}.{tried}"


def _others(offers: Sequence[Unproven]) -> str:
    gains = [f": {gain(o.expected)} if it works" if o.promises and o.expected else "" for o in offers]
    lines = [f"- {o.title} ({o.kernel}){gain}" for o, gain in zip(offers, gains, strict=True)]
    return "Other edits that a measurement would try:\n\n" + "\n".join(lines) if lines else ""


def _gain(kernel: str, proof: Proof) -> str:
    timings = proof.verdict.timings
    if proof.verdict.outside is not None:
        kernel = f"{kernel}'s program, judged from outside"
    return f"{kernel}: {timings[0].speedup.median:.2f}× faster" if timings else f"{kernel}: faster"


def _nothing(result: OptimizeResult) -> str:
    name = f" for {result.kernel}" if result.kernel else ""
    return f"Nothing faster was found{name}: {result.reason}"


def _page(result: OptimizeResult) -> str:
    parts = [result.reason]
    if result.proof is not None:
        parts += _proof(result, result.proof)
    parts += [conditions_words(result), _tried(result.tried), unknown_list(result.unknown)]
    return "\n\n".join(part for part in parts if part)


def _proof(result: OptimizeResult, proof: Proof) -> Iterator[str]:
    words = proof_words(result, proof)
    if words.outside:
        first, *more = words.outside
        yield f"**{first[0].upper()}{first[1:]}.**"
        yield "\n".join(f"- {flat(line)}" for line in more)
    yield "\n".join(f"- {flat(line)}" for line in words.timings)
    yield from words.facts
    yield table(("metric", "before", "after"), list(words.changes)) if words.changes else ""


def _tried(tried: Sequence[Tried]) -> str:
    rows = [
        (
            flat(row.title),
            row.state.replace("_", " "),
            f"{row.speedup.median:.3f}×" if row.speedup is not None else flat(row.reason),
        )
        for row in tried
    ]
    return table(("tried", "verdict", "speedup, or why"), rows) if rows else ""
