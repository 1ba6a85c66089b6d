# SPDX-License-Identifier: Apache-2.0
"""Reading C++ declarations: what stands before their names, parameters and arrays."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Parameter
from warplens_tools.cuda.syntax.tree import SourceTree

_RESTRICT = re.compile(r"\b(?:__restrict__|__restrict|restrict)\b")
_WORD = re.compile(r"\w+")
_CONST = re.compile(r"\bconst\b")
_QUALIFIER = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename|register)\b"
)
_SPECIFIER = re.compile(
    r"\b(?:__device__|__constant__|__managed__|__shared__|__align__|alignas|extern|static|inline|register"
    r"|const|constexpr|volatile|typename|struct)\b"
)


class Declarator(msgspec.Struct, frozen=True):
    """What a declarator says of its name. `extents` are the array's extents, outermost first."""

    name: Node | None
    pointers: int = 0
    reference: bool = False
    function: bool = False
    extents: tuple[Node | None, ...] = ()
    #: The pointer stands outside the array, as in `float (*rows)[4]`.
    pointer_to_array: bool = False


def read_declarator(node: Node | None) -> Declarator:
    """The name, pointers, extents and kind under a declarator node."""
    extents: list[Node | None] = []
    pointers, reference, function, inner_pointer = 0, False, False, False
    while node is not None and node.type not in ("identifier", "field_identifier"):
        kind = node.type
        if kind in ("pointer_declarator", "abstract_pointer_declarator"):
            pointers += 1
            inner_pointer = inner_pointer or bool(extents)
        elif kind in ("array_declarator", "abstract_array_declarator"):
            extents.append(node.child_by_field_name("size"))
        elif kind in ("reference_declarator", "abstract_reference_declarator"):
            reference = True
        elif kind in ("function_declarator", "abstract_function_declarator"):
            function = True
        below = node.child_by_field_name("declarator")
        node = below or next((c for c in node.named_children if _is_declarator(c)), None)
    return Declarator(node, pointers, reference, function, tuple(reversed(extents)), inner_pointer)


def read_specifiers(tree: SourceTree, declaration: Node) -> tuple[frozenset[str], str]:
    """The words before a declaration's first name, of macros too, and the type among them without its specifiers; none
    of one without a name."""
    first = declaration.child_by_field_name("declarator")
    if first is None:
        return frozenset(), ""
    start, end = declaration.start_byte, first.start_byte
    words = frozenset(_WORD.findall(tree.words(_start_with_uses(tree, start), end)))
    return words, " ".join(_SPECIFIER.sub(" ", tree.code_of(declaration)[: end - start]).split())


def _is_declarator(node: Node) -> bool:
    return node.type.endswith("declarator") or node.type in ("identifier", "field_identifier")


def read_parameters(tree: SourceTree, parameters: Node) -> tuple[Parameter, ...]:
    """The parameters of a parameter list; `(void)` has none."""
    kinds = ("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration")
    nodes = [n for n in parameters.named_children if n.type in kinds]
    read = [_parameter(tree, n) for n in nodes]
    return () if len(read) == 1 and not read[0].name and read[0].type == "void" else tuple(read)


def _parameter(tree: SourceTree, node: Node) -> Parameter:
    declarator = read_declarator(node.child_by_field_name("declarator"))
    start, end = node.start_byte, node.end_byte
    uses = tree.uses(_start_with_uses(tree, start), end)
    start = min([start, *(u.start for u in uses)])
    default = node.child_by_field_name("default_value")
    words = tree.words(start, default.start_byte if default is not None else end)
    written = _type_text(tree, node, declarator, start, default)
    one_array = len(declarator.extents) == 1 and not declarator.reference and not declarator.pointers
    pointer = (declarator.pointers == 1 and not declarator.extents) or one_array
    pointer = pointer and not declarator.function and not declarator.reference
    base = _base_type(tree, node)
    return Parameter(
        name=tree.text_of(declarator.name) if declarator.name is not None else "",
        type=written,
        span=tree.text_span(start, end),
        element_type=base if pointer else written,
        pointer=pointer,
        const=pointer and _points_to_const(tree, node, start),
        restrict=pointer and bool(_RESTRICT.search(words)),
    )


def _start_with_uses(tree: SourceTree, start: int) -> int:
    """`start`, or further left where only taken-out macros stand in front."""
    code = tree.masked.code
    low = start
    while low > 0 and chr(code[low - 1]).isspace():
        low -= 1
    return low


def _type_text(tree: SourceTree, node: Node, declarator: Declarator, start: int, default: Node | None) -> str:
    """The parameter as written, without name and default."""
    text = tree.text.text
    end = node.end_byte
    if default is not None:
        end = default.start_byte
        end = start + len(text[start:end].rstrip().removesuffix("=").rstrip())
    name = declarator.name
    if name is None:
        return " ".join(text[start:end].split())
    return " ".join((text[start : name.start_byte] + text[name.end_byte : end]).split())


def _base_type(tree: SourceTree, node: Node) -> str:
    """The type before the declarator, without qualifiers: "float" of `const float* __restrict__ a`."""
    declarator = node.child_by_field_name("declarator")
    end = declarator.start_byte if declarator is not None else node.end_byte
    return " ".join(_QUALIFIER.sub(" ", tree.code_of(node)[: end - node.start_byte]).split())


def _points_to_const(tree: SourceTree, node: Node, start: int) -> bool:
    """Whether `const` stands before the declarator's `*`; after it, it makes the pointer const."""
    declarator = node.child_by_field_name("declarator")
    end = declarator.start_byte if declarator is not None else node.end_byte
    return bool(_CONST.search(tree.words(start, end)))
