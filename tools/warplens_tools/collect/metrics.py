# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute's metric names: one spelling for each across versions and report pages, and what to ask for.

Reports keep Nsight Compute's own names. Where versions or architectures spell one thing differently the
first entry of `_SPELLINGS` is the one used everywhere else in Warplens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from warplens_tools.evidence import CounterEvidence

PCT = ".avg.pct_of_peak_sustained_elapsed"

DURATION = "gpu__time_duration.sum"
SM_THROUGHPUT = "sm__throughput" + PCT
MEMORY_THROUGHPUT = "gpu__compute_memory_throughput" + PCT
DRAM_THROUGHPUT = "gpu__dram_throughput" + PCT
L2_THROUGHPUT = "lts__throughput" + PCT
DRAM_READ = "dram__bytes_read.sum"
DRAM_WRITE = "dram__bytes_write.sum"
L2_SECTORS = "lts__t_sectors.sum"
L2_HIT_RATE = "lts__t_sector_hit_rate.pct"
L1_HIT_RATE = "l1tex__t_sector_hit_rate.pct"
GLOBAL_LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
GLOBAL_LOAD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
GLOBAL_STORE_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
GLOBAL_STORE_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
#: Cycles in which L1 returned load data, 128 bytes each: the traffic of Nsight Compute's own L1 roofline.
L1_WRITEBACK = "l1tex__lsu_writeback_active_mem_lgds.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
ISSUE_ACTIVE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
ELIGIBLE_WARPS = "smsp__warps_eligible.avg.per_cycle_active"
ACHIEVED_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
THEORETICAL_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
SM_CYCLES = "sm__cycles_elapsed.avg"
SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
THREADS_PER_INSTRUCTION = "smsp__thread_inst_executed_per_inst_executed.ratio"
REGISTERS = "launch__registers_per_thread"
WAVES = "launch__waves_per_multiprocessor"
SAMPLES = "smsp__pcsamp_sample_count"
PASSES = "profiler__replayer_passes"
SM_COUNT = "launch__sm_count"

