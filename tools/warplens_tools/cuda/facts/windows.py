# SPDX-License-Identifier: Apache-2.0
"""Windows over neighbouring elements: two loops over offsets around a thread's own place, with a read of global memory
that both of them move, so that the threads beside it read most of the same elements."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.data_branches import names_in
from warplens_tools.cuda.facts.even_lengths import is_as_long_for_all
from warplens_tools.cuda.facts.lane_names import names_from
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, addends, is_assigned, walk
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.constants import constants_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

#: Taps in a row from which a window is told, and up to which it is one: a longer loop goes through data.
FEWEST, MOST = 3, 64
#: As `FEWEST`, of a window along one axis alone.
IN_LINE = 9
#: As `IN_LINE`, of one of shared memory, where every element is a load beside an addition.
IN_SHARED_LINE = 5
_PLACES = frozenset({"threadIdx", "blockIdx"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_SUMS = frozenset("+-")
_SETS = frozenset({"init_declarator", "assignment_expression"})
#: What a loop steps by one, and how many of them go together.
_BY_ONE = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_TOGETHER = 2
_NAMES = frozenset({"identifier", "field_expression"})
_NEEDED = re.compile(r"\bfor\b")
#: Axes along which threads lie one element apart.
_AXES = tuple(f"{of}.{axis}" for of in ("threadIdx", "blockIdx") for axis in "xyz")


class Window(msgspec.Struct, frozen=True):
    """One read in a window's inner loop."""

    #: The read, as far as it stands in the file.
    span: Span
    #: What it reads, as written.
    name: str
    #: The loop around it that moves the window's rows; None where it is a window along one axis.
    outer: Loop | None
    inner: Loop
    #: What it reads is added up as it is, without a weight.
    summed: bool = False
    #: The window is of shared memory.
    shared: bool = False


def windows(tree: SourceTree, kernel: Kernel) -> tuple[Window, ...]:
    """The first such read of each pair of loops in the kernel's own text, in text order; where there is none, those of
    single loops."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    return _in_body(_Reader(expanded, kernel)) or _in_calls(tree, kernel, expanded)


def shared_windows(tree: SourceTree, kernel: Kernel) -> tuple[Window, ...]:
    """As `windows`, of what the kernel reads from shared memory around each thread's own place there, whether it adds
    it up as it is or not."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or not any(a.space == "shared" for a in kernel.arrays):
        return ()
    reader = _Reader(expanded, kernel)
    loops = [n for n in walk(reader.body) if n.type == "for_statement"]
    pairs = tuple(w for n in loops if (w := reader.window(n, shared=True)) is not None)
    lines = (w for n in loops if (w := reader.line(n, weighted=True)) is not None)
    return pairs or tuple(w for w in lines if w.shared)


def _in_body(reader: _Reader) -> tuple[Window, ...]:
    if not _NEEDED.search(reader.tree.code_of(reader.body)):
        return ()
    loops = [n for n in walk(reader.body) if n.type == "for_statement"]
    pairs = tuple(w for n in loops if (w := reader.window(n)) is not None)
    return pairs or tuple(w for n in loops if (w := reader.line(n)) is not None)


def _in_calls(tree: SourceTree, kernel: Kernel, expanded: KernelTree) -> tuple[Window, ...]:
    """Those of the device functions that the kernel calls, which ask for the thread's number themselves."""
    for name in sorted(called_names(tree, expanded.tree.code_of(expanded.function.body))):
        for function in functions_named(tree, name):
            if function.is_device and "threadIdx" in tree.code_of(function.body):
                found = _in_body(_Reader(KernelTree(tree, function, constants_of(tree)), kernel))
                if found:
                    return found
    return ()


