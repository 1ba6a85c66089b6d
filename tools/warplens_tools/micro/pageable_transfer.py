# SPDX-License-Identifier: Apache-2.0
"""pageable-transfer

**What.** Copies to or from memory of `malloc`, `new` or a `std::vector`, again and again in a loop, or by
`cudaMemcpyAsync`, which with such memory is not asynchronous.

**Why it costs.** The copy engine reads page-locked memory only. From pageable memory the driver first copies
piece by piece into a staging buffer of its own: half the rate or less, one core busy, and the call returns
only when that is done, so that neither kernels nor copies of other streams overlap with it.

**Wrong**

```cuda
std::vector<float> frame(n);
for (int f = 0; f < frames; ++f) {
    read_frame(f, frame.data());
    cudaMemcpyAsync(d_frame, frame.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream);
    filter<<<grid, block, 0, stream>>>(d_out, d_frame, n);
}
```

**Right**

```cuda
float *frame;
cudaMallocHost(&frame, n * sizeof(float));      // or cudaHostRegister(vector.data(), …) once, before the loop
```

**Evidence.** How the file obtains the memory that a copy names; the loop around the copy. A timeline tells which
copies were pageable and how long they took: it confirms the finding, or withdraws it.

**Threshold.** Source: a copy in a loop that also launches a kernel; a single asynchronous copy is information.
With a timeline: a tenth of the program's span. Memory whose origin the file does not show is left alone. Without
measured rates pageable copies count with half the rate, and, where neither their size nor the kernels' time is
known, as half of an iteration. It is information where the file does not tell the size, or the host works in the loop
and the copy takes less than 0.1 ms.

**References.** CUDA C++ Best Practices Guide, "Pinned Memory"; CUDA C++ Programming Guide, "Page-Locked Host
Memory" and "API synchronization behavior" of cudaMemcpyAsync.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from warplens_tools.cuda.facts.host_copies import HostCopy, host_copies, launch_beside
from warplens_tools.evidence import TimelineEvidence
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.launch_cost import HOST_WORK, LINK_BYTES_PER_SECOND
from warplens_tools.machine.timeline_share import WORTH, host_transfers, share_observation, total_ns
from warplens_tools.micro.base import MicroTool

#: Rate of a pinned copy over that of a pageable one, where neither was measured (Best Practices Guide: pinned
#: memory attains the highest bandwidth; published runs of the CUDA bandwidth test show two to three times).
PINNED_RATIO = 2.0
#: Nanoseconds of a copy from which it weighs beside what a host does in an iteration.
LONG_NS = 100_000.0
#: Share of an iteration that its copies count for where nothing was measured.
COPY_SHARE = 0.5


class PageableTransfer(MicroTool):
    """Copies go through pageable host memory."""

    code = "WL403"
    slug = "pageable-transfer"
    title = "Copies go through pageable host memory"
    avoid = "Do not pin memory for each copy anew; do not read a buffer before its copy is waited for."
    of_program = True
    tiers = ("source", "timeline")
    relevant = ("launch", "latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the copy that is repeated, else on the first asynchronous one."""
        near = host_copies(self.view.tree, [site.span for site in self.view.sites])
        found = [c for c in near if c.origin.memory == "pageable" and (_is_hot(c) or c.asynchronous)]
        own = [c for c in found if self._serves(c)]
        if not own:
            return
        worst = max(own, key=lambda c: (_is_hot(c), c.asynchronous))
        hot = _is_hot(worst)
        yield self.finding(
            worst.call.span,
            severity="warning" if hot else "information",
            confidence="medium" if hot else "low",
            message=_message(worst),
            guidance=(
                f"Allocate {worst.host.strip('&')} with cudaMallocHost (cudaHostAlloc), or page-lock it once "
                "before the "
                "loop with cudaHostRegister: the copy then runs at the link's full rate, and asynchronously."
            ),
            evidence=(
                self.view.observe(
                    "host memory of the copy", worst.origin.source, "", "page-locked", tier="source"
                ),
            ),
            gain=_gain(self._share(worst), PINNED_RATIO) if hot else None,
            missing=_missing(worst) if hot else (),
            related=(RelatedSpan(worst.loop.span, "the loop"),) if worst.loop is not None else (),
        )

    def verify(self, finding: Finding) -> Finding | None:
        """What the timeline says: no such copies, too short ones, or how much time they took."""
        timeline = self.view.evidence.timeline
        if timeline is None:
            return finding
        every = host_transfers(timeline, ("in", "out"))
        pageable = [t for t in every if t.host_memory == "pageable"]
        if total_ns(pageable) < WORTH * timeline.span_ns:
            return None
        share = total_ns(pageable) / timeline.span_ns
        return msgspec.structs.replace(
            finding,
            confidence="high",
            evidence=(*finding.evidence, share_observation(timeline, "pageable copies", total_ns(pageable))),
            gain=_gain(share, _pinned_ratio(timeline)),
        )

    def _share(self, copy: HostCopy) -> float:
        """Share of an iteration that the copy takes, from its size and what the loop's kernels take; else the usual."""
        launching, loop = self.view.launching, copy.loop
        works = launching.work_ns(loop) if loop is not None else None
        if loop is None or works is None or copy.bytes is None or loop.works:
            return COPY_SHARE
        takes = _copy_ns(copy.bytes)
        return takes / (takes + max(works, launching.host_ns(loop, 1)))

    def _serves(self, copy: HostCopy) -> bool:
        site = launch_beside(self.view.tree, self.view.model, copy)
        return site is not None and site in self.view.sites


def _missing(copy: HostCopy) -> tuple[str, ...]:
    """Why it is not known that the copy weighs in an iteration."""
    if copy.bytes is None:
        return ("how many bytes it copies",)
    brief = _copy_ns(copy.bytes) < LONG_NS
    return (HOST_WORK,) if brief and copy.loop is not None and copy.loop.works else ()


def _copy_ns(size: int) -> float:
    return size / LINK_BYTES_PER_SECOND * PINNED_RATIO * 1e9


def _is_hot(copy: HostCopy) -> bool:
    return copy.loop is not None and copy.loop.launches > 0 and not copy.loop.timed


def _message(worst: HostCopy) -> str:
    where = "in every iteration of the loop" if _is_hot(worst) else "here"
    returns = ", so the asynchronous call waits for it" if worst.asynchronous else ""
    return (
        f"{worst.call.name} copies {worst.host} {where} by way of a staging buffer: {worst.origin.source} gives "
        f"pageable memory{returns}."
    )


def _gain(share: float, ratio: float) -> Gain:
    """Of the time with copies at `share` of it, when those become `ratio` times as fast; at most they vanish beside
    other work."""
    estimate = 1.0 / (1.0 - share + share / ratio)
    return Gain.of(estimate, min(1.0 / max(1.0 - share, 0.05), ratio * estimate))


def _pinned_ratio(timeline: TimelineEvidence) -> float:
    """Measured rate of pinned copies over that of pageable ones, where the program made both."""
    rates = {}
    for memory in ("pinned", "pageable"):
        group = [t for t in timeline.transfers if t.host_memory == memory and t.total_ns]
        rates[memory] = sum(t.bytes for t in group) / total_ns(group) if group else None
    pinned, pageable = rates["pinned"], rates["pageable"]
    return max(pinned / pageable, 1.0) if pinned and pageable else PINNED_RATIO
