# SPDX-License-Identifier: Apache-2.0
"""Loops whose number of iterations differs between the lanes of a warp by their data: rows of their own lengths, steps
until a value has settled; of the kernel's own text, or of the device functions that it hands what differs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.data_branches import BodyNames, names_in
from warplens_tools.cuda.facts.even_lengths import is_as_long_for_all
from warplens_tools.cuda.facts.lane_names import names_from
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import functions_named, parameter_names
from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

#: What the lanes of a warp do together: the loop is then the warp's, and as long for all of them.
_TOGETHER = re.compile(
    r"__(?:shfl|ballot|any|all|syncwarp|activemask|reduce)|\b(?:lane|lane_?id|laneIdx|warpSize|WARP_?SIZE)\b"
    r"|%\s*32\b|&\s*(?:31|0x1[fF])\b|>>\s*5\b|/\s*32\b|tiled_partition",
    re.IGNORECASE,
)
_TESTED = LOOPS | {"if_statement"}
_BARRIER = "__syncthreads"
#: Waiting for others is no work of one's own.
_WAITS = re.compile(
    r"\batomic(?:CAS|Exch)|\batomic[A-Z]\w*\s*\([^;]*,\s*0u?\s*\)|\bvolatile\b|__threadfence|\bwhile\s*\([^;{]*atomic[A-Z]"
)
_SIZE = re.compile(r"\bsizeof\s*\([^()]*\)")
_ELEMENT = re.compile(r"\b([A-Za-z_]\w*)(?:(?:\.|->)\w+)*\s*\[")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")
_OF = re.compile(r"[A-Za-z_]\w*(?:\.|->)([A-Za-z_]\w*)\b(?!\s*\()")
_SET_MEMBER = re.compile(r"(?:\.|->)([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?(?:\+\+|--|[-+*/%&|^]?=(?!=))")
_STEPPED = re.compile(r"(?:\+\+|--)\s*([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*(?:\+\+|--|[-+]=(?!=))")
_ADDED = re.compile(r"\b([A-Za-z_]\w*)\s*[-+]=([^;{}]*)")
#: A test that asks a function, as whether a ray hits.
_ASKS = re.compile(r"\b(?!sizeof|min|max|abs|fabs|static_cast)[A-Za-z_]\w*\s*\(")
_LANES = frozenset({"threadIdx", "blockIdx"})
#: How deep calls are followed.
_DEEPEST = 3
_SET = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?(?:[*/%&|^]|<<|>>)?=(?!=)")


class UnevenLoop(msgspec.Struct, frozen=True):
    """One loop that lanes leave at different times."""

    span: Span
    #: What ends it, as written.
    condition: str
    #: "length": each lane has loaded how long it is; "data": what its iterations work out ends it.
    by: Literal["length", "data"]
    #: The device function it stands in; "" for the kernel itself.
    function: str = ""


def uneven_loops(tree: SourceTree, kernel: Kernel) -> tuple[UnevenLoop, ...]:
    """The outermost such loops of the kernel's own text, else of functions that it calls; none of kernels whose warps
    work on one element together."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return ()
    code = expanded.tree.code_of(expanded.function.body)
    if _TOGETHER.search(code):
        return ()
    names = names_in(expanded, kernel)
    looped = re.search(r"\b(?:for|while)\b", code)
    found = _in_text(expanded, kernel, names) if looped else ()
    return found or _outermost(_in_calls(tree, expanded.tree, expanded.function.body, names.lanes, set()))


def _in_text(expanded: KernelTree, kernel: Kernel, names: BodyNames) -> tuple[UnevenLoop, ...]:
    own = frozenset(a.name for a in kernel.arrays if a.space == "local")
    return _outermost(_found(expanded.tree, expanded.function.body, names, own))


def _outermost(every: Iterable[UnevenLoop]) -> tuple[UnevenLoop, ...]:
    found = sorted(every, key=lambda u: u.span)
    return tuple(u for u in found if not any(o is not u and o.span.contains(u.span) for o in found))


def _in_calls(
    file: SourceTree, tree: SourceTree, body: Node, lanes: frozenset[str], seen: set[str], depth: int = 0
) -> Iterator[UnevenLoop]:
    """The loops of the device functions that a body hands what differs between lanes, and of those that these call."""
    for call in walk(body):
        name = _callee(tree, call) if call.type == "call_expression" else ""
        functions = functions_named(file, name) if name and name not in seen else []
        if len(functions) != 1 or not functions[0].is_device:
            continue
        inside, given = functions[0].body, _handed(file, tree, functions[0], call, lanes)
        code = file.code_of(inside)
        if not given or _TOGETHER.search(code):
            continue
        seen.add(name)
        own, loops = file.remembered(
            ("uneven", name, given), functools.partial(_of, file, name, inside, given)
        )
        yield from loops
        if depth + 1 < _DEEPEST:
            yield from _in_calls(file, file, inside, own, seen, depth + 1)


def _of(
    file: SourceTree, name: str, inside: Node, given: frozenset[str]
) -> tuple[frozenset[str], tuple[UnevenLoop, ...]]:
    """What differs between lanes in a function that is handed such parameters, and its loops."""
    own = names_from(_MEMBER.sub("", file.code_of(inside)), given | _LANES)
    found = _found(file, inside, BodyNames(own, frozenset(), own - _LANES), frozenset(), called=True)
    return own, tuple(msgspec.structs.replace(loop, function=name) for loop in found)


def _callee(tree: SourceTree, call: Node) -> str:
    """The own name of what a call calls."""
    function = call.child_by_field_name("function")
    code = tree.code_of(function) if function is not None else ""
    return re.split(r"::|\.|->", code.split("<")[0].strip())[-1].strip()


