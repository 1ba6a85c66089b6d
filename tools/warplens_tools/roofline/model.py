# SPDX-License-Identifier: Apache-2.0
"""The hierarchical roofline of a measured kernel: points, roofs, and how near each roof was reached.

Traffic and intensity per level follow Yang, Kurth and Williams, "Hierarchical Roofline analysis for GPUs"
(2020): one point per memory level at the kernel's operations per byte of that level. Amounts come from
counters; a level or kind of arithmetic that was not counted is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES, Ceiling, Gpu
from warplens_tools.collect import metrics as names
from warplens_tools.evidence import CounterEvidence

MemoryLevel = Literal["dram", "l2", "shared"]
#: Ceiling name to what people call the level; L1 and shared memory are one data path.
LEVELS: dict[MemoryLevel, str] = {"dram": "DRAM", "l2": "L2", "shared": "L1/shared"}
#: Bytes that one cycle of L1 write-back returns: 32 lanes of 4 bytes.
WRITEBACK_BYTES = 128.0


class Amounts(msgspec.Struct, frozen=True):
    """What one launch moved and computed. Absent keys were not counted."""

    duration_ns: float
    #: Bytes by level.
    moved: dict[MemoryLevel, float] = {}
    #: Operations by ceiling name: "fp64", "fp32", "fp16", "int32", "tensor_bf16", ….
    operations: dict[str, float] = {}


class Reach(msgspec.Struct, frozen=True):
    """How near a launch came to one roof."""

    roof: str
    achieved: float
    ceiling: float
    unit: str
    #: achieved / ceiling.
    share: float
    #: "calibrated", "derived" or "datasheet".
    kind: str
    #: Time the roof alone would need over the time taken, as the speedup it leaves: 1 / share.
    headroom: float | None


class Point(msgspec.Struct, frozen=True):
    """One point: a kind of arithmetic against one memory level."""

    level: MemoryLevel
    compute: str
    #: Operations per byte.
    intensity: float
    #: Operations per second.
    performance: float


class Roofline(msgspec.Struct, frozen=True):
    """Everything to draw: the GPU's roofs, the kernel's points, and the reach of each roof, nearest first."""

    gpu: str
    duration_ns: float
    memory: dict[str, float]
    compute: dict[str, float]
    points: tuple[Point, ...]
    reaches: tuple[Reach, ...]
    #: All roofs were measured on this card.
    calibrated: bool


def amounts_of(counters: CounterEvidence) -> Amounts | None:
    """What the counters say was moved and computed; None where they hold no duration."""
    duration = names.value(counters, names.DURATION)
    if not duration:
        return None
    moved: dict[MemoryLevel, float | None] = {
        "dram": _dram_bytes(counters, duration),
        "l2": _scaled(names.value(counters, names.L2_SECTORS), SECTOR_BYTES),
        "shared": _scaled(names.value(counters, names.L1_WRITEBACK), WRITEBACK_BYTES),
    }
    operations = {kind: names.total(counters, parts) for kind, parts in names.FLOP_COUNTERS.items()}
    operations["int32"] = names.value(counters, names.INTEGER_COUNTER)
    tensor = {f"tensor_{kind}": amount for kind, amount in names.tensor_operations(counters).items()}
    return Amounts(
        duration_ns=duration,
        moved={level: amount for level, amount in moved.items() if amount is not None},
        operations={k: v for k, v in {**operations, **tensor}.items() if v is not None},
    )


def _dram_bytes(counters: CounterEvidence, duration: float) -> float | None:
    read, written = (names.value(counters, n) for n in (names.DRAM_READ, names.DRAM_WRITE))
    if read is not None and written is not None:
        return read + written
    rate = names.value(counters, "dram__bytes.sum.per_second")
    return None if rate is None else rate * duration * 1e-9


def _scaled(amount: float | None, factor: float) -> float | None:
    return None if amount is None else amount * factor


def roofline_of(amounts: Amounts, gpu: Gpu) -> Roofline:
    """The kernel under this GPU's roofs."""
    seconds = amounts.duration_ns * 1e-9
    done: dict[str, float] = {**{str(k): v for k, v in amounts.moved.items()}, **amounts.operations}
    reaches = [
        _reach(name, amount / seconds, gpu.ceilings[name])
        for name, amount in done.items()
        if amount > 0 and name in gpu.ceilings
    ]
    computed = {k: v for k, v in amounts.operations.items() if v > 0 and k in gpu.ceilings}
    points = tuple(
        Point(level, kind, operations / moved, operations / seconds)
        for kind, operations in _shown(computed).items()
        for level, moved in amounts.moved.items()
        if moved > 0 and level in gpu.ceilings
    )
    shown = dict.fromkeys([*_shown(computed), "fp32"])
    used = [name for name in (*LEVELS, *shown) if name in gpu.ceilings]
    return Roofline(
        gpu=gpu.name,
        duration_ns=amounts.duration_ns,
        memory={level: gpu.ceilings[level].value for level in LEVELS if level in gpu.ceilings},
        compute={kind: gpu.ceilings[kind].value for kind in shown if kind in gpu.ceilings},
        points=points,
        reaches=tuple(sorted(reaches, key=lambda r: -r.share)),
        calibrated=all(gpu.ceilings[name].kind == "calibrated" for name in used),
    )


def _shown(operations: Mapping[str, float]) -> dict[str, float]:
    """Arithmetic worth a point: floating point where there is any, else integer."""
    floating = {k: v for k, v in operations.items() if k != "int32"}
    return floating or dict(operations)


def _reach(name: str, achieved: float, ceiling: Ceiling) -> Reach:
    share = achieved / ceiling.value
    return Reach(
        roof=name,
        achieved=achieved,
        ceiling=ceiling.value,
        unit=ceiling.unit,
        share=share,
        kind=ceiling.kind,
        headroom=1.0 / share if share > 0 else None,
    )
