# SPDX-License-Identifier: Apache-2.0
"""Expressions inside a kernel as forms over threads, blocks, loops and parameters: right, or None.

A local that is set once is followed to its value; the variable of a loop with a fixed step is its
first value plus step times the iteration, so that in a grid-stride loop an index keeps its dependence
on `threadIdx.x`; one that is set several times, statement after statement, has at each place what it was set to
last. Anything loaded from memory, returned by a function, or set in branches is None;
`traced` has symbols for what is loaded.
Like the compiler, this takes it that index arithmetic does not wrap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import subscripts, walk
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.arrays import constant_memory_type, is_given_whole
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.choices import chosen
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3, constants_of, layouts_of
from warplens_tools.cuda.values.cooperative_groups import builtin_path, rank_or_size
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.cuda.values.integer_names import integer_of
from warplens_tools.cuda.values.kept_whole import pointed_member
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.last_set import assigned
from warplens_tools.cuda.values.loop_headers import (
    Loop,
    compared_with,
    condition_of,
    initialised,
    iterations,
    step_of,
)
from warplens_tools.cuda.values.made_vectors import made_of
from warplens_tools.cuda.values.restarted import stepping
from warplens_tools.cuda.values.writes import changes, is_set_once
from warplens_tools.lazily import cached_property

_BUILTINS = {"threadIdx": "thread", "blockIdx": "block", "blockDim": "block size", "gridDim": "grid size"}
_TYPE_PARAMETER = re.compile(r"\b(?:typename|class)\s+(\w+)")
_MAX_DEPTH = 40
#: How deep in an expression a call of the file's own functions is still followed: they may call each other.
_MAX_CALLS = 16
_AXES = ("x", "y", "z")
_NOTHING: Mapping[str, Form | None] = {}


class FormReader:
    """Reads expressions of one kernel. `block` fixes `blockDim` where the launches agree on it."""

    def __init__(
        self, kernel: KernelTree, block: Dim3 = UNKNOWN_DIM3, passed: Mapping[str, Form | None] = _NOTHING
    ) -> None:
        self.kernel, self.tree = kernel, kernel.tree
        self.block = block
        #: What the caller passes for the parameters, where this is a function that a kernel calls.
        self.passed = passed
        self._values: dict[tuple[int, str], Form | None] = {}
        self._set_once: dict[tuple[int, str], bool] = {}
        self._loops: dict[tuple[int, str], Loop] = {}
        self._forms: dict[int, Form | None] = {}
        #: The nodes behind `LOADED` symbols, by their names.
        self.loads: dict[str, Node] = {}
        self._depth = 0

    def form(self, node: Node | None) -> Form | None:
        """The form of an integer expression, or None."""
        return found.told if (found := self.traced(node)) is not None else None

    def traced(self, node: Node | None) -> Form | None:
        """As `form`, in which what is loaded from memory, and what a narrow type may cut, are opaque symbols."""
        if node is None or self._depth > _MAX_DEPTH:
            return None
        if node.id in self._forms:
            return self._forms[node.id]
        self._depth += 1
        reader = _READERS.get(node.type)
        self._forms[node.id] = found = reader(self, node) if reader else None
        self._depth -= 1
        return found

    def literal(self, node: Node) -> Form | None:
        """An integer literal."""
        return _numbered(self.kernel.constants.value(self.tree.code_of(node), node.start_byte))

    def parenthesised(self, node: Node) -> Form | None:
        """(e)"""
        return self.traced(node.named_children[0]) if node.named_child_count == 1 else None

    def member(self, node: Node) -> Form | None:
        """`threadIdx.x` and its like, or an integer member of a by-value parameter."""
        path = "".join(self.tree.code_of(node).split())
        if "(" in path:
            path = builtin_path(path, self.kernel.constants, node.start_byte)
        name, _, part = path.partition(".")
        if "->" in path and (pointed := pointed_member(self.kernel, node)):
            return forms.variable(Symbol(pointed, "parameter"))
        if not name.isidentifier() or not part.replace(".", "").isidentifier():
            return None
        kind = _BUILTINS.get(name)
        if kind is not None and part in _AXES and not self.kernel.constants.is_bound(name, node.start_byte):
            if name == "blockDim" and (known := self.block[_AXES.index(part)]) is not None:
                return forms.number(known)
            return forms.variable(Symbol(f"{name}.{part}", kind))  # type: ignore[arg-type]
        binding = self.kernel.constants.binding(name, node.start_byte)
        if binding is not None and (made := made_of(self.tree, binding, part)) is not None:
            return self.traced(made)
        whole = binding is not None and is_given_whole(self.tree, binding)
        return forms.variable(Symbol(path, "parameter")) if whole else None

    def binary(self, node: Node) -> Form | None:
        """a op b"""
        operator = node.child_by_field_name("operator")
        left, right = (self.traced(node.child_by_field_name(side)) for side in ("left", "right"))
        if left is None and operator is not None and operator.type in ("%", "&"):
            # Whatever the value is, these bound it.
            left = forms.opaque(self.tree.code_of(node.named_children[0]), forms.UNKNOWN)
        if operator is None or left is None or right is None:
            return None
        return forms.combine(operator.type, left, right)

    def unary(self, node: Node) -> Form | None:
        """+e, -e"""
        operator = node.child_by_field_name("operator")
        value = self.traced(node.child_by_field_name("argument"))
        if value is None or operator is None or operator.type not in ("+", "-", "~"):
            return None
        if operator.type == "~":
            return forms.number(~value.value) if value.value is not None else None
        return value if operator.type == "+" else forms.subtract(forms.ZERO, value)

    def cast(self, node: Node) -> Form | None:
        """(int)e"""
        written = node.child_by_field_name("type")
        value = node.child_by_field_name("value")
        return self._converted(self.tree.code_of(written), value) if written is not None else None

    def _converted(self, written: str, value: Node | None) -> Form | None:
        """A value as an integer type has it; a template's type, where one is cast to in an index, is wide enough."""
        known = integer_of(self.tree, written)
        if known is not None and known.is_narrow:
            return self._narrowed(written, value)
        is_integral = known is not None or written.strip() in self._type_parameters
        return self.traced(value) if is_integral else None

    def _narrowed(self, written: str, value: Node | None) -> Form | None:
        inner = self.traced(value)
        name = self.tree.code_of(value) if value is not None else ""
        return forms.opaque(name, f"{forms.NARROWED}{written}", *([inner] if inner is not None else []))

    def element(self, node: Node) -> Form | None:
        """a[i], *p: what is loaded from there, which `loads` has by its text, at an index that may be known"""
        operator = node.child_by_field_name("operator")
        if operator is not None and operator.type != "*":
            return None
        name = self.tree.code_of(node)
        self.loads[name] = node
        return forms.opaque(name, forms.LOADED, *self._places(node))

    def _places(self, node: Node) -> list[Form]:
        """The indices that tell where an element lies; none where one is not known, nor of a thread's own pointer."""
        at, indices = subscripts(node)
        found = [form for index in indices if (form := self.form(index)) is not None]
        binding = self.kernel.constants.binding(self.tree.code_of(at), at.start_byte)
        own = binding and binding.kind == "pointer" and binding.start >= self.kernel.function.body.start_byte
        return found if len(found) == len(indices) and not own else []

    @cached_property
    def _type_parameters(self) -> frozenset[str]:
        return frozenset(_TYPE_PARAMETER.findall(self.kernel.function.header))

    def call(self, node: Node) -> Form | None:
        """`static_cast<int>(e)`, `int(e)`, `min`, `max`, `__mul24`, ranks of groups; other calls are None."""
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None:
            return None
        if function.type == "field_expression":
            return rank_or_size(self.tree.code_of(node), self.kernel.constants, node.start_byte, self.block)
        name, arguments = self.tree.code_of(function), listed.named_children
        if function.type == "parenthesized_expression":
            name = name[1:-1].strip()  # `(size_t)(e)`: the grammar takes a named type for a callee.
        cast = re.fullmatch(r"static_cast\s*<(.*)>", name, re.DOTALL)
        written = cast[1] if cast else name
        if len(arguments) == 1 and (cast or integer_of(self.tree, name) or name in self._type_parameters):
            return self._converted(written, arguments[0])
        operation = _CALLS.get(name.removeprefix("::").removeprefix("std::"))
        if operation is None:
            return self._returned(name, arguments)
        left, right = map(self.traced, arguments) if len(arguments) == 2 else (None, None)
        return forms.combine(operation, left, right) if left is not None and right is not None else None

    def choice(self, node: Node) -> Form | None:
        """`i < 0 ? 0 : i`: a minimum, a maximum, a clamp"""
        return chosen(node, self.traced)

    def _returned(self, name: str, arguments: list[Node]) -> Form | None:
        """What a function of the file that is one `return` gives."""
        function = self.kernel.constants.function(name.split("<")[0].strip())
        if function is None or len(function.parameters) != len(arguments) or self._depth > _MAX_CALLS:
            return None
        known = {n: self.traced(a) for n, a in zip(function.parameters, arguments, strict=True)}
        own = constants_of(function.tree)
        reader = FormReader(KernelTree(function.tree, function.function, own), self.block, known)
        reader._depth = self._depth
        return reader.traced(function.value)

    def size(self, node: Node) -> Form | None:
        """`sizeof(float)`"""
        inside = self.tree.code_of(node).removeprefix("sizeof").strip().removeprefix("(").removesuffix(")")
        return _numbered(layouts_of(self.tree).bytes(" ".join(inside.split())))

    def name(self, node: Node) -> Form | None:
        """A loop variable, a local, a parameter, or a constant."""
        name, constants = self.tree.code_of(node), self.kernel.constants
        if not constants.is_bound(name, node.start_byte):
            return _numbered(32 if name == "warpSize" else constants.value(name, node.start_byte))
        loop = self._loop_of(node, name)
        if loop is not None:
            return self._in_loop(loop)
        binding = constants.binding(name, node.start_byte)
        if binding is None:
            return None
        stepped = stepping(self.tree, node, binding) if binding.kind == "plain" else None
        if stepped:
            return self._in_loop(self.loop(stepped.loop, stepped.binding, stepped.update))
        return self._assigned(node, binding) if self._is_set_anew(binding) else self._bound(binding)

    def _is_set_anew(self, binding: Binding) -> bool:
        known = binding.name in self.kernel.constants.numbers
        return binding.kind in ("plain", "parameter") and not known and not self.set_once(binding)

    def _is_passed(self, binding: Binding) -> bool:
        """Whether it is a parameter whose argument is known."""
        here = binding.start < self.kernel.function.body.start_byte
        return here and binding.name in self.passed and binding.kind in ("parameter", "object", "other")

    def _assigned(self, node: Node, binding: Binding) -> Form | None:
        """What a variable that is set several times is at `node`, where one assignment or none decides it."""
        return assigned(self.tree, binding, node.start_byte, self.traced, self._initial)

    def _initial(self, binding: Binding) -> Form | None:
        if self._is_passed(binding):
            return self.passed[binding.name]
        if binding.kind == "parameter":
            return forms.variable(Symbol(binding.name, "parameter"))
        return self.traced(value_node(self.tree, binding)) if binding.value is not None else None

    def set_once(self, binding: Binding) -> bool:
        """Whether nothing changes the variable after its declaration."""
        key = (binding.declaration[0], binding.name)
        if key not in self._set_once:
            self._set_once[key] = is_set_once(self.tree, binding)
        return self._set_once[key]

    def _bound(self, binding: Binding) -> Form | None:
        key = (binding.declaration[0], binding.name)
        if key not in self._values:
            self._values[key] = None  # A value that leads back to itself is unknown.
            self._values[key] = self._value_of(binding)
        return self._values[key]

    def _value_of(self, binding: Binding) -> Form | None:
        if self._is_passed(binding):
            return self.passed[binding.name]
        if (number := self.kernel.constants.numbers.get(binding.name)) is not None:
            return forms.number(number)
        given = integer_of(self.tree, constant_memory_type(self.tree, binding)) is not None
        if given or (binding.kind == "parameter" and self.set_once(binding)):
            return forms.variable(Symbol(binding.name, "parameter"))
        varies = binding.kind == "plain" and not self.set_once(binding)
        if varies or binding.kind not in ("plain", "const", "constexpr") or binding.value is None:
            return None
        written = self.tree.masked.code[binding.declaration[0] : binding.start].decode("ascii")
        declared = integer_of(self.tree, written)
        value = value_node(self.tree, binding)
        narrow = declared is not None and declared.is_narrow
        return self._narrowed(written, value) if narrow else self.traced(value)

    def _loop_of(self, node: Node, name: str) -> Loop | None:
        """The loop around `node` whose variable `name` is, where only its header changes it."""
        for around in reversed(loops_around(self.tree, node)):
            loop = self.loop(around) if around.type == "for_statement" else None
            if loop is not None and loop.variable == name:
                return loop if self._means(node, name, around) else None
        return None

    def _means(self, node: Node, name: str, loop: Node) -> bool:
        """Whether `name` at `node` is the variable of `loop`, unchanged by the loop's body."""
        binding = self.kernel.constants.binding(name, node.start_byte)
        body = loop.child_by_field_name("body")
        if binding is None or body is None or binding.start > loop.end_byte:
            return False
        inside = body.start_byte <= binding.start < body.end_byte
        key = ("changes", name, body.start_byte, body.end_byte)
        return not inside and not self.tree.remembered(
            key, lambda: changes(self.tree, self.tree.code_of(body), name)
        )

    def _in_loop(self, loop: Loop) -> Form | None:
        if loop.origin is not None and loop.counter and loop.step is not None:
            counter = forms.variable(Symbol(loop.counter, "loop"))
            grown = forms.multiply(loop.step, counter)
            return forms.add(loop.origin, grown) if grown is not None else None
        if loop.first is None:
            return None
        # Halving and doubling keep threads alike where the first value does: an opaque loop symbol.
        if loop.step is None and loop.first.uniform and loop.comparison:
            return forms.variable(Symbol(f"{loop.variable}@{loop.offset}", "loop"))
        return None

    def loop(self, node: Node, stepped: Binding | None = None, update: Node | None = None) -> Loop:
        """What is known of a loop statement; `stepped` is a variable of it that `update` steps in its body."""
        key = (node.start_byte, stepped.name if stepped is not None else "")
        if key not in self._loops:
            self._loops[key] = Loop(self.tree.span(node), node.start_byte)
            self._loops[key] = self._read_stepped(node, stepped, update) if stepped else self._read_loop(node)
        return self._loops[key]

    def _read_stepped(self, node: Node, binding: Binding, update: Node | None) -> Loop:
        step, known = step_of(self.tree, update, binding.name, self.form)
        loop = Loop(self.tree.span(node), node.start_byte, variable=binding.name)
        if not known or step is None or binding.value is None:
            return loop
        first = self.traced(value_node(self.tree, binding))
        comparison, bound = compared_with(self.tree, condition_of(node), binding.name)
        return msgspec.structs.replace(
            loop,
            first=first.told if first is not None else None,
            origin=first,
            step=step,
            comparison=comparison,
            bound=self.form(bound),
            # All that one loop steps counts by the same iterations.
            counter=f"iteration@{node.start_byte}",
        )

    def _read_loop(self, node: Node) -> Loop:
        plain = Loop(self.tree.span(node), node.start_byte)
        variable, first = initialised(node)
        if variable is None:
            return self._stepped_in(node) or plain
        if node.type != "for_statement":
            return plain
        name = self.tree.code_of(variable)
        step, known = step_of(self.tree, node.child_by_field_name("update"), name, self.form)
        if not known:
            return msgspec.structs.replace(plain, variable=name)
        comparison, bound = compared_with(self.tree, node.child_by_field_name("condition"), name)
        loop = msgspec.structs.replace(
            plain,
            variable=name,
            first=self.form(first),
            origin=self.traced(first),
            step=step,
            comparison=comparison,
            bound=self.form(bound),
            counter=f"{name}@{node.start_byte}" if step is not None else "",
        )
        return msgspec.structs.replace(loop, trips=iterations(loop))

    def _stepped_in(self, node: Node) -> Loop | None:
        """The loop as one over the variable of its condition, where the body steps that."""
        for name in walk(condition) if (condition := condition_of(node)) is not None else ():
            if name.type == "identifier":
                binding = self.kernel.constants.binding(self.tree.code_of(name), name.start_byte)
                found = stepping(self.tree, name, binding) if binding is not None else None
                if found is not None and found.loop.start_byte == node.start_byte:
                    return self.loop(node, found.binding, found.update)
        return None


_CALLS = {"min": "min", "max": "max", "umin": "min", "umax": "max", "__mul24": "*", "__umul24": "*"}


def _numbered(value: int | None) -> Form | None:
    return forms.number(value) if value is not None else None


_READERS = {
    "number_literal": FormReader.literal,
    "parenthesized_expression": FormReader.parenthesised,
    "field_expression": FormReader.member,
    "binary_expression": FormReader.binary,
    "unary_expression": FormReader.unary,
    "cast_expression": FormReader.cast,
    "call_expression": FormReader.call,
    "conditional_expression": FormReader.choice,
    "sizeof_expression": FormReader.size,
    "subscript_expression": FormReader.element,
    "pointer_expression": FormReader.element,
    "identifier": FormReader.name,
    "qualified_identifier": FormReader.name,
}
