# SPDX-License-Identifier: Apache-2.0
"""Reading from a corpus: a stretch of a file, or a definition with its documentation."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens_cutlass.corpus import Corpus, corpora
from warplens_cutlass.engine import SearchOptions, search
from warplens_cutlass.lookup import look_up
from warplens_cutlass.model import Answer, SymbolCard
from warplens_tools.errors import InputError

#: Characters of C++ in one token of the usual model vocabularies, rounded down so that a budget holds.
CHARACTERS_PER_TOKEN = 3


class Excerpt(msgspec.Struct, frozen=True):
    """Lines of a corpus file. `next_line` is where to read on; 0 at the end."""

    path: str
    line: int
    end_line: int
    text: str
    next_line: int
    corpus: str


def read(path: str, *, line: int = 1, end_line: int = 0, corpus: str = "", max_tokens: int = 2000) -> Excerpt:
    """Lines of a file named by a result, as many whole lines as the budget holds (one at least).

    Raises:
        InputError: no corpus has such a file, or the path leaves the corpus.
    """
    home, file = _find(path, corpus)
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    first = min(max(line, 1), max(len(lines), 1))
    last = min(end_line, len(lines)) if end_line >= first else len(lines)
    room = max(max_tokens, 1) * CHARACTERS_PER_TOKEN
    taken: list[str] = []
    for text in lines[first - 1 : last]:
        room -= len(text) + 1
        if room < 0 and taken:
            break
        taken.append(text[: max_tokens * CHARACTERS_PER_TOKEN])
    end = first + len(taken) - 1
    return Excerpt(path, first, end, "\n".join(taken), end + 1 if end < last else 0, home.name)


def _find(path: str, corpus: str) -> tuple[Corpus, Path]:
    for known in corpora():
        if corpus and known.name != corpus:
            continue
        file = (known.root_path / path).resolve()
        if file.is_file() and file.is_relative_to(known.root_path.resolve()):
            return known, file
    raise InputError(f"no corpus has a file {path}", remedy="give a path as a search result names it")


def agent_search(
    query: str = "",
    *,
    like: str = "",
    options: SearchOptions | None = None,
    max_tokens: int = 1500,
) -> str:
    """`search` as text for a model, never longer than the budget: whole results, snippets while they fit.

    Raises:
        InputError: neither words nor code, or no corpus to search.
    """
    answer = search(query, like=like, options=options)
    return bounded(answer, max_tokens)


def bounded(answer: Answer, max_tokens: int) -> str:
    """An answer as text within a budget: first every result's line, then snippets, best first."""
    room = max(max_tokens, 1) * CHARACTERS_PER_TOKEN
    heads = [f"Recognised: {'; '.join(answer.recognised[:6])}"] if answer.recognised else []
    entries = [f"{r.path}:{r.line}-{r.end_line} {r.kind} {r.symbol}\n  {r.why}" for r in answer.results]
    kept: list[str] = []
    for text in (*heads, *entries):
        if room < len(text) + 1:
            break
        kept.append(text)
        room -= len(text) + 1
    for place, result in enumerate(answer.results[: len(kept) - len(heads)], start=len(heads)):
        block = "\n" + result.snippet
        if result.snippet and len(block) <= room:
            kept[place] += block
            room -= len(block)
    return "\n".join(kept)[: max(max_tokens, 1) * CHARACTERS_PER_TOKEN]


def agent_read(target: str, *, line: int = 0, end_line: int = 0, max_tokens: int = 2000) -> str:
    """A definition by name (its card, then its text), or lines of a file by path; never beyond the budget.

    Raises:
        InputError: there is neither such a symbol nor such a file.
    """
    card = None if line else look_up(target)
    if card is None:
        excerpt = read(target, line=max(line, 1), end_line=end_line, max_tokens=max_tokens - 30)
        more = f"\n(more from line {excerpt.next_line})" if excerpt.next_line else ""
        return f"{excerpt.path}:{excerpt.line}-{excerpt.end_line}\n{excerpt.text}{more}"[
            : max_tokens * CHARACTERS_PER_TOKEN
        ]
    head = describe(card)[: max_tokens * CHARACTERS_PER_TOKEN // 2]
    left = max(max_tokens - len(head) // CHARACTERS_PER_TOKEN - 20, 20)
    body = read(card.path, line=card.line, end_line=card.end_line, corpus=card.corpus.name, max_tokens=left)
    return f"{head}\n{body.text}"[: max_tokens * CHARACTERS_PER_TOKEN]


def describe(card: SymbolCard) -> str:
    """A card as plain text."""
    lines = [f"{card.kind} {card.qualified_name} ({card.path}:{card.line}-{card.end_line})"]
    if card.template_parameters:
        lines.append(f"template {card.template_parameters}")
    lines += [card.signature] if card.signature else []
    lines += [card.doc] if card.doc else []
    if card.arch:
        lines.append(f"Architectures: {', '.join(card.arch)}")
    if card.guards:
        lines.append(f"Only where: {'; '.join(card.guards)}")
    if card.ptx:
        lines.append(f"PTX: {', '.join(card.ptx[:4])}")
    if card.usages:
        lines.append("Used in: " + ", ".join(f"{u.path}:{u.line}" for u in card.usages[:5]))
    return "\n".join(lines)
