# SPDX-License-Identifier: Apache-2.0
"""What the template parameters of a kernel stand for."""

from __future__ import annotations

import itertools

from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.view import KernelView


def view_element_bytes(view: KernelView, name: str) -> int | None:
    """As `Layouts.bytes`, with a template parameter taken as its argument."""
    return layouts_of(parse_tree(view.text)).bytes(template_arguments(view).get(name, name))


def template_arguments(view: KernelView) -> dict[str, str]:
    """Argument of every template parameter of the kernel, as the compiled instance or else the only launch has it.

    Empty where neither says: arguments that a launch leaves to deduction are known once the kernel is compiled.
    """
    names = view.kernel.template_parameters
    if not names:
        return {}
    compiled = view.evidence.worst
    if compiled is not None:
        given = _arguments(compiled.demangled, view.kernel.name)
    else:
        launched = {site.template_arguments for site in view.model.launches_of(view.kernel)}
        given = launched.pop() if len(launched) == 1 else ()
    # A class template's parameters come first, and its arguments stand with the class.
    return dict(zip(names[-len(given) :], given, strict=False)) if given else {}


def _arguments(demangled: str, name: str) -> tuple[str, ...]:
    """("float", "4") of "void ns::scale<float, 4>(float*)"."""
    _, found, rest = demangled.partition(f"{name}<")
    if not found:
        return ()
    depth, cuts = 1, [-1]
    for at, char in enumerate(rest):
        depth += (char in "<([") - (char in ">)]")
        if depth == 0 or (depth == 1 and char == ","):
            cuts.append(at)
        if depth == 0:
            break
    return tuple(rest[low + 1 : high].strip() for low, high in itertools.pairwise(cuts))
