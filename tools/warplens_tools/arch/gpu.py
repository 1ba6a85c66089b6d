# SPDX-License-Identifier: Apache-2.0
"""The GPU a kernel is judged against: limits from its architecture, ceilings with their source."""

from __future__ import annotations

from typing import Literal

import msgspec

#: What L2 gives of the rate of the SMs' ports, where it was not calibrated: an H200 gave 8.6 TB/s of the 16.7 TB/s
#: of its ports (docs/benchmarks/calibrate.json); the A100 whitepaper states 5120 bytes per cycle for 108 of 64.
L2_OF_PORTS = 0.5


#: Bytes of a sector, in which global memory moves, on every architecture ("CUDA C++ Best Practices Guide", "Coalesced
#: Access to Global Memory").
SECTOR_BYTES = 32
#: Nanoseconds from start to end of a kernel on the device, however little it does: an H200 took as long for each node
#: of a graph of small kernels (not in docs/benchmarks/costs.json yet).
SHORTEST_KERNEL_NS = 1_200.0


class Limits(msgspec.Struct, frozen=True):
    """What an architecture allows. Sizes in bytes; counts per streaming multiprocessor (SM) unless named."""

    warp_size: int
    max_threads_per_block: int
    max_threads: int
    max_warps: int
    max_blocks: int
    registers: int
    max_registers_per_thread: int
    register_allocation_unit: int
    warp_allocation_granularity: int
    shared_bytes: int
    max_shared_bytes_per_block: int
    #: Without an opt-in by cudaFuncSetAttribute.
    default_shared_bytes_per_block: int
    #: Taken from every block by the system.
    reserved_shared_bytes_per_block: int
    shared_allocation_unit: int
    shared_banks: int
    shared_bank_bytes: int
    cache_line_bytes: int
    #: Schedulers, each of which issues one warp instruction per cycle.
    schedulers: int


class Rates(msgspec.Struct, frozen=True):
    """Operations per cycle per SM (a fused multiply-add counts as one instruction here)."""

    fp64_fma: float
    fp32_fma: float
    fp16_fma: float
    int32: float
    sfu: float
    load_store: float
    #: Add, logic, compare and select.
    alu: float
    #: Bytes per cycle per SM of the data path of L1 and shared memory.
    l1_bytes: float
    #: Dense multiply-adds per cycle per SM by type name, e.g. {"bf16": 2048}.
    tensor_fma: dict[str, float] = {}


class Costs(msgspec.Struct, frozen=True):
    """What things cost that no rate tells, in SM cycles. Measured by `tests/bench/bench_costs.py`."""

    #: Of the whole card: one L2 slice's atomic on a sector; lanes that meet at a word take as many of them.
    atomic: float
    #: As `atomic`, where floating-point additions meet at one word: each waits for the sum before it.
    atomic_float: float
    #: Bytes of neighbouring addresses that one L2 slice serves.
    slice_bytes: int
    #: Of an SM: one lane's turn at a shared word, natively, and as a compare-and-swap among one warp's lanes.
    shared_atomic: float
    shared_swap: float
    #: The compare-and-swap takes (warps that share the word) to this power times as long.
    shared_swap_growth: float
    #: L2 time of a sector of which one word is written, and of each request besides, over that of a whole sector.
    partial_write: float
    partial_request: float
    #: Bytes that an L2 request for a single sector takes the time of.
    request_bytes: float
    #: Bytes that come from device memory for one missing sector, and whose time a line takes that stores leave partly
    #: unwritten: it is read, joined and written back, turn and turn about.
    fetch_bytes: int
    partial_line_bytes: float
    #: Cache lines that the L1 looks up at once.
    lines_at_once: float
    #: From a load to its value where many are on their way to device memory, and where the L2 has it.
    memory_wait: float
    l2_wait: float
    #: As these: where the L1 has it, and of shared memory and shuffles.
    l1_wait: float
    shared_wait: float
    #: Of a block at a barrier that its warps reach together: of any block, and more for each of its warps.
    barrier: float
    barrier_warp: float
    #: Of an SM: the constant cache's pass for one word, and what a miss takes more; bytes that the cache holds.
    constant_word: float
    constant_miss: float
    constant_cache_bytes: int
    #: Of the whole card: from one block's start to the next one's; and what a block's life takes beside its code.
    block_start: float
    block_life: float
    #: Nanoseconds from one asynchronous launch of the host to the next, and for which the device idles per wait of the
    #: host: the wait's return and the next launch's latency.
    launch_ns: float
    host_wait_ns: float
    #: Nanoseconds by which Nsight Compute's duration of a short launch exceeds that in the program, as caches are cold.
    cold_ns: float

    def barrier_clocks(self, warps: float) -> float:
        """Cycles of a block of so many warps at a barrier that they reach together."""
        return self.barrier + self.barrier_warp * warps


class Ceiling(msgspec.Struct, frozen=True):
    """One roof: a rate, its unit, and where it comes from."""

    value: float
    unit: str
    #: "derived" from attributes and per-architecture rates, or "calibrated" on this very card.
    kind: Literal["derived", "calibrated", "datasheet"]
    source: str


class Gpu(msgspec.Struct, frozen=True):
    """A GPU, or an architecture standing in for one that is not here.

    `ceilings` by name: "dram" (B/s), "l2" (B/s), "shared" (B/s), "fp64", "fp32", "fp16" (FLOP/s),
    "tensor_<type>" (FLOP/s), "sfu", "int32" (op/s).
    """

    name: str
    #: e.g. "sm_90".
    arch: str
    limits: Limits
    rates: Rates
    costs: Costs
    multiprocessors: int
    clock_hz: float
    l2_bytes: int
    memory_bytes: int
    ceilings: dict[str, Ceiling]
    #: False where it stands in for a card that is not in this machine.
    present: bool = False
    uuid: str = ""
    driver: str = ""

    @property
    def schedulers(self) -> int:
        """Warp schedulers of the whole card."""
        return self.limits.schedulers * self.multiprocessors

    @property
    def dram_bytes_per_clock(self) -> float:
        """One SM's share of the DRAM roof, in bytes per SM cycle."""
        return self.ceilings["dram"].value / self.clock_hz / self.multiprocessors

    @property
    def needed_bytes(self) -> float:
        """Bytes in flight for one SM's share of the DRAM roof: that share times the latency (Little's law)."""
        return self.costs.memory_wait * self.dram_bytes_per_clock

    @property
    def l2_bytes_per_clock(self) -> float:
        """One SM's share of the L2 roof, in bytes per SM cycle; of a derived roof what L2s reach of it."""
        roof = self.ceilings["l2"]
        reached = roof.value if roof.kind == "calibrated" else roof.value * L2_OF_PORTS
        return reached / self.clock_hz / self.multiprocessors

    def ridge(self, compute: str = "fp32", memory: str = "dram") -> float | None:
        """Operations per byte where the memory roof meets the compute roof; None if either is unknown."""
        top, slope = self.ceilings.get(compute), self.ceilings.get(memory)
        return None if top is None or slope is None else top.value / slope.value
