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

An array that each iteration copies to another one, where swapping two pointers would do, is moved once more.

**Evidence.** The host loop around the launch, its counter among the arguments or two of them swapped in each iteration,
and an array of the kernel's that it both loads and stores, or loads one of the swapped and stores the other; elements
that are made of others of the same array, or another launch of the loop on the same arrays; a copy on the device
between two arrays that the launch is given. Loops around a launch in another file, where they pass their counter. What
the step chooses is a line of the array where one axis of threads and what is passed are all that its indices hang on,
and a part of it where the grid goes by the loop's counter. A pointer that each iteration makes anew is another array.
From SASS without loops, how many threads are done in the time of a launch.

**Threshold.** Loops that take times or that run a constant number of fewer than 16 times are left alone. It is
information: whether several steps fit a tile is the algorithm's to say.

**References.** Katz and Kider, "All-Pairs Shortest-Paths for Large Graphs on the GPU" (2008); Meng and Skadron,
"Performance Modeling and Automatic Ghost Zone Optimization for Iterative Stencil Loops on GPUs" (2009).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.facts.host_copies import host_copies
from warplens_tools.cuda.facts.host_loops import HostCall, HostLoop, launch_loop
from warplens_tools.cuda.facts.indirect import indirect_accesses
from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.machine.stepped import is_line, stepped_parameters
from warplens_tools.micro.base import MicroTool
from warplens_tools.text import Span

