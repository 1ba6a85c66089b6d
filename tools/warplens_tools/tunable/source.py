# SPDX-License-Identifier: Apache-2.0
"""A kernel and its launches as the tuner reads them: nodes of the file's tree, and the names behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.cuda.syntax.tree import parse_tree, walk
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.constants import constants_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.last_set import set_members
from warplens_tools.cuda.values.writes import is_set_once
from warplens_tools.lazily import cached_property
from warplens_tools.text import SourceText, Span
from warplens_tools.tunable.parameter import Place, place

AXES = "xyz"
NAME = re.compile(r"(?<![\w.])(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_DECIMAL = re.compile(r"(\d+)[uUlL]*\Z")
_ROUNDING = re.compile(r"ceil|div|up", re.IGNORECASE)
#: What reads a number that the command line gives.
_PARSES = re.compile(r"(?:\w+::|\(\w+\)\s*)*(?:ato[il]l?|strtou?ll?|sto(?:i|u?ll?))\s*\(")
_FOLLOWED = frozenset({"plain", "const", "constexpr", "parameter"})


class Value(NamedTuple):
    """An expression of host code, and the local variables that it was followed through."""

    node: Node
    through: tuple[Binding, ...] = ()


class Site(NamedTuple):
    """A launch site with the nodes of its configuration; None where there is none, or it is not plain."""

    launch: LaunchSite
    #: The whole call, its `<<<…>>>` (the call, where it has none), and the function around it.
    call: Node
    configuration: Node
    host: Node | None
    #: Extents from x on; None where the object that holds them is changed on the way.
    block: tuple[Value, ...] | None
    grid: tuple[Value, ...] | None
    shared: Value | None
    #: Grid, block and shared size as they stand at the launch.
    written: tuple[Node | None, Node | None, Node | None]
    template_arguments: tuple[Node, ...]
    #: What is passed to the kernel, by parameter; empty where the text does not tell.
    arguments: tuple[Node, ...]
    #: All names that the configuration depends on.
    names: frozenset[str]


class File:
    """A parsed file. Offsets of nodes are code points of the text."""

    def __init__(self, text: SourceText, model: SourceModel) -> None:
        self.text, self.model = text, model
        self.tree = parse_tree(text)
        self.constants = constants_of(self.tree)
        #: The text without comments and strings, with its directives.
        self.code = without_comments(to_ascii(text.text))

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every launch of the file; one that may be of several kernels once for each of these."""
        return tuple(site for launch in self.model.launches if (site := self._site(launch)) is not None)

    def launches_of(self, kernel: Kernel) -> tuple[Site, ...]:
        """Launch sites of a kernel, each place once."""
        launches = self.model.launches_of(kernel)
        found = {site.launch.span: site for site in self.sites if site.launch in launches}
        return tuple(found.values())

    def range(self, span: Span) -> tuple[int, int]:
        """Offsets of a span."""
        return self.text.offsets(span)

    def line(self, at: int) -> int:
        """The line of an offset, counted from 1."""
        return self.text.position(at)[0]

    def node(self, span: Span) -> Node | None:
        """The node that covers a span; None for an empty one."""
        start, end = self.range(span)
        return self.tree.root.descendant_for_byte_range(start, end) if end > start else None

    def place(self, literal: Node, offset: int = 0) -> Place:
        """Where the digits of a literal stand."""
        digits = str(number(self.tree.code_of(literal)))
        return place(self.text, literal.start_byte, literal.start_byte + len(digits), offset=offset)

    def literal(self, node: Node | None) -> int | None:
        """The value of a node that is a decimal literal."""
        found = _DECIMAL.match(self.tree.code_of(node)) if node is not None else None
        return int(found[1]) if found else None

    def literals(self, node: Node) -> Iterator[tuple[Node, int]]:
        """The decimal literals in an expression or a body, in text order."""
        for child in walk(node):
            value = self.literal(child) if child.type == "number_literal" else None
            if value is not None:
                yield child, value

    def named(self, node: Node | None) -> Binding | None:
        """The variable or parameter of a function that a node names."""
        if node is None or node.type not in ("identifier", "type_identifier"):
            return None
        binding = self.constants.binding(self.tree.code_of(node), node.start_byte)
        return binding if binding is not None and binding.local else None

    def _given(self, binding: Binding) -> Node | None:
        """What a variable is initialised with, or what the only call of its function passes."""
        if binding.kind in ("parameter", "object"):
            passed = self.constants.arguments(binding)
            return passed[0] if len(passed) == 1 else None
        return value_node(self.tree, binding)

    def followed(self, node: Node, through: tuple[Binding, ...] = ()) -> Value:
        """What a plain variable was initialised with, through further variables; else the node itself."""
        node = self._default(node)
        found = self.named(node)
        if found is None or found.kind not in _FOLLOWED or found in through or len(through) > 8:
            return Value(node, through)
        inner = self._given(found)
        if inner is None or not is_set_once(self.tree, found):
            return Value(node, through)
        return self.followed(inner, (*through, found))

    def _default(self, node: Node) -> Node:
        """The 256 of `argc > 2 ? atoi(argv[2]) : 256`, where the rest cannot be another number of the text."""
        while node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_children[0]
        if node.type != "conditional_expression":
            return node
        branches = [node.child_by_field_name(part) for part in ("consequence", "alternative")]
        literal = [branch for branch in branches if self.literal(branch) is not None]
        other = next((b for b in branches if b is not None and self.literal(b) is None), None)
        read = other is not None and _PARSES.match(self.tree.code_of(other)) is not None
        return literal[0] if len(literal) == 1 and literal[0] is not None and read else node

    def extents(self, node: Node | None, through: tuple[Binding, ...] = ()) -> tuple[Value, ...] | None:
        """Up to three extents of a grid or block argument, x first; None where they are changed on the way."""
        if node is None:
            return ()
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            return self.extents(node.named_children[0], through)
        listed = self._listed(node)
        if listed is not None:
            return tuple(self.followed(child, through) for child in listed.named_children)
        found = self.named(node)
        if found is None or found.kind not in ("dim3", "object") or len(through) > 8:
            return (self.followed(node, through),)
        given = (*through, found)
        if is_set_once(self.tree, found):
            return self.extents(self._given(found), given)
        begins = self.extents(self._given(found), given) if self._given(found) is not None else ()
        members = set_members(self.tree, found, node.start_byte, AXES)
        return None if begins is None or not members else self._joined(begins, members, given)

    def _joined(
        self, begins: tuple[Value, ...], members: Mapping[str, Node], through: tuple[Binding, ...]
    ) -> tuple[Value, ...] | None:
        """Extents of which some are set later; None where one between them is not written anywhere."""
        said = {
            **dict(zip(AXES, begins, strict=False)),
            **{m: self.followed(n, through) for m, n in members.items()},
        }
        extents = tuple(said[axis] for axis in AXES if axis in said)
        return extents if len(extents) == AXES.index(max(said)) + 1 else None

    def _listed(self, node: Node) -> Node | None:
        """The list of `dim3(…)`, `dim3{…}`, `{…}` or of a declaration's `(…)`."""
        if node.type in ("argument_list", "parameter_list", "initializer_list"):
            return node
        if node.type == "compound_literal_expression":
            return node.child_by_field_name("value")
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        is_dim3 = function is not None and self.tree.code_of(function).removeprefix("::") == "dim3"
        return node.child_by_field_name("arguments") if is_dim3 else None

    def definitions(self, node: Node | None) -> dict[str, str]:
        """Every name that an expression depends on, through initialisers, macros and what is passed for a parameter,
        with its definition or ""."""
        found: dict[str, str] = {}
        waiting = [(self.tree.code_of(node), node.start_byte)] if node is not None else []
        while waiting:
            text, at = waiting.pop()
            for name in (n.rsplit("::", 1)[-1] for n in NAME.findall(text)):
                if name not in found:
                    behind = list(self._behind(name, at))
                    found[name] = ", ".join(text for text, _ in behind)
                    waiting += behind
        return found

    def _behind(self, name: str, at: int) -> Iterator[tuple[str, int]]:
        """What a name stands for, each with where that is written."""
        binding, macro = self.constants.binding(name, at), self.tree.macros.get(name)
        if binding is not None and binding.value:
            yield binding.value, binding.value_at
        elif binding is not None:
            for passed in self.constants.arguments(binding):
                yield self.tree.code_of(passed), passed.start_byte
        elif macro is not None:
            yield macro.body, at

    def rounds_up(self, node: Node) -> bool:
        """Whether an expression divides so that the last block may be part full."""
        return any(
            (child.type == "call_expression" and self.is_rounding(child))
            or (child.type == "binary_expression" and self._is_less_one(child))
            for child in walk(node)
        )

    def is_rounding(self, call: Node) -> bool:
        """Whether a call's name says that it divides with rounding up: `div_up`, `ceil`."""
        function = call.child_by_field_name("function")
        return function is not None and _ROUNDING.search(self.tree.code_of(function)) is not None

    def _is_less_one(self, node: Node) -> bool:
        operator, right = node.child_by_field_name("operator"), node.child_by_field_name("right")
        return operator is not None and operator.type == "-" and self.literal(right) == 1

    def divides(self, node: Node, inside: Node) -> bool:
        """Whether `inside` stands, up to `node`, in a divisor or in the argument of a rounding-up division."""
        child, current = inside, inside.parent
        while current is not None and child.id != node.id:
            operator, right = current.child_by_field_name("operator"), current.child_by_field_name("right")
            if operator is not None and operator.type == "/" and right is not None and right.id == child.id:
                return True
            if current.type == "call_expression" and self.is_rounding(current):
                return True
            child, current = current, current.parent
        return False

    def _passed(self, call: Node, *, chevrons: bool) -> tuple[Node, ...]:
        """What a launch passes; of `cudaLaunchKernel(…, args, …)` what `void* args[] = {&out, &n}` points to."""
        listed = call.child_by_field_name("arguments")
        given = tuple(listed.named_children) if listed is not None else ()
        if chevrons or len(given) < 4 or given[3].type != "identifier":
            return given if chevrons else ()
        held = self.constants.binding(self.tree.code_of(given[3]), given[3].start_byte)
        declared = self.tree.root.descendant_for_byte_range(*held.declaration) if held is not None else None
        lists = [n for n in walk(declared) if n.type == "initializer_list"] if declared is not None else []
        found = []
        for one in lists[0].named_children if lists else ():
            place = one.child_by_field_name("value") if one.type == "cast_expression" else one
            if place is None or place.type != "pointer_expression":
                return ()
            found += [inner for inner in (place.child_by_field_name("argument"),) if inner is not None]
        return tuple(found)

    def _site(self, launch: LaunchSite) -> Site | None:
        call = self.node(launch.span)
        if call is None:
            return None
        chevrons = next((c for c in call.named_children if c.type == "kernel_call_syntax"), None)
        third = (
            chevrons.named_children[2] if chevrons is not None and chevrons.named_child_count > 2 else None
        )
        written = (self.node(launch.grid_span), self.node(launch.block_span), third)
        function = call.child_by_field_name("function")
        named = chevrons is not None and function is not None
        arguments = (
            [c for c in walk(function) if c.type == "template_argument_list"] if function and named else []
        )
        return Site(
            launch=launch,
            call=call,
            configuration=chevrons if chevrons is not None else call,
            host=self.tree.function_at(call.start_byte, call.end_byte),
            block=self.extents(written[1]),
            grid=self.extents(written[0]),
            shared=self.followed(third) if third is not None else None,
            written=written,
            template_arguments=tuple(arguments[-1].named_children) if arguments else (),
            arguments=self._passed(call, chevrons=chevrons is not None),
            names=frozenset().union(*(self.definitions(part) for part in written)),
        )


