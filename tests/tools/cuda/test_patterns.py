# SPDX-License-Identifier: Apache-2.0
"""A query is answered alike, walked and compiled: every query of the package, on every program of the repository."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tree_sitter import Node

from warplens_tools.cuda.syntax import patterns
from warplens_tools.cuda.syntax.patterns import Pattern
from warplens_tools.cuda.syntax.tree import parse_apart
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]
QUERY = re.compile(r"\s*[\[(]\s*\(?\w+[^@]*@\w+")


def queries() -> list[str]:
    found: dict[str, None] = {}
    for path in sorted((ROOT / "tools").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and QUERY.match(node.value):
                found[node.value] = None
    return list(found)


@pytest.fixture(scope="module")
def roots() -> list[Node]:
    folders = ("tests/data", "tests/gpu/programs", "examples/first")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.cu"))]
    return [parse_apart(SourceText.read(path)).root for path in files]


def captures(pattern: Pattern, node: Node) -> dict[str, list[tuple[str, int, int]]]:
    found = pattern.captures(node)
    return {name: [(n.type, n.start_byte, n.end_byte) for n in nodes] for name, nodes in found.items()}


@pytest.mark.parametrize("text", queries())
def test_it_is_the_same_walked_and_compiled(
    text: str, roots: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_WORTH_COMPILING", 1 << 40)
    walked = Pattern(text)
    mine = [captures(walked, root) for root in roots]
    assert walked._query is None, "it was not walked"
    monkeypatch.setattr(patterns, "_WORTH_COMPILING", 0)
    assert [captures(Pattern(text), roots[0])] == mine[:1]
    compiled = Pattern(text)
    assert [captures(compiled, root) for root in roots] == mine
    assert any(mine), "no program has any of it"


def test_what_walks_far_is_compiled(roots: list[Node]) -> None:
    pattern = Pattern("(call_expression) @call")
    while pattern._walked <= patterns._WORTH_COMPILING:
        assert pattern._query is None
        pattern.captures(roots[0])
    assert pattern._query is not None


@pytest.mark.parametrize("text", ["(call_expression (_)? @a)", '((identifier) @a (#eq? @a "x"))'])
def test_what_is_no_plain_query_is_compiled(text: str, roots: list[Node]) -> None:
    pattern = Pattern(text)
    pattern.captures(roots[0])
    assert pattern._query is not None
