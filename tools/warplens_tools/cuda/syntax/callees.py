# SPDX-License-Identifier: Apache-2.0
"""The functions of a file that a piece of code names, and those that these name."""

from __future__ import annotations

from collections.abc import Mapping

from warplens_tools.cuda.syntax.definitions import words_of
from warplens_tools.cuda.syntax.functions import Function, functions_of, plain_name
from warplens_tools.cuda.syntax.tree import SourceTree


def own_name(tree: SourceTree, function: Function) -> str:
    """The function's name without namespaces, classes and template arguments."""
    return plain_name(tree.text_of(function.name_node)).rsplit("::", 1)[-1]


def called_names(tree: SourceTree, code: str) -> frozenset[str]:
    """Names of the file's functions that `code` may call, directly or not; by name alone."""
    table = tree.remembered("words of functions", lambda: _words(tree))
    found: set[str] = set()
    new = words_of(code) & table.keys()
    while new:
        found |= new
        new = frozenset(name for one in new for name in table[one] & table.keys()) - found
    return frozenset(found)


def called_code(tree: SourceTree, code: str) -> str:
    """The bodies of those functions."""
    names = called_names(tree, code)
    return "\n".join(tree.code_of(f.body) for f in functions_of(tree) if own_name(tree, f) in names)


def _words(tree: SourceTree) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for function in functions_of(tree):
        name = own_name(tree, function)
        found[name] = found.get(name, frozenset()) | words_of(tree.code_of(function.body))
    return found