def _handed(
    file: SourceTree, tree: SourceTree, function: Function, call: Node, lanes: frozenset[str]
) -> frozenset[str]:
    """The parameters that a call gives what differs between lanes."""
    listed = call.child_by_field_name("arguments")
    given = [n for n in listed.named_children if n.type != "comment"] if listed is not None else []
    names = parameter_names(file, function)
    return frozenset(n for n, g in zip(names, given, strict=False) if n and _words(tree.code_of(g)) & lanes)


def _found(
    tree: SourceTree, within: Node, names: BodyNames, own: frozenset[str], *, called: bool = False
) -> Iterator[UnevenLoop]:
    shares = _BARRIER in tree.code_of(within)
    for node in walk(within):
        condition = node.child_by_field_name("condition") if node.type in LOOPS else None
        body = node.child_by_field_name("body")
        code = tree.code_of(node)
        if condition is None or body is None or _WAITS.search(code) or _BARRIER in code:
            continue
        # What a function is handed may well be as long for all lanes, and what a block shares out is.
        even = called or shares or is_as_long_for_all(tree, node, names.lanes | names.data)
        ended = None if even else _by_length(tree, condition, body, names, own)
        if ended is None:
            ended = _by_data(tree, node, condition, body, names)
        # Whoever comes second goes on: that is how a tree is climbed.
        if ended is not None and "atomic" not in tree.code_of(ended[0]):
            test, by = ended
            yield UnevenLoop(tree.span(node), " ".join(tree.text_of(test).split()), by)


def _by_length(
    tree: SourceTree, condition: Node, body: Node, names: BodyNames, own: frozenset[str]
) -> tuple[Node, Literal["length", "data"]] | None:
    """A bound that each lane has loaded, and that the loop leaves alone; `own` are the thread's own arrays."""
    code = _SIZE.sub("0", tree.code_of(condition))
    used = _words(code)
    changed = _changed(tree.code_of(body))
    bounds = (used & names.data) - changed - _stepped(tree, condition)
    loads = bool(set(_ELEMENT.findall(code)) - own) and bool(used & names.lanes)
    return (condition, "length") if bounds or loads else None


def _stepped(tree: SourceTree, condition: Node) -> set[str]:
    """What the header of a `for` steps."""
    update = condition.parent.child_by_field_name("update") if condition.parent is not None else None
    return {a or b for a, b in _STEPPED.findall(tree.code_of(update))} if update is not None else set()


def _stepped_by_data(tree: SourceTree, body: Node, names: BodyNames, worked: set[str]) -> set[str]:
    """What is counted up or down, or set, where a test on data lets it: the top of a stack, the end of a search."""
    found: set[str] = set()
    for node in walk(body):
        test = node.child_by_field_name("condition") if node.type in _TESTED else None
        used = _words(tree.code_of(test)) if test is not None else set()
        loads = test is not None and "[" in tree.code_of(test) and bool(used & names.lanes)
        if loads or used & (names.data | worked):
            code = _MEMBER.sub("", tree.code_of(node))
            found |= {a or b for a, b in _STEPPED.findall(code)}
            found |= set(_SET.findall(code)) if node.type == "if_statement" else set()
    return found


def _counter(tree: SourceTree, condition: Node) -> str:
    """What the header of a `for` counts in, as written: `path.bounce` of `++path.bounce`."""
    update = condition.parent.child_by_field_name("update") if condition.parent is not None else None
    counted = (
        update.child_by_field_name("argument")
        if update is not None and update.type == "update_expression"
        else None
    )
    return tree.code_of(counted) if counted is not None else ""


def _by_data(
    tree: SourceTree, loop: Node, condition: Node, body: Node, names: BodyNames
) -> tuple[Node, Literal["length", "data"]] | None:
    """A condition, or that of an `if (…) break;` or `return`, on what the iterations work out of a lane's data."""
    code = _MEMBER.sub("", tree.code_of(body))
    worked = {name for name in _SET.findall(code) if name in names.lanes}
    worked |= {name for name, value in _ADDED.findall(code) if _words(value) & names.data}
    worked |= _stepped_by_data(tree, body, names, worked)
    counter = _counter(tree, condition)
    asked = tree.code_of(condition)
    # A member that the loop leaves alone ends nothing, whatever it does to the others.
    left = set(_OF.findall(asked)) - set(_SET_MEMBER.findall(tree.code_of(body)))
    for member in sorted(left):
        asked = re.sub(rf"[A-Za-z_]\w*(?:\.|->){member}\b", "0", asked)
    if _words(asked.replace(counter, "0") if counter else asked) & worked:
        return condition, "data"
    for node in walk(body):
        test = node.child_by_field_name("condition") if node.type == "if_statement" else None
        sides = (node.child_by_field_name(side) for side in ("consequence", "alternative"))
        if test is None or not any(side is not None and _leaves(side, loop) for side in sides):
            continue
        used = _words(tree.code_of(test))
        if used & worked or (_ASKS.search(tree.code_of(test)) and used & names.data):
            return test, "data"
    return None


def _leaves(side: Node, loop: Node) -> bool:
    """Whether a branch leaves the loop."""
    for node in walk(side):
        if node.type == "return_statement":
            return True
        if node.type != "break_statement":
            continue
        around = node.parent
        while around is not None and around.type not in LOOPS and around.type != "switch_statement":
            around = around.parent
        if around is not None and around.id == loop.id:
            return True
    return False


def _changed(code: str) -> set[str]:
    return {a or b for a, b in _STEPPED.findall(code)} | set(_SET.findall(code))


def _words(code: str) -> set[str]:
    return set(_WORD.findall(_MEMBER.sub("", code)))
