# SPDX-License-Identifier: Apache-2.0
"""What a template's parameters stand for in its launches: types that are left to deduction, and numbers.

`float` of `scale<<<g, b>>>(d_x, n)`, where `d_x` is a `float*`; 5 of `filter<5><<<g, b>>>(…)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.cuda.model import Kernel, LaunchSite
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.constants import constants_of

_TYPE = re.compile(r"\s*(?:(?:const|static)\s+)*((?:unsigned\s+|signed\s+)?(?:long\s+long|[\w:]+))")


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
            found.add(_declared(tree, argument.strip(), at, pointer=parameter.pointer))
    kind = found.pop() if len(found) == 1 else ""
    return kind if kind not in kernel.template_parameters else ""


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
