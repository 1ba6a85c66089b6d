# SPDX-License-Identifier: Apache-2.0
"""What a pointer expression of a kernel points into: which array, and how far from its start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import ArrayDeclaration, Kernel, Parameter
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.arrays import file_array
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.integer_names import QUALIFIER
from warplens_tools.cuda.values.kept_whole import is_kept_whole
from warplens_tools.cuda.values.last_set import last_set, set_anew
from warplens_tools.cuda.values.loop_headers import Stepped, step_of
from warplens_tools.cuda.values.pointer_types import ACCESSOR, EXTENT, PITCHED, PLANE, QUALIFIERS, TABLE
from warplens_tools.cuda.values.rescaled import rescaled
from warplens_tools.cuda.values.restarted import stepping

Space = Literal["global", "shared", "local", "constant", "unknown"]


class Pointer(msgspec.Struct, frozen=True):
    """A place in an array. `traced` counts elements of `element_type`; None where not derivable.

    What is loaded is a symbol in it; `offset` is None where there is such a symbol.

    `inner` are the extents that indexing still has to go through: (Form of 33,) for a row of
    `tile[32][33]`, () for a plain pointer.
    """

    name: str
    space: Space
    element_type: str
    traced: Form | None
    inner: tuple[Form | None, ...] = ()
    #: Its declaration in the model: a parameter or an array; None for anything else.
    declared: Parameter | ArrayDeclaration | None = None

    @property
    def offset(self) -> Form | None:
        """Elements from the array's start; None where not derivable."""
        return self.traced.told if self.traced is not None else None


_NOTHING: Mapping[str, Pointer] = {}


