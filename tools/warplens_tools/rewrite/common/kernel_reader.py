# SPDX-License-Identifier: Apache-2.0
"""A kernel's statements: what names are bound to, what is written to memory, and what is called."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.pointers import Pointer, PointerReader
from warplens_tools.lazily import cached_property
from warplens_tools.rewrite.common.reductions import place_of

ATOMIC = re.compile(r"(?:::)?atomic[A-Z]\w*(?:_block|_system)?")
#: What other threads must not do in this one's stead, or what joins threads already.
JOINED = re.compile(
    r"\b(?:__sync\w+|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__activemask|__match\w*|__reduce_\w+|cooperative_groups"
    r"|this_thread_block|thread_rank|__shared__|asm|goto|clock64?|__nanosleep|curand\w*|va_arg)\b"
)


class Store(msgspec.Struct, frozen=True):
    """One write to memory."""

    target: Node
    #: The array or parameter it goes to, and in which memory.
    array: str
    space: str
    #: The place is also read: `a[i] += x`.
    updates: bool


class KernelReader:
    """One kernel's statements, with what they write."""

    def __init__(self, expanded: KernelTree, file: SourceTree, kernel: Kernel) -> None:
        self.expanded, self.tree, self.kernel = expanded, expanded.tree, kernel
        self.body = expanded.function.body
        self.forms = FormReader(expanded)
        self.pointers = PointerReader(kernel, self.forms)
        self._file = file
        self._spaces = {a.name: a.space for a in kernel.arrays}

    @cached_property
    def accesses(self) -> tuple[ArrayAccess, ...]:
        """Every array access of the kernel."""
        return accesses(self._file, self.kernel)

    @cached_property
    def names(self) -> dict[str, list[Node]]:
        """Every identifier of the body, by name, in text order."""
        found: dict[str, list[Node]] = {}
        for node in walk(self.body):
            if node.type == "identifier":
                found.setdefault(self.tree.code_of(node), []).append(node)
        return found

    @cached_property
    def shared_scalars(self) -> frozenset[str]:
        """Variables of the whole block: `__shared__ float scale;`."""
        found = set[str]()
        for listed in re.findall(r"__shared__([^;]*);", self.tree.code_of(self.body)):
            found |= set(re.findall(r"(\w+)\s*(?:,|$)", listed))
        return frozenset(found)

    def binding(self, node: Node) -> Binding | None:
        """What an identifier is bound to."""
        return self.expanded.constants.binding(self.tree.code_of(node), node.start_byte)

    def occurrences(self, node: Node) -> list[Node]:
        """Every occurrence of the variable that `node` names, its declaration included."""
        mine = self.binding(node)
        return [
            n
            for n in self.names.get(self.tree.code_of(node), ())
            if mine is not None
            and (
                ((found := self.binding(n)) is not None and found.declaration == mine.declaration)
                or mine.declaration[0] <= n.start_byte < mine.declaration[1]
            )
        ]

    def is_inside(self, binding: Binding | None, node: Node) -> bool:
        """Whether a variable is declared inside `node`."""
        return binding is not None and node.start_byte <= binding.declaration[0] < node.end_byte

    def stores(self, node: Node) -> Iterator[Store]:
        """Writes to memory below `node`, and to arrays of the thread's own."""
        for child in walk(node):
            if child.type == "assignment_expression":
                target = child.child_by_field_name("left")
                operator = child.child_by_field_name("operator")
                updates = operator is not None and operator.type != "="
            elif child.type == "update_expression":
                target, updates = child.child_by_field_name("argument"), True
            else:
                continue
            if target is None:
                continue
            if place_of(self.tree, target).split(".")[0] in self.shared_scalars:
                yield Store(target, self.tree.code_of(target), "shared", updates)
            elif not place_of(self.tree, target):
                array, space = self.array_of(target)
                yield Store(target, array, space, updates)

    def array_of(self, target: Node) -> tuple[str, str]:
        """The array that an element belongs to, and its memory: "global" where the text does not tell."""
        found = self.place(target)
        if found is not None:
            return found.name, "global" if found.space == "unknown" else found.space
        base = next((n for n in walk(target) if n.type == "identifier"), target)
        name = self.tree.code_of(base)
        return name, self._spaces.get(name, "global")

    def place(self, target: Node) -> Pointer | None:
        """Where an element, or a member of one, stands; None where not even the array is known."""
        while target.type in ("field_expression", "parenthesized_expression"):
            inner = target.child_by_field_name("argument") or target.named_children[0]
            operator = target.child_by_field_name("operator")
            target = inner
            if operator is not None and operator.type == "->":
                return self.pointers.pointer(inner)
        if target.type == "subscript_expression":
            return self.pointers.element(target)
        if target.type == "pointer_expression":
            return self.pointers.pointer(target.child_by_field_name("argument"))
        return None

    def calls(self, node: Node) -> Iterator[tuple[Node, str]]:
        """Calls below `node` with the name that is called."""
        for child in walk(node):
            function = child.child_by_field_name("function") if child.type == "call_expression" else None
            if function is not None:
                yield child, self.tree.code_of(function)

    def has_atomic(self, node: Node) -> bool:
        """Whether an atomic is executed below `node`."""
        return any(ATOMIC.fullmatch(name.split("<")[0]) for _, name in self.calls(node))

    def is_set(self, node: Node) -> bool:
        """Whether an occurrence is the left side of `v = e`, in which v is not."""
        parent = node.parent
        left = parent.child_by_field_name("left") if parent is not None else None
        operator = parent.child_by_field_name("operator") if parent is not None else None
        right = parent.child_by_field_name("right") if parent is not None else None
        if parent is None or parent.type != "assignment_expression" or left is None or right is None:
            return False
        name = self.tree.code_of(node)
        again = any(n.type == "identifier" and self.tree.code_of(n) == name for n in walk(right))
        return left.id == node.id and operator is not None and operator.type == "=" and not again

    def index_of(self, name: Node) -> str:
        """What an occurrence of an array is indexed with; "" for another use."""
        parent = name.parent
        if parent is None or parent.type != "subscript_expression" or parent.children[0].id != name.id:
            return ""
        above = parent.parent
        if above is not None and above.type == "subscript_expression" and above.children[0].id == parent.id:
            return ""
        listed = parent.child_by_field_name("indices")
        return "".join(self.tree.code_of(listed).split())[1:-1] if listed is not None else ""
