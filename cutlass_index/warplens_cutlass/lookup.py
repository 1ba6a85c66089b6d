# SPDX-License-Identifier: Apache-2.0
"""What editors ask of one name: its card for a hover, its definitions, names that start or sound like it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from warplens_cutlass.corpus import Corpus, corpora
from warplens_cutlass.engine import with_reader
from warplens_cutlass.model import Atom, CorpusRoot, Kind, Role, SymbolCard, Usage
from warplens_cutlass.search.by_name import likely_file
from warplens_cutlass.search.names import match_names
from warplens_cutlass.search.prior import prior
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.words import normal_name
from warplens_tools.decode import from_json

_USAGES = 8


class Location(msgspec.Struct, frozen=True):
    """Where a symbol is defined. `path` is absolute; lines are 1-based and inclusive."""

    path: str
    line: int
    end_line: int
    name: str
    qualified_name: str
    kind: Kind

    @property
    def file(self) -> Path:
        """The path, as a path."""
        return Path(self.path)


def look_up(name: str, *, argument: str = "") -> SymbolCard | None:
    """The likeliest definition of a name, qualified or not, for a hover; None when no corpus has it.

    `argument` is what stands between the angle brackets after it: `MMA_Traits<SM80_16x8x16_…>` then finds
    that specialisation. Corpora without an index are passed over: a hover never builds one.
    """
    for corpus in ready_corpora():
        card = with_reader(corpus, lambda r, c=corpus: _card(r, c, name, argument))  # type: ignore[misc]
        if card is not None:
            return card
    return None


def definitions_of(name: str, *, limit: int = 20) -> tuple[Location, ...]:
    """Definitions of a name, the likeliest first; overloads and specialisations follow."""
    found: list[Location] = []
    for corpus in ready_corpora():
        found += with_reader(corpus, lambda r: [_location(r, h) for h in _ordered(r, name)])
    return tuple(found[:limit])


def workspace_symbols(query: str, *, limit: int = 100) -> tuple[Location, ...]:
    """Symbols whose names are, hold, or nearly are `query`, best first."""
    found: list[Location] = []
    for corpus in ready_corpora():
        found += with_reader(corpus, lambda r: _like(r, query, limit))
    return tuple(found[:limit])


def ready_corpora() -> Sequence[Corpus]:
    """Registered corpora that have an index now; the user's own before CUTLASS."""
    return sorted((c for c in corpora() if current_index(c) is not None), key=lambda c: bool(c.version))


def _like(reader: Reader, query: str, limit: int) -> list[Location]:
    matches = match_names(query, reader)
    place = {m.name: (-m.quality, i) for i, m in enumerate(matches)}
    hits = reader.there(reader.symbols_named(place, limit=1000))
    hits.sort(key=lambda h: (*place[h.name], -prior(h)))
    return [_location(reader, h) for h in hits[:limit]]


def _ordered(reader: Reader, name: str) -> list[SymbolHit]:
    """Definitions of exactly this name; a qualified name keeps those of its scope."""
    parts = [p for p in name.split("::") if p]
    if not parts:
        return []
    hits = reader.there(reader.symbols_named([parts[-1]]))
    if len(parts) > 1:
        suffix = "::" + "::".join(parts[-2:])
        scoped = [h for h in hits if ("::" + h.qualified_name).endswith(suffix)]
        inside = [h for h in hits if parts[0] in h.qualified_name.split("::")]
        hits = scoped or inside or hits
    return sorted(hits, key=lambda h: -_worth(h))


def _worth(hit: SymbolHit) -> float:
    documented = 1.1 if hit.doc else 1.0
    return prior(hit) * documented * (1.1 if likely_file(hit) else 1.0)


def _card(reader: Reader, corpus: Corpus, name: str, argument: str) -> SymbolCard | None:
    hits = _ordered(reader, name)
    if not hits:
        return None
    wanted = normal_name(argument)
    special = [h for h in hits if wanted and wanted in normal_name(h.specialisation)]
    hit = (special or hits)[0]
    row = reader.rows("SELECT template_parameters, guards, atom FROM symbols WHERE id = ?", (hit.id,))[0]
    operations = reader.rows("SELECT operation FROM ptx WHERE symbol_id = ?", (hit.id,))
    return SymbolCard(
        name=hit.name,
        qualified_name=hit.qualified_name,
        kind=hit.kind,  # type: ignore[arg-type]
        path=hit.path,
        line=hit.line,
        end_line=hit.end_line,
        signature=hit.signature,
        doc=hit.doc,
        template_parameters=str(row[0]),
        guards=tuple(g for g in str(row[1]).split("\n") if g),
        arch=tuple(sorted(hit.arch)),
        atom=from_json(str(row[2]), Atom) if row[2] else None,
        ptx=tuple(str(o[0]) for o in operations),
        usages=tuple(usages(reader, hit.name, without=hit.path)),
        used_in=reader.uses(hit.name),
        overloads=len(hits),
        corpus=CorpusRoot(corpus.name, corpus.version, corpus.root),
    )


def usages(reader: Reader, name: str, *, without: str = "") -> Iterable[Usage]:
    """Files that mention a name: examples first, then headers, those that use it most first."""
    rows = reader.rows(
        "SELECT f.path, m.line, m.count, f.role FROM mentions m JOIN files f ON f.id = m.file_id "
        "WHERE m.name_id = (SELECT id FROM names WHERE name = ?) AND f.path <> ? "
        "ORDER BY f.role <> 'example', f.role <> 'header', m.count DESC LIMIT ?",
        (name, without, _USAGES),
    )
    for path, line, count, role in rows:
        known: Role = role  # type: ignore[assignment]
        yield Usage(str(path), int(str(line)), int(str(count)), known)


def _location(reader: Reader, hit: SymbolHit) -> Location:
    path = str(reader.corpus.root_path / hit.path)
    return Location(path, _name_line(Path(path), hit), hit.end_line, hit.name, hit.qualified_name, hit.kind)  # type: ignore[arg-type]


def _name_line(path: Path, hit: SymbolHit) -> int:
    """The line the name itself stands on, below its `template <…>`."""
    try:
        with path.open("rb") as file:
            file.seek(hit.offset)
            text = file.read(3000).decode("utf-8", "replace")
    except OSError:
        return hit.line
    match = re.search(rf"\b{re.escape(hit.name)}\b(?!\s*,)", text)
    return hit.line + text.count("\n", 0, match.start()) if match else hit.line
