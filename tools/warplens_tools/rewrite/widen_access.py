# SPDX-License-Identifier: Apache-2.0
"""widen-access

Let each thread handle several neighbouring elements, loaded and stored 8 or 16 bytes at a time.

A warp that loads one float a lane has 128 bytes on the way for one instruction; with one byte or one half it has 32
or 64. Sixteen bytes a lane keep four to sixteen times as much on the way, with as many instructions fewer. The grid
shrinks accordingly. Elements that do not fill a vector, or data that is not aligned, are done one by one as before.

```cuda
__global__ void scale_add(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = a * x[i] + y[i];
  }
}
void run(const float* x, float* y, int n) {
  scale_add<<<(n + 255) / 256, 256>>>(x, y, 2.0f, n);
}
```

```cuda
constexpr int kVector = 4;  // elements of a thread, 16 bytes of y, x

__global__ void scale_add(const float* x, float* y, float a, int n) {
  const int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + kVector <= n &&
      reinterpret_cast<size_t>(&y[first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&x[first]) % 16 == 0) {
    alignas(16) float yPart[kVector];
    *reinterpret_cast<float4*>(yPart) = *reinterpret_cast<const float4*>(&y[first]);
    alignas(16) float xPart[kVector];
    *reinterpret_cast<float4*>(xPart) = *reinterpret_cast<const float4*>(&x[first]);
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      yPart[v] = a * xPart[v] + yPart[v];
    }
    *reinterpret_cast<float4*>(&y[first]) = *reinterpret_cast<float4*>(yPart);
  } else {
    for (int i = first; i < n && i < first + kVector; ++i) {
      y[i] = a * x[i] + y[i];
    }
  }
}
void run(const float* x, float* y, int n) {
  scale_add<<<((n + 255) / 256 + kVector - 1) / kVector, 256>>>(x, y, 2.0f, n);
}
```

It takes every type of 1, 2, 4 or 8 bytes, half and bfloat16 too, loops over the grid, and rows of images. Accesses
at other indices than the thread's own stay as they are. Left alone: an array that is only stored to under a condition.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Declared, Outputs, read_outputs, stores
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    has_barrier,
    refusing,
    renamed,
    squeezed,
    statements,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.refusal import Refused
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

#: The widest load and store.
_WIDEST = 16
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_NAMED = {"float": "float", "double": "double", "int": "int", "unsigned int": "uint", "unsigned": "uint",
          "unsigned char": "uchar", "char": "char", "uint8_t": "uchar", "short": "short"}  # fmt: skip
_BY_BYTES = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
CAVEAT = "results change if one of the buffers overlaps another at an offset"


class _Array(msgspec.Struct, frozen=True):
    """An array whose elements are accessed at the thread's own index."""

    name: str
    #: The access as written, and all places of it.
    written: str
    places: tuple[Node, ...]
    type: str
    bytes: int
    read: bool
    stored: bool

    def vector(self, count: int) -> str:
        """The type of `count` elements as one load."""
        named = _NAMED.get(self.type)
        if named is not None and count in (2, 4):
            return f"{named}{count}"
        return _BY_BYTES[self.bytes * count]


class _Work(msgspec.Struct, frozen=True):
    """What one thread does for one element."""

    axis: Axis
    outputs: Outputs
    statements: tuple[Node, ...]
    #: What the index moves by in a loop over the grid; "" without one.
    step: str
    first: str


def _apply(view: View, target: Target) -> RewriteResult:
    if has_barrier(view) or any(a.space == "shared" for a in view.kernel.arrays):
        raise Refused("the threads of a block work together")
    launches = Launches(view.text, view.model, view.kernel)
    sites = launches.read()
    work = _work(view, read_outputs(view, sites[0].site))
    arrays = _arrays(view, work, target)
    style = Style(view)
    largest = max(a.bytes for a in arrays)
    count = _WIDEST // largest
    vector = style.constant(
        "kVector", str(count), f"elements of a thread, {_WIDEST} bytes of {_names(arrays, largest)}"
    )
    writer = _Writer(view, style, work, arrays, vector, count)
    if not work.step:
        index = "xyz".index(work.axis.letter)
        for launch in launches.read():
            launches.set(launch.grid, {index: f"({launch.grid.axis(index)} + {vector} - 1) / {vector}"})
    edits = (style.constants(), writer.edit(), *launches.edits())
    return RewriteResult(edits, title=f"Access {count} elements at a time", caveat=CAVEAT)