class PointerReader:
    """Follows pointers of one kernel to the arrays they point into."""

    def __init__(self, kernel: Kernel, reader: FormReader, handed: Mapping[str, Pointer] = _NOTHING) -> None:
        self.reader = reader
        #: What the caller hands over for the parameters, where this is a function that a kernel calls.
        self.handed = handed
        self.tree = reader.tree
        self.parameters = {p.name: p for p in kernel.parameters if p.pointer}
        self.objects = {p.name: p for p in kernel.parameters if not p.pointer}
        #: Parameters of more dimensions, `float a[N][M]` and `float (*a)[M]`, with what follows the first.
        self.planes = {p.name: found for p in kernel.parameters if (found := PLANE.fullmatch(p.type))}
        self.accessors = {p.name: found for p in kernel.parameters if (found := ACCESSOR.fullmatch(p.type))}
        self.pitched = {p.name: found for p in kernel.parameters if (found := PITCHED.fullmatch(p.type))}
        self.arrays = {a.name: a for a in kernel.arrays}
        self.ambiguous = {a.name for a in kernel.arrays if sum(b.name == a.name for b in kernel.arrays) > 1}
        self._known: dict[tuple[int, str], Pointer | None] = {}
        self._pointers: dict[int, Pointer | None] = {}
        self._depth = 0

    def pointer(self, node: Node | None) -> Pointer | None:
        """What `node`, a pointer or array expression, points to; None where not even the array is known."""
        if node is None or self._depth > 24:
            return None
        if node.id in self._pointers:
            return self._pointers[node.id]
        self._depth += 1
        read = _POINTERS.get(node.type)
        self._pointers[node.id] = found = read(self, node) if read else None
        self._depth -= 1
        return found

    def parenthesised(self, node: Node) -> Pointer | None:
        """(p)"""
        return self.pointer(node.named_children[0]) if node.named_child_count == 1 else None

    def name(self, node: Node) -> Pointer | None:
        """A parameter, an array, or a local pointer set once."""
        name = self.tree.text_of(node)
        binding = self.reader.kernel.constants.binding(name, node.start_byte)
        if binding is None:
            return self._of_file(node)
        if name in self.handed and self._is_parameter(binding):
            return self._from_caller(node, binding, self.handed[name])
        if binding.kind == "array" and name in self.arrays and name not in self.ambiguous:
            return self._array(self.arrays[name])
        if binding.kind == "pointer" and name in self.parameters and self._is_parameter(binding):
            parameter = self.parameters[name]
            offset = self._offset(node, binding)
            return Pointer(name, "global", self._plain(parameter.element_type), offset, (), parameter)
        if name in self.planes and self._is_parameter(binding):
            return self._plane(self.planes[name], binding)
        if name in self.accessors and self._is_parameter(binding):
            return self._tensor(self.accessors[name], binding)
        if binding.kind == "array" and not self._is_parameter(binding):
            return None
        if binding.kind == "array":
            return self._of_file(node)
        if binding.kind == "pointer" and not binding.value:
            return self._assigned(node, binding)
        kept = binding.kind != "pointer" or self.reader.set_once(binding)
        return self._local(binding) if kept else self._advanced_local(node, binding)

    def _assigned(self, node: Node, binding: Binding) -> Pointer | None:
        """A local pointer declared without a value: what it was set to last, where every way comes past that."""
        if (walked := stepping(self.tree, node, binding)) is not None and walked.binding.value:
            begun = self.pointer(value_node(self.tree, walked.binding))
            return begun and msgspec.structs.replace(begun, traced=self._walked(walked, binding))
        found = last_set(self.reader.tree, binding, node.start_byte)
        operator = found.part("operator") if found is not None else None
        is_plain = found and operator is not None and operator.type == "="
        return self.pointer(found.part("right")) if found and is_plain else None

    def _from_caller(self, node: Node, binding: Binding, handed: Pointer) -> Pointer:
        """A parameter of a called function: the caller's pointer, as far on as the function has advanced it."""
        offset = self._advanced(handed.traced, self._offset(node, binding))
        return msgspec.structs.replace(handed, traced=offset)

    def _advanced_local(self, node: Node, binding: Binding) -> Pointer | None:
        """A local pointer that is advanced, at the place where it stands."""
        found = self._local(binding)
        return found and msgspec.structs.replace(found, traced=self._offset(node, binding))

    def _offset(self, node: Node, binding: Binding) -> Form | None:
        """Where a pointer is at `node`, from its array's start: as it was declared or passed, or advanced since by
        statements that every way comes past."""
        if self.reader.set_once(binding):
            return forms.ZERO
        if (walked := stepping(self.tree, node, binding)) is not None:
            return self._walked(walked, binding)
        found = last_set(self.reader.tree, binding, node.start_byte)
        if found is None:
            return None
        if found.assignment is None:
            return self._first_offset(binding)
        left, operator, right = (found.part(field) for field in ("left", "operator", "right"))
        if left is None or operator is None or operator.type not in ("+=", "-="):
            return None
        before, step = self._offset(left, binding), self.reader.traced(right)
        return self._advanced(before, step, 1 if operator.type == "+=" else -1)

    def _walked(self, walked: Stepped, binding: Binding) -> Form | None:
        """Where a pointer is that one loop steps, `p += n` in each iteration; None where a loop around it goes on from
        where the last round ended."""
        loop, origin = walked.loop, self._first_offset(walked.binding)
        on = any(walked.binding.start < outer.start_byte for outer in loops_around(self.tree, loop))
        step, known = step_of(self.tree, walked.update, binding.name, self.reader.form)
        if on or not known or step is None or origin is None:
            return None
        counter = forms.Symbol(self.reader.loop(loop).counter or f"iteration@{loop.start_byte}", "loop")
        return self._advanced(origin, forms.multiply(step, forms.variable(counter)))

    def _first_offset(self, binding: Binding) -> Form | None:
        if self._is_parameter(binding):
            return forms.ZERO
        found = self.pointer(value_node(self.tree, binding))
        return found.traced if found is not None else None

    def _plane(self, written: re.Match[str], binding: Binding) -> Pointer:
        """A parameter that points to rows."""
        extents = EXTENT.findall(written["inner"])
        sizes = [self.reader.kernel.constants.value(e, binding.start) for e in extents]
        inner = tuple(forms.number(size) if size is not None else None for size in sizes)
        element = " ".join(w for w in written["element"].split() if w not in QUALIFIERS)
        offset = forms.ZERO if self.reader.set_once(binding) else None
        return Pointer(binding.name, "global", self._plain(element), offset, inner)

    def _tensor(self, written: re.Match[str], binding: Binding) -> Pointer:
        """PyTorch's accessor of a tensor, taken for a contiguous one: its sizes are numbers of the launch."""
        name = binding.name
        inner = tuple(
            forms.variable(forms.Symbol(f"{name}.size({i})", "parameter"))
            for i in range(1, int(written["dimensions"]))
        )
        return Pointer(name, "global", self._plain(written["element"].strip()), forms.ZERO, inner)

    def _of_file(self, name: Node) -> Pointer | None:
        """A `__constant__` or `__device__` array at file scope."""
        found = file_array(self.reader.kernel.constants, self.tree.text_of(name), name.start_byte)
        return self._array(found) if found is not None else None

    def _is_parameter(self, binding: Binding) -> bool:
        return binding.start < self.reader.kernel.function.body.start_byte

    def _array(self, array: ArrayDeclaration) -> Pointer:
        inner = tuple(forms.number(size) if size is not None else None for size in array.sizes[1:])
        return Pointer(array.name, array.space, self._plain(array.element_type), forms.ZERO, inner, array)

    def _plain(self, name: str) -> str:
        return layouts_of(self.tree).plain(name)

    def _local(self, binding: Binding) -> Pointer | None:
        if binding.kind not in ("pointer", "plain") or not binding.value:
            return None
        if (key := (binding.declaration[0], binding.name)) not in self._known:
            self._known[key] = None
            found = self.pointer(value_node(self.tree, binding))
            if found is not None and not self.reader.set_once(binding):
                found = self._moved(binding, found)
            self._known[key] = found
        return self._known[key]

    def _moved(self, binding: Binding, found: Pointer) -> Pointer | None:
        """A pointer that is advanced stays in its array; one that is set anew may leave it."""
        code = self.tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
        if set_anew(binding.name, code):
            return None
        return msgspec.structs.replace(found, traced=None)

    def member(self, node: Node) -> Pointer | None:
        """f.cells, a pointer in a struct that is passed by value; `a[i].row`, `p->row`, an array in a record"""
        return self._passed(node) or self.member_array(node)

    def member_array(self, node: Node) -> Pointer | None:
        """An array of one dimension that is a member of a record in memory: the record's place, in its elements."""
        field, root = node.child_by_field_name("field"), node.child_by_field_name("argument")
        path = self.tree.code_of(field) if field is not None else ""
        while root is not None and root.type == "field_expression" and "->" not in _operator(node):
            node, path = root, f"{self.tree.code_of(root.named_children[-1])}.{path}"
            root = node.child_by_field_name("argument")
        if root is None or node.type != "field_expression":
            return None
        base = self.pointer(root) if _operator(node) == "->" else self._record(root)
        layouts = layouts_of(self.tree)
        found = layouts.member(base.element_type, path) if base is not None and not base.inner else None
        each = layouts.bytes(found.type) if found is not None else None
        if base is None or found is None or not each or found.pointer or found.size <= each:
            return None
        start = rescaled(base.traced, layouts.bytes(base.element_type), each)
        inside = forms.number(found.offset // each) if found.offset % each == 0 else None
        offset = self._advanced(start, inside)
        return msgspec.structs.replace(base, element_type=self._plain(found.type), traced=offset)

    def _record(self, node: Node) -> Pointer | None:
        """Where the record `a[i]` or `*p` stands."""
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            return self._record(node.named_children[0])
        if node.type == "pointer_expression" and _operator(node) == "*":
            return self.pointer(node.child_by_field_name("argument"))
        return self.element(node) if node.type == "subscript_expression" else None

    def _passed(self, node: Node) -> Pointer | None:
        """A pointer in a struct that is passed by value, or by a pointer that is the same for all threads."""
        path = "".join(self.tree.code_of(node).split())
        root, arrow, rest = re.fullmatch(r"(\w*)(\.|->)?(.*)", path).groups()  # type: ignore[union-attr]
        parameter = (self.parameters if arrow == "->" else self.objects).get(root)
        binding = self.reader.kernel.constants.binding(root, node.start_byte)
        of_kernel = arrow != "->" or self.reader.kernel.function.is_kernel
        if not (parameter and binding and of_kernel and self._is_parameter(binding)) or "->" in rest:
            return None
        found = layouts_of(self.tree).member(QUALIFIER.sub(" ", parameter.element_type).strip(), rest)
        if found is None or not found.pointer or not is_kept_whole(self.tree, binding):
            return None
        return Pointer(path, "global", self._plain(found.type), forms.ZERO)

    def stepped(self, node: Node) -> Pointer | None:
        """p++, --p"""
        found = self.pointer(node.child_by_field_name("argument"))
        return msgspec.structs.replace(found, traced=None) if found is not None else None

    def sum(self, node: Node) -> Pointer | None:
        """p + e, e + p, p - e"""
        operator = node.child_by_field_name("operator")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator is None or operator.type not in ("+", "-"):
            return None
        base, step = self.pointer(left), right
        if base is None and operator.type == "+":
            base, step = self.pointer(right), left
        if base is None:
            return None
        if base.inner:
            return msgspec.structs.replace(base, traced=None)
        offset = self._advanced(base.traced, self.reader.traced(step), -1 if operator.type == "-" else 1)
        return msgspec.structs.replace(base, traced=offset)

    def _advanced(self, offset: Form | None, step: Form | None, sign: int = 1) -> Form | None:
        if offset is None or step is None:
            return None
        return forms.add(offset, step) if sign > 0 else forms.subtract(offset, step)

    def address(self, node: Node) -> Pointer | None:
        """&a[i], &a[i][j]"""
        operator = node.child_by_field_name("operator")
        argument = node.child_by_field_name("argument")
        if operator is None or operator.type != "&" or argument is None:
            return None
        while argument.type == "parenthesized_expression" and argument.named_child_count == 1:
            argument = argument.named_children[0]
        return self.element(argument) if argument.type == "subscript_expression" else None

    def subscript(self, node: Node) -> Pointer | None:
        """tile[i], as a pointer: a row of an array of more dimensions."""
        found = self.element(node)
        return self._of_table(node) if found is None else found if self.is_row(node) else None

    def _of_table(self, node: Node) -> Pointer | None:
        """`As[blockIdx.z]` of `const float* const* As`: an array for each block."""
        base, indices = node.child_by_field_name("argument"), node.child_by_field_name("indices")
        name = self.tree.code_of(base) if base is not None else ""
        binding = self.reader.kernel.constants.binding(name, node.start_byte)
        parameter = self.objects.get(name) if binding is not None and self._is_parameter(binding) else None
        table = TABLE.fullmatch(parameter.type) if parameter is not None else None
        index = self.reader.form(indices.named_children[0]) if table is not None and indices else None
        name = "".join(self.tree.code_of(node).split())
        known = table is not None and index is not None and index.uniform and self._plain(table[1])
        return Pointer(name, "global", known, forms.ZERO) if known else None

    def is_row(self, node: Node) -> bool:
        """Whether the subscript leaves extents to go through, so that it reads nothing yet."""
        return bool((base := self.pointer(node.child_by_field_name("argument"))) and base.inner)

    def element(self, node: Node) -> Pointer | None:
        """Where `p[i]` stands."""
        base = self.pointer(node.child_by_field_name("argument"))
        indices = node.child_by_field_name("indices")
        if base is None or indices is None or indices.named_child_count != 1:
            return None
        index = self.reader.traced(indices.named_children[0])
        for extent in base.inner:
            index = forms.multiply(index, extent) if index is not None and extent is not None else None
        offset = self._advanced(base.traced, index)
        return msgspec.structs.replace(base, traced=offset, inner=base.inner[1:])

    def cast(self, node: Node) -> Pointer | None:
        """(float4*)p"""
        written = node.child_by_field_name("type")
        inside = self.pointer(node.child_by_field_name("value"))
        return self._retyped(inside, self.tree.code_of(written)) if inside and written is not None else None

    def call(self, node: Node) -> Pointer | None:
        """reinterpret_cast<float4*>(p) and its like; image.ptr(y)"""
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None or listed.named_child_count != 1:
            return None
        if function.type == "field_expression":
            return self._row_of_image(function, listed.named_children[0])
        name = self.tree.code_of(function)
        word, _, written = name.partition("<")
        if word.strip() not in ("reinterpret_cast", "static_cast", "const_cast"):
            return None
        inside = self.pointer(listed.named_children[0])
        return self._retyped(inside, written.rstrip().removesuffix(">")) if inside else None

    def _row_of_image(self, function: Node, row: Node) -> Pointer | None:
        """A row of OpenCV's image with a pitch: its step is a number of the launch."""
        name, _, called = self.tree.code_of(function).partition(".")
        binding = self.reader.kernel.constants.binding(name, function.start_byte)
        written = self.pitched.get(name)
        if written is None or called != "ptr" or binding is None or not self._is_parameter(binding):
            return None
        step, index = forms.variable(forms.Symbol(f"{name}.step", "parameter")), self.reader.traced(row)
        start = forms.multiply(index, step) if index is not None else None
        return Pointer(name, "global", self._plain(written["element"].strip()), start)

    def _retyped(self, pointer: Pointer, written: str) -> Pointer | None:
        """The same place counted in another type's elements."""
        words = [w for w in written.replace("*", " * ").split() if w not in QUALIFIERS]
        if not words or words[-1] != "*" or words.count("*") != 1:
            return None
        element = self._plain(" ".join(words[:-1]))
        if element == pointer.element_type and not pointer.inner:
            return pointer
        offset = rescaled(pointer.traced, type_bytes(pointer.element_type), type_bytes(element))
        return msgspec.structs.replace(pointer, element_type=element, traced=offset, inner=())


def _operator(node: Node) -> str:
    return found.type if (found := node.child_by_field_name("operator")) is not None else ""


_POINTERS = {
    "parenthesized_expression": PointerReader.parenthesised,
    "identifier": PointerReader.name,
    "field_expression": PointerReader.member,
    "binary_expression": PointerReader.sum,
    "update_expression": PointerReader.stepped,
    "pointer_expression": PointerReader.address,
    "subscript_expression": PointerReader.subscript,
    "cast_expression": PointerReader.cast,
    "call_expression": PointerReader.call,
}
