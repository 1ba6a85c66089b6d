# SPDX-License-Identifier: Apache-2.0
"""warp-divergence

**What.** A divergent branch: lanes of the same warp take different paths in every warp, and the paths do real work.

**Why it costs.** A divergent warp executes both paths, with the lanes of the other path masked off:
with lanes alternating, two paths cost their sum, and half of every instruction is wasted.

**Wrong**

```cuda
if (threadIdx.x % 2 == 0) y = smooth(x);       // even and odd lanes: a warp executes both paths
else                      y = sharpen(x);
```

**Right**

```cuda
if (threadIdx.x / 32 % 2 == 0) ...             // whole warps take one path; assign the elements to suit
```

**Evidence.** The condition as a function of `threadIdx`, evaluated for each lane of each warp, or data that each lane
loads; the SASS instructions of the paths with their loops. Counters tell the active lanes per instruction.

**Threshold.** Three of four warps divided, whatever the parameters are, so that checks at an edge and work of
one warp are left alone; without an `else`, more than an eighth of a warp's lanes, so that a lane that writes
its warp's result is left alone; and a fifth more time in the bounded model than if each path ran on its
lanes only.
A test that leaves half of the lanes or more without work is information, whatever bounds the kernel, where half of its
instructions stand behind it: a checkerboard's colour.
Where loaded data decides it is information, from half more time with all paths equally likely, until counters
show lanes asleep. Counters that show 28 and more lanes per
instruction withdraw it.

**References.** CUDA C++ Best Practices Guide, "Branch Predication and Divergent Warps"; CUDA C++ Programming
Guide, "SIMT Architecture".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cuda.facts.data_branches import data_branches
from warplens_tools.cuda.facts.lane_branches import LaneBranch, lane_branches
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import DRAM, L2, cap_gain
from warplens_tools.text import Span

#: Lanes that take part in an instruction on average, from which warps were hardly divided.
LANES_ACTIVE = 28.0
#: Mean lanes per instruction from which counters alone call a kernel divergent: a third sits out.
FEW_LANES = 22.0
#: Share of a warp's lanes up to which a branch without `else` is an epilogue: an eighth.
FEW_TAKE = 0.125
#: Share of the lanes that have work up to which a test around most of the kernel is told whatever bounds it, and the
#: share of its instructions that stand behind the test.
HALF, MOST = 0.5, 0.5
_LEAVES = re.compile(r"\{?return;\}?")
_DECIDES = re.compile(r"\b(?:if|for|while|switch)\s*\(")


class WarpDivergence(MicroTool):
    """Lanes of a warp take different paths of a branch."""

    code = "WL210"
    slug = "warp-divergence"
    title = "Divergent branches"
    avoid = "Do not put a barrier into a branch that part of the block does not take."
    rule_words = "diverge|predicat|threads.*per instruction"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")
    #: Speedup in the bounded model from which a branch is reported.
    worth = 1.2

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the branch that wastes most."""
        if not self.sass:
            return
        every = lane_branches(self.view.tree, self.view.kernel, self.view.dim3)
        ratio, worst = self._worst([b for b in every if not _is_epilogue(b)])
        if worst is not None and ratio >= self.worth:
            yield self._by_lane(worst, ratio)
            return
        ratio, worst = self._worst(data_branches(self.view.tree, self.view.kernel))
        if worst is not None and ratio >= self.doubtful:
            yield self._on_data(worst, ratio)
            return
        masked = next((found for b in every if (found := self._masked(b)) is not None), None)
        if masked is not None:
            yield masked

    def _masked(self, branch: LaneBranch) -> Finding | None:
        """A test that leaves half of the lanes and more without work, around most of the kernel: whatever bounds it,
        what the warp loads is for the others alone."""
        leaves = _LEAVES.fullmatch("".join(self.view.said(branch.then).split())) is not None
        share = 1.0 - branch.share if leaves else branch.share
        if branch.cases or branch.otherwise is not None or not FEW_TAKE < share <= HALF:
            return None
        then = branch.then
        inside = [
            i
            for i, n in enumerate(self.sass.lines)
            if n is not None and (n > then.end_line if leaves else then.contains_line(n))
        ]
        if self.sass.weigh(inside) < MOST * self.sass.weigh(range(len(self.sass.instructions))):
            return None
        text = self._text(branch)
        return self.finding(
            branch.condition,
            severity="information",
            confidence="medium",
            message=(
                f"Idle lanes: {text} {'lets go' if leaves else 'holds for'} {branch.share:.0%} of the lanes of each "
                f"warp: {1.0 - share:.0%} of them sit out the kernel's work, beside elements that the warp's requests "
                "fetch and do not use."
            ),
            guidance=(
                "Launch a thread for each element that has work and work its index out (2 * i + (row + color) % 2 of a "
                "checkerboard); keep the elements of one colour side by side, so that all lanes and whole sectors are "
                "used."
            ),
            evidence=(
                self.view.observe("lanes of a warp that have work", round(share, 3), "", HALF, tier="source"),
            ),
        )

    def _worst(self, branches: Sequence[LaneBranch]) -> tuple[float, LaneBranch | None]:
        rated = [(self.divergence_ratio(b), b) for b in branches]
        return max(rated, key=lambda r: r[0], default=(1.0, None))

    def _by_lane(self, worst: LaneBranch, ratio: float) -> Finding:
        text = self._text(worst)
        sides = "it executes both paths" if worst.otherwise is not None else "the other lanes are masked off"
        return self.finding(worst.condition,
            confidence="high" if self.view.block is not None else "medium",
            message=(
                f"Divergent branch: {text} differs between the lanes of a warp, which executes "
                f"{1 + len(worst.cases)} cases "
                "in sequence."
                if worst.cases
                else f"Divergent branch: {text} holds for {worst.share:.0%} of the lanes of each warp: {sides}."
            ),
            guidance=(
                "Let whole warps take one path: branch on a multiple of 32 threads and assign the elements to "
                "threads to suit, or make neighbouring threads handle the elements that take the same path."
            ),
            evidence=(
                self.view.observe("lanes of a warp on the first path", round(worst.share, 3), "", 1.0,
                    "a warp without divergence", tier="source"),
                self.view.observe("time over time without divergence", round(ratio, 2), "", self.worth),
            ),
            gain=Gain.of(ratio, 2.0 if worst.otherwise is not None else 1.0 / worst.share),
        )  # fmt: skip

    def _on_data(self, worst: LaneBranch, ratio: float) -> Finding:
        """What loaded data decides is information until lanes were seen to differ."""
        cases = 1 + len(worst.cases)
        return self.finding(worst.condition,
            severity="information",
            confidence="low",
            message=f"Data-dependent branch {self._text(worst)}: a divergent warp executes "
            f"{'both' if cases == 2 else f'all {cases}'} paths.",
            guidance=(
                "Put elements that take the same path next to each other before the launch: sort or bin an "
                "index list by "
                "this value, or compact one list for each path and launch a kernel on each."
            ),
            evidence=(
                self.view.observe("paths that loaded data chooses from", float(cases), tier="source"),
                self.view.observe(
                    "time, all paths in a warp, over one path each", round(ratio, 2), "", self.doubtful
                ),
            ),
            gain=Gain.of(ratio, ratio),
        )  # fmt: skip

    def _text(self, branch: LaneBranch) -> str:
        return " ".join(self.view.said(branch.condition).strip("()").split())

    def divergence_ratio(self, branch: LaneBranch) -> float:
        """Bounded time of the code as it is over that with each side weighed by its share of the lanes."""
        less = [w * _lanes(branch, n) for w, n in zip(self.sass.weights, self.sass.lines, strict=True)]
        floor = self.view.traffic.pessimistic_cycles
        return bound_ratio(self.sass.cycles | floor, self.sass.cycles_at(less) | floor)

    def verify(self, finding: Finding) -> Finding | None:
        """Active lanes per instruction: near all contradict it; fewer bound what whole warps would gain."""
        counters = self.view.evidence.counters
        awake = None if counters is None else names.value(counters, names.THREADS_PER_INSTRUCTION)
        if counters is None or not awake:
            return finding
        if awake > LANES_ACTIVE:
            return None
        lanes = self.gpu.limits.warp_size
        shown = counters.seen(names.THREADS_PER_INSTRUCTION, awake, LANES_ACTIVE, digits=1)
        asleep = counters.seen("inactive lanes", 1.0 - awake / lanes, 1.0 - LANES_ACTIVE / lanes)
        found = cap_gain(counters, finding, asleep, (*DRAM, *L2), shown=(shown,))
        seen = found is not None and found.confidence == "high" and found.gain is not None
        if found is not None and found.gain is not None and seen and found.gain.estimate >= self.worth:
            return msgspec.structs.replace(found, severity="warning")
        return found

    def check_counters(self) -> Iterator[Finding]:
        """Instructions that were executed for few lanes: on the line that most lanes sat out."""
        found = self.view.counted
        executed, awake = names.PER_INSTRUCTION[:2]
        if found is None:
            return
        # Lanes that try an atomic again are that one's cost.
        retried = {found.lines[i] for i in found.where(lambda x: x.opcode.startswith("ATOM"))}
        indices = [i for i, line in enumerate(found.lines) if line not in retried]
        lanes = found.total(awake, indices) / max(found.total(executed, indices), 1.0)
        if not 0.0 < lanes <= FEW_LANES:
            return
        wide = self.gpu.limits.warp_size
        asleep = tuple({"asleep": v.get(executed, 0.0) * wide - v.get(awake, 0.0)} for v in found.values)
        line = msgspec.structs.replace(found, values=asleep).line_of(indices, "asleep")
        ratio = self.gpu.limits.warp_size / max(lanes, 1.0)
        yield self.finding(
            self._branch_above(line),
            confidence="high",
            message=(f"Divergent warps: {lanes:.0f} of 32 lanes are active per instruction on average."),
            guidance=(
                "Let whole warps take one path: sort or compact the elements by the path they need, give neighbouring "
                "threads work of equal length, or let a warp share the work of one element."
            ),
            evidence=(found.counters.seen("lanes per instruction", lanes, FEW_LANES),),
            gain=Gain.of(ratio, ratio),
        )

    def _branch_above(self, line: int | None) -> int | None:
        """The nearest line above, or this one, that begins a branch or a loop."""
        if line is None:
            return None
        above = range(line, self.view.kernel.body.line, -1)
        return next((n for n in above if _DECIDES.search(self.view.text.line_text(n))), line)


def _is_epilogue(branch: LaneBranch) -> bool:
    """Whether few lanes do what the others need not do at all, such as one lane that writes what its warp summed up:
    there is no second path. A loop that few threads run is told as a lone thread's."""
    return branch.otherwise is None and not branch.cases and branch.share <= FEW_TAKE


def _lanes(branch: LaneBranch, line: int | None) -> float:
    """Share of the lanes that need an instruction of a line; 1 for lines outside, or shared by the sides."""
    if line is None:
        return 1.0
    if line == branch.condition.end_line:
        # `if (c) y = f(x);`: what stands on the line is the side more than the test.
        return branch.share if branch.then.line == branch.then.end_line == line else 1.0
    if _inside(branch.then, line):
        return branch.share
    if branch.otherwise is not None and _inside(branch.otherwise, line):
        return 1.0 - branch.share
    return next((share for case, share in branch.cases if _inside(case, line)), 1.0)


def _inside(span: Span, line: int) -> bool:
    return span.line <= line <= span.end_line