def _names(arrays: tuple[_Array, ...], largest: int) -> str:
    return ", ".join(a.name for a in arrays if a.bytes == largest)


def _work(view: View, outputs: Outputs) -> _Work:
    axis = next((a for a in outputs.axes if a.letter == "x"), None)
    if any(not a.letter for a in outputs.axes):
        raise Refused("its threads' number is divided into two")
    if axis is not None and axis.limit and not axis.offset and not outputs.early:
        return _checked(view, _Work(axis, outputs, outputs.work, "", axis.name))
    loop = outputs.work[0]
    if loop.type != "for_statement" or len(outputs.work) != 1:
        raise Refused("no element of its own is handled by each thread")
    known = view.forms.loop(loop)
    step = {s.name for s in known.step.symbols} if known.step is not None else set()
    initial = field(loop, "initializer")
    first = known.origin
    if (
        first is None
        or step != {"blockDim.x", "gridDim.x"}
        or known.comparison != "<"
        or initial.type != "declaration"
    ):
        raise Refused("no element of its own is handled by each thread")
    if first.coefficient("threadIdx.x") != 1 or first.coefficient("blockIdx.x") == 0:
        raise Refused("the loop does not begin at the thread's own element")
    declared = initial.children_by_field_name("declarator")[0]
    value = view.written(field(declared, "value"))
    update = view.written(field(field(loop, "update"), "right"))
    written = view.code(initial)[: declared.start_byte - initial.start_byte].strip()
    bound = view.written(field(unwrapped(field(loop, "condition")), "right"))
    own = Axis(known.variable, written, "x", bound)
    body = tuple(statements(field(loop, "body")))
    return _checked(view, _Work(own, outputs, body, update, value))


def _checked(view: View, work: _Work) -> _Work:
    nodes = [n for s in work.statements for n in walk(s)]
    if any(n.type in JUMPS for n in nodes):
        raise Refused("the work on an element is left early")
    if any(name == work.axis.name for s in work.statements for name, _ in assigned(s, view)):
        raise Refused("the element's number changes")
    if re.search(r"\b(?:threadIdx|blockDim|gridDim)\b", " ".join(view.code(s) for s in work.statements)):
        raise Refused("the work rests on the thread's place in its block")
    return work


def _arrays(view: View, work: _Work, target: Target) -> tuple[_Array, ...]:
    """The arrays to access in vectors."""
    inside = [*work.statements, *(d.value for d in work.outputs.declared if d.value is not None)]
    found: dict[str, _Array] = {}
    written_to = {e.id for n in work.statements for e in stores(view, n)}
    atomics = [c for n in work.statements for name, c in calls(n, view) if name.startswith("atomic")]
    for node in (e for n in inside for e in view.elements(n)):
        if not _is_own(view, work, node) or (target.names and view.array(node) not in target.names):
            continue
        if any(a.start_byte <= node.start_byte < a.end_byte for a in atomics) or node.parent is None:
            continue
        if node.parent.type == "pointer_expression":
            continue
        key, size = squeezed(view.code(node)), type_bytes(view.concrete(view.element(node)))
        if size not in (1, 2, 4, 8):
            continue
        known = found.get(key)
        is_store = node.id in written_to
        found[key] = _Array(
            view.array(node),
            view.written(node),
            (*(known.places if known else ()), node),
            view.element(node),
            size,
            (known is not None and known.read) or not is_store or _also_reads(node),
            (known is not None and known.stored) or is_store,
        )
    _check_arrays(view, work, found)
    return tuple(found.values())


