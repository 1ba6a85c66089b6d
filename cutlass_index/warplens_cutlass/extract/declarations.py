# SPDX-License-Identifier: Apache-2.0
"""Definitions of a parsed file: what stands at namespace and class scope. Bodies are not walked."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_cutlass.extract.body import mentions_of, ptx_operations, remarks_of
from warplens_cutlass.extract.comments import doc_before
from warplens_cutlass.extract.parse import Parsed
from warplens_cutlass.model import Definition, Kind

_SIGNATURE_LIMIT = 480
_SPACES = re.compile(r"\s+")
_CLASSES: dict[str, Kind] = {
    "struct_specifier": "struct",
    "class_specifier": "class",
    "union_specifier": "union",
}
_TRANSPARENT = frozenset(
    """
    translation_unit declaration_list linkage_specification field_declaration_list preproc_if preproc_ifdef
    preproc_else preproc_elif preproc_elifdef ERROR
    """.split()  # noqa: SIM905
)
_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(?:if|ifdef|elif)\b[ \t]*([^\n]*)", re.M)
_GUARD = re.compile(r"CUDA_ARCH|SM\d\d|ENABLED|SUPPORTED|CUDACC_VER")


class Scope(msgspec.Struct, frozen=True):
    """Where a node stands."""

    names: tuple[str, ...] = ()
    in_class: bool = False
    guards: tuple[str, ...] = ()
    #: Text of the `template <…>` in front, and its first byte.
    template: str = ""
    start: Node | None = None


def definitions(parsed: Parsed) -> list[Definition]:
    """Everything the file defines, in file order.

    After an error the tree may have closed a namespace too early; there its name comes from the braces.
    """
    found = list(_walk(parsed.tree.root_node, Scope(), parsed.source))
    if parsed.error_bytes == 0:
        return found
    spans = namespace_spans(parsed.source)
    return [_with_namespace(d, namespace_at(spans, d.offset)) for d in found]


def _with_namespace(definition: Definition, names: tuple[str, ...]) -> Definition:
    prefix = "::".join(names)
    if definition.kind == "macro" or not prefix or definition.qualified_name.startswith(prefix + "::"):
        return definition
    return msgspec.structs.replace(definition, qualified_name=f"{prefix}::{definition.qualified_name}")


def _walk(root: Node, scope: Scope, source: bytes) -> Iterator[Definition]:
    """Iterative at the transparent levels, since `#if` ladders nest deeply."""
    stack: list[tuple[Node, Scope]] = [(root, scope)]
    while stack:
        node, scope = stack.pop()
        if node.type in _TRANSPARENT:
            inner = _guarded(node, scope, source)
            stack.extend((child, inner) for child in reversed(node.children) if child.is_named)
            continue
        yield from _definition(node, scope, source, stack)


def _guarded(node: Node, scope: Scope, source: bytes) -> Scope:
    if node.type not in ("preproc_if", "preproc_ifdef", "preproc_elif"):
        return scope
    condition = node.child_by_field_name("condition") or node.child_by_field_name("name")
    text = _text(condition, source) if condition is not None else ""
    return msgspec.structs.replace(scope, guards=(*scope.guards, text)) if _GUARD.search(text) else scope


def _definition(
    node: Node, scope: Scope, source: bytes, stack: list[tuple[Node, Scope]]
) -> Iterator[Definition]:
    kind = node.type
    if kind == "namespace_definition":
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        names = (*scope.names, _text(name, source).replace(" ", "")) if name is not None else scope.names
        if body is not None:
            stack.append((body, msgspec.structs.replace(scope, names=names)))
    elif kind == "template_declaration":
        _enter_template(node, scope, source, stack)
    elif kind in _CLASSES:
        yield from _class(node, scope, source, stack)
    elif kind == "enum_specifier":
        yield from _enum(node, scope, source)
    elif kind in ("function_definition", "declaration", "field_declaration"):
        yield from _declared(node, scope, source, stack)
    elif kind in ("alias_declaration", "type_definition", "concept_definition"):
        yield from _alias(node, scope, source)
    elif kind in ("preproc_def", "preproc_function_def"):
        yield from _macro(node, scope, source)


def _enter_template(node: Node, scope: Scope, source: bytes, stack: list[tuple[Node, Scope]]) -> None:
    parameters = node.child_by_field_name("parameters")
    text = _flat(parameters, source) if parameters is not None else ""
    inner = msgspec.structs.replace(
        scope, template=(scope.template + " " + text).strip(), start=scope.start or node
    )
    for child in reversed(node.children):
        if child.is_named and child != parameters:
            stack.append((child, inner))


def _class(node: Node, scope: Scope, source: bytes, stack: list[tuple[Node, Scope]]) -> Iterator[Definition]:
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None:
        if body is not None and scope.in_class:
            stack.append((body, _inside(scope, "")))
        return
    name, specialisation = _split_name(name_node, source)
    if body is None and not scope.template and not specialisation:
        return
    yield _make(node, scope, source, name, _CLASSES[node.type], body, specialisation=specialisation)
    if body is not None:
        stack.append((body, _inside(scope, name)))


def _inside(scope: Scope, name: str) -> Scope:
    names = (*scope.names, name) if name else scope.names
    return Scope(names=names, in_class=True, guards=scope.guards)


def _split_name(node: Node, source: bytes) -> tuple[str, str]:
    if node.type == "qualified_identifier":
        last = node.child_by_field_name("name")
        return _split_name(last, source) if last is not None else (_text(node, source), "")
    if node.type in ("template_type", "template_function"):
        name, arguments = node.child_by_field_name("name"), node.child_by_field_name("arguments")
        if name is not None and arguments is not None:
            return _text(name, source), _flat(arguments, source)[:300]
    return _text(node, source), ""


def _enum(node: Node, scope: Scope, source: bytes) -> Iterator[Definition]:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if body is None:
        return
    title = _text(name, source) if name is not None else ""
    if title:
        yield _make(node, scope, source, title, "enum", body)
    inner = _inside(scope, title)
    for value in body.children:
        label = value.child_by_field_name("name") if value.type == "enumerator" else None
        if label is not None:
            yield _make(value, inner, source, _text(label, source), "enumerator", None, member=bool(title))


def _declared(
    node: Node, scope: Scope, source: bytes, stack: list[tuple[Node, Scope]]
) -> Iterator[Definition]:
    """A function, a prototype, a variable; or the class or enum that a declaration spells out."""
    for child in node.children:
        if (child.type in _CLASSES or child.type == "enum_specifier") and child.child_by_field_name("body"):
            stack.append((child, scope))
            return
    declarator = _function_declarator(node)
    body = node.child_by_field_name("body")
    if declarator is not None:
        target = declarator.child_by_field_name("declarator")
        if target is not None and _is_name(target):
            name, special = _split_name(target, source)
            if (scope.in_class and scope.names[-1:] == (name,)) or target.type == "destructor_name":
                return
            head = source[node.start_byte : declarator.start_byte]
            kind: Kind = "kernel" if b"__global__" in head or b"CUTLASS_GLOBAL" in head else "function"
            yield _make(node, scope, source, name, kind, body, specialisation=special)
    elif node.type == "declaration" and not scope.in_class:
        yield from _variable(node, scope, source)


def _is_name(node: Node) -> bool:
    return node.type in (
        "identifier", "field_identifier", "qualified_identifier", "operator_name", "template_function",
        "destructor_name", "operator_cast",
    )  # fmt: skip


def _function_declarator(node: Node) -> Node | None:
    inner = node.child_by_field_name("declarator")
    while inner is not None and inner.type != "function_declarator":
        if inner.type not in ("pointer_declarator", "reference_declarator", "attributed_declarator"):
            return None
        inner = inner.child_by_field_name("declarator") or next(
            (c for c in inner.children if c.type.endswith("declarator")), None
        )
    return inner


def _variable(node: Node, scope: Scope, source: bytes) -> Iterator[Definition]:
    declarator = node.child_by_field_name("declarator")
    target = declarator.child_by_field_name("declarator") if declarator is not None else None
    target = target or declarator
    if declarator is not None and declarator.type == "init_declarator" and target is not None:
        name, special = _split_name(target, source)
        if name.isidentifier():
            yield _make(node, scope, source, name, "variable", None, specialisation=special)


def _alias(node: Node, scope: Scope, source: bytes) -> Iterator[Definition]:
    """Aliases at namespace scope; those of a class are found through the class."""
    if scope.in_class:
        return
    kind: Kind = "concept" if node.type == "concept_definition" else "alias"
    name = node.child_by_field_name("name")
    if node.type == "type_definition":
        declarator = node.child_by_field_name("declarator")
        name = declarator if declarator is not None and declarator.type == "type_identifier" else None
    if name is not None:
        yield _make(node, scope, source, _text(name, source), kind, None)


def _macro(node: Node, scope: Scope, source: bytes) -> Iterator[Definition]:
    """Macros with a value or parameters; include guards and bare switches carry nothing."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is not None and (value is not None or node.type == "preproc_function_def"):
        bare = Scope(guards=scope.guards)
        yield _make(node, bare, source, _text(name, source), "macro", None)