#: Executed operations per thread instruction: fused multiply-adds count two, packed halves two each.
FLOP_COUNTERS: dict[str, tuple[tuple[str, float], ...]] = {
    kind: tuple(
        (f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum", weight * pack)
        for op, weight in (("add", 1.0), ("mul", 1.0), ("fma", 2.0))
    )
    for kind, letter, pack in (("fp64", "d", 1.0), ("fp32", "f", 1.0), ("fp16", "h", 2.0))
}
#: Arithmetic pipes and instruction issue, in % of peak. `sm__throughput` would say the largest of these and of
#: two dozen more, for nine replay passes instead of one.
COMPUTE_PIPES = {
    "instruction issue": "sm__inst_executed" + PCT,
    "ALU": "sm__inst_executed_pipe_alu" + PCT,
    "FMA": "sm__pipe_fma_cycles_active" + PCT,
    "FP64": "sm__pipe_fp64_cycles_active" + PCT,
    "tensor": "sm__pipe_tensor_cycles_active" + PCT,
    "XU": "sm__inst_executed_pipe_xu" + PCT,
}
#: Cycles in which the indexed constant cache served requests, one word of a warp's each. No throughput of the
#: memory system includes it; asked for only where the SASS indexes constants.
CONSTANT_CACHE = "idc__request_cycles_active" + PCT
#: The parts of the memory system that name the culprit, in % of peak. `gpu__compute_memory_throughput` would
#: say the largest of these and of a dozen more, for six replay passes.
MEMORY_PARTS = {
    "DRAM": DRAM_THROUGHPUT,
    "L2": "lts__t_sectors" + PCT,
    "L2 requests": "lts__xbar2lts_cycles_active" + PCT,
    "L1 and shared-memory data": "l1tex__data_pipe_lsu_wavefronts" + PCT,
    "L1 requests": "l1tex__lsuin_requests" + PCT,
    "constant cache": CONSTANT_CACHE,
}
#: Cycles in which the atomic unit of an L2 slice took a request: of the busiest slice, and of the average one.
#: All atomics on one address meet in one slice. Asked for only where the SASS has global atomics.
BUSIEST_ATOMICS = "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed"
MEAN_ATOMICS = "lts__d_atomic_input_cycles_active" + PCT
#: Cycles in which an SM had a warp: on average, and of the SM that had one longest.
SM_ACTIVE = "sm__cycles_active.avg"
SM_ACTIVE_MOST = "sm__cycles_active.max"
INTEGER_COUNTER = "smsp__sass_thread_inst_executed_op_integer_pred_on.sum"
_TENSOR = re.compile(
    r"^sm__ops_path_tensor_src_(bf16|fp16|tf32|fp64|fp8|fp6|fp4|int8|int4|int1)"
    r"(?:_fp\d+)*(?:_dst_\w+?)?(?:_sparsity_(on|off))?\.sum$"
)

Need = Literal["roofline", "memory", "scheduling", "lines"]
#: What each kind of micro-profiling tool reads; the union of the needs in hand is all that is collected.
NEEDS: dict[Need, tuple[str, ...]] = {
    "roofline": (
        DURATION, *COMPUTE_PIPES.values(), *(part for part in MEMORY_PARTS.values() if part != CONSTANT_CACHE),
        DRAM_READ, DRAM_WRITE, L2_SECTORS, L1_WRITEBACK, SM_CLOCK, ISSUE_ACTIVE, ACHIEVED_OCCUPANCY,
        THEORETICAL_OCCUPANCY, REGISTERS, WAVES, SM_COUNT,
        *(name for counters in FLOP_COUNTERS.values() for name, _ in counters), INTEGER_COUNTER,
    ),
    "memory": (
        L1_HIT_RATE, L2_HIT_RATE, GLOBAL_LOAD_SECTORS, GLOBAL_LOAD_REQUESTS, GLOBAL_STORE_SECTORS,
        GLOBAL_STORE_REQUESTS,
    ),
    "scheduling": (INSTRUCTIONS, ELIGIBLE_WARPS, THREADS_PER_INSTRUCTION, SM_ACTIVE, SM_ACTIVE_MOST),
    "lines": (
        SAMPLES, "group:smsp__pcsamp_warp_stall_reasons", "inst_executed", "thread_inst_executed",
        "thread_inst_executed_true", "memory_l2_theoretical_sectors_global",
        "memory_l2_theoretical_sectors_global_ideal", "memory_l2_theoretical_sectors_local",
        "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal",
    ),
}  # fmt: skip
#: Tensor counters, asked for only where the SASS has matrix instructions; compute capability 9 and later.
TENSOR_METRICS = (
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16.sum",
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp64.sum",
    "sm__ops_path_tensor_src_int8.sum",
)
#: Asked for only where the SASS has global atomics, or indexes constants.
ATOMIC_METRICS = (BUSIEST_ATOMICS, MEAN_ATOMICS)
CONSTANT_METRICS = (CONSTANT_CACHE,)

STALL_REASONS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instructions", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait", "warpgroup_arrive",
)  # fmt: skip
#: A warp that issues, or could have, is not stalled.
ISSUING = frozenset({"selected", "not_selected"})
_STALL_SPELLINGS = {
    "dispatch": "dispatch_stall", "imc": "imc_miss", "lg": "lg_throttle", "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle", "mio": "mio_throttle", "no_inst": "no_instructions",
    "no_instruction": "no_instructions", "short_sb": "short_scoreboard", "sleep": "sleeping",
    "tex": "tex_throttle", "gmma": "warpgroup_arrive", "vote_arrive": "warpgroup_arrive",
}  # fmt: skip
_SPELLINGS: dict[str, tuple[str, ...]] = {
    DRAM_THROUGHPUT: ("dram__throughput" + PCT,),
    MEMORY_THROUGHPUT: ("gpu__compute_memory_request_throughput" + PCT,),
    DURATION: ("gpu__time_duration.avg", "gpu__time_duration_measured_user.sum"),
    L1_HIT_RATE: ("l1tex__average_t_sector_hit_rate.pct", "l1tex__average_t_sectors_hit_rate.pct"),
    L2_HIT_RATE: ("lts__average_t_sector_hit_rate.pct",),
    DRAM_READ: ("dram__bytes_op_read.sum",),
    DRAM_WRITE: ("dram__bytes_op_write.sum",),
    L2_SECTORS: ("lts__t_sectors_op_all.sum",),
    SM_CLOCK: ("smsp__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second"),
    SM_CYCLES: ("smsp__cycles_elapsed.avg", "gpc__cycles_elapsed.avg"),
    SM_COUNT: ("device__attribute_multiprocessor_count",),
    INSTRUCTIONS: ("sm__inst_executed.sum", "inst_executed"),
}
#: Columns of the source page to the metric each shows.
SOURCE_COLUMNS = {
    "# Samples": SAMPLES,
    "Samples": SAMPLES,
    "Sampling Data (All)": SAMPLES,
    "Warp Stall Sampling (All Samples)": SAMPLES,
    "Warp Stall Sampling (All Cycles)": SAMPLES,
    "Sampling Data (Not Issued)": "smsp__pcsamp_sample_count_not_issued",
    "Warp Stall Sampling (Not-issued Samples)": "smsp__pcsamp_sample_count_not_issued",
    "Warp Stall Sampling (Not-issued Cycles)": "smsp__pcsamp_sample_count_not_issued",
    "Instructions Executed": "inst_executed",
    "Thread Instructions Executed": "thread_inst_executed",
    "Predicated-On Thread Instructions Executed": "thread_inst_executed_true",
    "L1 Tag Requests Global": "memory_l1_tag_requests_global",
    "L1 Wavefronts Shared": "memory_l1_wavefronts_shared",
    "L1 Wavefronts Shared Ideal": "memory_l1_wavefronts_shared_ideal",
    "L1 Wavefronts Shared Excessive": "derived__memory_l1_wavefronts_shared_excessive",
    "L1 Conflicts Shared N-Way": "derived__memory_l1_conflicts_shared_nway",
    "L2 Theoretical Sectors Global": "memory_l2_theoretical_sectors_global",
    "L2 Theoretical Sectors Global Ideal": "memory_l2_theoretical_sectors_global_ideal",
    "L2 Theoretical Sectors Global Excessive": "derived__memory_l2_theoretical_sectors_global_excessive",
    "L2 Theoretical Sectors Local": "memory_l2_theoretical_sectors_local",
}
#: Labels of the details page whose metric is the same in every version that prints them.
DETAIL_LABELS = {
    ("Duration", "time"): DURATION,
    ("Compute (SM) Throughput", "%"): SM_THROUGHPUT,
    ("SM [%]", "%"): SM_THROUGHPUT,
    ("Memory Throughput", "%"): MEMORY_THROUGHPUT,
    ("Memory [%]", "%"): MEMORY_THROUGHPUT,
    ("DRAM Throughput", "%"): DRAM_THROUGHPUT,
    ("L2 Cache Throughput", "%"): L2_THROUGHPUT,
    ("Memory Throughput", "rate"): "dram__bytes.sum.per_second",
    ("L1/TEX Hit Rate", "%"): L1_HIT_RATE,
    ("L2 Hit Rate", "%"): L2_HIT_RATE,
    ("SM Frequency", "rate"): SM_CLOCK,
    ("Elapsed Cycles", "cycle"): "gpc__cycles_elapsed.max",
    ("Registers Per Thread", ""): REGISTERS,
    ("Waves Per SM", ""): WAVES,
    ("Achieved Occupancy", "%"): ACHIEVED_OCCUPANCY,
    ("Theoretical Occupancy", "%"): THEORETICAL_OCCUPANCY,
    ("Issue Slots Busy", "%"): "sm__inst_issued.avg.pct_of_peak_sustained_active",
    ("Eligible Warps Per Scheduler", ""): ELIGIBLE_WARPS,
    ("Executed Instructions", ""): INSTRUCTIONS,
    ("Avg. Active Threads Per Warp", ""): THREADS_PER_INSTRUCTION,
}
#: Counted by instruction: sectors that global and local accesses ask of L2 if nothing hits L1, and wavefronts of
#: shared memory; with "_ideal" the fewest that hold what the lanes want.
GLOBAL_SECTORS = "memory_l2_theoretical_sectors_global"
LOCAL_SECTORS = "memory_l2_theoretical_sectors_local"
SHARED_WAVEFRONTS = "memory_l1_wavefronts_shared"
#: Executed instructions, by instruction.
PER_INSTRUCTION = ("inst_executed", "thread_inst_executed", "thread_inst_executed_true")
_RENAMED = {old: new for new, olds in _SPELLINGS.items() for old in olds}
_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0}
_TIME = re.compile(r"^([nuµm]?)(?:seconds?|s)$")
_SCALED = re.compile(r"^([KMGTP])(byte|bytes|hz|inst|sector|sectors|thread|request|warp|block|cycle)$", re.I)


