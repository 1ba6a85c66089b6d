# SPDX-License-Identifier: Apache-2.0
"""Which of the library's operations compute. Imported by `examiner.py` from beside it."""

from __future__ import annotations

from typing import Any

#: Operations that move or make arrays and compute nothing.
_STRUCTURAL = """
empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like full full_like
view _unsafe_view reshape expand permute transpose t squeeze unsqueeze slice select as_strided alias detach clone
contiguous copy_ _to_copy to resize_ set_ split chunk unbind narrow flatten fill_ zero_ lift_fresh
_local_scalar_dense is_same_size record_stream resolve_conj _reshape_alias
"""
STRUCTURAL = frozenset(_STRUCTURAL.split())


def computing(answer: dict[str, Any], part: str) -> set[str]:
    """Names of the operations of one part of a trace that compute something; a candidate's answer may be anything."""
    names = answer.get(part, [])
    return {str(n) for n in names if isinstance(n, str)} - STRUCTURAL if isinstance(names, list) else set()