class BlockUses(NamedTuple):
    """How a kernel's code uses one axis of its block."""

    reads_block: bool
    #: Its elements are numbered by `blockIdx * blockDim`.
    numbers_globally: bool
    strides_by_grid: bool
    strides_by_block: bool
    halves: bool


class TunedKernel:
    """One kernel of a file, with its launches, on a card."""

    def __init__(self, file: File, kernel: Kernel, limits: Limits) -> None:
        self.file, self.kernel, self.limits = file, kernel, limits
        self.sites = file.launches_of(kernel)
        self.body = file.node(kernel.body)

    @cached_property
    def literals(self) -> tuple[tuple[Node, int], ...]:
        """The decimal literals of the kernel's body."""
        return tuple(self.file.literals(self.body)) if self.body is not None else ()

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name in the kernel's header and body."""
        start, end = self.file.range(self.kernel.span)
        return frozenset(name.rsplit("::", 1)[-1] for name in NAME.findall(self.file.code[start:end]))

    def steps_by(self, names: set[str]) -> bool:
        """Whether a loop of the kernel steps by one of the names: the block walks its tile by itself."""
        steps = (n for n in walk(self.body) if n.type == "assignment_expression") if self.body else ()
        return any(
            _is_operator(n, "+=") and names & self._names_in(n.child_by_field_name("right")) for n in steps
        )

    def _names_in(self, node: Node | None) -> set[str]:
        code = self.file.tree.code_of(node) if node is not None else ""
        return {name.rsplit("::", 1)[-1] for name in NAME.findall(code)}

    def numbers_blocks(self, literal: Node, axis: int) -> bool:
        """Whether a literal stands in `blockIdx.x * 256`."""
        parent = literal.parent
        if parent is None or not _is_operator(parent, "*"):
            return False
        return any(self.file.tree.code_of(c) == f"blockIdx.{AXES[axis]}" for c in parent.named_children)

    def uses(self, axis: int) -> BlockUses:
        """How the body uses one axis of its block."""
        return self._uses[axis]

    @cached_property
    def _uses(self) -> tuple[BlockUses, ...]:
        expanded = kernel_tree(self.file.tree, self.kernel)
        if expanded is None:
            return (BlockUses(False, False, False, False, False),) * len(AXES)
        reader, tree = FormReader(expanded), expanded.tree
        members, products, steps, halved = set[str](), set[str](), set[str](), set[str]()
        for node in walk(expanded.function.body):
            if node.type == "field_expression":
                members.add("".join(tree.code_of(node).split()))
            elif node.type in ("binary_expression", "call_expression"):
                products |= _grown_with_blocks(reader.form(node))
                halved |= _halved(reader, node)
            elif _is_operator(node, "+="):
                steps |= _names(reader.form(node.child_by_field_name("right")))
        return tuple(
            BlockUses(
                reads_block=f"blockDim.{a}" in members,
                numbers_globally=f"blockDim.{a}" in products,
                strides_by_grid=f"gridDim.{a}" in members,
                strides_by_block=f"blockDim.{a}" in steps,
                halves=f"blockDim.{a}" in halved,
            )
            for a in AXES
        )


def number(literal: str) -> int:
    """The value of a decimal literal with its suffix."""
    return int(literal.rstrip("uUlL"))


def _is_operator(node: Node, operator: str) -> bool:
    found = node.child_by_field_name("operator")
    return found is not None and found.type == operator


def _names(form: Form | None) -> set[str]:
    return {symbol.name for symbol in form.symbols} if form is not None else set()


def _grown_with_blocks(form: Form | None) -> set[str]:
    """Extents of the block by which a form counts blocks of the same axis."""
    products = [{s.name for s in symbols} for symbols, _ in form.terms] if form is not None else []
    return {f"blockDim.{a}" for a in AXES if any({f"blockIdx.{a}", f"blockDim.{a}"} <= p for p in products)}


def _halved(reader: FormReader, node: Node) -> set[str]:
    """What `x / 2` or `x >> 1` halves."""
    by = {"/": 2, ">>": 1}.get(operator.type if (operator := node.child_by_field_name("operator")) else "")
    right = reader.form(node.child_by_field_name("right")) if by is not None else None
    if right is None or right.value != by:
        return set()
    return _names(reader.form(node.child_by_field_name("left")))
