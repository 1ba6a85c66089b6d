# SPDX-License-Identifier: Apache-2.0
"""Architectures that a text speaks of, as "sm90"."""

from __future__ import annotations

import re

_SM = re.compile(r"(?:SM|sm_?|CUDA_ARCH\D{0,6}|Sm)(\d{2,3})(?:0(?=\b|[^\dx]))?a?(?![0-9x])")
_NUMBER = re.compile(r"__CUDA_ARCH__\s*[<>=!]+\s*(\d{3,4})")
GENERATIONS = {
    "maxwell": "sm50", "pascal": "sm60", "volta": "sm70", "turing": "sm75", "ampere": "sm80", "ada": "sm89",
    "hopper": "sm90", "blackwell": "sm100",
}  # fmt: skip
KNOWN = frozenset(
    """
    sm50 sm60 sm61 sm70 sm72 sm75 sm80 sm86 sm87 sm89 sm90 sm100 sm101 sm103 sm110 sm120 sm121
    """.split()  # noqa: SIM905
)
_GENERATION = re.compile("|".join(rf"(?<![a-z]){name}(?![a-z])" for name in GENERATIONS), re.I)


def architectures(text: str) -> tuple[str, ...]:
    """Every architecture named in `text`, in order: by number or by generation."""
    found = dict.fromkeys(f"sm{n}" for n in _SM.findall(text))
    found |= dict.fromkeys(f"sm{n[:-1]}" for n in _NUMBER.findall(text))
    found |= dict.fromkeys(GENERATIONS[name.lower()] for name in _GENERATION.findall(text))
    return tuple(arch for arch in found if arch in KNOWN)
