# SPDX-License-Identifier: Apache-2.0
"""What was observed about a kernel, by tier.

A tier is a kind of evidence with its own cost and needs: `source` (tree-sitter, milliseconds, while
typing), `binary` (ptxas and SASS, on save, no GPU), `timing` (the kernel timed in the user's own
program), `counters` (Nsight Compute), `timeline` (Nsight Systems or CUPTI). What was not observed is
absent (`None`, or no such key), never zero.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

#: Threads that a block may have on every architecture (CUDA C++ Programming Guide, "Compute Capabilities").
MOST_THREADS = 1024
_DOUBLE = re.compile(r"\bdouble\b")
Tier = Literal["source", "binary", "timing", "counters", "timeline"]
TIERS: tuple[Tier, ...] = ("source", "binary", "timing", "counters", "timeline")


class Observation(msgspec.Struct, frozen=True, omit_defaults=False):
    """One thing a finding rests on: what was seen, by which tool, against which threshold."""

    tier: Tier
    #: Tool and version that saw it, e.g. "ptxas 13.0.88", "ncu 2025.3.1", "tree-sitter".
    origin: str
    #: A field term or the tool's own metric name, e.g. "spill stores", "registers per thread".
    metric: str
    value: float | str
    unit: str = ""
    #: The value it was compared with, if any, and where that comes from.
    threshold: float | str | None = None
    source: str = ""


class Unknown(msgspec.Struct, frozen=True):
    """Something that was not established: what, why not, and what would establish it."""

    what: str
    why: str
    remedy: str = ""
    #: Whether it was asked for, by name or by a setting, and could not be done: a command then exits with 2.
    failed: bool = False


class SourceLine(msgspec.Struct, frozen=True, order=True):
    """A line of a source file as the compiler's line table names it (1-based)."""

    path: str
    line: int


class Instruction(msgspec.Struct, frozen=True):
    """One SASS instruction.

    `lines` is its inline chain, innermost first: the line that the instruction came from, then the
    call sites it was inlined through, ending in the kernel's own body.
    """

    address: int
    #: Opcode without modifiers, e.g. "LDG".
    opcode: str
    #: Modifiers without dots, e.g. ("E", "128", "CONSTANT").
    modifiers: tuple[str, ...]
    #: Operands as printed, e.g. ("R4", "[R2.64+0x10]").
    operands: tuple[str, ...]
    #: Guard as printed, e.g. "@!P0"; "" when unconditional.
    predicate: str = ""
    lines: tuple[SourceLine, ...] = ()
    #: Address a branch or call goes to, where the label lies in the same function; None otherwise.
    target: int | None = None
    #: nvdisasm marks it as a register spill or its refill.
    spill: bool = False
    #: General-purpose registers live at the instruction, its own results included, as nvdisasm counts them.
    live_registers: int | None = None


class Resources(msgspec.Struct, frozen=True):
    """What one compiled kernel takes, as ptxas reports it. Bytes unless named otherwise."""

    registers: int
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    #: Statically allocated, without the 1 KB per block that the driver reserves from sm_80 on.
    shared_bytes: int = 0
    constant_bytes: int = 0
    barriers: int = 0


class CompiledKernel(msgspec.Struct, frozen=True):
    """One entry function of a cubin: one instantiation of a kernel for one architecture."""

    mangled: str
    #: Demangled in full, e.g. "void ns::scale<float, 4>(float*, int)".
    demangled: str
    #: Name without template arguments, parameters or return type, e.g. "ns::scale".
    qualified_name: str
    arch: str
    resources: Resources
    #: Empty until the unit was disassembled.
    instructions: tuple[Instruction, ...] = ()
    #: Values of `__launch_bounds__` as compiled, where present.
    max_threads: int | None = None

    @property
    def is_double(self) -> bool:
        """Whether a template argument or a parameter of it is double."""
        return _DOUBLE.search(self.demangled) is not None


class CompilerMessage(msgspec.Struct, frozen=True):
    """One diagnostic of nvcc or ptxas. `line` is 0 where the tool names no source line."""

    severity: Literal["error", "warning", "information"]
    text: str
    path: str = ""
    line: int = 0
    column: int = 0
    #: ptxas' and nvcc's own number, e.g. "C7510", "#20012-D"; "" when there is none.
    code: str = ""
    #: Mangled name of the function it speaks of, where it names one.
    function: str = ""


class BinaryEvidence(msgspec.Struct, frozen=True):
    """One compiled translation unit."""

    path: str
    arch: str
    #: e.g. "nvcc 13.0.88".
    origin: str
    flags: tuple[str, ...]
    kernels: tuple[CompiledKernel, ...]
    messages: tuple[CompilerMessage, ...] = ()
    disassembled: bool = False
    #: Files the unit was built from, itself first, absolute.
    dependencies: tuple[str, ...] = ()
    cubin_path: str = ""
    ptx_path: str = ""


class LaunchTiming(msgspec.Struct, frozen=True):
    """Durations of one kernel's launches in the user's own program."""

    #: e.g. "CUPTI activity 13.0".
    origin: str
    launches: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    median_ns: float
    low_ns: float
    high_ns: float
    #: This kernel's share of the program's total kernel time, 0 to 1.
    share: float | None = None


