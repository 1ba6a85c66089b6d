# SPDX-License-Identifier: Apache-2.0
"""What a template's parameters stand for in its launches: types that are left to deduction, and numbers.

`float` of `scale<<<g, b>>>(d_x, n)`, where `d_x` is a `float*`; 5 of `filter<5><<<g, b>>>(…)`; `half` of `scale<T>` in
a function template that is called as `launch<half>(…)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, LaunchSite
from warplens_tools.cuda.syntax.callees import arguments_for
from warplens_tools.cuda.syntax.declarators import read_parameters
from warplens_tools.cuda.syntax.functions import read_function
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of

_TYPE = re.compile(r"\s*(?:(?:const|static)\s+)*((?:unsigned\s+|signed\s+)?(?:long\s+long|[\w:]+))")

#: Function templates that call each other before a type is given up.
_MOST_CALLS = 4


def deduced_type(tree: SourceTree, kernel: Kernel, site: LaunchSite, name: str) -> str:
    """What the kernel's template parameter `name` stands for at a launch in the tree's file.

    It is read from the declarations of what is passed for `name*` and for `name`; "" where they do not tell, or not
    the same.
    """
    if site.path:
        return ""
    at, found = tree.text.offset(site.span.line, site.span.column), set[str]()
    for parameter, argument in zip(kernel.parameters, site.arguments, strict=False):
        if parameter.element_type == name and argument.strip().isidentifier():
            written = _declared(tree, argument.strip(), at, pointer=parameter.pointer)
            found.add(given_type(tree, written, at))
    kind = found.pop() if len(found) == 1 else ""
    return kind if kind not in kernel.template_parameters else ""


def given_type(tree: SourceTree, name: str, at: int, calls: int = _MOST_CALLS) -> str:
    """What a type's name stands for at an offset: of a template's parameter what all calls give it, else itself.

    `calls` is how many templates may pass it on. "" where calls differ or do not tell.
    """
    function = tree.function_at(at, at)
    outer = function.parent if function is not None else None
    listed = outer.child_by_field_name("parameters") if outer is not None else None
    if function is None or listed is None or listed.type != "template_parameter_list":
        return name
    parameter = next((n for n in listed.named_children if _type_parameter(tree, n) == name), None)
    if parameter is None:
        return name
    explicit = [(tree.code_of(n), n.start_byte) for n in arguments_for(tree, parameter)]
    types = explicit or list(_passed(tree, function, name))
    found = {given_type(tree, one, place, calls - 1) for one, place in types} if calls else set()
    return found.pop() if len(found) == 1 else ""


def _type_parameter(tree: SourceTree, node: Node) -> str:
    """`T` of `typename T`; "" of what is no type."""
    names = [n for n in node.named_children if n.type == "type_identifier"]
    return tree.code_of(names[0]) if node.type.endswith("type_parameter_declaration") and names else ""


def _passed(tree: SourceTree, function: Node, name: str) -> Iterator[tuple[str, int]]:
    """The types of the variables that calls of a function template pass for `name*` and `name`, each with its place."""
    read = read_function(tree, function)
    listed = read.declarator.child_by_field_name("parameters") if read is not None else None
    if listed is None:
        return
    nodes = [n for n in listed.named_children if n.type.endswith("parameter_declaration")]
    for node, parameter in zip(nodes, read_parameters(tree, listed), strict=False):
        if parameter.element_type == name:
            for passed in arguments_for(tree, node):
                word, at = tree.code_of(passed), passed.start_byte
                yield (
                    (_declared(tree, word, at, pointer=parameter.pointer) if word.isidentifier() else ""),
                    at,
                )


def _declared(tree: SourceTree, name: str, at: int, *, pointer: bool) -> str:
    """The type of a variable of the host's, or of what it points to; "" where it is declared otherwise."""
    binding = constants_of(tree).binding(name, at)
    if binding is None:
        return ""
    text = tree.masked.code[binding.declaration[0] : binding.declaration[1]].decode("ascii")
    written, stars = _TYPE.match(text), re.search(rf"(\**)\s*(?:__restrict__\s*)?\b{name}\b", text)
    if written is None or stars is None or written[1] == "auto" or len(stars[1]) != int(pointer):
        return ""
    return written[1]


def given_numbers(tree: SourceTree, kernel: Kernel, sites: Sequence[LaunchSite]) -> dict[str, int]:
    """Values of the template's parameters that all launches in the tree's file give it."""
    found, constants = dict[str, int](), constants_of(tree)
    for place, name in enumerate(kernel.template_parameters):
        values = {
            constants.value(s.template_arguments[place], tree.text.offset(s.span.line, s.span.column))
            if place < len(s.template_arguments) and not s.path
            else None
            for s in sites
        }
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            found[name] = value
    return found
