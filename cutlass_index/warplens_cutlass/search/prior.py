"""How likely a definition is meant at all, before the question is looked at."""

from __future__ import annotations

import math

from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.settings import RankingSettings


def prior(hit: SymbolHit, reader: Reader, settings: RankingSettings) -> float:
    """Product of the factors of kind, role, membership, form and use; about 1 for a plain definition."""
    value = settings.kinds.get(hit.kind, 0.7) * settings.roles.get(hit.role, 0.8)
    if hit.member:
        value *= settings.member
    if hit.declaration_only:
        value *= settings.declaration
    if hit.specialisation and hit.kind != "traits":
        value *= settings.specialisation
    if "::detail::" in hit.qualified_name:
        value *= settings.detail
    return value * (1 + settings.usage * math.log1p(reader.uses(hit.name)))


def arch_factor(arch: frozenset[str], wanted: frozenset[str], settings: RankingSettings) -> float:
    """Above 1 where the architecture is the one asked for, below where it is another."""
    if not wanted or not arch:
        return 1.0
    return settings.arch_match if arch & wanted else settings.arch_conflict