class InstructionCounters(msgspec.Struct, frozen=True):
    """One SASS instruction of a profiled kernel with what Nsight Compute counted at it."""

    #: Bytes from the kernel's first instruction.
    offset: int
    #: As the report prints it, e.g. "LDG.E R2, desc[UR4][R2.64]".
    text: str
    #: Where the report's line table puts it; None where the report holds no line table.
    place: SourceLine | None
    values: dict[str, float]


class Advice(msgspec.Struct, frozen=True):
    """One rule of Nsight Compute that spoke, in its own words."""

    rule: str
    section: str
    message: str
    #: Its own estimate of the time to be saved, 0 to 100; None where it gives none.
    speedup_percent: float | None = None


class CounterEvidence(msgspec.Struct, frozen=True):
    """What Nsight Compute read for one launch. Metric names are Nsight Compute's own."""

    origin: str
    kernel_name: str
    gpu_name: str
    compute_capability: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    #: In base units: bytes, nanoseconds for durations, per-second rates.
    metrics: dict[str, float]
    #: Units as the report gives them, by metric name.
    units: dict[str, str] = {}
    #: Per source line: metric name to value (stall samples, sectors, …).
    lines: dict[int, dict[str, float]] = {}
    #: Share of the sampled warps that were stalled, by reason, 0 to 1; empty where nothing was sampled.
    stalls: dict[str, float] = {}
    #: Samples of stalled warps that the shares rest on; None where they come from counters of every cycle.
    stall_samples: float | None = None
    #: "" where the report does not tell.
    mangled: str = ""
    #: Launches of this kernel in the report; the one shown has the median duration of the heaviest shape.
    launches: int = 1
    instructions: tuple[InstructionCounters, ...] = ()
    advice: tuple[Advice, ...] = ()
    #: Replay passes the collection took; None where the report does not tell.
    passes: int | None = None

    def seen(
        self,
        metric: str,
        value: float,
        threshold: float | None = None,
        *,
        unit: str = "",
        source: str = "",
        digits: int = 3,
    ) -> Observation:
        """Something that these counters show, with so many digits behind the point."""
        bound = round(threshold, 3) if threshold is not None else None
        return Observation("counters", self.origin, metric, round(value, digits), unit, bound, source)


class KernelTotal(msgspec.Struct, frozen=True):
    """One kernel of a timeline. Times in nanoseconds."""

    name: str
    launches: int
    total_ns: float
    median_ns: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int | None = None


class TransferTotal(msgspec.Struct, frozen=True):
    """Copies of one direction between one pair of memory kinds."""

    #: e.g. "host to device".
    direction: str
    #: Kind of the host side: "pageable", "pinned", "managed", or "" where the tool does not tell.
    host_memory: str
    count: int
    bytes: int
    total_ns: float
    #: Copies of at most 64 KiB, where the fixed cost of a copy exceeds the time of its bytes on PCIe.
    small_count: int
    small_ns: float
    #: Copies during which nothing else ran on the device.
    serial_count: int
    serial_ns: float


class CallTotal(msgspec.Struct, frozen=True):
    """Host calls of one name, e.g. "cudaDeviceSynchronize"."""

    name: str
    count: int
    total_ns: float


class Gap(msgspec.Struct, frozen=True):
    """A stretch in which the device did nothing, between two of its activities."""

    start_ns: float
    length_ns: float
    after: str
    before: str
    #: "launch": the next call was already under way; "synchronisation": the host came out of a wait first;
    #: "host": the host was busy elsewhere; "unknown": the calls were not recorded.
    cause: Literal["launch", "synchronisation", "host", "unknown"]


class TimelineEvidence(msgspec.Struct, frozen=True):
    """What a program did on one device over time. Times in nanoseconds."""

    origin: str
    gpu_name: str
    #: From the first device activity to the end of the last.
    span_ns: float
    #: Union of all device activities.
    busy_ns: float
    kernels: tuple[KernelTotal, ...]
    transfers: tuple[TransferTotal, ...] = ()
    synchronisations: tuple[CallTotal, ...] = ()
    launches: CallTotal | None = None
    #: Idle time by cause, and the longest gaps.
    idle_ns: dict[str, float] = {}
    gaps: tuple[Gap, ...] = ()


class KernelEvidence(msgspec.Struct, frozen=True):
    """Everything known about one kernel beyond its source; absent tiers are None or empty."""

    compiled: tuple[CompiledKernel, ...] = ()
    binary: BinaryEvidence | None = None
    timing: LaunchTiming | None = None
    counters: CounterEvidence | None = None
    timeline: TimelineEvidence | None = None

    @property
    def worst(self) -> CompiledKernel | None:
        """The instantiation that spills most, then takes most registers; of double only where there is no other, for a
        kernel that is made for both is written for the narrower type's speed. One whose launch bounds are above what
        a block may have is compiled for completeness' sake and never launched: it counts where there is no other."""
        launched = [k for k in self.compiled if (k.max_threads or 0) <= MOST_THREADS] or self.compiled
        return max(
            [k for k in launched if not k.is_double] or launched,
            key=lambda k: (
                k.resources.spill_store_bytes + k.resources.spill_load_bytes,
                k.resources.registers,
            ),
            default=None,
        )
