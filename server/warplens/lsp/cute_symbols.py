# SPDX-License-Identifier: Apache-2.0
"""CUTLASS/CuTe names in the user's text: which one stands at a position, and its card as Markdown."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from warplens.lsp import uris
from warplens_cutlass.lookup import look_up
from warplens_cutlass.model import SymbolCard
from warplens_tools.text import SourceText, Span

_USES = re.compile(r"#\s*include\s*[<\"](?:cute|cutlass)/|\b(?:cute|cutlass)::")
_NAME = re.compile(r"(?:\w+::)*\w+")
_WORD = re.compile(r"\w+")
_ARGUMENT = re.compile(r"\s*<\s*([\w:]+)")
_DOC_LIMIT = 900
_WORDS = frozenset(
    """
    if for while return auto const void int float double bool char unsigned struct class template
    typename using namespace static inline constexpr else switch case break this sizeof
    """.split()  # noqa: SIM905
)


class NameAt(msgspec.Struct, frozen=True):
    """A name in the text, cut off after the word under the cursor, and the template argument after it."""

    name: str
    span: Span
    argument: str = ""


def name_at(text: SourceText, line: int, column: int) -> NameAt | None:
    """The name at a position that may be CUTLASS's: qualified, called, instantiated, or spelled like a type.

    None where the text does not use CUTLASS at all.
    """
    if not _USES.search(text.text):
        return None
    row = text.line_text(line)
    for match in _NAME.finditer(row):
        if match.start() < column <= match.end() + 1:
            end = row.find("::", max(column - 1, match.start()), match.end())
            stop = end if end > 0 else match.end()
            name = row[match.start() : stop]
            after = row[stop:]
            if not _likely(name, after):
                return None
            argument = _ARGUMENT.match(after)
            start = name.rfind("::") + 2 if "::" in name else 0
            span = Span(line, match.start() + start + 1, line, stop + 1)
            return NameAt(name, span, argument[1] if argument else "")
    return None


def word_at(text: SourceText, line: int, column: int) -> Span:
    """The word at a position, else the position itself."""
    for match in _WORD.finditer(text.line_text(line)):
        if match.start() < column <= match.end() + 1:
            return Span(line, match.start() + 1, line, match.end() + 1)
    return Span(line, column, line, column)


def _likely(name: str, after: str) -> bool:
    last = name.rsplit("::", 1)[-1]
    if last in _WORDS or last[:1].isdigit() or len(last) < 2:
        return False
    marked = "_" in last or any(c.isupper() for c in last)
    return "::" in name or after.lstrip()[:1] in ("(", "<", "{") or (marked and len(last) > 3)


def card_page(name: NameAt) -> str:
    """What a hover shows of a name; "" when no indexed corpus has it."""
    card = look_up(name.name, argument=name.argument)
    return markdown(card) if card is not None else ""


def markdown(card: SymbolCard) -> str:
    """A card: signature, documentation, guards, instruction, where it is used."""
    template = f"template {card.template_parameters}\n" if card.template_parameters else ""
    parts = [f"```cpp\n{template}{card.signature}\n```"]
    if card.doc:
        parts.append(card.doc[:_DOC_LIMIT] + ("…" if len(card.doc) > _DOC_LIMIT else ""))
    facts = [_meaning(card)] if card.atom is not None else []
    if card.arch:
        facts.append("for " + ", ".join(card.arch))
    if card.guards:
        facts.append("only where " + " and ".join(f"`{g}`" for g in card.guards))
    if card.ptx:
        facts.append("PTX " + ", ".join(f"`{p}`" for p in card.ptx[:3]))
    parts += [" · ".join(f for f in facts if f)] if facts else []
    root = Path(card.corpus.root)
    if card.usages:
        links = ", ".join(
            f"[{u.path.rsplit('/', 1)[-1]}]({uris.from_path(root / u.path)}#L{u.line})"
            for u in card.usages[:5]
        )
        parts.append(f"Used in {card.used_in} files: {links}")
    more = f", {card.overloads} definitions" if card.overloads > 1 else ""
    place = f"[{card.path}:{card.line}]({uris.from_path(root / card.path)}#L{card.line})"
    parts.append(
        f"`{card.qualified_name}` in {place} (CUTLASS {card.corpus.version or card.corpus.name}{more})"
    )
    return "\n\n".join(parts)


def _meaning(card: SymbolCard) -> str:
    """What an atom's name says."""
    atom = card.atom
    if atom is None:
        return ""
    parts = [atom.operation.upper() if atom.operation == "mma" else "copy"]
    parts += ["x".join(map(str, atom.shape))] if atom.shape else []
    parts += ["types " + ", ".join(atom.types)] if atom.types else []
    parts += [f"operands {atom.operands}"] if atom.operands else []
    return " ".join([*parts, *atom.features])