def _make(
    node: Node, scope: Scope, source: bytes, name: str, kind: Kind, body: Node | None,
    *, specialisation: str = "", member: bool | None = None,
) -> Definition:  # fmt: skip
    first = scope.start if scope.start is not None and kind != "enumerator" else node
    end = _end_line(node)
    body_text = source[body.start_byte : body.end_byte] if body is not None else b""
    head_end = body.start_byte if body is not None and kind != "enum" else node.end_byte
    head = source[node.start_byte : head_end]
    functionlike = kind in ("function", "kernel", "macro")
    return Definition(
        name=name,
        qualified_name="::".join((*scope.names, name)),
        kind=kind,
        line=first.start_point[0] + 1,
        end_line=max(end, first.start_point[0] + 1),
        offset=first.start_byte,
        signature=_clip(head.decode("utf-8", "replace")),
        doc=doc_before(first, source),
        template_parameters=scope.template[:_SIGNATURE_LIMIT],
        specialisation=specialisation,
        guards=tuple(dict.fromkeys((*scope.guards, *_guards_inside(body_text)))),
        ptx=ptx_operations(body_text if not functionlike or body is not None else head),
        mentions=mentions_of(
            head, body_text, shallow=kind in ("struct", "class") and len(body_text) > 60_000
        ),
        remarks=remarks_of(body_text),
        declaration_only=body is None and kind in ("function", "kernel", "struct", "class"),
        member=scope.in_class if member is None else member,
    )