class _Reader:
    def __init__(self, expanded: KernelTree, kernel: Kernel) -> None:
        self.tree, self.body = expanded.tree, expanded.function.body
        self.forms = FormReader(expanded)
        self.pointers = PointerReader(kernel, self.forms)
        code = self.tree.code_of(self.body)
        self.own = names_from(code, _PLACES) - _PLACES
        #: What the lanes loaded: a loop that runs so far goes through a list of the lane's.
        self.data = names_in(expanded, kernel).data
        #: Shared and local arrays, with pointers into them.
        self.kept = names_from(code, frozenset(a.name for a in kernel.arrays if a.space != "global"))

    def window(self, inner: Node, *, shared: bool = False) -> Window | None:
        """The read of a window whose inner loop that is, of global memory or of shared memory."""
        around = [n for n in loops_around(self.tree, inner) if n.type == "for_statement"]
        if not around or any(n.type in LOOPS and n.id != inner.id for n in walk(inner)):
            return None
        loops = self.forms.loop(around[-1]), self.forms.loop(inner)
        if not all(self._is_short(loop) for loop in loops) or any(map(self._is_list, (around[-1], inner))):
            return None
        code = self.tree.code_of(around[-1])
        moved = [names_from(code, frozenset({loop.variable})) for loop in loops]
        if not all(
            self._is_offset(node, loop, places=shared)
            for node, loop in zip((around[-1], inner), loops, strict=True)
        ):
            return None
        gathered = self._gathered(around[-1], {loop.variable for loop in loops})
        for read in self._reads(inner, shared=shared):
            words = set(_WORD.findall(self.tree.code_of(read)))
            if words & gathered:
                continue
            if all(words & names for names in moved) and self._is_own(read, words):
                return Window(self.tree.span(read), self._name(read), loops[0], loops[1], shared=shared)
        return None

    def line(self, loop: Node, *, weighted: bool = False) -> Window | None:
        """The read of a window along one axis, whose loop that is: it adds its variable to the thread's place. Of
        shared memory what is added up as it is, with `weighted` what is not as well."""
        found = self.forms.loop(loop)
        fewest = IN_SHARED_LINE if weighted else IN_LINE
        if (found.trips is not None and found.trips < fewest) or self._is_list(loop):
            return None
        walker = self._walker(loop)
        if walker:
            return self._walked(loop, found, walker)
        if not self._is_short(found) or any(n.type in LOOPS and n.id != loop.id for n in walk(loop)):
            return None
        sums = [n for n in walk(loop) if self._adds(n, found.variable, places=True)]
        around = not sums and self._is_around_place(loop, found.variable)
        for shared in (False, True):
            for read in self._reads(loop, shared=shared) if sums or around else ():
                summed = _is_summed(read)
                at_place = around and found.variable in _WORD.findall(self.tree.code_of(read))
                if (at_place or any(self._leads(n, read) for n in sums)) and (
                    summed or not shared or weighted
                ):
                    return Window(self.tree.span(read), self._name(read), None, found, summed, shared)
        return None

    def _walker(self, loop: Node) -> str:
        """The `p` of `for (int i = n - 1, p = x - radius; i >= 0; i--, p++)`: it begins beside a place of the thread's
        own and goes on by one, along with the counter; "" where there is none."""
        begins, update = loop.child_by_field_name("initializer"), loop.child_by_field_name("update")
        stepped = (
            {a or b for a, b in _BY_ONE.findall(self.tree.code_of(update))} if update is not None else set()
        )
        if begins is None or len(stepped) < _TOGETHER:
            return ""
        for node in walk(begins):
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if node.type != "init_declarator" or name is None or value is None:
                continue
            moved = self.tree.code_of(name)
            sums = value.type == "binary_expression" and _is_sum(value)
            if sums and moved in stepped and any(self._is_place(n) for n in addends(value, _SUMS)):
                return moved
        return ""

    def _walked(self, loop: Node, found: Loop, walker: str) -> Window | None:
        """The first read of the window that such a variable walks along."""
        for read in self._reads(loop):
            listed = read.child_by_field_name("indices")
            if listed is not None and self.tree.code_of(listed).strip("[] ") == walker:
                along = msgspec.structs.replace(found, variable=found.variable or walker)
                return Window(self.tree.span(read), self._name(read), None, along, _is_summed(read))
        return None

    def _is_around_place(self, loop: Node, variable: str) -> bool:
        """`for (int j = i - r; j <= i + r; ++j)` around a place `i` of the thread's own."""
        ends = (loop.child_by_field_name(part) for part in ("initializer", "condition"))
        named = (
            [n for n in _names(end) if self.tree.code_of(n) != variable] if end is not None else []
            for end in ends
        )
        return all(any(self._is_place(n) and not _is_scaled(n, loop) for n in names) for names in named)

    def _is_list(self, loop: Node) -> bool:
        """Whether a loop is as long as the lane's data say."""
        test = loop.child_by_field_name("condition")
        words = set(_WORD.findall(self.tree.code_of(test))) if test is not None else set()
        return bool(words & self.data) and not is_as_long_for_all(self.tree, loop, self.data)

    def _is_own(self, read: Node, words: set[str]) -> bool:
        """Whether what is read is another element for each thread, as weights are not that all of them share."""
        index = read.child_by_field_name("indices")
        form = (
            self.forms.form(index.named_children[0]) if index is not None and index.named_children else None
        )
        return bool(words & (self.own | {"threadIdx"})) and not (form is not None and form.uniform)

    def _gathered(self, around: Node, variables: set[str]) -> frozenset[str]:
        """Names worked out from how far the thread's place is from a multiple of a loop's variable, `x - c * step`:
        which place of each output's window it has. What is read there is no other thread's."""
        found = set()
        for node in walk(around):
            name = node.child_by_field_name("declarator") or node.child_by_field_name("left")
            if (
                node.type in _SETS
                and name is not None
                and any(_takes_off(n, variables, self.tree) for n in walk(node))
            ):
                found.add(self.tree.code_of(name))
        return names_from(self.tree.code_of(around), frozenset(found)) if found else frozenset()

    def _leads(self, place: Node, read: Node) -> bool:
        """Whether a place is in a read's index, or what a name of the index is set to."""
        around = place.parent
        while around is not None and around.id != read.id and around.type not in _SETS:
            around = around.parent
        if around is None or around.id == read.id:
            return around is not None
        name = around.child_by_field_name("declarator") or around.child_by_field_name("left")
        return name is not None and self.tree.code_of(name) in set(_WORD.findall(self.tree.code_of(read)))

    def _is_place(self, node: Node) -> bool:
        """Whether a name is a thread's place along an axis: one more for the next thread or block."""
        form = self.forms.form(node) or self._begun(node)
        steps = (form.growth(axis) for axis in _AXES) if form is not None else ()
        return any(step is not None and step.value == 1 for step in steps)

    def _begun(self, node: Node) -> Form | None:
        """What a variable is set to first, which tests may cut at the ends of the array."""
        name = self.tree.code_of(node)
        binding = (
            self.forms.kernel.constants.binding(name, node.start_byte) if node.type == "identifier" else None
        )
        value = value_node(self.tree, binding) if binding is not None and binding.local else None
        return self.forms.form(value) if value is not None else None

    def _name(self, read: Node) -> str:
        """The array's, or what its expression begins with."""
        pointer = self.pointers.element(read)
        if pointer is not None and pointer.name:
            return pointer.name
        written = re.sub(r"reinterpret_cast\s*<[^>]*>|\s+", "", self.tree.code_of(_base(read))).lstrip("(&*")
        return re.split(r"[(\[)+]|\.ptr\b", written)[0] or written

    def _is_short(self, loop: Loop) -> bool:
        by_one = loop.step is not None and loop.step.value in (1, -1)
        return bool(loop.variable) and by_one and (loop.trips is None or FEWEST <= loop.trips <= MOST)

    def _is_offset(self, node: Node, loop: Loop, *, places: bool = False) -> bool:
        """Whether a loop goes through offsets that are added to a place of the thread's own, or through places that
        begin at one. `places` as for `_adds`."""
        header = node.child_by_field_name("initializer")
        begins = header is not None and bool(set(_WORD.findall(self.tree.code_of(header))) & self.own)
        bound = node.child_by_field_name("condition")
        ends = bound is not None and bool(set(_WORD.findall(self.tree.code_of(bound))) & self.own)
        return (begins and ends) or any(self._adds(n, loop.variable, places=places) for n in walk(node))

    def _adds(self, node: Node, variable: str, *, places: bool = False) -> bool:
        """`x - radius + dx`, of which `x` is the thread's and `dx` the loop's, neither of them multiplied; with
        `places`, where `x` is a place along an axis and no product of one."""
        if node.type != "binary_expression" or not _is_sum(node):
            return False
        if node.parent is not None and node.parent.type == "binary_expression" and _is_sum(node.parent):
            return False
        if places and any(_is_scaled_down(n) for n in _around(node)):
            return False
        added = {self.tree.code_of(n): n for n in addends(node, _SUMS) if n.type in _NAMES}
        own = (
            n for name, n in added.items() if name != variable and (name in self.own or _is_index(n, name))
        )
        return variable in added and any(not places or self._is_place(n) for n in own)

    def _reads(self, inner: Node, *, shared: bool = False) -> Iterator[Node]:
        """What the loop loads, of global memory, or of shared memory."""
        # What a loop stores is no input: its steps hang on one another.
        stored = {self._name(n) for n in walk(inner) if n.type == "subscript_expression" and is_assigned(n)}
        for node in walk(inner):
            if node.type == "subscript_expression" and not is_assigned(node) and not _is_place(node):
                base = _base(node)
                pointer = self.pointers.element(node)
                space = pointer.space if pointer is not None else "unknown"
                names = set(_WORD.findall(self.tree.code_of(base)))
                kept = bool(names & self.kept) or self._name(node) in stored
                if (
                    (space == "shared" and self._name(node) not in stored)
                    if shared
                    else (space in ("global", "unknown") and not kept)
                ):
                    yield node


