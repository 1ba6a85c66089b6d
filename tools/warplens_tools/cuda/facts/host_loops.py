# SPDX-License-Identifier: Apache-2.0
"""Loops of host code around a launch, and the host calls made in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.callees import calls_of, directly_called, functions_named
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, function_around, walk
from warplens_tools.text import Span

#: Clocks of the systems and what programs call their own: get_time, getTimeNs, wall_time, cpuSecond.
_CLOCK = (
    r"(?:std::)?chrono\b|clock|clock_gettime|gettimeofday|timespec_get|QueryPerformanceCounter|omp_get_wtime|MPI_Wtime|"
    r"(?:[a-z]+_?)?(?:[gG]et|[wW]all|[cC]pu|[nN]ow)_?(?:[wW]all_?)?(?:[tT]ime|[sS]econds?)[A-Za-z_]{0,8}"
)
_CALL = re.compile(rf"\b(cuda[A-Z]\w*|{_CLOCK})\s*(?=\(|::)")
_TIMING = frozenset({"cudaEventRecord", "cudaEventElapsedTime"})
_RUNTIME = re.compile(r"\bcu(?:da)?[A-Z]\w*\s*\(")
_WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaThreadSynchronize")
_GUARDS = frozenset({"if_statement", "else_clause"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_CHANGED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[-+*/]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_RANGED = re.compile(r"\bfor\s*\([^;()]*?([A-Za-z_]\w*)\s*:[^:]")
_IF = re.compile(r"\bif\b")
_PAREN = re.compile(r"[()]")
#: Calls that an iteration makes in next to no time: of the toolkit, of a container or a pair of values, of what only
#: prints or ends the program. A loop of the host's own, or any other call, may take longer than the device.
_BRIEF = re.compile(
    r"(?:std::)?(?:swap|exchange|min|max|abs|fabsf?|ceilf?|floorf?|sqrtf?|move|printf|fprintf|puts|fflush|exit|assert"
    r"|dim3|cu[A-Z]\w*|cuda\w*|cublas\w*|cusparse\w*|cusolver\w*|cufft\w*|curand\w*|nccl\w*|nvtx\w*|thrust::\w+"
    r"|cub::.*|cooperative_groups::.*)|.*(?:\.|->)(?:data|size|begin|end|get|empty|front|back|c_str|push_back)"
)
_COUNTED = re.compile(r"=\s*0\s*;\s*\w+\s*<\s*(\w+)\s*;")


class HostCall(msgspec.Struct, frozen=True):
    """A call of the CUDA runtime, or of a clock."""

    name: str
    #: The call with its arguments.
    span: Span
    arguments: str


def _is_wait(call: HostCall) -> bool:
    return call.name in _WAITS or (call.name == "cudaMemcpy" and "DeviceToHost" in call.arguments)


class HostLoop(msgspec.Struct, frozen=True):
    """The innermost loop that launches a kernel again and again."""

    span: Span
    #: Its first line without the body: "for (int step = 0; step < steps; ++step)".
    header: str
    #: Calls in the loop, and in the function around the launch where the loop calls that.
    calls: tuple[HostCall, ...]
    #: Kernels that the loop launches, in text order, as written.
    launches: int
    #: The launches are recorded into a CUDA graph.
    captured: bool
    #: What the loop's header compares its counter from 0 with; "" where it has another form.
    bound: str
    #: The host does work of its own in an iteration, or calls what may: how long one takes is then not known.
    works: bool = False
    #: Waits in functions of the file that the loop calls, each at its call.
    inside: tuple[HostCall, ...] = ()

    @property
    def timed(self) -> bool:
        """Whether the loop takes times itself: a benchmark, whose waits are meant."""
        return any(c.name in _TIMING or not c.name.startswith("cuda") for c in self.calls)

    @property
    def waits(self) -> tuple[HostCall, ...]:
        """Calls that make the host wait for the device: those that do nothing else, and copies to the host."""
        return (*filter(_is_wait, self.calls), *self.inside)

    def named(self, *names: str) -> tuple[HostCall, ...]:
        """Calls of these names, in text order."""
        return tuple(call for call in self.calls if call.name in names)


def launch_loop(tree: SourceTree, site: LaunchSite) -> HostLoop | None:
    """The loop around a launch, or around the only calls of the function it stands in; None where there is none."""
    return loop_around(tree, site.span)


def host_calls(tree: SourceTree) -> tuple[HostCall, ...]:
    """Every call of the CUDA runtime, or of a clock, in the file."""
    return _calls(tree, 0, len(tree.masked.source))


def calls_near(tree: SourceTree, places: Iterable[Span]) -> tuple[HostCall, ...]:
    """As `host_calls`, of the functions around these stretches, of their callers, and of what those call."""
    # Overloads of a kernel are launched from the same places.
    around = tuple(places)
    return tree.remembered(("calls near", around), lambda: _calls_near(tree, around))


def _calls_near(tree: SourceTree, places: Iterable[Span]) -> tuple[HostCall, ...]:
    found: dict[int, Node] = {}
    for place in places:
        function = tree.function_at(*tree.text.offsets(place))
        if function is not None and function.start_byte not in found:
            callers = [function_around(n) for n in calls_of(tree, _name_of(tree, function))]
            hosts = [function, *(c for c in callers if c.type == "function_definition")]
            bodies = (body for host in hosts if (body := host.child_by_field_name("body")) is not None)
            code = " ".join(map(tree.code_of, bodies))
            found |= {n.start_byte: n for n in (*hosts, *directly_called(tree, code))}
    outermost: list[tuple[int, int]] = []
    for start in sorted(found):
        end = found[start].end_byte
        if not outermost or end > outermost[-1][1]:
            outermost.append((start, end))
    return tuple(call for start, end in outermost for call in _calls(tree, start, end))


def loop_around(tree: SourceTree, span: Span) -> HostLoop | None:
    """The loop around a stretch of host code, or around the only calls of the function it stands in."""
    return tree.remembered(("loop around", span), lambda: _loop_at(tree, span))


def _loop_at(tree: SourceTree, span: Span) -> HostLoop | None:
    start, end = tree.text.offsets(span)
    node = tree.root.descendant_for_byte_range(start, end)
    loop = _each_loop(tree, node) if node is not None else None
    if loop is not None:
        return _read(tree, loop, _looped_calls(tree, loop))
    function = tree.function_at(start, end)
    return _through_caller(tree, function) if function is not None else None


def host_scope(tree: SourceTree, span: Span) -> str:
    """The code of the function around a stretch of host code and of the functions that call it, without comments."""
    function = tree.function_at(*tree.text.offsets(span))
    if function is None:
        return ""
    named = _name_of(tree, function)
    callers = [function_around(n) for n in calls_of(tree, named)] if named not in ("", "main") else []
    stretches = dict.fromkeys((f.start_byte, f.end_byte) for f in (function, *callers))
    return "\n".join(tree.masked.source[start:end] for start, end in stretches)


def _name_of(tree: SourceTree, function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    named = re.search(r"(\w+)\s*\(", tree.code_of(declarator)) if declarator is not None else None
    return named[1] if named else ""


def _through_caller(tree: SourceTree, function: Node) -> HostLoop | None:
    """The loop that calls the launch's function, where every call of it stands in a loop."""
    named = _name_of(tree, function)
    if named in ("", "main"):
        return None
    loops = [_each_loop(tree, n) for n in calls_of(tree, named)]
    loop = loops[0] if loops else None
    if loop is None or any(other is None for other in loops):
        return None
    inside = _calls(tree, function.start_byte, function.end_byte)
    return _read(tree, loop, (*inside, *_looped_calls(tree, loop)), launched=function)


