# SPDX-License-Identifier: Apache-2.0
"""How likely a definition is meant at all, before the question is looked at."""

from __future__ import annotations

from warplens_cutlass.index_settings import RankingWeights
from warplens_cutlass.search.reader import SymbolHit

_ASIDE_KINDS = frozenset(("traits", "variable", "enumerator", "macro", "union"))
_ASIDE_ROLES = frozenset(("tool", "test", "documentation"))


_DEFAULT = RankingWeights()


def prior(hit: SymbolHit, weights: RankingWeights = _DEFAULT) -> float:
    """1 for a plain definition; less for each sign that another one is meant."""
    signs = (
        hit.member,
        hit.declaration_only,
        bool(hit.specialisation),
        "::detail::" in hit.qualified_name,
        hit.kind in _ASIDE_KINDS,
        hit.role in _ASIDE_ROLES,
    )
    return float(weights.aside ** sum(signs))
