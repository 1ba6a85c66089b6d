# SPDX-License-Identifier: Apache-2.0
"""By which numbers of a thread the values in a kernel differ: what flows from `threadIdx` into names, through
assignments, tests, calls and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import called_code, functions_named, parameter_names
from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree

#: An axis of `threadIdx`; its x only by a quotient, so that neighbours share it; the block; what is not told.
Mark = Literal["x", "y", "z", "group", "block", "untold"]
Marks = frozenset[Mark]

NONE: Marks = frozenset()
_UNTOLD: Marks = frozenset({"untold"})
_AXES: dict[str, Mark] = {"x": "x", "y": "y", "z": "z"}
#: Functions of values alone, casts and constructors of vectors.
_PURE = re.compile(
    r"(?:std::|::)?(?:__)?(?:f?(?:max|min|abs)f?|u?(?:max|min)|"
    r"(?:sqrt|rsqrt|cbrt|hypot|pow|exp|exp2|exp10|expm1|log|log2|log10|log1p|sin|cos|tan|asin|acos|atan|atan2|sinh|"
    r"cosh|tanh|erf|erfc|floor|ceil|round|rint|trunc|fmod|fma|mul24|umul24|clz|popc|ffs|brev|ldg|sizeof|"
    r"saturate|isnan|isinf|fdividef|powi|sincos)f?|(?:float|int|uint|half|double|bfloat16)\d*2\w*|"
    r"\w+_as_\w+|make_\w+|f(?:add|mul|sub|ma)_r\w|d(?:add|mul)_r\w)|"
    r"(?:static|reinterpret|const)_cast<.*>|(?:unsigned|int|float|double|long|char|short|size_t|u?int\d+_t)"
)
#: What a called function's text holds where its value may differ between threads that pass the same.
_OWN = re.compile(r"\b(?:threadIdx|thread_rank|laneid|atomic\w+|__shfl\w*|clock\w*|asm|curand\w*)\b")
_CHANGES = frozenset({"init_declarator", "assignment_expression", "update_expression"})
_LEAVES = frozenset({"break_statement", "continue_statement", "return_statement", "goto_statement"})


class _Change(msgspec.Struct, frozen=True):
    """A variable that is set at an offset, what it is set from, and the tests that decide whether it is."""

    variable: str
    sources: tuple[Node, ...]
    at: int


class ThreadMarks:
    """The marks of a kernel's expressions, as they are when one comes to a loop of it, or goes through it."""

    def __init__(self, expanded: KernelTree, kernel: Kernel) -> None:
        self.expanded, self.tree, self.body = expanded, expanded.tree, expanded.function.body
        self.forms = FormReader(expanded)
        #: Arrays that all threads of the block, or of the launch, see: an element's value hangs on its index alone.
        self.seen = {p.name for p in kernel.parameters} | {
            a.name for a in kernel.arrays if a.space in ("shared", "global", "constant")
        }
        self.arrays = {a.name for a in kernel.arrays if a.space == "local"}
        self._known: dict[str, Marks] = {}
        self._pure: dict[str, bool] = {}
        self._variables: dict[int, str] = {}
        self._every = tuple(self._changes())

    def come_to(self, loop: Node) -> None:
        """Takes what is set before a loop, in it, or in a loop around it: what follows tells of its values alone."""
        around = loops_around(self.tree, loop)
        last = around[0].end_byte if around else loop.end_byte
        self._known = {}
        self._settle([c for c in self._every if c.at < last])

    def of(self, node: Node) -> Marks:
        """By what the values of an expression, or of all that stands in a statement, differ between threads."""
        if node.type == "identifier":
            return self._of_name(node)
        if node.type == "field_expression":
            return self._of_member(node)
        if node.type == "call_expression":
            return self._of_call(node)
        if node.type in ("lambda_expression", "gnu_asm_expression"):
            return _UNTOLD
        found = self._joined(node.named_children)
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        if "x" in found and operator is not None and operator.type in ("/", ">>") and self._is_whole(node):
            return (found - {"x"}) | {"group"}
        return found

    def _of_name(self, node: Node) -> Marks:
        name = self.tree.code_of(node)
        if name == "threadIdx":
            return frozenset(_AXES.values())
        return frozenset({"block"}) if name == "blockIdx" else self._known.get(self._variable(node), NONE)

    def _variable(self, node: Node) -> str:
        """A name with the place of its declaration: loops have counters of one name."""
        if node.id not in self._variables:
            name = self.tree.code_of(node)
            binding = self.expanded.constants.binding(name, node.start_byte)
            self._variables[node.id] = f"{name}@{binding.declaration[0]}" if binding is not None else name
        return self._variables[node.id]

    def _of_member(self, node: Node) -> Marks:
        argument, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if argument is None:
            return _UNTOLD
        if self.tree.code_of(argument) == "threadIdx" and field is not None:
            axis = _AXES.get(self.tree.code_of(field))
            return frozenset({axis}) if axis is not None else _UNTOLD
        return self.of(argument)

    def _of_call(self, node: Node) -> Marks:
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        given = self.of(listed) if listed is not None else NONE
        if function is None:
            return _UNTOLD
        if function.type == "field_expression":
            return given | self.of(function)
        return given if self._is_pure(self.tree.code_of(function)) else _UNTOLD

    def _is_pure(self, name: str) -> bool:
        """Whether a function gives threads that pass the same values the same one."""
        if name not in self._pure:
            plain = name.split("<")[0].strip().rsplit("::", 1)[-1]
            file = self.tree.file
            own = [self.tree.file.code_of(f.body) for f in functions_named(file, plain)]
            code = "\n".join((*own, called_code(file, "\n".join(own))))
            self._pure[name] = not _OWN.search(code) if own else bool(_PURE.fullmatch(name))
        return self._pure[name]

    def _is_whole(self, node: Node) -> bool:
        """Whether a quotient is of integers, so that neighbours come to one value."""
        return self.forms.form(node) is not None

    def _joined(self, nodes: Iterable[Node]) -> Marks:
        found: set[Mark] = set()
        for node in nodes:
            found |= self.of(node)
        return frozenset(found)

    def _settle(self, changes: Sequence[_Change]) -> None:
        grown = True
        while grown:
            grown = False
            for change in changes:
                known = self._known.get(change.variable, NONE)
                more = known | self._joined(change.sources)
                if more != known:
                    self._known[change.variable], grown = more, True

    def _changes(self) -> Iterator[_Change]:
        for node in walk(self.body):
            if node.type in _CHANGES:
                yield from self._set(node)
            elif node.type == "call_expression":
                yield from self._handed(node)

    def _set(self, node: Node) -> Iterator[_Change]:
        target = next(
            (
                part
                for field in ("declarator", "left", "argument")
                if (part := node.child_by_field_name(field)) is not None
            ),
            None,
        )
        name, indices = _base(target)
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        sources = [*([value] if value is not None else []), *indices]
        for changed in [name] if name is not None else _names(target):
            if not (indices or name is None) or self.tree.code_of(changed) not in self.seen:
                yield self._changed(changed, node, *sources)

    def _handed(self, call: Node) -> Iterator[_Change]:
        """What a function may set: what it is given the address of, what it takes by reference, and local arrays."""
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or listed is None:
            return
        taken = self._references(self.tree.code_of(function).split("<")[0].strip())
        given = [n for n in listed.named_children if n.type != "comment"]
        for at, argument in enumerate(given):
            address = argument.type == "pointer_expression" and self.tree.code_of(argument).startswith("&")
            name, _ = _base(argument.child_by_field_name("argument") if address else argument)
            written = self.tree.code_of(name) if name is not None else ""
            changed = address or (at in taken if taken is not None else written in self.arrays)
            if name is not None and changed and written not in self.seen:
                yield self._changed(name, call, call)

    def _changed(self, name: Node, node: Node, *sources: Node) -> _Change:
        return _Change(self._variable(name), (*sources, *self._tests(node, name)), node.start_byte)

    def _references(self, name: str) -> frozenset[int] | None:
        """Positions of the parameters through which the file's functions of that name may write; None where the file
        has none."""
        found: set[int] = set()
        functions = functions_named(self.tree.file, name.rsplit("::", 1)[-1])
        for function in functions:
            listed = function.declarator.child_by_field_name("parameters")
            written = self.tree.file.code_of(listed)[1:-1].split(",") if listed is not None else []
            if len(written) == len(parameter_names(self.tree.file, function)):
                found |= {i for i, p in enumerate(written) if re.search(r"[&*\[]", p) and "const" not in p}
        return frozenset(found) if functions else None

    def _tests(self, node: Node, name: Node) -> Iterator[Node]:
        """The conditions between a change of a name and its declaration: some threads may come by them, others not."""
        binding = self.expanded.constants.binding(self.tree.code_of(name), node.start_byte)
        declared = binding.declaration[0] if binding is not None else 0
        around = node.parent
        while around is not None and around.start_byte > max(declared, self.body.start_byte):
            condition = around.child_by_field_name("condition")
            if condition is not None and around.type != "conditional_expression":
                yield condition
            if around.type in LOOPS:
                yield from _exits(around)
            around = around.parent


def _exits(loop: Node) -> Iterator[Node]:
    """The conditions by which a loop is left, or an iteration of it."""
    for node in walk(loop):
        condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
        if condition is not None and any(inner.type in _LEAVES for inner in walk(node)):
            yield condition


def _names(target: Node | None) -> list[Node]:
    """All names of a place that is none of a variable, such as what a cast makes of an address."""
    return [n for n in walk(target) if n.type == "identifier"] if target is not None else []


def _base(target: Node | None) -> tuple[Node | None, list[Node]]:
    """The name that is set, and the indices of the element of it."""
    indices: list[Node] = []
    while target is not None and target.type != "identifier":
        if target.type == "subscript_expression":
            listed = target.child_by_field_name("indices")
            indices += [listed] if listed is not None else []
        inner = next(
            (
                part
                for field in ("declarator", "argument")
                if (part := target.child_by_field_name(field)) is not None
            ),
            None,
        )
        target = inner or (
            next(iter(target.named_children), None) if target.type != "call_expression" else None
        )
    return target, indices