def stall_name(text: str) -> str:
    """The one name of a stall reason, from any spelling: "stall_long_sb" gives "long_scoreboard"."""
    short = text.removeprefix("stall_")
    return _STALL_SPELLINGS.get(short, short)


def column_name(label: str) -> str | None:
    """The metric behind a column of the source page; None for columns that hold no counter.

    A report of named metrics, without sections, has the metrics' own names for labels.
    """
    if label.startswith(("smsp__pcsamp_", "memory_l")) or label in PER_INSTRUCTION:
        return label
    if label.startswith("stall_") and "(" not in label:
        return f"smsp__pcsamp_warps_issue_stalled_{stall_name(label)}"
    return SOURCE_COLUMNS.get(label)


def to_base(value: float, unit: str) -> tuple[float, str]:
    """A value in base units: bytes, nanoseconds, hertz, and per second; unknown units are kept."""
    numerator, _, denominator = unit.strip().partition("/")
    factor = 1.0
    if scaled := _SCALED.match(numerator):
        factor *= _PREFIX[scaled[1].upper()]
        numerator = scaled[2].lower()
    elif time := _TIME.match(numerator):
        factor *= _SECONDS[time[1]] * 1e9
        numerator = "ns"
    if time := _TIME.match(denominator):
        factor /= _SECONDS[time[1]]
        denominator = "s"
    if (numerator, denominator) == ("cycle", "s"):
        numerator, denominator = "hz", ""
    return value * factor, numerator + ("/" + denominator if denominator else "")


