# SPDX-License-Identifier: Apache-2.0
"""Sizes that a kernel's text names, as the host names them, and the other way round."""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.lexical import matching
from warplens_tools.cuda.values.writes import is_set_once
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.launches import Launch, Launches
from warplens_tools.rewrite.common.outputs import Axis
from warplens_tools.rewrite.common.reading import WORD, View, renamed, statements

#: Variables made of variables made of parameters are followed this far.
_DEEP = 3
_ATOM = re.compile(r"[\w.]+")
_ROUNDED = re.compile(r"\(*\s*([A-Za-z_][\w.]*)\s*(?:\+[^/]*?)?\)*\s*/\s*\(?[\w\s*]+\)?")


def host_text(view: View, launches: Launches, launch: Launch, expression: str, depth: int = 0) -> str:
    """An expression over the kernel's parameters and the file's constants, as one launch would say it.

    Variables that the kernel works out of those once are put in: `total` of `int total = rows * cols;`.

    Raises:
        Refused: it holds what the host does not know there.
    """
    known: dict[str, str] = {}
    if "[" in expression or "->" in expression:
        raise Refused("the host does not know what the device's memory says")
    for name in set(WORD.findall(re.sub(r"\.\w+", "", expression))):
        if name in view.parameters:
            given = launches.argument(launch, name).strip()
            if not given or "(" in given.replace("(int)", ""):
                raise Refused(f"what a launch passes for {name} is not known")
            known[name] = given if _ATOM.fullmatch(given) else f"({given})"
        elif name in view.kernel.template_parameters:
            raise Refused(f"a size rests on the template's {name}")
        elif not _is_constant(view, name):
            value = _worked_out(view, name)
            if depth > _DEEP or value is None:
                raise Refused(f"the host does not know {name}")
            inner = host_text(view, launches, launch, value, depth + 1)
            known[name] = inner if _is_wrapped(inner) else f"({inner})"
    text = renamed(expression, known)
    return (
        text
        if _ATOM.fullmatch(text) or _is_wrapped(text)
        else f"({text})"
        if re.search(r"[-+?<>|&^]", text)
        else text
    )


def _is_wrapped(text: str) -> bool:
    """Whether brackets stand around the whole of an expression."""
    return text.startswith("(") and matching(text, 0) == len(text)


def extent_on_host(view: View, launches: Launches, launch: Launch, axis: Axis, limit: str) -> str:
    """What an axis of outputs runs up to, as one launch would say it; where only the device's memory says that, as many
    values of the axis as the launch has threads for.

    Raises:
        Refused: neither is known.
    """
    try:
        return host_text(view, launches, launch, limit)
    except Refused:
        if "[" not in (_worked_out(view, limit) or ""):
            raise
        index = "xyz".find(axis.letter) if axis.value else -1
        threads = launch.site.block_value[index] if index >= 0 else None
        blocks = launches.meaning(launch.grid.axis(index), launch) if threads is not None else ""
        # what is said by the block's own extents is another number once these are others
        if not blocks or re.search(r"[A-Za-z_]\w*\s*\.\s*[xyz]\b", blocks):
            raise
        return f"({blocks if re.fullmatch(_ATOM, blocks) else f'({blocks})'} * {threads})"


def kernel_text(view: View, launch: Launch, expression: str) -> str:
    """An expression of the host's at a launch, as the kernel would say it, by its parameters and the file's constants.

    Raises:
        Refused: it holds what the kernel is not given.
    """
    given = {
        argument.strip(): parameter.name
        for parameter, argument in zip(view.kernel.parameters, launch.site.arguments, strict=False)
        if not parameter.pointer
    }
    if expression.strip() in given:
        return given[expression.strip()]
    if re.search(r"[A-Za-z_]\w*\s*[(.]|->|::", expression):
        raise Refused("nothing says up to where its outputs go")
    known: dict[str, str] = {}
    for name in set(WORD.findall(expression)):
        named = any(c.name == name for c in view.model.constants) or view.file.macros.get(name) is not None
        if name not in given and not named:
            raise Refused("nothing says up to where its outputs go")
        known[name] = given.get(name, name)
    return renamed(expression, known)


def _worked_out(view: View, name: str) -> str | None:
    """What a variable at the top of the kernel is initialised with, once and for all; None for any other name."""
    for node in statements(view.body):
        for one in declared_in(view, node) if node.type == "declaration" else ():
            if one.name != name or one.value is None or one.stars:
                continue
            binding = view.expanded.constants.binding(name, one.value.end_byte)
            once = binding is not None and is_set_once(view.tree, binding)
            return view.written(one.value) if once else None
    return None


def _is_constant(view: View, name: str) -> bool:
    if name in ("int", "unsigned", "size_t", "long", "min", "max"):
        return True
    if any(c.name == name for c in view.model.constants) or view.file.macros.get(name) is not None:
        return True
    # what no text of the file declares and is written like a macro, a header's, stands for the host too
    return name.isupper() and view.expanded.constants.binding(name, view.body.end_byte - 1) is None


def limit_of(view: View, launches: Launches, letter: str) -> str:
    """What an axis that no condition limits runs up to: `n` where every launch has `n / 16` blocks along it.

    Raises:
        Refused: the launches do not say.
    """
    found: set[str] = set()
    for launch in launches.read():
        extent = launch.grid.axis("xyz".index(letter)) if letter else ""
        rounded = _ROUNDED.fullmatch(launches.meaning(extent, launch).strip())
        given = launch.site.arguments
        names = [
            p.name for p, a in zip(view.kernel.parameters, given, strict=False) if rounded and a == rounded[1]
        ]
        if rounded and not names and _is_constant(view, rounded[1]):
            names = [rounded[1]]
        found.add(names[0] if names else "")
    if len(found) != 1 or "" in found:
        raise Refused("nothing says up to where its outputs go")
    return found.pop()
