# SPDX-License-Identifier: Apache-2.0
"""Random numbers drawn from generators whose states lie in global memory: `curand_normal(&states[i])`, or from a local
copy of a state that is loaded for them and stored back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import functions_named
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.pointers import Pointer, PointerReader
from warplens_tools.text import Span

_DRAWS = re.compile(r"(?:cu|hip)rand(?!_init)(?:_\w+)?")
_INNER_DRAW = re.compile(r"\b(?:cu|hip)rand(?!_init|State|_?[Gg]enerator)\w*\s*\(")
_CALLS = "(call_expression function: (identifier) @callee) @call"
#: Types of states, with the bytes of one where they are known (cuRAND 10).
_STATES = re.compile(r"(?:cu|hip|roc)rand(?:_?[Ss]tate)\w*")
_BYTES = {"curandState": 48, "curandState_t": 48, "curandStateXORWOW_t": 48, "curandStateXORWOW": 48,
          "curandStatePhilox4_32_10_t": 64, "curandStatePhilox4_32_10": 64}  # fmt: skip
#: A local that a state is copied into: `curandState own = states[i];`.
_COPIED = re.compile(
    r"\b(?:(?:cu|hip|roc)rand_?[Ss]tate\w*|auto)\s+([A-Za-z_]\w*)\s*=\s*\*?\s*\(?\s*([A-Za-z_]\w*)\b"
)


class DrawnInLoop(msgspec.Struct, frozen=True):
    """A call in a loop that loads, advances and stores a state of global memory."""

    span: Span
    #: The loop's.
    loop: Span
    #: The states' array.
    name: str


class StatesMoved(msgspec.Struct, frozen=True):
    """States that a kernel loads and stores for a few draws of each thread."""

    #: Of the first draw.
    span: Span
    name: str
    draws: int
    #: The draws go to the state in global memory, each of them.
    direct: bool
    #: Of one state; None where it is not known.
    bytes: int | None


def drawn_in_loops(tree: SourceTree, kernel: Kernel) -> tuple[DrawnInLoop, ...]:
    """Every such call in the kernel's own text, in text order, where the loop stays with one state."""
    reader = _Reader.of(tree, kernel)
    return tuple(d for call in reader.calls if (d := reader.looped(call)) is not None) if reader else ()


def states_moved(tree: SourceTree, kernel: Kernel) -> StatesMoved | None:
    """The states that the kernel loads, advances and stores for draws of which none is in a loop; None where it has no
    such ones, or sets them up itself."""
    reader = _Reader.of(tree, kernel)
    return reader.moved() if reader is not None else None


class _Reader:
    """The calls of one kernel that are handed a state."""

    def __init__(self, source: SourceTree, expanded: KernelTree, kernel: Kernel) -> None:
        self.source, self.tree, self.body = source, expanded.tree, expanded.function.body
        self.states = {
            p.name: p for p in kernel.parameters if p.pointer and _STATES.fullmatch(_type(p.element_type))
        }
        self.forms = FormReader(expanded)
        self.pointers = PointerReader(kernel, self.forms)
        self.calls = self.tree.captures(_CALLS, self.body).get("call", [])

    @classmethod
    def of(cls, tree: SourceTree, kernel: Kernel) -> _Reader | None:
        """None where the kernel has nothing to do with generators."""
        expanded = kernel_tree(tree, kernel)
        if expanded is None or "rand" not in expanded.tree.code_of(expanded.function.node):
            return None
        return cls(tree, expanded, kernel)

    def looped(self, call: Node) -> DrawnInLoop | None:
        """What a draw in a loop moves."""
        around = loops_around(self.tree, call)
        if not around or not _DRAWS.fullmatch(self._callee(call)):
            return None
        state, loop = next(self._handed(call), None), self.forms.loop(around[-1])
        if state is None or state.space != "global" or state.traced is None:
            return None
        moves = loop.counter and state.traced.mentions(loop.counter)
        return None if moves else DrawnInLoop(self.tree.span(call), loop.span, state.name)

    def moved(self) -> StatesMoved | None:
        """As `states_moved`."""
        code = self.tree.code_of(self.body)
        if not self.states or "rand_init" in code:
            return None
        copies = {local: name for local, name in _COPIED.findall(code) if name in self.states}
        draws = [
            (call, name, True) for call in self.calls if self._draws(call) for name in self._states_of(call)
        ]
        draws += [
            (call, copies[n], False)
            for call in self.calls
            if self._draws(call)
            for n in self._locals(call, copies)
        ]
        if not draws or any(loops_around(self.tree, call) for call, *_ in draws):
            return None
        first, name, _ = min(draws, key=lambda draw: draw[0].start_byte)
        own = [direct for _, of, direct in draws if of == name]
        if not all(own) and not re.search(rf"\b{name}\s*\[[^\]]*\]\s*=(?!=)", code):
            return None  # a copy that is not stored back
        bytes_ = _BYTES.get(_type(self.states[name].element_type))
        return StatesMoved(self.tree.span(first), name, len(own), all(own), bytes_)

    def _draws(self, call: Node) -> bool:
        """Whether a function draws from what it is handed: the library's, or one of the file that calls it."""
        name = self._callee(call)
        if _DRAWS.fullmatch(name):
            return True
        inner = functions_named(self.source, name)
        return any(_INNER_DRAW.search(self.source.code_of(f.body)) for f in inner)

    def _states_of(self, call: Node) -> Iterator[str]:
        """The arrays of states that a call is handed an element of, by pointer or by reference."""
        for state in self._handed(call):
            if state.name in self.states:
                yield state.name

    def _handed(self, call: Node) -> Iterator[Pointer]:
        listed = call.child_by_field_name("arguments")
        for given in listed.named_children if listed is not None else ():
            found = (
                self.pointers.element(given)
                if given.type == "subscript_expression"
                else self.pointers.pointer(given)
            )
            if found is not None:
                yield found

    def _locals(self, call: Node, copies: dict[str, str]) -> Iterator[str]:
        listed = call.child_by_field_name("arguments")
        for given in listed.named_children if listed is not None else ():
            name = self.tree.code_of(given).lstrip("&").strip()
            if name in copies:
                yield name

    def _callee(self, call: Node) -> str:
        function = call.child_by_field_name("function")
        return self.tree.code_of(function) if function is not None else ""


def _type(written: str) -> str:
    return next((word for word in reversed(written.split()) if word not in ("const", "volatile")), "")
