# SPDX-License-Identifier: Apache-2.0
"""Turns ranked definitions into results: why in one line, a snippet from the file."""

from __future__ import annotations

from pathlib import Path

from warplens_cutlass.index_settings import IndexSettings
from warplens_cutlass.model import Kind, Result
from warplens_cutlass.search.question import Question
from warplens_cutlass.search.ranked import Ranked
from warplens_cutlass.search.reader import Reader
from warplens_cutlass.search.scoring import SECTIONS, candidates, score_rows

_SNIPPET_BYTES = 2400
_LINE_WIDTH = 160
#: Sections read, shown, and what one counts beside a definition.
_CANDIDATES, _SECTIONS, _BESIDE_CODE = 20, 2, 0.75
#: Files of a name that are shown, and the score of one: beyond every definition's.
_FILES, _NAMED_FILE = 2, 3.0


def result_of(ranked: Ranked, reader: Reader, settings: IndexSettings, question: Question) -> Result:
    """One result. Examples have the kind "example", with the definition to look at first as their symbol."""
    hit = ranked.hit
    kind: Kind = "example" if ranked.example else hit.kind  # type: ignore[assignment]
    return Result(
        path=hit.path,
        symbol=hit.qualified_name,
        kind=kind,
        line=hit.line,
        end_line=hit.end_line,
        score=ranked.score,
        why=_why(ranked, reader, question),
        snippet=snippet(
            reader.corpus.root_path / hit.path,
            hit.offset,
            settings.snippet_lines,
            hit.end_line - hit.line + 1,
        ),
        corpus=reader.corpus.name,
    )


def _why(ranked: Ranked, reader: Reader, question: Question) -> str:
    """The reason of the ranking, and what the definition or the file says of itself."""
    parts = [ranked.why] if ranked.why else []
    row = reader.rows("SELECT title FROM files WHERE id = ?", (ranked.hit.file_id,))
    title = str(row[0][0]) if row else ""
    about = title if ranked.example else (_first_sentence(ranked.hit.doc) or title)
    if about:
        parts.append(about)
    if not parts:
        words = " ".join(t.spellings[0][0] for t in question.terms[:6])
        parts.append(f"matches {words}" if words else "matches")
    return ": ".join(parts[:2])[:220] if ranked.why else parts[0][:220]


def _first_sentence(doc: str) -> str:
    line = " ".join(doc.split("\n\n", 1)[0].split())
    return line.split(". ", 1)[0][:160]


def snippet(path: Path, offset: int, lines: int, available: int) -> str:
    """The first lines of a definition; "" when the file is gone."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            text = file.read(_SNIPPET_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    rows = text.replace("\r\n", "\n").split("\n")[: max(1, min(lines, available))]
    return "\n".join(row[:_LINE_WIDTH].rstrip() for row in rows)


def file_results(text: str, reader: Reader, settings: IndexSettings) -> list[Result]:
    """The file that the query names, where it names one: "layout.hpp", "cute/layout.hpp"; at most two."""
    name = text.strip().removeprefix("./")
    if "." not in name or " " in name:
        return []
    rows = reader.rows(
        "SELECT path, title FROM files WHERE path = ? OR substr(path, -length(?) - 1) = '/' || ? "
        "ORDER BY length(path) LIMIT ?",
        (name, name, name, _FILES),
    )
    found = []
    for path, title in rows:
        file = reader.corpus.root_path / str(path)
        text = snippet(file, 0, settings.snippet_lines, settings.snippet_lines)
        if file.is_file():
            why = f"the file itself: {title}" if title else "the file itself"
            short = str(path).rsplit("/", 1)[-1]
            found.append(
                Result(str(path), short, "file", 1, 1, _NAMED_FILE, why[:220], text, reader.corpus.name)
            )
    return found


def section_results(results: list[Result], question: Question, reader: Reader, limit: int) -> list[Result]:
    """Documentation sections that answer as well as the definitions do, put in by score, at most two."""
    ids = candidates(question, reader, SECTIONS, _CANDIDATES)
    scores = score_rows(question, reader, SECTIONS, ids)
    best = sorted(scores, key=lambda i: -scores[i].score)[:_SECTIONS]
    found = [_section(i, scores[i].score * _BESIDE_CODE, reader) for i in best]
    return sorted([*results, *(s for s in found if s is not None)], key=lambda r: -r.score)[:limit]


def _section(key: int, score: float, reader: Reader) -> Result | None:
    rows = reader.rows(
        "SELECT f.path, s.title, s.line, s.end_line FROM sections s JOIN files f ON f.id = s.file_id WHERE s.id = ?",
        (key,),
    )
    if not rows:
        return None
    path, title, line, end = str(rows[0][0]), str(rows[0][1]), int(str(rows[0][2])), int(str(rows[0][3]))
    try:
        text = (reader.corpus.root_path / path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        text = []
    body = "\n".join(row[:_LINE_WIDTH] for row in text[line - 1 : min(end, line + 7)])
    return Result(path, title, "section", line, end, score, "documentation", body, reader.corpus.name)