def canonical(metrics: Mapping[str, float]) -> dict[str, float]:
    """The same metrics under the spelling used here; a value already there under it wins."""
    result = dict(metrics)
    for name, value in metrics.items():
        renamed = _RENAMED.get(name)
        if renamed is not None:
            result.setdefault(renamed, value)
    for reason in ("no_instruction", "gmma"):
        for name, value in metrics.items():
            if f"stalled_{reason}_" in name or name.endswith(f"stalled_{reason}"):
                result.setdefault(name.replace(f"stalled_{reason}", f"stalled_{stall_name(reason)}"), value)
    return result


def value(counters: CounterEvidence, name: str) -> float | None:
    """A metric; sums that a report gives only per cycle are multiplied out. None where it was not read."""
    found = counters.metrics.get(name)
    if found is None and name.endswith(".sum"):
        per_cycle = counters.metrics.get(name + ".per_cycle_elapsed")
        cycles = counters.metrics.get(SM_CYCLES)
        found = per_cycle * cycles if per_cycle is not None and cycles is not None else None
    return found


def memory_throughput(counters: CounterEvidence) -> tuple[float, str] | None:
    """% of peak of the memory system, and its busiest part; None if nothing of it was read.

    Nsight Compute's own figure where the report has it, else the busiest of `MEMORY_PARTS`; either way the
    constant cache where that is busier, which its figure leaves out.
    """
    read = {name: value(counters, metric) for name, metric in MEMORY_PARTS.items()}
    known = {name: share for name, share in read.items() if share is not None}
    top = max(known, key=lambda name: known[name], default="")
    whole = value(counters, MEMORY_THROUGHPUT)
    if whole is not None:
        return max(whole, known.get(top, 0.0)), top
    return (known[top], top) if known else None