def _check_arrays(view: View, work: _Work, found: dict[str, _Array]) -> None:
    """That vectors are most of the traffic, and that what is stored is stored for every element.

    Raises:
        Refused: it is not so.
    """
    own = {p.id for a in found.values() for p in a.places}
    for loop in (n for s in work.statements for n in walk(s) if n.type in _LOOPS):
        if any(e.id not in own and view.space(e) == "global" for e in view.elements(loop)):
            raise Refused("most of what it reads is not its own element")
    for array in found.values():
        if array.stored and not array.read and work.outputs.others:
            raise Refused(f"{array.name} is stored to under a condition")
        if array.stored and not array.read and any(_is_conditional(p, work) for p in array.places):
            raise Refused(f"{array.name} is stored to under a condition")
    if len({a.name for a in found.values()}) < len(found):
        raise Refused("an array is accessed at several indices of the thread's own")
    if not found or all(a.bytes == 8 and not a.stored for a in found.values()):
        raise Refused("no array is accessed at the thread's own index")


def _also_reads(node: Node) -> bool:
    """Whether `a[i] += …`, `a[i]++` reads too."""
    outer = node.parent
    operator = outer.child_by_field_name("operator") if outer is not None else None
    return operator is None or operator.type != "="


def _is_own(view: View, work: _Work, node: Node) -> bool:
    """Whether neighbours of the thread access neighbours of the element, and the index has no offset."""
    pointer = view.place(node)
    if node.type != "subscript_expression" or pointer is None or pointer.space != "global":
        return False
    index = field(node, "indices").named_children[0]
    if not view.is_plain_enough(node) or pointer.traced is None:
        return False
    if squeezed(view.code(index)) == work.axis.name:
        return True
    is_unit = pointer.traced.coefficient("threadIdx.x") == 1 and pointer.traced.constant == 0
    names = view.names(node)
    known = view.parameters | {d.name for d in work.outputs.declared} | {a.name for a in work.outputs.axes}
    known |= {work.axis.name} | {c.name for c in view.model.constants}
    return is_unit and not names - known and not any(s in view.code(index) for s in ("/", "%"))


def _is_conditional(node: Node, work: _Work) -> bool:
    tops = {s.id for s in work.statements}
    outer = node.parent
    while outer is not None and outer.id not in tops:
        if outer.type in (
            "if_statement",
            "for_statement",
            "while_statement",
            "conditional_expression",
            "switch_statement",
        ):
            return True
        outer = outer.parent
    return outer is None or outer.type in (
        "if_statement",
        "for_statement",
        "while_statement",
        "switch_statement",
    )


