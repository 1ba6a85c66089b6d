# SPDX-License-Identifier: Apache-2.0
"""look-before-atomic

Look whether an atomic would change anything before going there.

Distances only fall, best scores only rise, a vertex is marked once: most atomics of a search through a graph, of a
maximum by group or of a set of bits find that there is nothing to do. An atomic is done in the L2 all the same, one
after the other where many go to one place; a read is served by caches, for all lanes at once. What is read may be older
than what is there: then the atomic is done, as before, and finds the same.

```cuda
__global__ void relax(const int* from, const int* to, const int* length, const int* dist, int* next, int edges) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= edges) return;
  atomicMin(&next[to[e]], dist[from[e]] + length[e]);
}
```

```cuda
// Lowers what is there; what is as low already needs no atomic.
__device__ __forceinline__ int lower_to(int* place, int value) {
  const int found = *place;
  return found <= value ? found : atomicMin(place, value);
}

__global__ void relax(const int* from, const int* to, const int* length, const int* dist, int* next, int edges) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= edges) return;
  lower_to(&next[to[e]], dist[from[e]] + length[e]);
}
```

It takes `atomicMin`, `atomicMax`, `atomicOr` and `atomicAnd`, functions that make the like of `atomicCAS`, and an
`atomicCAS` or `atomicExch` that only ever replaces one value, or only ever puts one there. Left alone: arrays that the
kernel changes in another way as well, an old value that is used for more than whether it was changed, and what was
looked at already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.atomics import joining, shared_type, target_type
from warplens_tools.rewrite.common.groups import style_of
from warplens_tools.rewrite.common.reading import View, calls, field, operator_of, refusing, squeezed, stores
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_BUILT_IN = re.compile(r"atomic(Min|Max|Or|And|CAS|Exch)")
_INTEGERS = re.compile(r"(?:u?int(?:32_t|64_t)?|unsigned(?: int)?|(?:unsigned )?long long(?: int)?)\Z")


class _Kind(msgspec.Struct, frozen=True):
    """What is looked for before an atomic, and how the helper is called, in words, and explained."""

    helper: str
    #: Of `found` and `value`: nothing would change.
    idle: str
    said: str


_KINDS = {
    "Min": _Kind(
        "lower to", "found <= value", "Lowers what is there; what is as low already needs no atomic."
    ),
    "Max": _Kind(
        "raise to", "found >= value", "Raises what is there; what is as high already needs no atomic."
    ),
    "Or": _Kind(
        "set bits", "(found & value) == value", "Sets bits; where they are set already, there is no atomic."
    ),
    "And": _Kind(
        "keep bits", "(found & ~value) == 0", "Clears bits; where they are clear already, there is no atomic."
    ),
    "CAS": _Kind(
        "replace once",
        "found != expected",
        "Replaces what is there; what was replaced already needs no atomic.",
    ),
    "Exch": _Kind(
        "put once", "found == value", "Puts a value there; where it is already, there is no atomic."
    ),
}


class _Look(msgspec.Struct, frozen=True):
    """One atomic that may be spared."""

    name: str
    kind: str
    type: str
    call: Node


def _apply(view: View, target: Target) -> RewriteResult:
    style, helpers = Style(view), dict[tuple[str, str], str]()
    named = style_of(view.kernel.name, style.step)
    lines, edits, why = list[str](), list[TextEdit](), "the kernel has no atomics that may find nothing to do"
    for name, call in calls(view.body, view):
        kind = _kind(view, name)
        if not kind or (target.lines and view.span(call).line not in target.lines):
            continue
        try:
            look = _read(view, name, kind, call)
        except Refused as refused:
            why = str(refused)
            continue
        key = (look.name, look.type)
        if key not in helpers:
            helpers[key] = style.name(named.function(*_KINDS[kind].helper.split()))
            lines += [*_helper(look, helpers[key]), ""]
        edits.append(TextEdit(view.span(field(call, "function")), helpers[key]))
    if not edits:
        raise Refused(why)
    above = style.above(style.lines("\n".join(lines[:-1]), level=0) + view.text.newline)
    return RewriteResult((above, *edits), title="Look before atomics that may find nothing to do")


def _kind(view: View, name: str) -> str:
    """What an atomic does; "" for what always changes something, or is none."""
    found = _BUILT_IN.fullmatch(name)
    kind = found[1] if found is not None else joining(view, name)
    return kind if kind in _KINDS else ""


def _read(view: View, name: str, kind: str, call: Node) -> _Look:
    """An atomic that a look may spare.

    Raises:
        Refused: it always changes something, or may not be left out.
    """
    given = field(call, "arguments").named_children
    pointer = view.pointers.pointer(given[0]) if given else None
    if pointer is None or len(given) != (3 if kind == "CAS" else 2) or not view.is_plain_enough(call):
        raise Refused("the place of an atomic is not known")
    written = target_type(view, given[0]) or shared_type(view, given[0])
    built_in = _BUILT_IN.fullmatch(name) is not None
    if not _INTEGERS.match(written) and (built_in or written not in ("float", "double")):
        raise Refused("the type or place of the result is not known")
    if _is_looked_at(view, call, given[0]):
        raise Refused("what is there is looked at already")
    if not _is_only_tested(view, call, kind, given):
        raise Refused("the old value is used")
    if not built_in and not _is_statement(call):
        raise Refused("the old value is used")
    _check_alone(view, pointer.name, kind, given)
    return _Look(name, kind, written, call)


def _is_statement(call: Node) -> bool:
    return call.parent is not None and call.parent.type == "expression_statement"


def _is_looked_at(view: View, call: Node, place: Node) -> bool:
    """Whether the atomic stands under a condition on its own place."""
    element = _element(view, place)
    node: Node = call
    while node.parent is not None and node.id != view.body.id:
        outer = node.parent
        test = outer.child_by_field_name("condition")
        asks = outer.type in ("if_statement", "while_statement") and test is not None and test.id != node.id
        if asks and test is not None and element in squeezed(view.code(test)):
            return True
        if outer.type == "binary_expression" and operator_of(outer) == "&&":
            left = field(outer, "left")
            if left.id != node.id and element in squeezed(view.code(left)):
                return True
        node = outer
    return False


def _element(view: View, place: Node) -> str:
    """`next[v]` of `&next[v]` and of `next + v`."""
    code = squeezed(view.code(place))
    added = re.fullmatch(r"(\w+)\+(\w+)", code)
    return f"{added[1]}[{added[2]}]" if added is not None else code.removeprefix("&")


def _is_only_tested(view: View, call: Node, kind: str, given: list[Node]) -> bool:
    """Whether nothing depends on the old value but whether it was changed."""
    if _is_statement(call) or kind == "CAS":
        return True
    outer = call.parent
    while outer is not None and outer.type == "parenthesized_expression":
        outer = outer.parent
    if outer is None or kind not in ("Min", "Max"):
        return False
    if outer.type == "init_declarator":
        name = outer.child_by_field_name("declarator")
        if name is None or name.type != "identifier":
            return False
        old = view.code(name)
        uses = [
            n for n in walk(view.body) if n.type == "identifier" and view.code(n) == old and n.id != name.id
        ]
        return all(_is_compared(view, use, given[1]) for use in uses)
    return _is_compared(view, call, given[1])


def _is_compared(view: View, old: Node, value: Node) -> bool:
    """Whether an old value is held against the new one, and tells nothing else."""
    outer = old.parent
    if outer is None or outer.type != "binary_expression" or operator_of(outer) not in ("<", ">"):
        return False
    sides = field(outer, "left"), field(outer, "right")
    other = sides[1] if sides[0].id == old.id else sides[0]
    return squeezed(view.code(other)) == squeezed(view.code(value))


def _check_alone(view: View, array: str, kind: str, given: list[Node]) -> None:
    """Raises `Refused` where the kernel changes the array in another way as well."""
    shared = same_buffer(view.file, view.model, view.kernel)
    same = shared if array in shared else frozenset({array})
    if any(view.array(element) in {*same, ""} for element in stores(view, view.body)):
        raise Refused("the kernel stores there as well")
    for name, call in calls(view.body, view):
        for other in _arrays(view, call):
            if other not in same:
                continue
            if _kind(view, name) != kind:
                raise Refused("the kernel changes the place in another way as well")
            arguments = field(call, "arguments").named_children
            if kind in ("CAS", "Exch") and not _same_constant(view, arguments[1], given[1]):
                raise Refused("the kernel puts other values there as well")
    if kind in ("CAS", "Exch") and not _is_constant(view, given[1]):
        raise Refused("the value that is replaced is not the same for all threads")


def _arrays(view: View, call: Node) -> Iterator[str]:
    """The arrays that a call is given a pointer into."""
    for one in field(call, "arguments").named_children:
        pointer = view.pointers.pointer(one) if one.type != "call_expression" else None
        if pointer is not None and not pointer.inner:
            yield pointer.name


def _is_constant(view: View, value: Node) -> bool:
    code = view.code(value)
    return view.value(value) is not None or code in view.parameters


def _same_constant(view: View, value: Node, other: Node) -> bool:
    return squeezed(view.code(value)) == squeezed(view.code(other))


def _helper(look: _Look, name: str) -> list[str]:
    kind, type_ = _KINDS[look.kind], look.type
    built_in = _BUILT_IN.fullmatch(look.name) is not None
    given = f"{type_} expected, {type_} value" if look.kind == "CAS" else f"{type_} value"
    passed = "expected, value" if look.kind == "CAS" else "value"
    head = f"// {kind.said}"
    if not built_in:
        spared = kind.idle.replace("found", "*place")
        return [
            head,
            f"__device__ __forceinline__ void {name}({type_}* place, {given}) {{",
            f"  if (!({spared})) {look.name}(place, {passed});",
            "}",
        ]
    return [
        head,
        f"__device__ __forceinline__ {type_} {name}({type_}* place, {given}) {{",
        f"  const {type_} found = *place;",
        f"  return {kind.idle} ? found : {look.name}(place, {passed});",
        "}",
    ]


REWRITE = Rewrite(
    slug="look-before-atomic",
    title="Look before atomics that may find nothing to do",
    apply=refusing(_apply),
    answers=("scattered-atomics", "global-atomic-contention", "shared-atomic-contention"),
    chance=0.6,
    gain=2.5,
)