def busiest_slice(counters: CounterEvidence) -> tuple[float, float] | None:
    """Busy share of the busiest L2 slice's atomic unit and of the average one's, 0 to 1; None where not read."""
    most, mean = value(counters, BUSIEST_ATOMICS), value(counters, MEAN_ATOMICS)
    return None if most is None or mean is None else (most / 100, mean / 100)


def l2_throughput(counters: CounterEvidence) -> float | None:
    """% of peak of the L2: Nsight Compute's own figure where the report has it, else its busier part."""
    whole = value(counters, L2_THROUGHPUT)
    if whole is not None:
        return whole
    parts = [value(counters, MEMORY_PARTS[name]) for name in ("L2", "L2 requests")]
    return max((share for share in parts if share is not None), default=None)


def compute_throughput(counters: CounterEvidence) -> tuple[float, str] | None:
    """% of peak of the busiest arithmetic pipe or of instruction issue, and its name; None if none was read.

    A report with `sm__throughput` and without the pipes gives that.
    """
    read = {name: value(counters, metric) for name, metric in COMPUTE_PIPES.items()}
    known = {name: share for name, share in read.items() if share is not None}
    if not known:
        whole = value(counters, SM_THROUGHPUT)
        return None if whole is None else (whole, "the SM")
    top = max(known, key=lambda name: known[name])
    return known[top], top


def total(counters: CounterEvidence, names: Iterable[tuple[str, float]]) -> float | None:
    """A weighted sum; None unless every metric was read."""
    parts = [(value(counters, name), weight) for name, weight in names]
    return None if any(v is None for v, _ in parts) else sum((v or 0.0) * w for v, w in parts)


def tensor_operations(counters: CounterEvidence) -> dict[str, float]:
    """Operations of the tensor pipes by source type, e.g. {"bf16": 1.1e12}; types that did nothing are absent."""
    found: dict[str, float] = {}
    for name, amount in counters.metrics.items():
        match = _TENSOR.match(name)
        if match and amount > 0:
            found[match[1]] = max(found.get(match[1], 0.0), amount)
    return found


def stall_samples(metrics: Mapping[str, float]) -> float | None:
    """Samples of stalled warps, where the shares come from samples."""
    read = [
        metrics.get(f"smsp__pcsamp_warps_issue_stalled_{r}", 0.0) for r in STALL_REASONS if r not in ISSUING
    ]
    return sum(read) or None


def stall_shares(metrics: Mapping[str, float]) -> dict[str, float]:
    """Share of stalled warps by reason, 0 to 1, largest first, from samples or from cycles per issue.

    Warps that issued or were ready to (`selected`, `not_selected`) are not stalled and are left out.
    """
    for pattern in (
        "smsp__pcsamp_warps_issue_stalled_{}",
        "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio",
        "smsp__average_warp_latency_issue_stalled_{}.ratio",
        "smsp__average_warps_issue_stalled_{}_per_issue_active",
    ):
        read = {r: metrics.get(pattern.format(r)) for r in STALL_REASONS if r not in ISSUING}
        amounts = {r: v for r, v in read.items() if v is not None and v > 0}
        whole = sum(amounts.values())
        if whole > 0:
            return {r: v / whole for r, v in sorted(amounts.items(), key=lambda item: -item[1])}
    return {}
