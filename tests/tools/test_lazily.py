# SPDX-License-Identifier: Apache-2.0
"""Properties computed once for an object keep no other object waiting."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

from tests.patience import PATIENCE

from warplens_tools.lazily import cached_property

ROOT = Path(__file__).parents[2]


class Slow:
    """Its property waits until it is let go on, unless it may go at once."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate, self.times = gate, 0

    @cached_property
    def value(self) -> int:
        """How often it was computed."""
        self.times += 1
        assert self.gate.wait(PATIENCE)
        return self.times


def test_it_is_computed_once_for_an_object() -> None:
    gate = threading.Event()
    gate.set()
    one, other = Slow(gate), Slow(gate)
    assert (one.value, one.value, other.value) == (1, 1, 1)
    assert one.times == 1
    assert Slow.value.__doc__ == "How often it was computed."


def test_an_object_that_waits_within_keeps_no_other_waiting() -> None:
    shut, opened = threading.Event(), threading.Event()
    opened.set()
    waiting = Slow(shut)
    background = threading.Thread(target=lambda: waiting.value)
    background.start()
    try:
        asked = threading.Thread(target=lambda: Slow(opened).value)
        asked.start()
        asked.join(PATIENCE / 2)
        assert not asked.is_alive()
    finally:
        shut.set()
        background.join()


def test_the_product_uses_no_other() -> None:
    for package in ("server", "tools", "cutlass_index"):
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "lazily.py":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                names = [a.name for a in node.names] if isinstance(node, ast.ImportFrom) else []
                assert not (
                    isinstance(node, ast.ImportFrom)
                    and node.module == "functools"
                    and "cached_property" in names
                ), path
                assert not (isinstance(node, ast.Attribute) and node.attr == "cached_property"), path
