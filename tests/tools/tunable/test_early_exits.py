# SPDX-License-Identifier: Apache-2.0
"""Loops that are left by fewer conditions than the original's."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.early_exits import why_left_early
from warplens_tools.tunable.source import File

PROGRAM = """
struct Slot { int hash, word; };
__global__ void found(const Slot* table, const int* words, int* out, int mask, int key) {
    int slot = key & mask;
    while (table[slot].word >= 0) {
        if (table[slot].hash == key) {
            const bool same = words[table[slot].word] == words[key];
            if (same && mask > 1) {
                out[threadIdx.x] = slot;
                break;
            }
        }
        slot = (slot + 1) & mask;
    }
}
"""
IF_SAME = """            if (same && mask > 1) {
                out[threadIdx.x] = slot;
                break;
            }
"""


def _why(old: str, new: str) -> str:
    assert old in PROGRAM
    before, after = (
        File(one, parse(one, "k.cu")) for one in map(SourceText, (PROGRAM, PROGRAM.replace(old, new)))
    )
    return why_left_early(before, after)


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (
            IF_SAME,
            "            if (same && mask > 1) out[threadIdx.x] = slot;\n            break;\n",
            "mask>1",
        ),
        ("if (same && mask > 1)", "if (same)", "mask>1"),
        ("if (table[slot].hash == key) {", "{", "table[slot].hash==key"),
    ],
)
def test_conditions_that_are_not_waited_for_are_told(old: str, new: str, lost: str) -> None:
    assert f"without asking for `{lost}`" in _why(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if (same && mask > 1) {", "if (mask > 1 && same) {"),
        ("if (same && mask > 1) {", "if (same) if (mask > 1) {"),
        ("if (same && mask > 1) {", "const bool both = same && mask > 1; if (both) {"),
        (
            "if (table[slot].hash == key) {",
            "if (table[slot].hash != key) { slot = (slot + 1) & mask; continue; } {",
        ),
        ("break;", "return;"),
        ("                break;\n", ""),
    ],
)
def test_the_same_conditions_in_another_place_are_not(old: str, new: str) -> None:
    assert _why(old, new) == ""
