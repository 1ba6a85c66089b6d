# SPDX-License-Identifier: Apache-2.0
"""Launch sites: `k<<<grid, block, shared, stream>>>(…)`, the runtime's launch calls, launch macros."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.functions import plain_name, scope_names
from warplens_tools.cuda.syntax.lexical import matching, split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_expansion
from warplens_tools.cuda.values.bindings import is_set_once
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Constants
from warplens_tools.text import Span

_LAUNCH_CALLS = frozenset(
    {"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelEx", "cudaLaunchKernelExC"}
)
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
_NAME = re.compile(r"(?:::)?[A-Za-z_]\w*(?:\s*<.*>)?(?:::[A-Za-z_]\w*(?:\s*<.*>)?)*", re.DOTALL)


class _Part(msgspec.Struct, frozen=True):
    """One expression of a launch: as written, as code, where, and where its names are looked up."""

    text: str
    code: str
    span: Span
    at: int


class _Context(msgspec.Struct, frozen=True):
    tree: SourceTree
    constants: Constants
    kernels: frozenset[str]


def find_launches(tree: SourceTree, constants: Constants, kernels: frozenset[str]) -> tuple[LaunchSite, ...]:
    """Every launch in the text. `kernels` are the plain names of the kernels it defines."""
    context = _Context(tree, constants, kernels)
    launch_macros = {n for n, m in tree.macros.by_name.items() if "<<<" in m.body and tree.macros.get(n)}
    found: list[LaunchSite] = []
    for node in _chevrons(tree):
        if node.parent is not None:
            found.append(_chevron(context, node, node.parent))
    pattern = "(call_expression function: [(identifier) (template_function) (qualified_identifier)] @callee)"
    wanted = _LAUNCH_CALLS | launch_macros
    for leaf in tree.leaves:
        code = tree.code_of(leaf.node)
        if any(name in code for name in wanted):
            for callee in tree.captures(pattern, leaf.node).get("callee", []):
                found += _called(context, callee, wanted, launch_macros)
    return tuple(sorted(found, key=lambda site: site.span))


def _chevrons(tree: SourceTree) -> Iterator[Node]:
    """Every execution configuration, found by its first token: no walk of the tree."""
    for found in re.finditer(b"<<<", tree.masked.code):
        token = tree.root.descendant_for_byte_range(*found.span())
        node = token.parent if token is not None else None
        if node is not None and node.type == "kernel_call_syntax":
            yield node


def _called(context: _Context, callee: Node, wanted: frozenset[str], macros: set[str]) -> list[LaunchSite]:
    name = plain_name(context.tree.code_of(callee)).removeprefix("::")
    call = callee.parent
    if name not in wanted or call is None:
        return []
    if name in macros:
        return _through_macro(context, name, call)
    site = _runtime_call(context, name, call)
    return [site] if site else []


def _part(tree: SourceTree, node: Node | None, fallback: Node) -> _Part:
    if node is None:
        return _Part("", "", tree.text_span(fallback.end_byte, fallback.end_byte), fallback.start_byte)
    return _Part(tree.text_of(node).strip(), tree.code_of(node), tree.span(node), node.start_byte)


def _chevron(context: _Context, node: Node, call: Node) -> LaunchSite:
    tree = context.tree
    parts = [_part(tree, n, node) for n in node.named_children[:4]]
    parts += [_part(tree, None, node)] * (4 - len(parts))
    function = call.child_by_field_name("function")
    name = tree.code_of(function).strip() if function is not None else ""
    return _site(context, call, name, parts, _argument_texts(tree, call))


def _argument_texts(tree: SourceTree, call: Node) -> tuple[str, ...]:
    arguments = call.child_by_field_name("arguments")
    return tuple(tree.text_of(a) for a in arguments.named_children) if arguments is not None else ()


def _site(
    context: _Context, call: Node, name: str, parts: list[_Part], arguments: tuple[str, ...]
) -> LaunchSite:
    tree, constants = context.tree, context.constants
    grid, block, shared, stream = parts
    kernel, template_arguments = _kernel_named(context, name, call.start_byte)
    return LaunchSite(
        kernel_name=kernel,
        template_arguments=template_arguments,
        grid=grid.text,
        block=block.text,
        shared=shared.text,
        stream=stream.text,
        grid_value=constants.dim3(grid.code, grid.at) if grid.code else UNKNOWN_DIM3,
        block_value=constants.dim3(block.code, block.at) if block.code else UNKNOWN_DIM3,
        shared_value=constants.value(shared.code, shared.at) if shared.code else 0,
        span=tree.span(call),
        grid_span=grid.span,
        block_span=block.span,
        arguments=arguments,
        host_function=_host_function(tree, call),
        loop_depth=_loop_depth(call),
    )


def _kernel_named(context: _Context, text: str, at: int, depth: int = 0) -> tuple[str, tuple[str, ...]]:
    """The kernel that an expression launches, and its template arguments; "" where that is not known."""
    text = _without_casts((context.tree.macros.expand(text) or "").strip())
    if depth > 4 or not _NAME.fullmatch(text):
        return "", ()
    name = plain_name(text)
    if name.rsplit("::", 1)[-1] not in context.kernels and context.constants.is_bound(name, at):
        bound = context.constants.binding(name, at)
        known = bound is not None and bound.kind == "plain" and is_set_once(context.tree, bound)
        value = bound.value if bound is not None and known else None
        return _kernel_named(context, value, at, depth + 1) if value else ("", ())
    return name.removeprefix("::"), _template_arguments(text)


def _without_casts(text: str) -> str:
    """`text` without a cast, an address-of or parentheses around a function's name."""
    previous = ""
    while previous != text:
        previous = text
        text = re.sub(r"^(?:reinterpret_cast|static_cast)\s*<[^()]*>\s*(?=\()", "", text)
        text = re.sub(r"^\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)|^&", "", text).strip()
        if text.startswith("(") and matching(text, 0) == len(text):
            text = text[1:-1].strip()
    return text


