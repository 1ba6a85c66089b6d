# SPDX-License-Identifier: Apache-2.0
"""Which kinds of findings have earned to be warnings: what came of them on code that nobody here wrote.

A *kind* is a check, what told it (the source, or compiled code alone) and which of the facts that its gain rests on
were seen. `earned.toml` holds how many of each kind readers called right, and how many they read, and beside
them the planted programs whose cause such a finding names. Few labels tell little: a kind's share is drawn towards its
check's, and that towards the share of all with as many facts, as `PRIOR` further labels would.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from warplens_tools.decode import from_builtins
from warplens_tools.finding import Finding

#: Share of right findings from which a kind may warn: a reader who meets wrong warnings stops to look.
WARNS = 0.65
#: As `WARNS`, from which it may be of high confidence where its tool has it so and every fact was seen.
SURE = 0.9
#: Labels that what is known of the wider kind counts as.
PRIOR = 3.0
#: The fact that is missing of a kernel whose launches were not found.
UNLAUNCHED = "any launch of it"
#: Facts with which a finding may warn.
WARNED_OF = ("seen", "size unseen")
_SIZES = frozenset({"the grid size", "the block size"})


class Labels(msgspec.Struct, frozen=True):
    """How many findings were labelled, and how many of them right (`right`, not *arguable*)."""

    right: int
    of: int
    #: Planted programs whose cause it names, right by making: they tell of their kind and check, nothing of others.
    planted: int = 0
    #: Those among them that were labelled because they warned already: they tell of their kind and check, and not of
    #: what is usual, as what had not earned to warn is not among them.
    warned_right: int = 0
    warned_of: int = 0

    def drawn_to(self, share: float) -> float:
        """The share of right ones, with `PRIOR` labels of `share` beside them."""
        return (self.right + self.planted + PRIOR * share) / (self.of + self.planted + PRIOR)


class Table(msgspec.Struct, frozen=True):
    """`earned.toml`."""

    #: Where the labels are, and which command counts them.
    source: str
    #: By kind, as `kind_of` spells it.
    kinds: dict[str, Labels]


def facts_of(missing: Collection[str]) -> str:
    """Which facts were seen, in words: all, all but the launch's size, not how often the line is executed, or not
    whether it is at all."""
    if not missing:
        return "seen"
    if UNLAUNCHED in missing or any(fact.startswith("whether ") for fact in missing):
        return "use unseen"
    return "size unseen" if set(missing) <= _SIZES else "weight unseen"


def kind_of(code: str, tiers: Collection[str], missing: Collection[str]) -> str:
    """E.g. "WL101 source, size unseen". `tiers` are those of the finding's evidence."""
    told = "source" if "source" in tiers else "compiled"
    return f"{code} {told}, {facts_of(missing)}"


@functools.cache
def table() -> Table:
    """The labels that came with this version."""
    return from_builtins(tomllib.loads(Path(__file__).with_name("earned.toml").read_text("utf-8")), Table)


def share_of(kind: str, labels: Mapping[str, Labels]) -> float:
    """The share of a kind's findings that are expected to be right, 0 to 1.

    Findings of a check whose every fact was seen are held against those whose launch was not as well: that more was
    seen makes none of them less right, and a label or two tell no other.
    """
    facts = kind.partition(", ")[2]
    alike = _sum(kept for name, kept in labels.items() if name.endswith(f", {facts}"))
    drawn = alike.of - alike.warned_of
    usual = (alike.right - alike.warned_right) / drawn if drawn else 0.0
    own = max(_of_check(kind, labels, facts).drawn_to(usual) for facts in _beside(facts))
    return labels.get(kind, Labels(0, 0)).drawn_to(own)


def _beside(facts: str) -> tuple[tuple[str, ...], ...]:
    """The facts whose labels tell of a check: as many, and where all were seen those whose launch was not as well."""
    return ((facts,), WARNED_OF) if facts == WARNED_OF[0] else ((facts,),)


def _of_check(kind: str, labels: Mapping[str, Labels], facts: Collection[str]) -> Labels:
    """The labels of a kind's check of which these facts were seen."""
    code, beside = kind.split(" ")[0], tuple(f", {f}" for f in facts)
    return _sum(
        kept for name, kept in labels.items() if name.startswith(f"{code} ") and name.endswith(beside)
    )


def earned(finding: Finding) -> float:
    """The share of findings of its kind that are expected to be right, 0 to 1; 0 where it was not seen how often the
    line is executed, or that it is: what it costs is then not known, whatever came of others. 0 too where none of its
    check with as many facts was labelled or planted: most labels are of what had earned to warn already."""
    if facts_of(finding.missing) not in WARNED_OF:
        return 0.0
    return _earned(kind_of(finding.code, [seen.tier for seen in finding.evidence], finding.missing))


@functools.cache
def _earned(kind: str) -> float:
    labels = table().kinds
    own = _of_check(kind, labels, _beside(kind.partition(", ")[2])[-1])
    return share_of(kind, labels) if own.of or own.planted else 0.0


def _sum(every: Iterable[Labels]) -> Labels:
    kept = [Labels(0, 0), *every]
    return Labels(*(sum(counts) for counts in zip(*map(msgspec.structs.astuple, kept), strict=True)))
