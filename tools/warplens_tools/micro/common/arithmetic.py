# SPDX-License-Identifier: Apache-2.0
"""The arithmetic that a line of a kernel became."""

from __future__ import annotations

from warplens_tools.sass.listing import Sass
from warplens_tools.sass.pipes import pipe_of

_PIPES = frozenset({"fp32", "fp64", "int", "alu", "sfu"})


def arithmetic_on(sass: Sass, line: int | None) -> list[int]:
    """Indices of the arithmetic on a line, without what only odd operands take."""
    return sass.usual_on(line, lambda x: pipe_of(x) in _PIPES)