def _each_loop(tree: SourceTree, node: Node) -> Node | None:
    """The innermost loop that `node` runs in again and again; in one iteration, or in a few, is not."""
    child, current, seldom = node, node.parent, False
    while current is not None and current.type != "function_definition":
        if current.type in LOOPS:
            if not seldom and not _is_selected(tree, node, current):
                return current
            seldom = False
        seldom = seldom or _leaves_after(current, child)
        child, current = current, current.parent
    return None


def _leaves_after(block: Node, statement: Node) -> bool:
    """Whether a block that an `if` guards leaves the loop behind one of its statements."""
    guarded = block.type == "compound_statement" and block.parent is not None and block.parent.type in _GUARDS
    after = (c for c in block.named_children if c.start_byte > statement.start_byte)
    return guarded and any(c.type in ("break_statement", "return_statement") for c in after)


def _is_selected(tree: SourceTree, node: Node, loop: Node) -> bool:
    """Whether `node` stands under an `if` that picks iterations of the loop: `i == 1`, `step % 100 == 0`."""
    changed = changed_in(tree.code_of(loop))
    child, current = node, node.parent
    while current is not None and current.id != loop.id:
        taken = current.child_by_field_name("consequence") if current.type == "if_statement" else None
        condition = current.child_by_field_name("condition")
        if taken is not None and taken.id == child.id and condition is not None:
            tests = (n for n in walk(condition) if n.type == "binary_expression")
            if any(_picks(tree, test, changed) for test in tests):
                return True
        child, current = current, current.parent
    return False


