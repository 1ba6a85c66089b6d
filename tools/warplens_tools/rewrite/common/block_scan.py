# SPDX-License-Identifier: Apache-2.0
"""A function by which the threads of a block scan a value each, by shuffles."""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

FLOATING = frozenset({"float", "double"})
_EXCHANGED = (4, 8)
_WARP = 32


def shared_kind(view: View, array: str) -> str:
    """The type of a shared array's elements.

    Raises:
        Refused: it is none whose elements lanes exchange.
    """
    kind = next((a.element_type for a in view.kernel.arrays if a.name == array and a.space == "shared"), "")
    concrete = view.concrete(kind)
    integer = integer_type(concrete) if concrete else None
    if concrete not in FLOATING and (integer is None or integer.bytes not in _EXCHANGED):
        raise Refused(f"{array} is no shared array of numbers")
    return concrete


def check_block(view: View, launches: Launches, thread: str) -> int | None:
    """The threads of a block of one dimension, numbered by `thread`; None where the run tells how many they are.

    Raises:
        Refused: they are no such block, or no whole warps.
    """
    code = view.code(view.body)
    alias = re.search(rf"\b{re.escape(thread)}\s*=\s*threadIdx\s*\.\s*x\s*[;,]", code)
    if thread != "threadIdx.x" and alias is None:
        raise Refused(f"{thread} is not known to be the thread's number in its block")
    name = re.escape(thread)
    if (
        len(
            re.findall(
                rf"\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b", code
            )
        )
        > 1
    ):
        raise Refused(f"{thread} is set more than once")
    if re.search(r"\bthreadIdx\s*\.\s*[yz]|\bblockDim\s*\.\s*[yz]", code):
        raise Refused("its blocks have two dimensions")
    if any(launches.block_value(axis) not in (None, 1) for axis in (1, 2)):
        raise Refused("its blocks have two dimensions")
    block = launches.block_value(0)
    if block is not None and block % _WARP:
        raise Refused("its blocks are no whole warps")
    return block


def scan_function(view: View, style: Style, name: str, kind: str, joined: str) -> TextEdit:
    """The function that scans a value over a block, in front of the kernel."""

    def steps(value: str) -> str:
        return (
            "for (int offset = 1; offset < 32; offset *= 2) {\n"
            f"  const {kind} other = __shfl_up_sync(0xffffffff, {value}, offset);\n"
            f"  if (lane >= offset) {value} = {joined.format(a='other', b=value)};\n}}"
        )

    inner = steps("total").replace("\n", "\n  ")
    code = (
        f"__device__ {kind} {name}({kind} value) {{\n"
        f"  __shared__ {kind} totals[32];\n"
        "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
        f"  {steps('value').replace(chr(10), chr(10) + '  ')}\n"
        "  if (lane == 31) totals[warp] = value;\n"
        "  __syncthreads();\n"
        "  if (warp == 0) {\n"
        f"    {kind} total = totals[lane < blockDim.x / 32 ? lane : 0];\n"
        f"    {inner.replace(chr(10), chr(10) + '  ')}\n"
        "    __syncwarp();\n"
        "    totals[lane] = total;\n"
        "  }\n"
        "  __syncthreads();\n"
        f"  if (warp > 0) value = {joined.format(a='totals[warp - 1]', b='value')};\n"
        "  return value;\n}\n"
    )
    return style.above(style.lines(code, 0) + view.text.newline)
