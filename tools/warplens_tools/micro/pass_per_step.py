# SPDX-License-Identifier: Apache-2.0
"""pass-per-step

**What.** A host loop launches a kernel once for each step, and each launch goes through a whole array: it loads,
changes and stores every element for one step of work.

**Why it costs.** The array is moved between device memory and the SMs twice a step, and nothing is kept between
launches. A block that holds its tile in shared memory or registers for several steps moves it once for all of them: the
traffic goes down by as many steps as the tile takes.

**Wrong**

```cuda
for (int k = 0; k < n; ++k) relax<<<grid, block>>>(d, n, k);           // one pivot a pass over d
```

**Right**

```cuda
for (int k = 0; k < n; k += 32) {                                       // 32 pivots a pass, by tiles
    pivot_tile<<<1, block>>>(d, n, k);
    row_and_column_tiles<<<2 * tiles, block>>>(d, n, k);
    other_tiles<<<dim3(tiles, tiles), block>>>(d, n, k);
}
```

**Evidence.** The host loop around the launch, its counter among the arguments or two of them swapped in each iteration,
and an array of the kernel's that it both loads and stores, or loads one of the swapped and stores the other.

**Threshold.** Loops that take times or that run a constant number of fewer than 16 times are left alone. It is
information: whether several steps fit a tile is the algorithm's to say.

**References.** Katz and Kider, "All-Pairs Shortest-Paths for Large Graphs on the GPU" (2008); Meng and Skadron,
"Performance Modeling and Automatic Ghost Zone Optimization for Iterative Stencil Loops on GPUs" (2009).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.host_loops import HostLoop, launch_loop
from warplens_tools.cuda.model import LaunchSite
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool

#: Iterations from which a loop over launches is one over steps.
STEPS = 16
#: Launches of one iteration up to which they are one step: more are an algorithm of phases.
_PHASES = 3
_NAME = re.compile(r"[A-Za-z_]\w*")
_COUNTER = re.compile(r"\bfor\s*\([^;]*?\b([A-Za-z_]\w*)\s*=")
_SWAP = re.compile(
    r"\bswap\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)|\b(\w+)\s*=\s*(\w+)\s*;\s*(\w+)\s*=\s*\3\s*;"
    r"|\b(\w+)\s*=\s*(\w+)\s*;\s*\7\s*=\s*(\w+)\s*;\s*\8\s*=\s*\6\s*;"
)


class PassPerStep(MicroTool):
    """One pass over an array for each step of a host loop."""

    code = "WL405"
    slug = "pass-per-step"
    title = "Each step of a host loop is a pass over the whole array"
    of_program = True
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first such launch."""
        for site in self.view.sites:
            loop = launch_loop(self.view.tree, site)
            if loop is None or loop.timed or loop.launches > _PHASES or self._is_short(loop):
                continue
            by = self._steps_by(site, loop)
            array = self._kept(site, loop)
            if by and array:
                yield self._told(site, loop, array)
                return

    def _told(self, site: LaunchSite, loop: HostLoop, array: str) -> Finding:
        return self.finding(
            site.span,
            severity="information",
            confidence="low",
            message=(
                f"One pass over {array} per step: each iteration of {loop.header or 'the loop'} launches "
                f"{self.view.kernel.name}, which loads and stores the whole of it again."
            ),
            guidance=(
                f"Do several steps a launch: let each block keep its tile of {array} in shared memory or registers for "
                "as many steps as the halo (or the panels that the tile depends on) allows, so that it is moved once "
                "for all of them."
            ),
            evidence=(self.view.observe("launches in an iteration", float(loop.launches), tier="source"),),
            related=(RelatedSpan(loop.span, "the loop"),),
        )

    def _is_short(self, loop: HostLoop) -> bool:
        bound = re.search(r"(?:<=?|!=)\s*(\d+)\s*;", loop.header)
        return bound is not None and int(bound[1]) < STEPS

    def _steps_by(self, site: LaunchSite, loop: HostLoop) -> bool:
        """Whether a step hangs on which one it is, or on the one before it."""
        counter = _COUNTER.search(loop.header)
        words = {w for a in site.arguments for w in re.findall(r"\w+", a)}
        # Where the counter only says which chunk of other arrays it is, no step hangs on it.
        alone = any(set(_NAME.findall(a)) == {counter[1]} for a in site.arguments) if counter else False
        return alone or bool(self._swapped(loop) & words)

    def _swapped(self, loop: HostLoop) -> frozenset[str]:
        found = _SWAP.findall(self.view.said(loop.span))
        return frozenset(name for names in found for name in names if name)

    def _kept(self, site: LaunchSite, loop: HostLoop) -> str:
        """The array that a step both loads and stores, or the one that a swap makes the next step load; "" for none."""
        own = [a for a in self.view.global_accesses if not a.few and not a.atomic]
        stored, loaded = {a.name for a in own if a.writes}, {a.name for a in own if a.reads}
        both = [a.name for a in own if a.writes and a.name in loaded]
        if both:
            return both[0]
        swapped, names = self._swapped(loop), [p.name for p in self.view.kernel.parameters]
        passed = dict(zip(names, site.arguments, strict=False))
        moved = {name for name, said in passed.items() if said in swapped}
        return next(iter(sorted(moved & stored)), "") if moved & loaded else ""