def _picks(tree: SourceTree, test: Node, changed: frozenset[str]) -> bool:
    operator = test.child_by_field_name("operator")
    sides = [test.child_by_field_name("left"), test.child_by_field_name("right")]
    if operator is None or operator.type != "==":
        return False
    moving = [bool(changed & set(_WORD.findall(tree.code_of(side)))) for side in sides if side is not None]
    return sorted(moving) == [False, True]


def changed_in(code: str) -> frozenset[str]:
    """Names that code gives another value."""
    return frozenset({a or b for a, b in _CHANGED.findall(code)} | set(_RANGED.findall(code)))


def _read(
    tree: SourceTree, loop: Node, calls: tuple[HostCall, ...], launched: Node | None = None
) -> HostLoop:
    body = loop.child_by_field_name("body")
    until = body.start_byte if body is not None and loop.type != "do_statement" else loop.start_byte
    header = " ".join(tree.text.text[loop.start_byte : until].rstrip(" {\n").split())
    counted = _COUNTED.search(header)
    return HostLoop(
        span=tree.span(loop),
        header=header,
        calls=calls,
        launches=tree.code_of(launched if launched is not None else loop).count("<<<"),
        captured="cudaStreamBeginCapture" in tree.code_of(function_around(loop)),
        bound=counted[1] if counted else "",
        works=_works(tree, loop, own_name=_name_of(tree, launched) if launched is not None else ""),
        inside=tuple(_waits_inside(tree, loop, launched)),
    )


def _waits_inside(tree: SourceTree, loop: Node, launched: Node | None) -> Iterator[HostCall]:
    """A wait of each function that the loop calls in every iteration and that launches nothing itself."""
    for node in walk(loop):
        called = node.child_by_field_name("function") if node.type == "call_expression" else None
        if called is None or called.type != "identifier":
            continue
        found = functions_named(tree, tree.code_of(called))
        if len(found) != 1 or found[0].node.id == (launched.id if launched is not None else None):
            continue
        function, around = found[0].node, _each_loop(tree, node)
        every = around is not None and around.id == loop.id and "<<<" not in tree.code_of(function)
        calls = _calls(tree, function.start_byte, function.end_byte) if every else ()
        wait = next(filter(_is_wait, calls), None)
        if wait is not None:
            yield HostCall(wait.name, tree.span(node), wait.arguments)


def _works(tree: SourceTree, loop: Node, own_name: str) -> bool:
    """Whether a loop holds one that asks the device for nothing, or calls what neither does that nor is brief."""
    for node in walk(loop):
        if node.type in LOOPS and node.id != loop.id and not _asks(tree.code_of(node)):
            return True
        called = node.child_by_field_name("function") if node.type == "call_expression" else None
        if called is None or any(child.type == "kernel_call_syntax" for child in node.children):
            continue
        name = "".join(tree.code_of(called).split())
        if name != own_name and not (_BRIEF.fullmatch(name) or _asks_inside(tree, name)):
            return True
    return False


def _asks(code: str) -> bool:
    return "<<<" in code or _RUNTIME.search(code) is not None


def _asks_inside(tree: SourceTree, name: str) -> bool:
    """Whether a macro, or a function of the file, asks the device for something."""
    macro = tree.macros.get(name)
    if macro is not None:
        return True  # What stands in its arguments is seen by itself.
    bodies = [tree.code_of(f) for f in directly_called(tree, f"{name}(")]
    return bool(bodies) and all(map(_asks, bodies))


def _looped_calls(tree: SourceTree, loop: Node) -> tuple[HostCall, ...]:
    """The calls that the loop makes again and again, or that a loop in it does."""
    every = _calls(tree, loop.start_byte, loop.end_byte)
    if not _IF.search(tree.code_of(loop)):
        return every
    found = []
    for call in every:
        node = tree.root.descendant_for_byte_range(*tree.text.offsets(call.span))
        around = _each_loop(tree, node) if node is not None else loop
        if around is not None and around.start_byte >= loop.start_byte:
            found.append(call)
    return tuple(found)


def _calls(tree: SourceTree, start: int, end: int) -> tuple[HostCall, ...]:
    """Calls in a stretch of the text; also those inside error-checking macros, none that `#ifdef` may leave out."""
    code = tree.masked.source[start:end]
    found = []
    for match in _CALL.finditer(code):
        close = _closing(code, match.end())
        inside = code[match.end() + 1 : close - 1] if close > match.end() + 1 else ""
        if tree.may_be_left_out(start + match.start()):
            continue
        span = tree.text_span(start + match.start(), start + close)
        found.append(HostCall(match[1], span, " ".join(inside.split())))
    return tuple(found)


def _closing(code: str, at: int) -> int:
    """The offset after the parenthesis that closes the one at `at`; `at` itself where there is none."""
    depth = 0
    for found in _PAREN.finditer(code, at):
        if depth == 0 and found.start() != at:
            break
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return at
