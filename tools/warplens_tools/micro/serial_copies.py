# SPDX-License-Identifier: Apache-2.0
"""serial-copies

**What.** A host loop brings a part of the data in, works on it and brings the result out, part after part, on one
stream.

**Why it costs.** Operations of one stream are serialized. A GPU has engines for copies in each direction
beside its SMs, so while one part is worked on the next could come in and the last go out; on one stream two of the
three always idle.

**Wrong**

```cuda
for (int c = 0; c < chunks; ++c) {
    cudaMemcpyAsync(d_in, in + c * n, bytes, cudaMemcpyHostToDevice, stream);
    transform<<<grid, block, 0, stream>>>(d_out, d_in, n);
    cudaMemcpyAsync(out + c * n, d_out, bytes, cudaMemcpyDeviceToHost, stream);
}
```

**Right**

```cuda
for (int c = 0; c < chunks; ++c) {
    int s = c % 2;                                  // two streams, each with buffers of its own
    cudaMemcpyAsync(d_in[s], in + c * n, bytes, cudaMemcpyHostToDevice, streams[s]);
    transform<<<grid, block, 0, streams[s]>>>(d_out[s], d_in[s], n);
    cudaMemcpyAsync(out + c * n, d_out[s], bytes, cudaMemcpyDeviceToHost, streams[s]);
}
```

**Evidence.** The copies and launches of the loop, their streams, and whether the host's pointer moves on with the
loop; the kernel's duration and the copies' bytes where constants give them. A timeline tells how long copies ran
with nothing beside them: it confirms the finding with the time to be saved, or withdraws it.

**Threshold.** A tenth of an iteration. Where the kernel's share of it is not known, copies in both directions count
as alike and the kernel as hidden; copies in one direction alone are then information only. Loops that take times
or record a graph are left alone.

**References.** CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers with Computation"; CUDA C++
Programming Guide, "Overlapping Behavior".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.cuda.facts.host_copies import HostCopy, changed_names, host_copies, plain_stream
from warplens_tools.cuda.facts.host_loops import HostLoop, launch_loop
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.launch_cost import LINK_BYTES_PER_SECOND
from warplens_tools.machine.timeline_share import WORTH, host_transfers, share_observation, total_ns
from warplens_tools.micro.base import MicroTool

#: The size of one element, and bytes of the largest plain one.
_ONE, _WORD = re.compile(r"sizeof\s*(?:\([^()]*\)|\w+)(?:\s*\*\s*1)?|1\s*\*\s*sizeof\s*\([^()]*\)"), 8


class SerialCopies(MicroTool):
    """Copies and kernels of independent parts share one stream."""

    code = "WL404"
    slug = "serial-copies"
    title = "Copies and kernels of independent parts share one stream"
    avoid = "Do not put dependent work on different streams without an event between."
    of_program = True
    tiers = ("source", "timeline")
    relevant = ("launch", "latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first copy of the loop that launches it."""
        tree = self.view.tree
        for site in self.view.sites:
            loop = launch_loop(tree, site)
            if loop is None or loop.timed or loop.captured:
                continue
            copies = [
                c for c in host_copies(tree, [site.span]) if c.loop == loop and c.moves and not _is_single(c)
            ]
            if copies and self._on_one_stream(loop, copies):
                yield from self._finding(loop, copies)
                return

    def verify(self, finding: Finding) -> Finding | None:
        """What the timeline says: whether copies ran alone, and what the longest engine would need on its own."""
        timeline = self.view.evidence.timeline
        if timeline is None:
            return finding
        inward, outward = (total_ns(host_transfers(timeline, (d,))) for d in ("in", "out"))
        alone = sum(t.serial_ns for t in host_transfers(timeline, ("in", "out")))
        if alone < WORTH * timeline.span_ns:
            return None
        kernels = sum(k.total_ns for k in timeline.kernels)
        saved = min(alone, inward + outward + kernels - max(inward, outward, kernels))
        ratio = timeline.span_ns / max(timeline.span_ns - saved, 0.05 * timeline.span_ns)
        if ratio < 1.0 + WORTH:
            return None
        seen = share_observation(timeline, "copies with nothing beside them", alone)
        return msgspec.structs.replace(
            finding,
            confidence="high",
            evidence=(*finding.evidence, seen),
            gain=Gain.of(ratio, ratio),
        )

    def _on_one_stream(self, loop: HostLoop, copies: Sequence[HostCopy]) -> bool:
        """Whether every operation of the loop names the same stream, and the loop does not choose it."""
        tree = self.view.tree
        inside = [
            s for s in self.view.model.launches if loop.span.contains(s.span) or launch_loop(tree, s) == loop
        ]
        streams = {plain_stream(s.stream) for s in inside} | {c.stream for c in copies if c.asynchronous}
        if len(streams) > 1:
            return False
        words = set("".join(ch if ch.isalnum() or ch == "_" else " " for ch in "".join(streams)).split())
        before = (
            self.view.text.text[: self.view.text.offset(loop.span.line, loop.span.column)]
            .rstrip()
            .rsplit("\n", 1)[-1]
        )
        return not words & changed_names(tree, loop) and "omp parallel" not in before

    def _finding(self, loop: HostLoop, copies: Sequence[HostCopy]) -> Iterator[Finding]:
        gain = self._gain(loop, copies)
        if gain is not None and gain.estimate < 1.0 + WORTH:
            return
        first = copies[0]
        ways = {c.direction for c in copies}
        doing = "in and out" if len(ways) == 2 else "in" if "in" in ways else "out"
        stream = f"stream {first.stream}" if first.stream else "the default stream"
        unpinned = "" if all(c.origin.memory == "pinned" for c in copies) else ", from page-locked memory"
        yield self.finding(
            first.call.span,
            severity="warning" if gain is not None else "information",
            confidence="medium" if gain is not None else "low",
            message=(
                f"Each iteration copies a part {doing} and runs {self.view.kernel.name} on it, all on "
                f"{stream}: copies and "
                "kernels of different parts never overlap."
            ),
            guidance=(
                "Alternate two or three streams, each with device buffers of its own, and "
                f"cudaMemcpyAsync{unpinned}: "
                "the next part comes in while this one is worked on. Wait for a stream only before its "
                "buffers are reused."
            ),
            evidence=(
                self.view.observe("copies of each iteration", float(len(copies)), tier="source"),
                self.view.observe("streams in the loop", 1.0, "", 2.0, tier="source"),
            ),
            gain=gain,
            related=(RelatedSpan(loop.span, "the loop"),),
        )

    def _gain(self, loop: HostLoop, copies: Sequence[HostCopy]) -> Gain | None:
        """The sum of an iteration's parts over its longest part, neither shorter than the host takes to ask for them;
        None where only one of them is known."""
        works, asked = self.view.launching.work_ns(loop), self.view.launching.host_ns(loop, len(copies))
        moved = {way: [c for c in copies if c.direction == way] for way in ("in", "out")}
        known = all(c.bytes is not None for c in copies)
        if known and works is not None:
            parts = [
                sum((c.bytes or 0) for c in group) / LINK_BYTES_PER_SECOND * 1e9 for group in moved.values()
            ]
            parts.append(works)
            ratio = max(sum(parts), asked) / max(*parts, asked)
            return Gain.of(ratio, max(ratio, float(len([p for p in parts if p > asked]))))
        if not (moved["in"] and moved["out"]):
            return None
        # Both directions: they overlap each other at the least; what the kernel takes is not known.
        return Gain.of(2.0 if known or _same_sizes(copies) else 1.5, 3.0)


def _is_single(copy: HostCopy) -> bool:
    """Whether it moves one element, such as a flag that the loop hangs on: no part of the data."""
    return _ONE.fullmatch(copy.size.strip()) is not None or (copy.bytes or _WORD + 1) <= _WORD


def _same_sizes(copies: Sequence[HostCopy]) -> bool:
    return len({"".join(c.size.split()) for c in copies}) == 1
