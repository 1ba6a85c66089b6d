# SPDX-License-Identifier: Apache-2.0
"""pad-shared-tile

Give a two-dimensional shared tile one more element per row.

Where the row pitch is a multiple of 32 words, the elements of a column all lie in one of the 32 banks,
and a warp that walks a column is served one lane at a time. One element of padding turns each row by
one bank. The extra column is never touched.

```cuda
#define TILE 32

__global__ void transpose(float* out, const float* in, int n) {
  __shared__ float tile[TILE][TILE];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
```

```cuda
#define TILE 32

__global__ void transpose(float* out, const float* in, int n) {
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
```

A tile that is also accessed 16 bytes at a time (through a cast to a vector type, `ldmatrix`, or an
asynchronous copy of one address) is padded by 16 bytes, so that its rows stay aligned. It is refused
where the tile is used as anything but `tile[row][column]`: passed on, measured by `sizeof`, addressed
across its rows, loaded by `wmma` with a leading dimension, or filled by a bulk copy, `wgmma` or TMA.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.model import ArrayDeclaration, Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.text import SourceText, TextEdit

#: Static shared memory of a block on every architecture (CUDA C++ Programming Guide, Technical
#: Specifications): more needs a dynamic allocation.
STATIC_LIMIT_BYTES = 48 * 1024
#: The widest access to shared memory by one thread.
VECTOR_BYTES = 16
_BULK = re.compile(r"wgmma|cp[._]async[._]bulk|CUtensorMap|wmma::|make_tiled_copy")
_LOW_PRECEDENCE = re.compile(r"[?<>=&|^]")
_ASYNC = re.compile(r"__pipeline_memcpy_async|__cvta_generic_to_shared|(?:cute::)?cast_smem_ptr_to_uint")
_ATOMIC = re.compile(r"atomic[A-Z]\w*")
_CAST = re.compile(r"reinterpret_cast\s*<(.*)>", re.DOTALL)


class _RefusedError(Exception):
    """The tile cannot be padded; the text says why."""


def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Pad every tile of `target.names`, or every tile that can be padded."""
    del model
    tree = parse_tree(text)
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.macro or kernel.broken:
        return RewriteResult(refused="the kernel is written by a macro, or has a syntax error")
    wanted = [a for a in kernel.arrays if _is_wanted(tree, kernel, a, target)]
    edits, padded, refused = [], [], []
    for array in wanted:
        try:
            edits.append(_pad(text, expanded, kernel, array))
            padded.append(array.name)
        except _RefusedError as error:
            refused.append(f"{array.name}: {error}")
    if not edits or (target.names and refused):
        return RewriteResult(refused="; ".join(refused) or "the kernel has no shared tile of two dimensions")
    return RewriteResult(tuple(edits), title=f"Pad the rows of {', '.join(padded)}")


def _tiles_apart(kernel: Kernel) -> tuple[Target, ...]:
    """Each tile alone, where there are several: padding one may cost the occupancy that another needs."""
    tiles = tuple(Target(names=(array.name,)) for array in kernel.arrays if array.space == "shared")
    return tiles if len(tiles) > 1 else ()


def _is_wanted(tree: SourceTree, kernel: Kernel, array: ArrayDeclaration, target: Target) -> bool:
    if array.space != "shared" or (not target.names and len(array.extents) != 2):
        return False
    if target.names and array.name not in target.names:
        return False
    lines = {a.span.line for a in accesses(tree, kernel) if a.name == array.name} if target.lines else set()
    lines.add(array.span.line)
    return not target.lines or bool(lines & set(target.lines))


def _pad(text: SourceText, expanded: KernelTree, kernel: Kernel, array: ArrayDeclaration) -> TextEdit:
    if array.dynamic or len(array.extents) != 2 or len(array.extent_spans) != 2:
        raise _RefusedError("only a statically sized tile of two dimensions can be padded")
    if sum(a.name == array.name for a in kernel.arrays) > 1:
        raise _RefusedError("the kernel declares several arrays of that name")
    span, written = array.extent_spans[1], array.extents[1]
    if text.slice(span) != written:
        raise _RefusedError("its extent is written by a macro")
    padding = _padding(expanded, array)
    _check_pitch(kernel, array, padding)
    extent = f"({written})" if _LOW_PRECEDENCE.search(written) else written
    return TextEdit(span, f"{extent} + {padding}")


