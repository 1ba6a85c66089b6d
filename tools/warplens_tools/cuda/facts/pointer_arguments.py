# SPDX-License-Identifier: Apache-2.0
"""Parts of arrays that a kernel hands to functions of its file, which go through them: `sum_row(x + row * n, n)`."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import functions_named
from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader

_ARGUMENTS = "(call_expression arguments: (argument_list (_) @argument))"
_LOOP = re.compile(r"\b(?:for|while)\s*\(")


def pointer_arguments(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[ArrayAccess, ...]:
    """Where each part begins, as if the kernel read its first element; only parts that a loop goes through."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    forms = FormReader(expanded, block)
    pointers = PointerReader(kernel, forms)
    found = []
    for node in expanded.tree.captures(_ARGUMENTS, expanded.function.body).get("argument", []):
        pointer = pointers.pointer(node) if _goes_through(expanded.tree, node) else None
        if pointer is not None and pointer.space == "global" and pointer.offset is not None:
            found.append(
                ArrayAccess(
                    name=pointer.name,
                    space="global",
                    element_type=pointer.element_type,
                    reads=True,
                    writes=False,
                    indices=(expanded.tree.text_of(node),),
                    span=expanded.tree.span(node),
                    loops=tuple(forms.loop(n) for n in loops_around(expanded.tree, node)),
                    index=pointer.offset,
                    traced=pointer.traced,
                    conditional=False,
                    declared=pointer.declared,
                )
            )
    return tuple(found)


def _goes_through(tree: SourceTree, argument: Node) -> bool:
    """Whether every function of that name indexes the parameter in a loop, as a pointer."""
    listed = argument.parent
    call = listed.parent if listed is not None else None
    function = call.child_by_field_name("function") if call is not None else None
    if listed is None or function is None:
        return False
    place = [n.start_byte for n in listed.named_children].index(argument.start_byte)
    name = tree.code_of(function).split("<")[0].strip().rsplit("::", 1)[-1]
    called = functions_named(tree.file, name)
    return bool(called) and all(_indexes(tree.file, f, place) for f in called)


def _indexes(tree: SourceTree, function: Function, place: int) -> bool:
    parameters = function.declarator.child_by_field_name("parameters")
    written = parameters.named_children if parameters is not None else []
    if place >= len(written) or "*" not in tree.code_of(written[place]):
        return False
    names = re.findall(r"[A-Za-z_]\w*", tree.code_of(written[place]))
    body = tree.code_of(function.body)
    loop = _LOOP.search(body)
    return loop is not None and bool(re.search(rf"\b{names[-1]}\s*\[", body[loop.start() :]))
