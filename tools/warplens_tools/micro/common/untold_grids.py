# SPDX-License-Identifier: Apache-2.0
"""What a launch whose size only the run knows says of its blocks and threads: as many as SMs, or one for each of some
count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.chains import chain_of
from warplens_tools.micro.common.spelled_grids import (
    PER_ITEM,
    PER_THREAD,
    blocks_per_sm,
    first_extent,
    is_quotient,
)

#: Share of an SM's warps up to which a launch of so many blocks for each SM leaves it thin.
SPARSE = 0.25
#: Loops within loops: from there a block has much to do by itself.
NESTED = 2
#: A kernel whose blocks take several items in turn.
_STRIDES_BLOCKS = re.compile(r"\bgridDim\b")


class UntoldGrids(MicroTool):
    """The findings of a tool on launches whose extents are no constants, each at most one."""

    def is_serial(self) -> bool:
        """Whether no thread or block has a part of its own: work that is written to be done in order."""
        return not re.search(r"\b(?:threadIdx|blockIdx|thread_rank|this_grid)\b", self.view.body)

    def per_sm(self) -> Iterator[Finding]:
        """A launch of a few small blocks for each SM, whose threads share loops over global memory out among all."""
        x, y, z = (extent or 0 for extent in self.view.dim3)
        sites = ((s, n) for s in self.view.launches.sites if (n := blocks_per_sm(self.view, s)) is not None)
        site, each = next(sites, (None, 0))
        warps, held = each * -(-x * y * z // self.gpu.limits.warp_size), self.gpu.limits.max_warps
        looped = any(self.sass.flow.depths[i] for i in self.sass.where(lambda x: x.opcode == "LDG"))
        if site is None or not 0 < warps <= SPARSE * held or not looped:
            return
        yield self.finding(
            self.view.kernel.name_span if site.path else site.grid_span,
            severity="information",
            confidence="low",
            message=(
                f"{self.view.kernel.name} is launched with {count(each, 'block')} of {x * y * z} threads for each SM: "
                f"{count(warps, 'warp')} of the {held} that an SM holds, whose loads do not fill the memory pipeline."
            ),
            guidance=(
                "Launch as many blocks for each SM as it holds (cudaOccupancyMaxActiveBlocksPerMultiprocessor), or let "
                "each thread load several elements before it works on them."
            ),
            evidence=(self.view.observe("warps for each SM", float(warps), "", float(held), tier="source"),),
        )

    def per_block(self) -> Iterator[Finding]:
        """A launch of one thread for each of a count, whose kernel gives each block one of them at a time: as many
        blocks too few as a block has threads."""
        counts = self._dealt_to_blocks()
        names = [p.name for p in self.view.kernel.parameters]
        for site in self.view.sites if counts else ():
            hit = PER_THREAD.fullmatch(first_extent(self.view, site))
            items = "".join((hit[1] or hit[2]).split()) if hit is not None else ""
            given = dict(zip(names, ("".join(a.split()) for a in site.arguments), strict=False))
            if not items or not any(given.get(name) == items for name in counts):
                continue
            sms = self.gpu.multiprocessors
            yield self.finding(
                site.grid_span,
                severity="information",
                confidence="medium",
                message=(
                    f"The grid has a thread for each of {items}, but each block of {self.view.kernel.name} takes one "
                    f"of them at a time: a block walks as many in turn as it has threads, and fewer than {sms} blocks "
                    f"leave SMs of {self.gpu.name} idle."
                ),
                guidance=(
                    f"Launch a block for each of {items}, or as many as the card holds "
                    "(cudaOccupancyMaxActiveBlocksPerMultiprocessor times its SMs) where they are more."
                ),
                evidence=(self.view.observe("what the blocks take in turn", items, tier="source"),),
            )
            return

    def _dealt_to_blocks(self) -> set[str]:
        """The parameters up to which a loop of the kernel goes from a block's number on, in steps of the grid."""
        found = set()
        for loop in {x.span: x for a in self.view.accesses for x in a.loops}.values():
            forms = (loop.first, loop.step, loop.bound)
            first, step, bound = (
                {(s.kind, s.name) for s in f.symbols} if f is not None else set() for f in forms
            )
            if first == {("block", "blockIdx.x")} and {kind for kind, _ in step} == {"grid size"}:
                found |= {name for kind, name in bound if kind == "parameter" and len(bound) == 1}
        return found

    def per_item(self) -> Iterator[Finding]:
        """A launch of one block for each of a count that only the run knows, whose kernel walks on in loops: told
        quietly where few of them would leave the card idle, unless the program has many if it is told nothing."""
        depth = max(self.sass.flow.depths, default=0)
        counts = (s for s in self.view.sites if PER_ITEM.fullmatch(s.grid) and not is_quotient(self.view, s))
        site = next(counts, None)
        if site is None or not depth or self.is_serial() or _STRIDES_BLOCKS.search(self.view.body):
            return
        sms, items = self.gpu.multiprocessors, site.grid
        if (usual := self.view.launches.untold) is not None and usual.blocks >= sms:
            return
        yield self.finding(
            site.grid_span,
            severity="information" if depth >= NESTED else "hint",
            confidence="low",
            message=(
                f"{self.view.kernel.name} is launched with one block for each of {items}: fewer than {sms} leave "
                f"SMs of {self.gpu.name} idle, and each block walks its loops alone."
            ),
            guidance=(
                f"Where {items} is small, spread what a block's loops walk over the grid too (a second axis of "
                "blocks), and combine the parts where they meet."
            ),
            evidence=(
                self.view.observe("blocks of the launch", items, tier="source"),
                self.view.observe("deepest loops of the kernel", float(depth)),
            ),
        )

    def per_thread(self) -> Iterator[Finding]:
        """A launch of one thread for each of a count that only the run knows, whose threads walk loops within loops of
        global memory alone; not where the program has threads enough if it is told nothing."""
        depths = self.sass.flow.depths
        looped = any(depths[i] for i in self.sass.where(lambda x: x.opcode == "LDG"))
        deep = max(depths, default=0) if looped else 0
        told = next(
            (
                (s, hit[1] or hit[2])
                for s in self.view.sites
                if (hit := PER_THREAD.fullmatch(first_extent(self.view, s)))
            ),
            None,
        )
        walks = deep < NESTED and self._is_walk()
        passes = self._passes() if deep == 1 else 0
        again, once = passes >= NESTED, passes == 1 and not walks
        if told is None or not (deep >= NESTED or walks or passes) or self.is_serial():
            return
        if _STRIDES_BLOCKS.search(self.view.body):
            return
        site, items = told
        room = self.gpu.multiprocessors * self.gpu.limits.max_threads
        if (usual := self.view.launches.untold) is not None and usual.blocks * usual.threads >= room:
            return
        yield self.finding(
            site.grid_span,
            severity="hint" if once else "information",
            confidence="low",
            message=(
                f"{self.view.kernel.name} is launched with one thread for each of {items}, which "
                f"{'follows a chain of loads' if walks else _alone(again=again, once=once)} alone: fewer than {room} "
                f"leave {self.gpu.name} partly idle."
            ),
            guidance=(
                f"Where {items} is not as large, let several threads (a warp, a block) share the work of one, and "
                "combine their parts by shuffles."
            ),
            evidence=(
                self.view.observe("threads of the launch", items, tier="source"),
                self.view.observe("deepest loops that load", float(deep)),
            ),
        )  # fmt: skip

    def _passes(self) -> int:
        """Loops over global memory, of a length that only the run knows, that a thread goes through in turn; none that
        the threads of a block share."""
        loops = (a.loops[0] for a in self.view.global_accesses if a.reads and a.loops and not a.few)
        return len({x.span for x in loops if x.trips is None and x.first is not None and x.first.uniform})

    def _is_walk(self) -> bool:
        """Whether the kernel's deepest loop follows a chain, each step to where the one before led."""
        passes = [p for p in self.view.waiting.innermost_passes if p.depth]
        return any((chain := chain_of(self.sass, p)) is not None and chain.carried for p in passes)


def _alone(*, again: bool, once: bool) -> str:
    if once:
        return "goes through its elements in a loop"
    return "goes through its elements in several loops" if again else "walks loops within loops"