def _check_pitch(kernel: Kernel, array: ArrayDeclaration, padding: int) -> None:
    size, pitch = type_bytes(array.element_type), array.sizes[1]
    if size and pitch and pitch * size % 8 == 4:
        raise _RefusedError("its row pitch is already an odd number of words")
    used = [
        (type_bytes(a.element_type), a.sizes) for a in kernel.arrays if a.space == "shared" and not a.dynamic
    ]
    total = 0
    for element, sizes in used:
        count = 1
        for extent in sizes:
            count *= extent or 0
        total += count * (element or 0)
    if size and array.sizes[0] and total + array.sizes[0] * padding * size > STATIC_LIMIT_BYTES:
        raise _RefusedError("the padded tile would exceed 48 KB of static shared memory")


def _padding(expanded: KernelTree, array: ArrayDeclaration) -> int:
    """Elements to add: one, or 16 bytes' worth where rows must stay aligned to 16 bytes."""
    tree = expanded.tree
    body = expanded.function.body
    if _BULK.search(tree.text_of(body)):
        raise _RefusedError("the kernel uses wmma, wgmma or bulk copies, which fix the layout of a tile")
    names = [
        n
        for n in tree.captures("(identifier) @name", body).get("name", [])
        if tree.text_of(n) == array.name and not _is_declaration(n)
    ]
    reader = FormReader(expanded)
    vector = [_use_of(tree, reader, node) for node in names]
    if not any(vector):
        return 1
    size = type_bytes(array.element_type)
    if not size or VECTOR_BYTES % size:
        raise _RefusedError("it is accessed through a vector type and its element size is not known")
    return VECTOR_BYTES // size


def _is_declaration(node: Node) -> bool:
    parent = node.parent
    while parent is not None and parent.type in ("array_declarator", "init_declarator"):
        parent = parent.parent
    return node.parent is not None and node.parent.type == "array_declarator" and parent is not None


def _use_of(tree: SourceTree, reader: FormReader, node: Node) -> bool:
    """Whether this use of the tile is an aligned vector access; refuses what is no `tile[i][j]`."""
    row = node.parent
    element = row.parent if row is not None else None
    if row is None or element is None or not (_is_base(row, node) and _is_base(element, row)):
        raise _RefusedError("it is used as a whole, not as tile[row][column]")
    _check_row(reader, row, element)
    parent = element.parent
    while parent is not None and parent.type == "parenthesized_expression":
        parent = parent.parent
    if parent is None or parent.type != "pointer_expression" or not tree.code_of(parent).startswith("&"):
        if parent is not None and parent.type == "subscript_expression" and _is_base(parent, element):
            raise _RefusedError("its elements are arrays themselves")
        return False
    return _address_use(tree, parent)


def _check_row(reader: FormReader, row: Node, element: Node) -> None:
    """`tile[0][i]` with a running i may reach past its row, which padding would move."""
    first = reader.form(_index(row))
    column = reader.form(_index(element))
    if first is not None and first.value is not None and (column is None or column.value is None):
        raise _RefusedError("a fixed row is indexed by a variable, which may address the tile as one piece")


def _index(node: Node) -> Node | None:
    indices = node.child_by_field_name("indices")
    return indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None


def _is_base(parent: Node, node: Node) -> bool:
    base = parent.child_by_field_name("argument")
    return parent.type == "subscript_expression" and base is not None and base.id == node.id


def _address_use(tree: SourceTree, address: Node) -> bool:
    """Whether `&tile[i][j]` is one aligned vector access (True) or one element's atomic (False)."""
    user = address.parent
    if user is not None and user.type == "cast_expression":
        return _dereferenced(tree, user)
    call = user.parent if user is not None and user.type == "argument_list" else None
    function = call.child_by_field_name("function") if call is not None else None
    name = tree.code_of(function) if function is not None else ""
    if call is not None and _ATOMIC.fullmatch(name):
        return False
    if call is not None and _CAST.fullmatch(name):
        return _dereferenced(tree, call)
    if _ASYNC.fullmatch(name):
        return True
    raise _RefusedError("the address of an element is passed on")


def _dereferenced(tree: SourceTree, cast: Node) -> bool:
    """A vector pointer that is dereferenced on the spot, at index 0: it stays within its row."""
    parent = cast.parent
    while parent is not None and parent.type == "parenthesized_expression":
        cast, parent = parent, parent.parent
    if parent is not None and parent.type == "pointer_expression" and tree.code_of(parent).startswith("*"):
        return True
    if parent is not None and _is_base(parent, cast):
        index = _index(parent)
        if index is not None and tree.code_of(index) == "0":
            return True
    raise _RefusedError("a pointer into it is kept")


REWRITE = Rewrite(
    slug="pad-shared-tile",
    title="Pad the rows of a shared tile",
    apply=apply,
    sites=_tiles_apart,
    useless_at="dram",
    answers=("shared-bank-conflicts",),
    chance=0.4,
    gain=1.3,
)
