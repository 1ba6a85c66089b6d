# SPDX-License-Identifier: Apache-2.0
"""Finds names: exact, in another case or split, in part, or misspelt."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from warplens_cutlass.search.reader import Reader
from warplens_cutlass.words import edit_distance, normal_name

_LONGEST = 80
#: Letters from which a spelling inside a name is no accident.
_TELLING = 8
#: Least similarity, 0 to 1, for a misspelt name.
_MISSPELT = 0.62


class NameMatch(msgspec.Struct, frozen=True):
    """A defined name that a spelling stands for. `quality` is 1 for the name itself, less the further off."""

    name: str
    quality: float
    how: str


def match_names(spelling: str, reader: Reader, *, fuzzy: bool = True) -> list[NameMatch]:
    """Names for one spelling, best first. Misspelt forms are tried only where nothing closer exists."""
    last = spelling.rsplit("::", 1)[-1]
    norm = normal_name(last)[:_LONGEST]
    if len(norm) < 2:
        return []
    found = _equal(last, norm, reader)
    if len(norm) >= 4:
        found |= {m.name: m for m in _containing(last, norm, reader) if m.name not in found}
    # What stands in a name as it is was not misspelt, unless it is too short to tell.
    whole = len(norm) >= _TELLING and bool(found)
    if fuzzy and len(norm) >= 5 and not whole and max((m.quality for m in found.values()), default=0.0) < 0.8:
        found |= {m.name: m for m in _misspelt(norm, reader) if m.name not in found}
    return sorted(found.values(), key=lambda m: (-m.quality, len(m.name), m.name))[:40]


def _equal(last: str, norm: str, reader: Reader) -> dict[str, NameMatch]:
    rows = reader.rows("SELECT name FROM names WHERE defined AND norm = ?", (norm,))
    matches = {}
    for (name,) in rows:
        text = str(name)
        quality = 1.0 if text == last else 0.97 if text.lower() == last.lower() else 0.95
        matches[text] = NameMatch(text, quality, "exact" if quality == 1.0 else "spelled otherwise")
    return matches


def _containing(last: str, norm: str, reader: Reader) -> Iterable[NameMatch]:
    """Names with the spelling inside; the more of the name it covers the better, beginnings and ends first."""
    rows = reader.rows(
        "SELECT name, norm FROM names WHERE defined AND norm <> ? AND instr(norm, ?) ORDER BY length(norm) LIMIT 60",
        (norm, norm),
    )
    for name, other in rows:
        text = str(other)
        share = len(norm) / len(text)
        edge = 0.08 if text.startswith(norm) else 0.05 if text.endswith(norm) else 0.0
        edge += 0.05 if last in str(name) else 0.0
        yield NameMatch(str(name), 0.53 + edge + 0.3 * share, "part of the name")


def _misspelt(norm: str, reader: Reader) -> Iterable[NameMatch]:
    grams = {norm[i : i + 3] for i in range(len(norm) - 2)}
    counts: dict[int, int] = {}
    for gram in grams:
        for (key,) in reader.rows(
            "SELECT rowid FROM name_grams WHERE name_grams MATCH ? LIMIT 3000", (f'"{gram}"',)
        ):
            counts[key] = counts.get(key, 0) + 1  # type: ignore[index,call-overload]
    best = sorted(counts, key=lambda k: -counts[k])[:250]
    marks = ",".join(map(str, best))
    scored = []
    for name, other in reader.rows(f"SELECT name, norm FROM names WHERE id IN ({marks}) AND defined"):
        text = str(other)
        shared = {text[i : i + 3] for i in range(len(text) - 2)}
        dice = 2 * len(grams & shared) / max(len(grams) + len(shared), 1)
        scored.append((dice, str(name), text))
    for dice, name, text in sorted(scored, reverse=True)[:40]:
        if abs(len(text) - len(norm)) > max(3, len(norm) // 3):
            continue
        similar = max(dice, 1 - edit_distance(norm, text) / max(len(norm), len(text)))
        if similar >= _MISSPELT:
            yield NameMatch(name, 0.9 * similar, "closest spelling")
