# SPDX-License-Identifier: Apache-2.0
"""Loops over a variable that is declared before them, written with it: `while (i < n) { …; i += step; }` as a `for`.

A rewrite that refuses a kernel as it stands is asked again for it with such loops.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, before, walk
from warplens_tools.text import SourceText, TextEdit

_STEPPED = re.compile(r"(?:\+\+\s*\w+|\w+\s*\+\+|\w+\s*(?:\+=|=)[^=].*)", re.DOTALL)


def normalised(text: SourceText, file: SourceTree, kernel: Kernel) -> SourceText | None:
    """The file with the kernel's loops in that form; None where none changes."""
    low, high = text.offsets(kernel.body)
    function = file.function_at(low, high)
    loops = ("while_statement", "for_statement")
    inside = [n for n in walk(function) if n.type in loops] if function is not None else []
    offsets = [(n, *text.offsets(file.span(n))) for n in inside]
    edits: list[TextEdit] = []
    for loop, start, end in offsets:
        if low <= start and end <= high and not any(e.span.contains(file.span(loop)) for e in edits):
            edits += _normal(text, file, loop)
    return text.apply(edits) if edits else None


def _normal(text: SourceText, file: SourceTree, loop: Node) -> list[TextEdit]:
    """The edits for one loop; none where it is of another kind."""
    found = _while(file, loop) if loop.type == "while_statement" else _for(file, loop)
    if found is None:
        return []
    condition, update, last = found
    name = re.search(r"\w+", update)
    declaration = _declared(file, loop, name[0]) if name is not None else None
    setting, kept = declaration, ""
    if declaration is None and name is not None:
        setting, kept = _set(file, loop, name[0])
    if setting is None:
        return []
    body = loop.child_by_field_name("body")
    assert body is not None
    first = _text(text, file, setting).rstrip(";")
    if declaration is None:
        first = first.removeprefix(kept.removesuffix(f"{name[0]};") if kept and name else "")
    head = f"for ({first}; {condition}; {update}) "
    start, _ = text.offsets(file.span(loop))
    begin, _ = text.offsets(file.span(body))
    place = file.span(setting) if kept else text.with_line(file.span(setting))
    edits = [TextEdit(place, kept), TextEdit(text.span(start, begin), head)]
    return edits if last is None else [*edits, TextEdit(text.with_line(file.span(last)), "")]


def _while(file: SourceTree, loop: Node) -> tuple[str, str, Node] | None:
    """Condition, step, and the statement that takes it."""
    body, clause = loop.child_by_field_name("body"), loop.child_by_field_name("condition")
    inside = [n for n in body.named_children if n.type != "comment"] if body is not None else []
    if body is None or clause is None or body.type != "compound_statement" or len(inside) < 2:
        return None
    last = inside[-1]
    step = file.code_of(last).strip().rstrip(";").strip()
    condition = file.code_of(clause).strip()[1:-1].strip()
    if (
        last.type != "expression_statement"
        or not _STEPPED.fullmatch(step)
        or not re.match(r"\w+\s*<", condition)
    ):
        return None
    name = re.search(r"\w+", step)
    if name is None or not re.match(rf"{name[0]}\s*<", condition):
        return None
    jumps = {n.type for n in walk(body)} & {"continue_statement", "break_statement"}
    changed = _changes(file, body, name[0])
    return (condition, step, last) if not jumps and changed == 1 else None


def _for(file: SourceTree, loop: Node) -> tuple[str, str, None] | None:
    condition, update = loop.child_by_field_name("condition"), loop.child_by_field_name("update")
    body = loop.child_by_field_name("body")
    if (
        loop.child_by_field_name("initializer") is not None
        or condition is None
        or update is None
        or body is None
    ):
        return None
    step = file.code_of(update).strip()
    name = re.search(r"\w+", step)
    if name is None or not _STEPPED.fullmatch(step) or _changes(file, body, name[0]):
        return None
    return file.code_of(condition).strip(), step, None


def _changes(file: SourceTree, node: Node, name: str) -> int:
    """How often code below a node may change a variable."""
    steps = rf"\+\+\s*{name}\b|\b{name}\s*\+\+|--\s*{name}\b|\b{name}\s*--"
    assigned = rf"\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)"
    return len(re.findall(rf"{assigned}|{steps}|&\s*{name}\b", file.code_of(node)))


def _declared(file: SourceTree, loop: Node, name: str) -> Node | None:
    """The declaration of a variable, alone, right before the loop but for statements that do not name it."""
    found = None
    for node in before(loop):
        declarators = node.children_by_field_name("declarator") if node.type == "declaration" else []
        names = [_named(file, d) for d in declarators]
        if name in names:
            found = node if len(names) == 1 and declarators[0].type == "init_declarator" else None
            break
        if re.search(rf"\b{name}\b", file.code_of(node)):
            return None
    after = loop.next_named_sibling
    while after is not None:
        if re.search(rf"\b{name}\b", file.code_of(after)):
            return None
        after = after.next_named_sibling
    words = re.findall(r"[A-Za-z_]\w*", file.code_of(found)) if found is not None else []
    between = [n for n in before(loop) if found is not None and n.start_byte > found.start_byte]
    if any(_changes(file, n, w) for n in between for w in words if n.type == "expression_statement"):
        return None
    return found


def _set(file: SourceTree, loop: Node, name: str) -> tuple[Node | None, str]:
    """The statement right before the loop, but for others that have nothing to do with it, that gives a variable its
    first value, and what stays of it: the declaration of a variable that is used behind the loop too.
    """
    between = list[Node]()
    for node in before(loop) if _starts_anew(file, loop, name) else ():
        code = file.code_of(node)
        if not re.search(rf"\b{name}\b", code):
            between.append(node)
            continue
        inner = node.named_children[0] if node.type == "expression_statement" else None
        written = re.fullmatch(rf"((?:[\w:]+\s+)+){name}\s*=[^=,;(]*;", code.strip())
        assigns = inner is not None and inner.type == "assignment_expression"
        plain = assigns and re.fullmatch(rf"{name}\s*=[^=;]*;", code.strip()) is not None
        declared = node.type == "declaration" and written is not None and "const" not in code.split()
        words = re.findall(r"[A-Za-z_]\w*", code)
        if any(_changes(file, n, w) for n in between for w in words) or not (plain or declared):
            return None, ""
        return node, f"{written[1]}{name};" if declared and written is not None else ""
    return None, ""


def _starts_anew(file: SourceTree, loop: Node, name: str) -> bool:
    """Whether what names a variable behind a loop gives it another value first: `for (i = 0; …)`, `i = 0; while …`."""
    after, begun = loop.next_named_sibling, False
    while after is not None:
        code = file.code_of(after).strip()
        if re.search(rf"\b{name}\b", code):
            sets = re.match(rf"{name}\s*=(?!=)", code) is not None
            if not (
                sets
                or re.match(rf"for\s*\(\s*{name}\s*=", code)
                or (begun and after.type == "while_statement")
            ):
                return False
            begun = sets
        after = after.next_named_sibling
    return True


def _named(file: SourceTree, declarator: Node) -> str:
    inner = (
        declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
    )
    return file.code_of(inner).strip() if inner is not None else ""


def _text(text: SourceText, file: SourceTree, node: Node) -> str:
    return text.slice(file.span(node))