def _takes_off(node: Node, variables: set[str], tree: SourceTree) -> bool:
    """`x - c * step` with `c` one of the variables."""
    operator, right = (node.child_by_field_name(part) for part in ("operator", "right"))
    if node.type != "binary_expression" or operator is None or operator.type != "-" or right is None:
        return False
    sign = right.child_by_field_name("operator") if right.type == "binary_expression" else None
    factors = [tree.code_of(n) for n in right.named_children if n.type == "identifier"]
    return sign is not None and sign.type == "*" and len(factors) == 2 and bool(variables & set(factors))


def _around(node: Node) -> Iterator[Node]:
    """The operations and brackets that an expression stands in."""
    around = node.parent
    while around is not None and around.type in ("binary_expression", "parenthesized_expression"):
        yield around
        around = around.parent


def _names(within: Node | None) -> list[Node]:
    return [n for n in walk(within) if n.type == "identifier"] if within is not None else []


def _is_scaled(name: Node, within: Node) -> bool:
    """Whether a name is multiplied, or chooses an element, before it is part of an expression."""
    around = name.parent
    while around is not None and around.id != within.id:
        operator = around.child_by_field_name("operator") if around.type == "binary_expression" else None
        if around.type == "subscript_expression" or (
            operator is not None and operator.type not in ("+", "-", "<", "<=")
        ):
            return True
        around = around.parent
    return False


def _is_summed(read: Node) -> bool:
    """`sum += a[j]`"""
    around = read.parent
    operator = around.child_by_field_name("operator") if around is not None else None
    return (
        operator is not None
        and operator.type == "+="
        and around is not None
        and around.type == "assignment_expression"
    )


def _is_index(node: Node, name: str) -> bool:
    """`threadIdx.x`"""
    return node.type == "field_expression" and name.split(".")[0].strip() == "threadIdx"


def _is_scaled_down(node: Node) -> bool:
    """Whether several places come to one element: a quotient, a remainder or a shift."""
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type in ("/", "%", ">>")


def _is_sum(node: Node) -> bool:
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type in _SUMS


def _base(node: Node) -> Node:
    """What is indexed, past indices and parentheses."""
    found = node.child_by_field_name("argument")
    return _base(found) if found is not None and found.type == "subscript_expression" else found or node


def _is_place(node: Node) -> bool:
    """Whether its address is taken, as an atomic takes it."""
    around = node.parent
    operator = around.child_by_field_name("operator") if around is not None else None
    return (
        around is not None
        and around.type == "pointer_expression"
        and operator is not None
        and (operator.type == "&")
    )
