# SPDX-License-Identifier: Apache-2.0
"""Launch sites: `k<<<grid, block, shared, stream>>>(…)`, the runtime's launch calls, launch macros."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.surface import host_surface_of
from warplens_tools.cuda.syntax.definitions import digest
from warplens_tools.cuda.syntax.functions import plain_name, scope_names
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import LOOPS, Leaf, SourceTree, function_around, parse_expansion
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Constants, Dim3
from warplens_tools.cuda.values.kernel_names import KernelNames, Named
from warplens_tools.text import Span

_LAUNCH_CALLS = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchCooperativeKernel",
        "cudaLaunchKernelEx",
        "cudaLaunchKernelExC",
        "hipLaunchKernelGGL",
    }
)


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
    macros = {n for n, m in tree.macros.by_name.items() if "<<<" in m.body and tree.macros.get(n)}
    wanted = _LAUNCH_CALLS | macros
    rests_on = host_surface_of(tree), digest(*sorted(kernels))
    found: list[LaunchSite] = []
    for leaf in tree.leaves:
        code = tree.code_of(leaf.node)
        called = any(name in code for name in wanted)
        if called or "<<<" in code:
            found += _in_leaf(context, leaf, wanted if called else frozenset(), macros, rests_on)
    return tuple(sorted(found, key=lambda site: site.span))


def _in_leaf(
    context: _Context, leaf: Leaf, wanted: frozenset[str], macros: set[str], rests_on: Hashable
) -> Iterable[LaunchSite]:
    """The launches of one definition, read again only where what they rest on has changed."""
    tree, node = context.tree, leaf.node
    line, column = tree.text.position(node.start_byte)
    key = ("launches", rests_on, tree.text_of(node), tree.code_of(node), leaf.scope, column)
    known: tuple[int, list[LaunchSite]] | None = tree.carried(key) if not node.has_error else None
    if known is None:
        known = line, list(_read_leaf(context, node, wanted, macros))
        if not node.has_error:
            tree.carry(key, known)
    return (site.moved(line - known[0]) for site in known[1])


def _read_leaf(
    context: _Context, leaf: Node, wanted: frozenset[str], macros: set[str]
) -> Iterator[LaunchSite]:
    for node in _chevrons(context.tree, leaf):
        if node.parent is not None:
            yield from _chevron(context, node, node.parent)
    if wanted:
        for callee in context.tree.captures(_CALLEES, leaf).get("callee", []):
            yield from _called(context, callee, wanted, macros)


_CALLEES = "(call_expression function: [(identifier) (template_function) (qualified_identifier)] @callee)"


def _chevrons(tree: SourceTree, within: Node) -> Iterator[Node]:
    """Every execution configuration, found by its first token: no walk of the tree."""
    for found in _CHEVRON.finditer(tree.masked.code, within.start_byte, within.end_byte):
        token = tree.root.descendant_for_byte_range(*found.span())
        node = token.parent if token is not None else None
        if node is not None and node.type == "kernel_call_syntax":
            yield node


_CHEVRON = re.compile(rb"<<<")


def _called(context: _Context, callee: Node, wanted: frozenset[str], macros: set[str]) -> list[LaunchSite]:
    name = plain_name(context.tree.code_of(callee)).removeprefix("::")
    call = callee.parent
    if name not in wanted or call is None:
        return []
    if name in macros:
        return _through_macro(context, name, call)
    return _runtime_call(context, name, call)


def _part(tree: SourceTree, node: Node | None, fallback: Node) -> _Part:
    if node is None:
        return _Part("", "", tree.text_span(fallback.end_byte, fallback.end_byte), fallback.start_byte)
    return _Part(tree.text_of(node).strip(), tree.code_of(node), tree.span(node), node.start_byte)


def _chevron(context: _Context, node: Node, call: Node) -> list[LaunchSite]:
    tree = context.tree
    parts = [_part(tree, n, node) for n in node.named_children[:4]]
    parts += [_part(tree, None, node)] * (4 - len(parts))
    function = call.child_by_field_name("function")
    name = tree.code_of(function).strip() if function is not None else ""
    return _sites(context, call, name, parts, _argument_texts(tree, call))


def _argument_texts(tree: SourceTree, call: Node) -> tuple[str, ...]:
    arguments = call.child_by_field_name("arguments")
    return tuple(tree.text_of(a) for a in arguments.named_children) if arguments is not None else ()


def _sites(
    context: _Context, call: Node, name: str, parts: list[_Part], arguments: tuple[str, ...]
) -> list[LaunchSite]:
    """The launch, once for each kernel that the name may stand for; of kernel "" where that is not known."""
    named = list(
        dict.fromkeys(KernelNames(context.tree, context.kernels).of(name, context.constants, call.start_byte))
    )
    return [
        _site(context.tree, call, kernel, parts, arguments)
        for kernel in named or [Named("", (), context.constants)]
    ]


def _site(
    tree: SourceTree, call: Node, kernel: Named, parts: list[_Part], arguments: tuple[str, ...]
) -> LaunchSite:
    constants = kernel.constants
    grid, block, shared, stream = parts
    site = LaunchSite(
        kernel_name=kernel.name,
        template_arguments=kernel.template_arguments,
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
        counters=tuple(_counters(tree, call)),
    )
    return msgspec.structs.replace(site, untold=_untold(site, constants, grid, block))


def _untold(site: LaunchSite, constants: Constants, grid: _Part, block: _Part) -> tuple[Dim3, Dim3] | None:
    """`LaunchSite.untold`: both extents wholly known in a run without arguments, and not otherwise."""
    if None not in (*site.grid_value, *site.block_value) or not (grid.code and block.code):
        return None
    given = constants.untold()
    found = given.dim3(grid.code, grid.at), given.dim3(block.code, block.at)
    return found if None not in (*found[0], *found[1]) else None


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


_NAME = re.compile(r"[A-Za-z_]\w*")
_BY_ONE = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\+\+|--|[+-]=\s*1\b)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
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
        depth += node.type in LOOPS
        node = node.parent
    return depth


def _counters(tree: SourceTree, call: Node) -> Iterator[str]:
    """What the loops around a call step by one: in their heads, or in the body for what the head asks."""
    node = call.parent
    while node is not None and node.type != "function_definition":
        test = node.child_by_field_name("condition") if node.type in LOOPS else None
        step = node.child_by_field_name("update") if node.type == "for_statement" else node
        if test is not None and step is not None:
            asked = _NAME.findall(tree.code_of(test))
            stepped = {a or b for a, b in _BY_ONE.findall(tree.code_of(step))}
            yield from (name for name in dict.fromkeys(asked) if name in stepped)
        node = node.parent


def _runtime_call(context: _Context, name: str, call: Node) -> list[LaunchSite]:
    """A launch through the runtime's functions; the kernel is their function argument."""
    listed = call.child_by_field_name("arguments")
    arguments = listed.named_children if listed is not None else []
    tree = context.tree
    if name in ("cudaLaunchKernel", "cudaLaunchCooperativeKernel"):
        if len(arguments) < 4:
            return []
        parts = [_part(tree, arguments[i] if i < len(arguments) else None, call) for i in (1, 2, 4, 5)]
        return _sites(context, call, tree.code_of(arguments[0]), parts, _packed(context, arguments[3]))
    if name == "hipLaunchKernelGGL":
        parts = [_part(tree, arguments[i] if i < len(arguments) else None, call) for i in (1, 2, 3, 4)]
        given = tuple(tree.text_of(a) for a in arguments[5:])
        return _sites(context, call, tree.code_of(arguments[0]), parts, given) if len(arguments) > 4 else []
    if len(arguments) < 2:
        return []
    config = tree.code_of(arguments[0]).strip(" &()")
    fields = ("gridDim", "blockDim", "dynamicSmemBytes", "stream")
    parts = [_config_field(tree, call, config, field) for field in fields]
    last = tuple(tree.text_of(a) for a in arguments[2:]) if name == "cudaLaunchKernelEx" else ()
    return _sites(context, call, tree.code_of(arguments[1]), parts, last)


