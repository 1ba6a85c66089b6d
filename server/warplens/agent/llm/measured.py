# SPDX-License-Identifier: Apache-2.0
"""The card, and what was measured on it of the user's version and of others, in words."""

from __future__ import annotations

import math

import msgspec

from warplens.agent.versions import Node
from warplens.measure.session import Baseline
from warplens.measure.verdict import Launch
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.occupancy import occupancy
from warplens_tools.evidence import LaunchTiming, Resources
from warplens_tools.finding import count

#: Roofs that are told, and what they are of.
_ROOFS = (("dram", "bytes", "to or from dram"), ("fp32", "FLOP", "in fp32"))


def card_words(gpu: Gpu) -> str:
    """What a plan must know of the card."""
    limits = gpu.limits
    roofs = ", ".join(
        f"{name} {gpu.ceilings[name].value / 1e12:.3g} T{gpu.ceilings[name].unit}"
        for name in ("dram", "l2", "fp32")
        if name in gpu.ceilings
    )
    return (
        f"{gpu.name} ({gpu.arch}): {gpu.multiprocessors} SMs; per SM {limits.shared_bytes} bytes of shared memory "
        f"(at most {limits.default_shared_bytes_per_block} per block, opt-in {limits.max_shared_bytes_per_block}), "
        f"{limits.registers} registers, {limits.max_threads} threads; L2 {gpu.l2_bytes >> 20} MiB. Roofs: {roofs}."
    )


def stand_in_words(gpu: Gpu, name: str = "") -> str:
    """The same where the card that judges is elsewhere, and no more is known of it than perhaps its name."""
    card = f"{name}, whose figures are not known here" if name else "not known yet"
    return f"The card that judges is {card}. Typical of its architecture is {card_words(gpu)}"


class Measured(msgspec.Struct, frozen=True):
    """The user's version as it was measured, and the card."""

    baseline: Baseline
    gpu: Gpu

    def original(self) -> str:
        """How the judged kernel is launched in the user's program, and its time."""
        timing = self.baseline.timing
        share = (
            f", {100 * timing.share:.0f} % of the program's time on the card"
            if timing.share is not None
            else ""
        )
        return (
            f"The original is launched {timing.launches} times with grid {_shown(timing.grid)}, block "
            f"{_shown(timing.block)} and {timing.dynamic_shared_bytes} bytes of dynamic shared memory; one launch "
            f"takes {timing.median_ns / 1e3:.4g} us{share}."
        )

    def of(self, node: Node) -> str:
        """What the card could do in a version's time, what the version takes, and how many blocks of it an SM holds."""
        launch, verdict = self._launch(node), node.verdict
        if node.parent is None:
            return self._words(self.baseline.timing.median_ns, self.baseline.compiled.resources, launch)
        return self._words(nanoseconds_of(node), verdict.resources, launch) if verdict is not None else ""

    def timing_of(self, node: Node) -> LaunchTiming | None:
        """How a version is launched in the program, and its time; None where that is not known."""
        if node.parent is None:
            return self.baseline.timing
        took, launch = nanoseconds_of(node), self._launch(node)
        if took is None or launch is None or launch.grid is None:
            return None
        return LaunchTiming(
            origin="the judge",
            launches=self.baseline.timing.launches,
            grid=launch.grid,
            block=launch.block,
            dynamic_shared_bytes=launch.dynamic_shared_bytes,
            median_ns=took,
            low_ns=took,
            high_ns=took,
        )

    def _launch(self, node: Node) -> Launch | None:
        timing = self.baseline.timing
        if node.parent is None:
            return Launch(timing.grid, timing.block, timing.dynamic_shared_bytes)
        return node.verdict.launch if node.verdict is not None else None

    def _words(self, took: float | None, taken: Resources | None, launch: Launch | None) -> str:
        said = [self._roofs(took)] if took else []
        if taken is not None:
            said.append(
                f"It takes {taken.registers} registers per thread, {taken.shared_bytes} bytes of static shared memory, "
                f"and spills {taken.spill_store_bytes} bytes."
            )
            said.append(self._resident(taken, launch) if launch is not None else "")
        return " ".join(filter(None, said))

    def _roofs(self, nanoseconds: float) -> str:
        can = [
            f"{self.gpu.ceilings[name].value * nanoseconds / 1e9:.3g} {unit} {of}"
            for name, unit, of in _ROOFS
            if name in self.gpu.ceilings
        ]
        took = f"One launch of this version takes {nanoseconds / 1e3:.4g} us"
        return f"{took}, in which the card does at most {' and '.join(can)}." if can else f"{took}."

    def _resident(self, taken: Resources, launch: Launch) -> str:
        threads, limits = math.prod(launch.block), self.gpu.limits
        shared = taken.shared_bytes + launch.dynamic_shared_bytes
        held = occupancy(limits, block_threads=threads, registers=taken.registers, shared_bytes=shared)
        if not held.blocks:
            return ""
        words = f"An SM holds {count(held.blocks, 'block')} of {threads} threads ({held.occupancy:.0%} of its warps), "
        words += f"limited by {' and '.join(held.limiters)}"
        if launch.grid is None:
            return f"{words}."
        blocks = math.prod(launch.grid)
        waves = blocks / (held.blocks * self.gpu.multiprocessors)
        return f"{words}; the launch's {count(blocks, 'block')} are {waves:.2g} waves."


def nanoseconds_of(node: Node) -> float | None:
    """A version's median time of a launch as the program leaves the cache; None where it was not timed."""
    timings = node.verdict.timings if node.verdict is not None else ()
    timing = next((t for t in timings if t.cache == "program"), timings[0] if timings else None)
    return timing.candidate_ns.median if timing is not None else None


def _shown(extent: tuple[int, int, int]) -> str:
    return "x".join(map(str, extent))