#: Iterations from which a loop over launches is one over steps.
STEPS = 16
#: Launches of one iteration up to which they are one step: more are an algorithm of phases.
_PHASES = 8
#: Threads below which launching takes longer than a pass, from which that is worth a word.
_MANY = 50_000
#: Arguments of a copy.
_COPY = 4
_POINTED = re.compile(r"[A-Za-z_][\w.>\[\]-]*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_COUNTER = re.compile(r"\bfor\s*\([^;]*?\b([A-Za-z_]\w*)\s*=")
_SWAP = re.compile(
    r"\bswap\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)|\b(\w+)\s*=\s*(\w+)\s*;\s*(\w+)\s*=\s*\3\s*;"
    r"|\b(\w+)\s*=\s*(\w+)\s*;\s*\7\s*=\s*(\w+)\s*;\s*\8\s*=\s*\6\s*;"
)

#: What a loop's body makes anew, as a variable or an object, and of what.
_MADE = re.compile(r"\b([A-Za-z_]\w*)\s*(?:=(?!=)\s*([^;]*)|\(([^;]*)\)\s*);")


def _arguments(listed: str) -> list[str]:
    """The arguments of a call that holds no comma within brackets but in its count of bytes, without blanks."""
    return ["".join(said.split()) for said in split_arguments(listed)]


def _counters(site: LaunchSite, loop: HostLoop) -> set[str]:
    """What the loops around a launch step by."""
    return {*_COUNTER.findall(loop.header), *site.counters}


class PassPerStep(MicroTool):
    """One pass over an array for each step of a host loop."""

    code = "WL405"
    slug = "pass-per-step"
    title = "Each step of a host loop is a pass over the whole array"
    avoid = (
        "Do not fuse steps whose blocks need each other's results in between without a grid-wide barrier or a"
        " halo wide enough."
    )
    of_program = True
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on its first such launch."""
        for site in self.view.sites:
            loop = launch_loop(self.view.tree, site)
            if site.grid.strip() == site.block.strip() == "1":
                continue  # a single thread's work, however often
            if loop is None or loop.timed or loop.launches > _PHASES or self._is_short(loop):
                continue
            copy = self._copied(site, loop)
            if copy is not None:
                yield self._told_of_copy(site, loop, copy)
                return
            array = "" if self._is_fed(site, loop) else self._kept(site, loop)
            if self._is_anew(site, loop, array) or self._is_scattered(array):
                continue
            follows = self._relaxes(array) or (self._updates(array) and self._shares(site, loop))
            if array and (self._steps_by(site, loop) or follows):
                chosen = self._is_chosen(array)
                yield self._told_of_level(site, loop, array) if chosen else self._told(site, loop, array)
                return
        yield from self._elsewhere()

    def _elsewhere(self) -> Iterator[Finding]:
        """Launches of another file, in a loop of its own that passes its counter."""
        for site in self.view.launches.sites:
            passed = {a.strip() for a in site.arguments} & set(site.counters)
            if not site.path or not passed or site.grid.strip() == site.block.strip() == "1":
                continue
            array = self._kept(site, None)
            if array and self._updates(array):
                where = f"the loop over {min(passed)} in {site.host_function or site.path}"
                yield self._told_of(self.view.kernel.name_span, where, array, self._chooses(array))
                return

    def _told(self, site: LaunchSite, loop: HostLoop, array: str) -> Finding:
        brief = self._briefest()
        also = (
            f"; below about {brief:,.0f} threads launching it takes longer than the pass"
            if brief >= _MANY
            else ""
        )
        seen = self.view.observe("launches in an iteration", float(loop.launches), tier="source")
        around = (RelatedSpan(loop.span, "the loop"),)
        by = self._chooses(array) or self._extends(site, loop)
        return self._told_of(site.span, loop.header or "the loop", array, by, (seen,), also, around)

    def _told_of(
        self,
        at: Span,
        loop: str,
        array: str,
        by: str,
        seen: tuple[Observation, ...] = (),
        also: str = "",
        related: tuple[RelatedSpan, ...] = (),
    ) -> Finding:
        """The finding; `by` is what chooses the part of the array that a launch takes, "" where it takes the whole."""
        if by:
            return self._told_of_part(at, loop, array, by, seen, related)
        return self.finding(
            at,
            severity="information",
            confidence="low",
            message=(
                f"One pass over {array} per step: each iteration of {loop} launches "
                f"{self.view.kernel.name}, which {self._moves(array)} the whole of it again{also}."
            ),
            guidance=(
                f"Do several steps a launch: let each block keep its tile of {array} in shared memory or registers for "
                "as many steps as the halo (or the panels that the tile depends on) allows, so that it is moved once "
                "for all of them; where the launches are short, record the steps in a CUDA graph, or loop in one "
                "cooperative launch."
            ),
            evidence=seen or (self.view.observe("loops around the launch", 1.0, tier="source"),),
            related=related,
        )

    def _told_of_part(
        self,
        at: Span,
        loop: str,
        array: str,
        by: str,
        seen: tuple[Observation, ...],
        related: tuple[RelatedSpan, ...],
    ) -> Finding:
        """Of a launch that takes no more of the array than the step chooses: that it does little."""
        return self.finding(
            at,
            severity="information",
            confidence="low",
            message=(
                f"One launch for a part of {array} per step: each iteration of {loop} launches "
                f"{self.view.kernel.name} for the elements that {by} chooses, little work for a launch, and the "
                "next step waits for it."
            ),
            guidance=(
                "Do several steps a launch, or what the loop's kernels do of a step in one: a tile that a block "
                "takes through many steps in shared memory, or one cooperative launch that loops over the steps; "
                "where that cannot be, record the launches in a CUDA graph."
            ),
            evidence=seen or (self.view.observe("the number that is passed", by, tier="source"),),
            related=related,
        )

    def _extends(self, site: LaunchSite, loop: HostLoop) -> str:
        """The loop's counter that the launch's grid goes by; "" where every step's is alike."""
        made, names = self._made_in(loop), set(_NAME.findall(site.grid))
        for _ in made:
            names |= {of for name in names for of in made.get(name, ())}
        return min(_counters(site, loop) & names, default="")

    def _made_in(self, loop: HostLoop) -> dict[str, set[str]]:
        """What the loop's body makes anew, by name, and of which names."""
        found: dict[str, set[str]] = {}
        for name, value, given in _MADE.findall(self.view.said(loop.span).removeprefix(loop.header)):
            found.setdefault(name, set()).update(_NAME.findall(value or given))
        return found

    def _is_anew(self, site: LaunchSite, loop: HostLoop, array: str) -> bool:
        """Whether each iteration makes the pointer anew that is passed for an array: it is another array each time."""
        given = self._passed(site).get(array, "")
        return given in self._made_in(loop) and given not in self._swapped(loop)

    def _chooses(self, array: str) -> str:
        """The parameter, a step's number, that says which lines of the array are what a launch takes; "" where it takes
        more."""
        own = [a.index for a in self.view.global_accesses if a.name == array]
        lines = [index for index in own if index is not None and is_line(index)]
        if not own or len(lines) < len(own):
            return ""
        steps = sorted(stepped_parameters(self.view))
        return next((n for n in steps if any(index.mentions(n) for index in lines)), "")

    def _told_of_level(self, site: LaunchSite, loop: HostLoop, array: str) -> Finding:
        return self.finding(
            site.span,
            severity="information",
            confidence="low",
            message=(
                f"One launch over all elements per step: each iteration of {loop.header or 'the loop'} launches "
                f"{self.view.kernel.name}, whose threads load what tells whether their element is of this step, and "
                f"only those that it is of come to {array}."
            ),
            guidance=(
                "Sort the elements by the step that they belong to and launch each step's alone; or do all steps in "
                "one launch, in which what finishes last (a counter for each element) goes on with the next."
            ),
            evidence=(self.view.observe("launches in an iteration", float(loop.launches), tier="source"),),
            related=(RelatedSpan(loop.span, "the loop"),),
        )

    def _is_chosen(self, array: str) -> bool:
        """Whether data, held against a number that the launch passes, let a thread come to the array at all."""
        own = [a for a in self.view.global_accesses if a.name == array]
        passed = {p.name for p in self.view.kernel.parameters if not p.pointer}
        tests = re.findall(r"\bif\s*\(([^{};]*[!=]=[^{};]*)\)", self.view.body)
        names = "|".join(map(re.escape, passed))
        against = bool(passed) and any(re.search(rf"[!=]=\s*(?:{names})\b", t) for t in tests)
        return against and all(a.by_data for a in own)

    def _is_scattered(self, array: str) -> bool:
        """Whether data send each element to any place, as a pass of a radix sort does: no tile holds what the next pass
        needs."""
        own = [a for a in self.view.global_accesses if a.name == array]
        stored = [a for a in own if a.writes]
        sent = indirect_accesses(self.view.tree, self.view.kernel, stored)
        return bool(stored) and len(sent) == len(stored) == len(own)

    def _moves(self, array: str) -> str:
        """What a launch does with all of an array: a store in a branch may be of one step, or of few elements."""
        own = [a for a in self.view.global_accesses if a.name == array]
        always = any(a.reads and not a.conditional for a in own)
        once = all(a.conditional and not a.by_data for a in own if a.writes)
        return "loads" if always and once else "loads and stores"

    def _told_of_copy(self, site: LaunchSite, loop: HostLoop, copy: HostCall) -> Finding:
        to, source = _arguments(copy.arguments)[:2]
        return self.finding(
            copy.span,
            severity="information",
            confidence="medium",
            message=(
                f"Copy per step: every iteration of {loop.header or 'the loop'} copies {source} to {to} on the device, "
                f"beside the launch of {self.view.kernel.name}, which is given both."
            ),
            guidance=(
                f"Swap the pointers {source} and {to} between launches instead of copying: it costs nothing, and what "
                "the kernel stored is where the next step reads it."
            ),
            evidence=(self.view.observe("launches in an iteration", float(loop.launches), tier="source"),),
            related=(RelatedSpan(site.span, "the launch"), RelatedSpan(loop.span, "the loop")),
        )

    def _is_fed(self, site: LaunchSite, loop: HostLoop) -> bool:
        """Whether each iteration copies another part of the host's data into what the launch is given: then it is
        another batch, and nothing of the last one is left to go on with."""
        passed = {"".join(a.split()) for a in site.arguments}
        copies = (c for c in host_copies(self.view.tree, [site.span]) if c.loop == loop)
        return any(
            c.direction == "in" and c.moves and _arguments(c.call.arguments)[0] in passed for c in copies
        )

    def _copied(self, site: LaunchSite, loop: HostLoop) -> HostCall | None:
        """A copy from one array that the launch is given to another, in every iteration; none of a part that the
        iteration chooses."""
        passed = {"".join(a.split()) for a in site.arguments}
        for call in loop.named("cudaMemcpy", "cudaMemcpyAsync"):
            said = _arguments(call.arguments)
            if len(said) >= _COPY and "DeviceToDevice" in said[3] and {said[0], said[1]} <= passed:
                return call
        return None

    def _briefest(self) -> float:
        """Threads of a launch up to which the pass is done sooner than the launch; 0 where that is not known."""
        if not self.sass or any(self.sass.flow.depths):
            return 0.0
        cycles = max((*self.sass.cycles.values(), *self.view.traffic.cycles().values()), default=0.0)
        gpu = self.gpu
        room = gpu.costs.launch_ns * 1e-9 * gpu.clock_hz * gpu.multiprocessors * gpu.limits.warp_size
        return float(f"{room / cycles:.1g}") if cycles else 0.0

    def _relaxes(self, array: str) -> bool:
        """Whether an element is made of others of the same array: each launch goes on from what the last one left."""
        own = [a for a in self.view.global_accesses if a.name == array and not a.few]
        stored = {a.indices for a in own if a.writes}
        names = {name for indices in stored for said in indices for name in _NAME.findall(said)}
        # `int at = place(i, j, n);` before `x[at] = …`.
        made = (m for n in names for m in re.findall(rf"\b{n}\s*=\s*([^;=][^;]*);", self.view.body))
        names |= {name for value in made for name in _NAME.findall(value)}
        around = (a.indices for a in own if a.reads and not a.writes and a.indices not in stored)
        return any(names & set(_NAME.findall(" ".join(indices))) for indices in around)

    def _updates(self, array: str) -> bool:
        """Whether an element is made of what it was."""
        own = [a for a in self.view.global_accesses if a.name == array and not a.few]
        return bool({a.indices for a in own if a.writes} & {a.indices for a in own if a.reads})

    def _shares(self, site: LaunchSite, loop: HostLoop) -> bool:
        """Whether the loop launches another kernel too, on arrays that this one is given."""
        own = {a for a in site.arguments if _POINTED.fullmatch(a.strip())}
        scalars = {p.name for p in self.view.kernel.parameters if not p.pointer}
        own -= {said for name, said in self._passed(site).items() if name in scalars}
        others = [
            s
            for s in self.view.model.launches
            if loop.span.contains(s.span) and s.kernel_name != site.kernel_name
        ]
        return any(own & set(s.arguments) for s in others)

    def _passed(self, site: LaunchSite) -> dict[str, str]:
        """What a launch passes, by the kernel's parameter."""
        return dict(zip((p.name for p in self.view.kernel.parameters), site.arguments, strict=False))

    def _is_short(self, loop: HostLoop) -> bool:
        bound = re.search(r"(?:<=?|!=)\s*(\d+)\s*;", loop.header)
        return bound is not None and int(bound[1]) < STEPS

    def _steps_by(self, site: LaunchSite, loop: HostLoop) -> bool:
        """Whether a step hangs on which one it is, or on the one before it."""
        words = {w for a in site.arguments for w in re.findall(r"\w+", a)}
        counters = _counters(site, loop)
        # Where the counter only says which chunk of other arrays it is, no step hangs on it.
        named = (set(_NAME.findall(a)) for a in site.arguments)
        alone = any(len(names) == 1 and names <= counters for names in named)
        return alone or bool(self._swapped(loop) & words)

    def _swapped(self, loop: HostLoop) -> frozenset[str]:
        found = _SWAP.findall(self.view.said(loop.span))
        return frozenset(name for names in found for name in names if name)

    def _kept(self, site: LaunchSite, loop: HostLoop | None) -> str:
        """The array that a step both loads and stores, or the one that a swap makes the next step load; "" for none."""
        own = [a for a in self.view.global_accesses if not a.few and not a.atomic]
        stored, loaded = {a.name for a in own if a.writes}, {a.name for a in own if a.reads}
        both = [a.name for a in own if a.writes and a.name in loaded]
        if both:
            return both[0]
        swapped = self._swapped(loop) if loop else frozenset()
        moved = {name for name, said in self._passed(site).items() if said in swapped}
        return next(iter(sorted(moved & stored)), "") if moved & loaded else ""