def _packed(context: _Context, argument: Node) -> tuple[str, ...]:
    """The arguments behind `void* args[] = {&a, &b}`, where that array is in sight."""
    name = re.escape(context.tree.code_of(argument).strip())
    function = function_around(argument)
    found = re.findall(rf"\b{name}\s*\[\s*\d*\s*\]\s*=\s*\{{([^{{}}]*)\}}", context.tree.code_of(function))
    if len(found) != 1:
        return ()
    return tuple(re.sub(r"^(?:\([^()]*\))?\s*&", "", a.strip()) for a in split_arguments(found[0]))


def _config_field(tree: SourceTree, call: Node, config: str, field: str) -> _Part:
    """What is assigned to a field of a `cudaLaunchConfig_t`, where that happens once in the function."""
    function = function_around(call)
    code = tree.code_of(function)[: call.start_byte - function.start_byte]
    found = list(re.finditer(rf"\b{re.escape(config)}\s*\.\s*{field}\s*=\s*([^;]+);", code))
    if len(found) != 1:
        return _part(tree, None, call)
    start, end = (function.start_byte + i for i in found[0].span(1))
    return _Part(tree.text.text[start:end].strip(), found[0][1], tree.text_span(start, end), start)


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
    sites = [
        s for n in _chevrons(inner, inner.root) if n.parent is not None for s in _chevron(below, n, n.parent)
    ]
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