def _template_arguments(text: str) -> tuple[str, ...]:
    """The arguments of the last template list: inside it, a bare `<` or `>` is always a bracket."""
    if not text.endswith(">"):
        return ()
    cuts, depth, round_depth = [len(text) - 1], 0, 0
    for index in range(len(text) - 1, -1, -1):
        char = text[index]
        round_depth += (char in ")]}") - (char in "([{")
        if round_depth:
            continue
        depth += (char == ">") - (char == "<")
        if depth == 1 and char == ",":
            cuts.append(index)
        elif depth == 0:
            cuts.append(index)
            break
    arguments = [text[low + 1 : high].strip() for high, low in itertools.pairwise(cuts)]
    return tuple(a for a in reversed(arguments) if a)


def _host_function(tree: SourceTree, call: Node) -> str:
    node: Node | None = call
    while node is not None and node.type != "function_definition":
        node = node.parent
    declarator = node.child_by_field_name("declarator") if node is not None else None
    while declarator is not None and declarator.type not in _NAMES:
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type.endswith("declarator")), None
        )
    if node is None or declarator is None:
        return ""
    return "::".join([*scope_names(tree, node), plain_name(tree.text_of(declarator))])


_NAMES = frozenset(
    {
        "identifier",
        "field_identifier",
        "qualified_identifier",
        "template_function",
        "destructor_name",
        "operator_name",
    }
)


def _loop_depth(call: Node) -> int:
    depth, node = 0, call.parent
    while node is not None and node.type != "function_definition":
        depth += node.type in _LOOPS
        node = node.parent
    return depth


def _runtime_call(context: _Context, name: str, call: Node) -> LaunchSite | None:
    """A launch through the runtime's functions; the kernel is their function argument."""
    listed = call.child_by_field_name("arguments")
    arguments = listed.named_children if listed is not None else []
    tree = context.tree
    if name in ("cudaLaunchKernel", "cudaLaunchCooperativeKernel"):
        if len(arguments) < 4:
            return None
        parts = [_part(tree, arguments[i] if i < len(arguments) else None, call) for i in (1, 2, 4, 5)]
        return _site(context, call, tree.code_of(arguments[0]), parts, _packed(context, arguments[3]))
    if len(arguments) < 2:
        return None
    config = tree.code_of(arguments[0]).strip(" &()")
    fields = ("gridDim", "blockDim", "dynamicSmemBytes", "stream")
    parts = [_config_field(tree, call, config, field) for field in fields]
    last = tuple(tree.text_of(a) for a in arguments[2:]) if name == "cudaLaunchKernelEx" else ()
    return _site(context, call, tree.code_of(arguments[1]), parts, last)


def _packed(context: _Context, argument: Node) -> tuple[str, ...]:
    """The arguments behind `void* args[] = {&a, &b}`, where that array is in sight."""
    name = re.escape(context.tree.code_of(argument).strip())
    function = _enclosing(argument)
    found = re.findall(rf"\b{name}\s*\[\s*\d*\s*\]\s*=\s*\{{([^{{}}]*)\}}", context.tree.code_of(function))
    if len(found) != 1:
        return ()
    return tuple(re.sub(r"^(?:\([^()]*\))?\s*&", "", a.strip()) for a in split_arguments(found[0]))


def _config_field(tree: SourceTree, call: Node, config: str, field: str) -> _Part:
    """What is assigned to a field of a `cudaLaunchConfig_t`, where that happens once in the function."""
    function = _enclosing(call)
    code = tree.code_of(function)[: call.start_byte - function.start_byte]
    found = list(re.finditer(rf"\b{re.escape(config)}\s*\.\s*{field}\s*=\s*([^;]+);", code))
    if len(found) != 1:
        return _part(tree, None, call)
    start, end = (function.start_byte + i for i in found[0].span(1))
    return _Part(tree.text.text[start:end].strip(), found[0][1], tree.text_span(start, end), start)


def _enclosing(node: Node) -> Node:
    while node.type != "function_definition" and node.parent is not None:
        node = node.parent
    return node


def _through_macro(context: _Context, name: str, call: Node) -> list[LaunchSite]:
    """The launches that a macro's expansion holds; they stand where the macro is used."""
    tree, macro = context.tree, context.tree.macros.get(name)
    arguments = list(_argument_texts(tree, call))
    expansion = tree.macros.expand_call(macro, arguments) if macro is not None else None
    if expansion is None:
        return []
    span = tree.span(call)
    inner = parse_expansion(f"void f() {{ {expansion}; }}", tree, lambda _start, _end: span)
    constants = Constants(inner, outer=(context.constants, call.start_byte))
    below = _Context(inner, constants, context.kernels)
    sites = [_chevron(below, n, n.parent) for n in _chevrons(inner) if n.parent is not None]
    host, depth = _host_function(tree, call), _loop_depth(call)
    return [_moved(tree, call, s, host, depth) for s in sites]


def _moved(tree: SourceTree, call: Node, site: LaunchSite, host: str, depth: int) -> LaunchSite:
    listed = call.child_by_field_name("arguments")
    spans = {tree.text_of(a).strip(): tree.span(a) for a in (listed.named_children if listed else [])}
    return msgspec.structs.replace(
        site,
        host_function=host,
        loop_depth=depth + site.loop_depth,
        grid_span=spans.get(site.grid, site.grid_span),
        block_span=spans.get(site.block, site.block_span),
    )
