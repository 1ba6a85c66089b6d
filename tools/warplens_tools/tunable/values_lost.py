# SPDX-License-Identifier: Apache-2.0
"""Numbers that a program leaves to a build or to whoever instantiates a template, and that an edit takes for this
build's: `template <int CHANNELS>` where nothing asks for CHANNELS any more, an array of 257 that a loop walks up to
STEPS, which `-DSTEPS=1024` makes longer.

A run has one build of a program and the instantiations that it launches; the others are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.tunable.conditions import RELATIONS, DeviceCode
from warplens_tools.tunable.source import File

_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?:0[xX][\da-fA-F']+|\d[\d']*)[uUlL]*\Z")
#: A macro that the command line may define otherwise.
_LEFT_OPEN = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+\S", re.MULTILINE
)
_NUMBER_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
#: Where a number decides something, or is handed on to where it may.
_ASKS = frozenset({"template_argument_list", "argument_list", "array_declarator"})


def why_values_lost(before: File, after: File, kernel: str) -> str:
    """What an edited kernel takes for this build's, in words; "" for nothing."""
    old, new = (DeviceCode(file, kernel) for file in (before, after))
    lost = _asked(old, _numbers(old)) - _asked(new, _numbers(new) | _numbers(old))
    if lost:
        return f"the edit asks {kernel} for no {min(lost)} any more, which it is made for"
    for array, macro in _outgrown(new, set(_LEFT_OPEN.findall(before.text.text))):
        if (array, macro) not in set(_outgrown(old, {macro})):
            return f"the edit walks {array} up to {macro}, which a build may set, and its size is a number"
    return ""


def _numbers(code: DeviceCode) -> frozenset[str]:
    """The names of the numbers that the kernel is a template of."""
    return frozenset(
        name for one in code.functions if one.is_kernel for name in _number_parameters(code, one)
    )


def _number_parameters(code: DeviceCode, function: Function) -> Iterator[str]:
    outer = function.body.parent
    while outer is not None and outer.type != "template_declaration":
        outer = outer.parent
    listed = outer.child_by_field_name("parameters") if outer is not None else None
    for one in listed.named_children if listed is not None else ():
        declared = one.child_by_field_name("declarator") if one.type in _NUMBER_PARAMETERS else None
        if declared is not None:
            yield code.tree.code_of(declared).strip()


def _asked(code: DeviceCode, names: frozenset[str]) -> set[str]:
    """Those that decide something, or are handed on."""
    found: set[str] = set()
    for node in (node for function in code.functions for node in walk(function.body) if names):
        if node.type in _ASKS or _decides(node):
            found |= names & set(_NAME.findall(code.tree.code_of(node)))
        elif (condition := node.child_by_field_name("condition")) is not None:
            found |= names & set(_NAME.findall(code.tree.code_of(condition)))
    return found


def _decides(node: Node) -> bool:
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    return operator is not None and (operator.type in RELATIONS or operator.type == "%")


def _outgrown(code: DeviceCode, macros: set[str]) -> Iterator[tuple[str, str]]:
    """Arrays whose size is a number, and macros that a loop walks them up to."""
    for function in code.functions if macros else ():
        arrays = set(_fixed(code, function))
        for loop in (node for node in walk(function.body) if node.type == "for_statement" and arrays):
            test, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
            said = set(_NAME.findall(code.tree.code_of(test))) if test is not None else set()
            for macro in sorted(said & macros) if body is not None else ():
                yield from ((array, macro) for array in arrays & set(_walked(code, body, said)))


def _fixed(code: DeviceCode, function: Function) -> Iterator[str]:
    for node in walk(function.body):
        if node.type == "array_declarator":
            name, size = node.child_by_field_name("declarator"), node.child_by_field_name("size")
            if name is not None and size is not None and _NUMBER.match(code.tree.code_of(size).strip()):
                yield code.tree.code_of(name).strip()


def _walked(code: DeviceCode, body: Node | None, counted: set[str]) -> Iterator[str]:
    """What is subscripted there by what the loop counts."""
    for node in walk(body) if body is not None else ():
        if node.type == "subscript_expression":
            held, indices = node.child_by_field_name("argument"), node.child_by_field_name("indices")
            if (
                held is not None
                and indices is not None
                and counted & set(_NAME.findall(code.tree.code_of(indices)))
            ):
                yield code.tree.code_of(held).strip()
