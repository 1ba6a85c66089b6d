"""Numbers that steer the compiler and nothing else: unroll factors and launch bounds. Always safe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.lexical import matching
from warplens_tools.tunable.block_sizes import LITERAL, number
from warplens_tools.tunable.constant_uses import File
from warplens_tools.tunable.host_code import arguments
from warplens_tools.tunable.parameter import Place, TunableParameter, others, place

_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b[ \t]*\(?[ \t]*(\w*)", re.MULTILINE)
#: Powers of two up to the point where instruction fetch, not loop overhead, is what a loop waits for.
_UNROLL_FACTORS = (1, 2, 4, 8, 16)
#: Beyond eight resident blocks the register budget per thread falls under any useful kernel's need.
_MOST_MIN_BLOCKS = 8


def unroll_parameters(file: File, kernel: Kernel) -> Iterator[TunableParameter]:
    """`#pragma unroll` in the kernel's body, with a number or bare (0: unrolled in full)."""
    start, end = file.range(kernel.body)
    for found in _UNROLL.finditer(file.code, start, end):
        name = f"unroll, line {file.text.position(found.end())[0]}"
        if not found[1]:
            at = file.code.rindex("unroll", found.start(), found.end()) + len("unroll")
            spot = place(file.text, at, at, prefix=" ")
            yield TunableParameter(name, "unroll", 0, others(_UNROLL_FACTORS, 0), (spot,))
        elif LITERAL.match(found[1]):
            spot = place(file.text, found.start(1), found.start(1) + len(str(number(found[1]))))
            value = number(found[1])
            yield TunableParameter(name, "unroll", value, others(_UNROLL_FACTORS, value), (spot,))


def bounds_parameters(file: File, kernel: Kernel, limits: Limits) -> Iterator[TunableParameter]:
    """`__launch_bounds__`: the minimum of blocks, and the maximum of threads down to the block in use."""
    bounds = kernel.launch_bounds
    if bounds is None or bounds.span is None or not bounds.max_threads_value:
        return
    start, end = file.range(bounds.span)
    opening = file.code.find("(", start, end)
    parts = arguments(file.code, opening + 1, matching(file.code, opening) - 1) if opening >= 0 else ()
    if not parts:
        return
    yield from _threads(file, kernel, bounds.max_threads_value, parts[0].start, parts[0].text)
    most = min(_MOST_MIN_BLOCKS, limits.max_threads // bounds.max_threads_value)
    spot: Place | None = None
    if len(parts) == 1:
        spot = place(file.text, parts[0].end, parts[0].end, prefix=", ")
    elif LITERAL.match(parts[1].text):
        spot = place(file.text, parts[1].start, parts[1].start + len(str(number(parts[1].text))))
    value = bounds.min_blocks_value or 0
    domain = others(range(1, most + 1), value)
    if spot is not None and domain:
        yield TunableParameter("launch bounds, blocks", "launch_bounds", value, domain, (spot,))


def _threads(file: File, kernel: Kernel, value: int, start: int, text: str) -> Iterator[TunableParameter]:
    """The maximum of threads, where it is above every block the kernel is launched with."""
    blocks = [site.launch.block_value for site in file.of(kernel)]
    if not blocks or not LITERAL.match(text):
        return
    sizes = [x * y * z for x, y, z in blocks if x is not None and y is not None and z is not None]
    if len(sizes) < len(blocks) or max(sizes) >= value:
        return
    domain = tuple(v for v in (max(sizes) << shift for shift in range(6)) if v < value)
    spot = place(file.text, start, start + len(str(number(text))))
    yield TunableParameter("launch bounds, threads", "launch_bounds", value, domain, (spot,))