def _guards_inside(body: bytes) -> tuple[str, ...]:
    """Conditions on the architecture in a small body; a large one holds those of many parts."""
    if len(body) > 6000 or b"#" not in body:
        return ()
    found = (m[1].decode("utf-8", "replace").strip() for m in _CONDITION.finditer(body))
    return tuple(text for text in dict.fromkeys(found) if _GUARD.search(text))[:3]


def _end_line(node: Node) -> int:
    row, column = node.end_point
    return row + (1 if column else 0)


def _text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _flat(node: Node, source: bytes) -> str:
    return _SPACES.sub(" ", _text(node, source)).strip()


def _clip(text: str) -> str:
    flat = _SPACES.sub(" ", text).strip().rstrip("{;").strip()
    return flat if len(flat) <= _SIGNATURE_LIMIT else flat[: _SIGNATURE_LIMIT - 1] + "…"


_TOKEN = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)'|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*"
    rb"|(?:inline\s+)?\bnamespace\s+([\w:]+)?\s*\{|[{}]",
    re.S | re.M,
)


class NamespaceSpan(msgspec.Struct, frozen=True):
    """Bytes between the braces of a namespace."""

    start: int
    end: int
    name: str


def namespace_spans(source: bytes) -> list[NamespaceSpan]:
    """The named namespaces of a file, outermost first; one that is not closed runs to the end."""
    spans: list[NamespaceSpan] = []
    stack: list[tuple[str | None, int]] = []
    for token in _TOKEN.finditer(source):
        text = token[0]
        if text.endswith(b"{") and (b"namespace" in text or text == b"{"):
            name = token[1].decode() if token[1] else ("" if b"namespace" in text else None)
            stack.append((name, token.end()))
        elif text == b"}" and stack:
            name, start = stack.pop()
            if name:
                spans.append(NamespaceSpan(start, token.start(), name))
    spans += [NamespaceSpan(start, len(source), name) for name, start in stack if name]
    return sorted(spans, key=lambda s: s.start)


def namespace_at(spans: list[NamespaceSpan], offset: int) -> tuple[str, ...]:
    """The namespaces around a byte, outermost first."""
    return tuple(s.name for s in spans if s.start <= offset < s.end)
