"""What was observed about a kernel, by tier.

A tier is a kind of evidence with its own cost and needs: `source` (tree-sitter, milliseconds, while
typing), `binary` (ptxas and SASS, on save, no GPU), `timing` (the kernel timed in the user's own
program), `counters` (Nsight Compute), `timeline` (Nsight Systems or CUPTI). What was not observed is
absent (`None`, or no such key), never zero.
"""

from __future__ import annotations

from typing import Literal

import msgspec

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


class CounterEvidence(msgspec.Struct, frozen=True):
    """What Nsight Compute read for one launch. Metric names are Nsight Compute's own."""

    origin: str
    kernel_name: str
    gpu_name: str
    compute_capability: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, float]
    #: Units as the report gives them, by metric name.
    units: dict[str, str] = {}
    #: Per source line: metric name to value (stall samples, sectors, …).
    lines: dict[int, dict[str, float]] = {}


class KernelEvidence(msgspec.Struct, frozen=True):
    """Everything known about one kernel beyond its source; absent tiers are None or empty."""

    compiled: tuple[CompiledKernel, ...] = ()
    binary: BinaryEvidence | None = None
    timing: LaunchTiming | None = None
    counters: CounterEvidence | None = None

    @property
    def worst(self) -> CompiledKernel | None:
        """The instantiation that spills most, then takes most registers."""
        return max(
            self.compiled,
            key=lambda k: (
                k.resources.spill_store_bytes + k.resources.spill_load_bytes,
                k.resources.registers,
            ),
            default=None,
        )
