# SPDX-License-Identifier: Apache-2.0
"""Numbers that steer the compiler and nothing else: unroll factors and launch bounds. Always safe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.tunable.parameter import Answer, Kind, Place, TunableParameter, others, place
from warplens_tools.tunable.source import TunedKernel, number

#: KernelPro's figures do not list unrolling; it is put below tiling. A spill seldom comes of unrolling alone.
UNROLL = Kind(
    "unroll",
    chance=0.06,
    gain=1.15,
    answers=(Answer("register-spills", -1, 0.4), Answer("low-ilp", 1, 0.6)),
    useless_at="dram",
)
#: As occupancy (see `block_sizes.KIND`). Less is asked of the compiler going down: more registers a thread.
LAUNCH_BOUNDS = Kind(
    "launch_bounds",
    chance=0.05,
    gain=1.2,
    answers=(Answer("register-spills", -1), Answer("occupancy-registers", 1)),
    useless_at="dram",
)
_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b[ \t]*\(?[ \t]*(\w*)", re.MULTILINE)
#: Powers of two up to the point where instruction fetch, not loop overhead, is what a loop waits for.
_UNROLL_FACTORS = (1, 2, 4, 8, 16)
#: Beyond eight resident blocks the register budget per thread falls under any useful kernel's need.
_MOST_MIN_BLOCKS = 8


def unroll_parameters(kernel: TunedKernel) -> Iterator[TunableParameter]:
    """`#pragma unroll` in the kernel's body, with a number or bare (0: unrolled in full)."""
    file = kernel.file
    for found in _UNROLL.finditer(file.code, *file.range(kernel.kernel.body)):
        name = f"unroll, line {file.line(found.end())}"
        if not found[1]:
            at = file.code.rindex("unroll", *found.span()) + len("unroll")
            spot = place(file.text, at, at, prefix=" ")
            yield TunableParameter(name, "unroll", 0, others(_UNROLL_FACTORS, 0), (spot,))
        elif found[1].rstrip("uUlL").isdigit():
            value = number(found[1])
            spot = place(file.text, found.start(1), found.start(1) + len(str(value)))
            yield TunableParameter(name, "unroll", value, others(_UNROLL_FACTORS, value), (spot,))


def bounds_parameters(kernel: TunedKernel) -> Iterator[TunableParameter]:
    """`__launch_bounds__`: the minimum of blocks, and the maximum of threads down to the block in use."""
    file, bounds = kernel.file, kernel.kernel.launch_bounds
    written = file.node(bounds.span) if bounds is not None and bounds.span is not None else None
    parts = written.named_children if written is not None and written.type == "launch_bounds" else []
    if bounds is None or not bounds.max_threads_value or not parts:
        return
    if file.literal(parts[0]) is not None:
        yield from _threads(kernel, bounds.max_threads_value, file.place(parts[0]))
    spot: Place | None = None
    if len(parts) == 1:
        spot = place(file.text, parts[0].end_byte, parts[0].end_byte, prefix=", ")
    elif file.literal(parts[1]) is not None:
        spot = file.place(parts[1])
    most = min(_MOST_MIN_BLOCKS, kernel.limits.max_threads // bounds.max_threads_value)
    value = bounds.min_blocks_value or 0
    domain = others(range(1, most + 1), value)
    if spot is not None and domain:
        yield TunableParameter("launch bounds, blocks", "launch_bounds", value, domain, (spot,))


def _threads(kernel: TunedKernel, value: int, spot: Place) -> Iterator[TunableParameter]:
    """The maximum of threads, where it is above every block the kernel is launched with."""
    blocks = [site.launch.block_value for site in kernel.sites]
    sizes = [x * y * z for x, y, z in blocks if x is not None and y is not None and z is not None]
    if not sizes or len(sizes) < len(blocks) or max(sizes) >= value:
        return
    domain = tuple(v for v in (max(sizes) << shift for shift in range(6)) if v < value)
    yield TunableParameter("launch bounds, threads", "launch_bounds", value, domain, (spot,))
