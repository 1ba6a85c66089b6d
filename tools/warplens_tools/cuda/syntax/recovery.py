# SPDX-License-Identifier: Apache-2.0
"""Parsing with a second chance: what hides a kernel from the grammar is blanked, and the rest read again.

Some half-typed code between functions makes tree-sitter take everything that follows for one expression.
A `__global__` that then heads no function betrays it.
"""

from __future__ import annotations

import re

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Tree

from warplens_tools.cuda.syntax.brackets import balance, common

LANGUAGE = Language(tree_sitter_cuda.language())

_GLOBAL = re.compile(rb"\b__global__\b")
_BEGINS = re.compile(
    rb"^(?:template\s*<|extern\s*\"C\"|static\b|inline\b|void\b|__global__|__device__|__host__|__forceinline__"
    rb"|__launch_bounds__|int\s+main\b|namespace\b)",
    re.MULTILINE,
)
_HEADS = frozenset(
    {
        "function_definition",
        "declaration",
        "field_declaration",
        "friend_declaration",
        "template_instantiation",
    }
)
_MAX_ROUNDS = 6


def parse_code(code: bytes, before: tuple[bytes, Tree] | None = None) -> tuple[bytes, Tree, tuple[int, ...]]:
    """The code, its tree, and where text was blanked so that the kernels behind it are seen.

    `before` is a similar code with its tree, parsed before: what did not change is not read again.
    """
    parser = Parser(LANGUAGE)
    tree = _parse_change(parser, code, *before) if before is not None else parser.parse(code)
    repairs: list[int] = []
    for round_ in range(_MAX_ROUNDS):
        old, hidden = code, _hidden(code, tree) if tree.root_node.has_error else []
        if not hidden:
            break
        if round_ == 0:
            code, crossed = balance(code.decode("ascii"), thorough=True)
            repairs += crossed
        elif (region := _culprit(code, tree, hidden)) is not None:
            start, end = region
            repairs.append(end - len(code[start:end].lstrip()))
            code = code[:start] + re.sub(rb"[^\n]", b" ", code[start:end]) + code[end:]
        else:
            break
        tree = _parse_change(parser, code, old, tree)
    return code, tree, tuple(repairs)


def _parse_change(parser: Parser, code: bytes, old: bytes, known: Tree) -> Tree:
    """The tree of `code`, read anew only where it differs from `old`."""
    start = common(min(len(code), len(old)), lambda n: code[:n] == old[:n])
    most = min(len(code), len(old)) - start
    same = common(most, lambda n: code[len(code) - n :] == old[len(old) - n :])
    ends = len(old) - same, len(code) - same
    edited = known.copy()
    edited.edit(start, *ends, _point(code, start), _point(old, ends[0]), _point(code, ends[1]))
    return parser.parse(code, edited)


def _point(code: bytes, at: int) -> tuple[int, int]:
    return code.count(b"\n", 0, at), at - code.rfind(b"\n", 0, at) - 1


def _hidden(code: bytes, tree: Tree) -> list[int]:
    """Every `__global__` that heads neither a function nor a declaration of file or class scope."""
    found = []
    for word in _GLOBAL.finditer(code):
        node = tree.root_node.descendant_for_byte_range(word.start(), word.end())
        if not _heads_something(code, node, word.start()):
            found.append(word.start())
    return found


def _heads_something(code: bytes, node: Node | None, at: int) -> bool:
    while node is not None and node.type not in _HEADS:
        node = node.parent
    if node is None:
        return False
    declarator = node.child_by_field_name("declarator")
    if (declarator is not None and declarator.start_byte <= at) or b"{" in code[node.start_byte : at]:
        return False
    if node.type != "function_definition" and b"{" in code[at : node.end_byte]:
        return False  # A body taken for an initializer.
    while node.parent is not None:
        node = node.parent
        if node.type not in _CONTAINERS:
            return False
    return True


def _culprit(code: bytes, tree: Tree, hidden: list[int]) -> tuple[int, int] | None:
    """From the last whole function in front of what is hidden to where the next function begins.

    That is the text before the first hidden kernel, or that kernel itself where it hides another.
    """
    start = max((n.end_byte for n in _functions(tree) if n.end_byte <= hidden[0]), default=0)
    first = len(code) - len(code[start:].lstrip())
    last = hidden[1] if len(hidden) > 1 else hidden[0]
    for begins in _BEGINS.finditer(code, first + 1, last + len(b"__global__")):
        region = code[start : begins.start()]
        if region.strip() and region.count(b"{") == region.count(b"}"):
            return _body(region, start) or (start, begins.start())
    return None


def _body(region: bytes, start: int) -> tuple[int, int] | None:
    """The inside of a kernel's braces, while there is anything in it: its header may well be whole."""
    opens, closes = region.find(b"{"), region.rfind(b"}")
    if b"__global__" not in region[: max(opens, 0)] or not region[opens + 1 : closes].strip():
        return None
    return start + opens + 1, start + closes


def _functions(tree: Tree) -> list[Node]:
    """Function definitions outside of other functions, without errors of their own header."""
    found: list[Node] = []
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            found.append(node)
        elif node.type in _CONTAINERS:
            stack += node.children
    return found


_CONTAINERS = frozenset({
    "translation_unit", "ERROR", "namespace_definition", "declaration_list", "template_declaration",
    "linkage_specification", "struct_specifier", "class_specifier", "field_declaration_list",
    "declaration", "field_declaration", "type_definition", "friend_declaration", "union_specifier",
})  # fmt: skip