class _Writer:
    """The new body."""

    def __init__(
        self, view: View, style: Style, work: _Work, arrays: tuple[_Array, ...], vector: str, count: int
    ) -> None:
        self.view, self.style, self.work, self.arrays = view, style, work, arrays
        self.vector, self.count = vector, count
        self.first, self.counter = style.local("first"), style.local("v")
        self.parts = {
            a.written: style.local(f"{a.name}Part" if "_" not in a.name else f"{a.name}_part") for a in arrays
        }
        self.type = re.sub(r"\b(?:const|auto)\b", "", work.axis.type).strip() or "int"

    def edit(self) -> TextEdit:
        """The edit of the kernel's body."""
        view, work = self.view, self.work
        top = [self._declared(d, ()) for d in work.outputs.declared if self._is_top(d)]
        others = [a for a in work.outputs.axes if a.name != work.axis.name]
        top += [f"{a.type} {a.name} = {_number(a)};" for a in others if a.letter]
        conditions = [f"{a.name} < {a.limit}" for a in others if a.limit] + list(work.outputs.uniform)
        if conditions:
            top.append(f"if (!({' && '.join(conditions)})) return;")
        body = self._vectors()
        if work.step:
            top.append(self._loop(body))
        else:
            value = f"{self.vector} * ({_number(work.axis)})"
            top += [f"const {self.type} {self.first} = {value};", body]
        newline = view.text.newline
        text = "\n".join(top)
        new = f"{{{newline}{self.style.lines(text)}{newline}{self.style.margin}}}"
        return TextEdit(view.text.span(view.start(view.body), view.end(view.body)), new)

    def _loop(self, body: str) -> str:
        work = self.work
        first = work.first if re.fullmatch(r"\w+", work.first) else f"({work.first})"
        step = work.step if re.fullmatch(r"\w+", work.step) else f"({work.step})"
        head = f"for ({self.type} {self.first} = {self.vector} * {first}; {self.first} < {work.axis.limit}; "
        return f"{head}{self.first} += {self.vector} * {step}) {{\n{indented(body)}\n}}"

    def _is_top(self, one: Declared) -> bool:
        changed = {name for s in self.work.statements for name, _ in assigned(s, self.view)}
        return self.work.axis.name not in self.work.outputs.rests[one.name] and one.name not in changed

    def _vectors(self) -> str:
        """The vectors where they fit, else element after element."""
        work, limit = self.work, self.work.axis.limit
        whole = [f"{self.first} + {self.vector} <= {limit}"]
        whole += [
            f"reinterpret_cast<size_t>({self._address(a)}) % {self._bytes(a)} == 0" for a in self.arrays
        ]
        tests = " &&\n    ".join(whole)
        lines = [f"if ({tests}) {{", indented(self._fast()), "} else {"]
        head = f"for ({self.type} {work.axis.name} = {self.first}; "
        head += f"{work.axis.name} < {limit} && {work.axis.name} < {self.first} + {self.vector}; ++{work.axis.name}) {{"
        lines.append(indented("\n".join([head, indented(self._element(())), "}"])))
        return "\n".join([*lines, "}"])

    def _bytes(self, array: _Array) -> int:
        return array.bytes * self.count

    def _address(self, array: _Array) -> str:
        text = array.written
        for one in reversed(self.work.outputs.declared):
            if not self._is_top(one) and one.value is not None and one.is_index:
                text = renamed(text, {one.name: f"({self.view.written(one.value)})"})
        text = re.sub(r"\[\(([^()]*)\)\]", r"[\1]", text)
        return f"&{renamed(text, {self.work.axis.name: self.first})}"

    def _fast(self) -> str:
        lines, pairs = [], []
        for array in self.arrays:
            part, vector = self.parts[array.written], array.vector(self.count)
            const = "" if array.stored else "const "
            lines.append(f"alignas({self._bytes(array)}) {array.type} {part}[{self.vector}];")
            if array.read:
                source = f"*reinterpret_cast<const {vector}*>({self._address(array)})"
                lines.append(f"*reinterpret_cast<{vector}*>({part}) = {source};")
            del const
            pairs += [(p, f"{part}[{self.counter}]") for p in array.places]
        head = f"#pragma unroll\nfor (int {self.counter} = 0; {self.counter} < {self.vector}; ++{self.counter}) {{"
        inner = self._element(tuple(pairs))
        if re.search(rf"\b{re.escape(self.work.axis.name)}\b", inner):
            inner = f"{self.type} {self.work.axis.name} = {self.first} + {self.counter};\n{inner}"
        lines += [head, indented(inner), "}"]
        for array in self.arrays:
            if array.stored:
                part, vector = self.parts[array.written], array.vector(self.count)
                target = f"*reinterpret_cast<{vector}*>({self._address(array)})"
                lines.append(f"{target} = *reinterpret_cast<{vector}*>({part});")
        return "\n".join(lines)

    def _element(self, pairs: tuple[tuple[Node, str], ...]) -> str:
        work = self.work
        below = [self._declared(d, pairs) for d in work.outputs.declared if not self._is_top(d)]
        inner = [self.style.code(substituted(self.view, s, _inside(s, pairs))) for s in work.statements]
        if work.outputs.others:
            inner = [f"if ({' && '.join(work.outputs.others)}) {{", *map(indented, inner), "}"]
        return "\n".join([*below, *inner])

    def _declared(self, one: Declared, pairs: tuple[tuple[Node, str], ...]) -> str:
        value = ""
        if one.value is not None:
            value = f" = {substituted(self.view, one.value, _inside(one.value, pairs))}"
        return f"{one.type} {one.stars}{one.name}{value};"


def _inside(node: Node, pairs: tuple[tuple[Node, str], ...]) -> list[tuple[Node, str]]:
    return [(n, t) for n, t in pairs if node.start_byte <= n.start_byte and n.end_byte <= node.end_byte]


def _number(axis: Axis) -> str:
    return f"blockIdx.{axis.letter} * blockDim.{axis.letter} + threadIdx.{axis.letter}"


REWRITE = Rewrite(
    slug="widen-access",
    title="Access several neighbouring elements at a time",
    apply=refusing(_apply),
    answers=("scalar-access",),
    useless_at="sm",
    ranges={"kVector": ()},
)
