# SPDX-License-Identifier: Apache-2.0
"""From text to `SourceModel`.

A kernel that a macro writes (`DEFINE_SCALE(scale_f, float)`, `KERNEL(scale)(float* a) { … }`) is parsed from the
macro's expansion as a text of its own. What the macro wrote stands, for the user, where the macro is
used; what follows the use in the text stands where it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.kernels import plain_kernel, read_kernel, template_parameters
from warplens_tools.cuda.launch_sites import find_launches
from warplens_tools.cuda.model import Include, Kernel, SourceModel
from warplens_tools.cuda.syntax.functions import (
    Function,
    find_functions,
    functions_of,
    is_extern_c,
    plain_name,
    scope_names,
)
from warplens_tools.cuda.syntax.lexical import without_comments
from warplens_tools.cuda.syntax.macros import MacroUse
from warplens_tools.cuda.syntax.tree import SourceTree, parse_expansion, parse_tree
from warplens_tools.cuda.values.constants import Constants, constants_of
from warplens_tools.text import SourceText, Span

_ARCH_SPECIFIC = re.compile(
    r"#\s*include\s*[<\"](?:cute|cutlass)/|wgmma|cp\.async\.bulk\.tensor|cp_async_bulk_tensor|CUtensorMap"
    r"|setmaxnreg|warpgroup_reg_(?:alloc|dealloc)|tcgen05"
)
_MAX_ERRORS = 200


def parse(text: SourceText, path: str, defines: Mapping[str, str] | None = None) -> SourceModel:
    """What `text` says: kernels, launches, constants, includes. Never raises on broken code.

    `defines` are the macros of the command line (name to body), None for those that `text` carries; an
    `#ifndef TILE` default counts unless they say otherwise.
    """
    return model_of(parse_tree(text, defines), path)


def model_of(tree: SourceTree, path: str) -> SourceModel:
    """The model of a parsed text."""
    constants = constants_of(tree)
    functions = list(functions_of(tree))
    names = frozenset(plain_name(tree.text_of(f.name_node)).rsplit("::", 1)[-1] for f in functions)
    kernels = _kernels(tree, constants, functions, names)
    kernel_names = frozenset(k.name for k in kernels)
    return SourceModel(
        path=path,
        kernels=kernels,
        launches=find_launches(tree, constants, kernel_names),
        constants=constants.listed(),
        includes=tuple(
            Include(tree.text.text[slice(*i.target)], i.system, tree.text_span(i.start, i.end))
            for i in tree.masked.directives.includes
        ),
        errors=syntax_errors(tree),
        has_main=any(f.name_node.text == b"main" for f in functions),
        needs_arch_specific=_needs_arch_specific(tree.text.text),
    )


def _kernels(
    tree: SourceTree, constants: Constants, functions: list[Function], names: frozenset[str]
) -> tuple[Kernel, ...]:
    found: list[Kernel] = []
    for function in functions:
        if function.macro is not None and function.macro.kind == "header":
            found += _after_macro(tree, constants, function, names)
        elif function.is_kernel:
            found.append(plain_kernel(tree, constants, function, names))
    for use in tree.masked.uses:
        if use.kind == "kernel":
            found += _in_macro(tree, constants, use, names)
    return tuple(sorted(found, key=lambda k: k.span))


def _after_macro(
    tree: SourceTree, constants: Constants, function: Function, names: frozenset[str]
) -> list[Kernel]:
    """The kernel whose header a macro writes and whose body follows."""
    use = function.macro
    expanded = expanded_kernel(tree, use, function.node.end_byte) if use is not None else None
    if use is None or expanded is None:
        return []
    inner, written = expanded
    below = Constants(inner, outer=(constants, function.body.start_byte))
    kernel = read_kernel(inner, below, written, names)
    outside = template_parameters(tree, function.node)
    return [
        msgspec.structs.replace(
            _placed(tree, use, kernel, scope_names(tree, function.node)),
            span=tree.text_span(function.start, function.node.end_byte),
            body=tree.span(function.body),
            template_parameters=outside or kernel.template_parameters,
            extern_c=kernel.extern_c or is_extern_c(function),
        )
    ]


def _in_macro(tree: SourceTree, constants: Constants, use: MacroUse, names: frozenset[str]) -> list[Kernel]:
    """The kernel that a macro writes as a whole."""
    expanded = expanded_kernel(tree, use, use.end)
    if expanded is None:
        return []
    inner, written = expanded
    kernel = read_kernel(inner, Constants(inner, outer=(constants, use.start)), written, names)
    around = tree.root.descendant_for_byte_range(use.start, use.start)
    return [_placed(tree, use, kernel, scope_names(tree, around) if around is not None else [])]


def _placed(tree: SourceTree, use: MacroUse, kernel: Kernel, scopes: list[str]) -> Kernel:
    return msgspec.structs.replace(
        kernel,
        macro=use.name,
        qualified_name="::".join([*scopes, kernel.qualified_name]),
        name_span=argument_span(tree, use, kernel.name) or tree.text_span(use.start, use.end),
    )


def syntax_errors(tree: SourceTree) -> tuple[Span, ...]:
    """Where the parser could not read, outermost error nodes only, and where brackets were repaired."""
    size = len(tree.text.text)
    found = [tree.text_span(min(at, size), min(at + 1, size)) for at in tree.masked.repairs]
    stack: list[Node] = [tree.root] if tree.root.has_error else []
    while stack and len(found) < _MAX_ERRORS:
        node = stack.pop()
        if node.is_error or node.is_missing:
            found.append(tree.span(node))
        else:
            stack += [child for child in node.children if child.has_error]
    return tuple(sorted(set(found)))


def _needs_arch_specific(text: str) -> bool:
    if not _ARCH_SPECIFIC.search(text):
        return False
    return bool(_ARCH_SPECIFIC.search(without_comments(text, keep_strings=True)))


def expanded_kernel(tree: SourceTree, use: MacroUse, end: int) -> tuple[SourceTree, Function] | None:
    """The kernel that `use` begins and that ends at offset `end`, expanded; None if it holds none."""
    expansion = use.expansion
    rest = tree.text.text[use.end : end]

    def place(start: int, stop: int) -> Span:
        begin = use.start if start < len(expansion) else start - len(expansion) + use.end
        last = use.end if stop <= len(expansion) else stop - len(expansion) + use.end
        return tree.text_span(begin, last)

    inner = parse_expansion(expansion + rest, tree, place)
    kernels = [f for f in find_functions(inner) if f.is_kernel]
    return (inner, kernels[0]) if kernels else None


def argument_span(tree: SourceTree, use: MacroUse, text: str) -> Span | None:
    """Where a use's argument of exactly this text stands."""
    written = tree.text.text[use.start : use.end]
    for index in range(len(use.name), len(written)):
        if written.startswith(text, index) and not _inside_word(written, index, index + len(text)):
            return tree.text_span(use.start + index, use.start + index + len(text))
    return None


def _inside_word(text: str, start: int, end: int) -> bool:
    return (text[start - 1].isalnum() or text[start - 1] == "_") or (
        end < len(text) and (text[end].isalnum() or text[end] == "_")
    )
