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


@pytest.fixture(scope="module")
def queries() -> list[str]:
    found: dict[str, None] = {}
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "tools").rglob("*.py"))]
    for text in texts:
        for node in ast.walk(ast.parse(text if ".captures" in text else "")):
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


@pytest.mark.thorough
def test_they_are_the_same_walked_and_compiled(
    queries: list[str], roots: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(queries) > 8
    for text in queries:
        monkeypatch.setattr(patterns, "_WORTH_COMPILING", 1 << 40)
        walked = Pattern(text)
        mine = [captures(walked, root) for root in roots]
        assert walked._query is None, f"{text} was not walked"
        assert any(mine), f"no program has any of {text}"
        monkeypatch.setattr(patterns, "_WORTH_COMPILING", 0)
        compiled = Pattern(text)
        assert [captures(compiled, root) for root in roots] == mine, text
        assert compiled._query is not None


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
