# SPDX-License-Identifier: Apache-2.0
"""A warp, or a part of one, for every thread that there was: its number, its lanes, and the launch."""

from __future__ import annotations

import re

import msgspec

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.launches import Launch, Launches, times
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened

_WARP = 32
#: Fewer lanes than this read no whole sector, and leave little to join.
_FEWEST = 4
#: Threads of a block where nothing says how many, and several of which an SM holds.
_THREADS = 256


class WarpRows(msgspec.Struct, frozen=True):
    """Names of the number of lanes and of a thread's lane, and the definition of the first, "" where it is there."""

    width: str
    lane: str
    definition: str


def lanes_for(longest: int | None) -> int:
    """Lanes for rows of which the longest has so many elements, None where nothing tells: a few elements a lane."""
    lanes = _WARP
    while longest is not None and lanes > _FEWEST and lanes >= longest:
        lanes //= 2
    return lanes


def number_by_warps(
    found: Opened, numbering: Numbering, lanes: int = _WARP, *, whole: bool = False
) -> WarpRows:
    """The edits of launches and thread numbers, and what lanes are called. `whole`: no part of a warp would do.

    Raises:
        Refused: threads or blocks are numbered in another way.
    """
    # where a block has rows of threads, parts of a warp would not be parts of one row of them
    words = ("lanes", "per", "row") if _is_flat(found) and not whole else ("warp", "size")
    width, definition = found.constant(lanes if _is_flat(found) else _WARP, *words)
    if _launch(found, width):
        _number_by_block(found, numbering)
    else:
        _number_by_warp(found, numbering, width)
    lane = found.edits.fresh_here("lane")
    found.edits.before(found.first_statement(), f"const int {lane} = threadIdx.x % {width};")
    return WarpRows(width, lane, definition)


def _is_flat(found: Opened) -> bool:
    return found.launches.block_value(1) in (None, 1)


def _launch(found: Opened, width: str) -> bool:
    """Change the launches; whether a block is one row of warps then, so that its number is the thread's."""
    launches, flat = found.launches, _is_flat(found)
    size = launches.block_value(0)
    for launch in launches.read():
        if size == 1 and flat:
            launches.set(launch.block, {0: width})
        elif not flat:
            if (launches.block_value(1) or 0) * (launches.block_value(2) or 1) > _WARP:
                raise Refused("its blocks have too many rows of threads")
            launches.set(launch.grid, {0: times(launch.grid.axis(0), launch.block.axis(0))})
            launches.set(launch.block, {0: width})
        elif size is not None and size % _WARP:
            raise Refused("its blocks are no whole warps")
        else:
            launches.set(launch.grid, {0: times(_grid_of_whole_warps(launches, launch), width)})
    return not flat


def _grid_of_whole_warps(launches: Launches, launch: Launch) -> str:
    """The launch's grid along x, of blocks of whole warps.

    Where a run gives the length of a block and nothing rounds it, the last warp of one of 100 threads would be a part
    of one: such a launch gets blocks of a fixed length, that of a run without arguments if that is whole warps.
    """
    grid, threads = launch.grid.axis(0), launch.block.axis(0)
    if launches.block_value(0) is not None or not threads.isidentifier() or len(launch.block.written) > 1:
        return grid
    meaning, code = launches.meaning(grid, launch), launches.text.text
    name = re.compile(rf"\b{threads}\b")
    minded = re.search(rf"\b{threads}\s*(?:[%&]|[*/]=|<<|>>(?!>)|/(?!/))", code) is not None
    elsewhere = any(name.search(given) for given in (launch.site.shared, *launch.site.arguments))
    if minded or elsewhere or name.search(meaning) is None:
        return grid
    default = launch.site.untold[1][0] if launch.site.untold is not None else None
    fixed = default if default and default % _WARP == 0 else _THREADS
    launches.set(launch.block, {0: str(fixed)})
    return name.sub(str(fixed), meaning).replace(f"+ {fixed} - 1)", f"+ {fixed - 1})")


def _number_by_warp(found: Opened, numbering: Numbering, width: str) -> None:
    """`threadIdx.x / 32` for `threadIdx.x`, and the block's extent alike."""
    tree = found.reader.tree
    single = numbering.block == 1
    places = {n.id: n for n in (*numbering.threads, *numbering.sizes)}
    places |= {n.id: n for n in ([] if single else numbering.widths()) if not numbering.is_followed(n)}
    calls = numbering.called()
    if not single and not places and not calls:
        raise Refused("the kernel does not number its threads")
    alone = _are_alone(found, numbering)
    for node in calls:
        number = f"blockIdx.x * (blockDim.x / {width}) + threadIdx.x / {width}"
        found.edits.replace(node, found.in_product(node, number))
    for node in numbering.threads if alone else ():
        found.edits.replace(node, f"(blockIdx.x * (blockDim.x / {width}) + threadIdx.x / {width})")
        places.pop(node.id)
    for node in places.values():
        found.edits.replace(node, found.in_product(node, f"{tree.text_of(node)} / {width}"))


def _are_alone(found: Opened, numbering: Numbering) -> bool:
    """Whether threads are numbered by `threadIdx.x` alone, in one block.

    Raises:
        Refused: so they are, in several blocks.
    """
    if numbering.blocks or not numbering.threads or numbering.block == 1:
        return False
    if any(site.grid_value[0] != 1 for site in found.launches.sites):
        raise Refused("its blocks all do the same")
    return True


def _number_by_block(found: Opened, numbering: Numbering) -> None:
    """`blockIdx.x` for the number of a thread."""
    numbers = numbering.only_numbered()
    for node in numbers:
        found.edits.replace(node, "blockIdx.x")
