# SPDX-License-Identifier: Apache-2.0
"""Integer types by the names that a file gives them: `typedef uint64_t row_t;`, `using Index = int;`, and a template's
parameter that is called an index."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.syntax.types import Integer, integer_type, type_bytes

_ALIASES = "[(alias_declaration) (type_definition)] @alias"
#: Words that stand with a type's name and do not change which it is.
QUALIFIER = re.compile(r"\b(?:const|volatile|struct|class|mutable|typename)\b")
#: A type that is one name, whatever namespaces and specifiers stand before it.
_ONE_NAME = re.compile(
    r"\s*(?:(?:const|volatile|static|constexpr|register|typename|mutable)\s+)*(?:[A-Za-z_]\w*\s*::\s*)*([A-Za-z_]\w*)"
    r"(?:\s+const)?\s*"
)
#: What template parameters that stand for integers are called.
_INDEX = re.compile(
    r"(?:\A|_)(?:ind|idx|size|offset|int)|Ind(?:ex|[A-Z_]|\Z)|Idx|Size|Offset|Int(?:eger|Type|[A-Z_]|\Z)"
)
#: What a header's name for a built-in type has before it among a text's macros.
TYPEDEF = "typedef "


def aliases(tree: SourceTree) -> Mapping[str, frozenset[str]]:
    """By name all that the aliases of a file, else of its headers, give it as a type, without qualifiers: several where
    branches of the preprocessor differ."""
    return tree.remembered("aliases", lambda: _aliases(tree))


def built_in(known: Mapping[str, Collection[str]], wanted: Iterable[str]) -> dict[str, str]:
    """Those of the wanted names that stand for built-in types, with these; of integers that differ with all, "|"
    between."""
    found = {}
    for name in wanted:
        plain = _ends(known, known.get(name, ()))
        whole = all(integer_type(kind) is not None for kind in plain)
        if plain and (whole or (len(plain) == 1 and type_bytes(next(iter(plain))) is not None)):
            found[name] = "|".join(sorted(plain))
    return found


def _ends(known: Mapping[str, Collection[str]], kinds: Iterable[str]) -> frozenset[str]:
    """All that types may come to, names followed once each: headers give one name many types, some in circles."""
    ends: set[str] = set()
    followed: set[str] = set()
    waiting = list(kinds)
    while waiting:
        written = QUALIFIER.sub(" ", waiting.pop()).strip()
        named = _ONE_NAME.fullmatch(written)
        name = named[1] if named else written
        if integer_type(written) is not None or name not in known:
            ends.add(written)
        elif name not in followed:
            followed.add(name)
            waiting += known[name]
    return frozenset(ends)


def _aliases(tree: SourceTree) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for node in tree.captures_beside(_ALIASES, b"using", b"typedef").get("alias", []):
        kind = node.child_by_field_name("type")
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        if kind is not None and name is not None:
            written = " ".join(QUALIFIER.sub(" ", tree.code_of(kind)).split())
            found.setdefault(tree.code_of(name), set()).add(written)
    for key, body in tree.text.defines.items():
        if key.startswith(TYPEDEF):
            found.setdefault(key.removeprefix(TYPEDEF), set(body.split("|")))
    return {name: frozenset(kinds) for name, kinds in found.items() if name.isidentifier()}


def integer_names(tree: SourceTree) -> frozenset[tuple[str, Integer]]:
    """The names that stand for integers in every branch, with the widest of their types."""
    return tree.remembered("integer names", lambda: frozenset(_integers(aliases(tree))))


def _integers(known: Mapping[str, Collection[str]]) -> list[tuple[str, Integer]]:
    found = []
    for name in known:
        kinds = [integer_type(kind) for kind in _ends(known, known[name])]
        if kinds and None not in kinds:
            found.append((name, max((k for k in kinds if k is not None), key=lambda k: k.bytes)))
    return found


def integer_of(tree: SourceTree, written: str, at: Node | None = None) -> Integer | None:
    """As `integer_type`, of a name that the file gives to an integer type too, and of a parameter of the template
    around `at` whose name says that it is an index."""
    direct = integer_type(written)
    named = _ONE_NAME.fullmatch(written) if direct is None else None
    if named is None:
        return direct
    table = tree.file.remembered("integers by name", lambda: dict(integer_names(tree.file)))
    found: Integer | None = table.get(named[1])
    if found is None and at is not None and _INDEX.search(named[1]) and _is_parameter(tree, at, named[1]):
        return integer_type("long")
    return found


def _is_parameter(tree: SourceTree, at: Node, name: str) -> bool:
    around = at.parent
    while around is not None:
        listed = around.child_by_field_name("parameters") if around.type == "template_declaration" else None
        if listed is not None:
            return bool(re.search(rf"\b(?:typename|class)\s+{re.escape(name)}\b", tree.code_of(listed)))
        around = around.parent
    return False
