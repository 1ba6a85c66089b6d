# SPDX-License-Identifier: Apache-2.0
"""A candidate's host side and its device code, each by its own compiler: at once, or the one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from warplens.measure.build.unit import Unit
from warplens_tools.errors import CompileError, ToolFailedError


def both_sides(gate: Callable[[], str], compiled: Callable[[], Unit], *, at_once: bool) -> Unit | str:
    """What a text compiles to, or why its host side is another.

    At once is sooner where cores are free; where they are not, what the gate refuses is not compiled for nothing.

    Args:
        gate: says why the host side is another, or "".
        compiled: compiles the device code.

    Raises:
        as both; what `compiled` raises comes first.
    """
    if at_once:
        with ThreadPoolExecutor(1) as aside:
            host = aside.submit(gate)
            unit = compiled()
        return host.result() or unit
    why = None
    # the compiler itself says better what is wrong with a text, and whether the fence was
    with contextlib.suppress(CompileError, ToolFailedError):
        why = gate()
    if why:
        return why
    unit = compiled()
    return (gate() if why is None else why) or unit
