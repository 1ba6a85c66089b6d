"""A measurement confirms, refines or withdraws what the tools say, on recorded reports and built timelines."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warplens_tools.arch.gpu import Ceiling, Gpu
from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu_csv import parse_csv
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.profiled import counter_evidence
from warplens_tools.collect.report_gpu import report_gpu
from warplens_tools.collect.timeline import Activity, HostCall, build_timeline
from warplens_tools.collect.toolchain import resolve_toolchain
from warplens_tools.evidence import (
    CounterEvidence,
    InstructionCounters,
    KernelEvidence,
    Observation,
    TimelineEvidence,
)
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro import (
    aliasing_reload,
    at_the_roof,
    barrier_heavy,
    divergent_constant_access,
    excess_barriers,
    global_atomic_contention,
    grid_too_small,
    host_sync_in_loop,
    integer_division,
    l2_thrashing,
    launch_overhead,
    local_memory_array,
    low_ilp,
    missing_cache_reuse,
    non_fused_arithmetic,
    occupancy_registers,
    pageable_transfer,
    register_spills,
    scalar_access,
    serial_copies,
    shared_atomic_contention,
    shared_bank_conflicts,
    tensor_cores_unused,
    uncoalesced_global_write,
    unoverlapped_copy,
    warp_divergence,
    wave_quantization,
    wgmma_serialized,
)
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common import room
from warplens_tools.testing import faults_of, views
from warplens_tools.text import SourceText, Span
from warplens_tools.view import KernelView

REPORTS = Path(__file__).parents[2] / "data" / "reports"
PROGRAM = (REPORTS / "saxpy_transpose.cu").read_text("utf-8")
RAW = parse_csv((REPORTS / "saxpy_transpose.raw.csv").read_text("utf-8"))
STREAM = """
constexpr int kPart = 1 << 20;
__global__ void halve(float *out, const float *in) { int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = in[i]; }
void run(float *out, float *in, int count, cudaStream_t stream)
{
    float *host = (float *)malloc(count * kPart * sizeof(float));
    for (int p = 0; p < count; ++p) {
        cudaMemcpyAsync(in, host + p * kPart, kPart * sizeof(float), cudaMemcpyHostToDevice, stream);
        halve<<<kPart / 256, 256, 0, stream>>>(out, in);
        cudaMemcpyAsync(host + p * kPart, out, kPart * sizeof(float), cudaMemcpyDeviceToHost, stream);
    }
}
"""


@pytest.fixture(scope="module")
def transposed() -> CounterEvidence:
    """The recorded transpose, tied to the lines of its program."""
    evidence = counter_evidence(read_report(REPORTS / "tr.ncu-rep", toolchain=resolve_toolchain())[0])
    line: dict[str, float] = {}
    for instruction in evidence.instructions:
        for name, value in instruction.values.items():
            line[name] = line.get(name, 0.0) + value
    return msgspec.structs.replace(evidence, lines={3: line})


def view_of(
    name: str,
    *,
    text: str = PROGRAM,
    counters: CounterEvidence | None = None,
    timeline: TimelineEvidence | None = None,
) -> KernelView:
    view = next(v for v in views(text) if v.kernel.name == name)
    return msgspec.structs.replace(view, evidence=KernelEvidence(counters=counters, timeline=timeline))


def said_of(view: KernelView, tool: MicroTool, line: int = 3) -> Finding:
    """A finding of the tool as the binary tier would have it."""
    seen = (Observation("binary", "nvcc 13.0", "a figure", 1.0),)
    return Finding(
        tool.code, tool.slug, view.kernel.qualified_name, Span(line, 1, line, 9), "warning", "medium", "It is so.",
        "Change it.", seen, Gain(3.0, 1.0, 9.0),
    )  # fmt: skip


def judged(tool: MicroTool, view: KernelView) -> Finding | None:
    assert tool.judge is not None
    return tool.judge(view, said_of(view, tool))


def test_sectors_that_were_counted_confirm_an_uncoalesced_store(transposed: CounterEvidence) -> None:
    view = view_of("tr", counters=transposed)
    (finding,) = uncoalesced_global_write.TOOL.run(view)
    assert finding.confidence == "high"
    assert finding.evidence[-1].tier == "counters"
    assert finding.evidence[-1].value == pytest.approx(4.5, rel=0.01)
    assert not faults_of(finding, uncoalesced_global_write.TOOL, SourceText(PROGRAM))


def test_sectors_that_were_not_wasted_withdraw_it(transposed: CounterEvidence) -> None:
    line = transposed.lines[3]
    ideal = {"memory_l2_theoretical_sectors_global_ideal": line["memory_l2_theoretical_sectors_global"]}
    even = msgspec.structs.replace(transposed, lines={3: line | ideal})
    assert uncoalesced_global_write.TOOL.run(view_of("tr", counters=even)) == []


def test_a_gain_is_what_was_wasted_of_the_time_that_waits_for_it(transposed: CounterEvidence) -> None:
    view = view_of("tr", counters=transposed)
    finding = judged(uncoalesced_global_write.TOOL, view)
    assert finding is not None
    assert finding.gain is not None
    waits = sum(transposed.stalls.get(reason, 0.0) for reason in room.GLOBAL_STALLS)
    assert finding.gain.estimate == pytest.approx(1 / (1 - waits * (1 - 1 / 4.5)), abs=0.01)
    assert finding.gain.estimate < 4.5


CONTRADICTED = (
    register_spills.TOOL, local_memory_array.TOOL, l2_thrashing.TOOL, warp_divergence.TOOL, barrier_heavy.TOOL,
    low_ilp.TOOL, excess_barriers.TOOL,
)  # fmt: skip


@pytest.mark.parametrize("tool", CONTRADICTED, ids=lambda t: t.slug)
def test_the_recorded_transpose_contradicts(tool: MicroTool, transposed: CounterEvidence) -> None:
    """No local memory, 89 % L2 hits, whole warps, no barrier, stalls on stores."""
    assert judged(tool, view_of("tr", counters=transposed)) is None


def test_what_was_not_counted_changes_nothing(transposed: CounterEvidence) -> None:
    view = view_of("tr", counters=transposed)
    assert judged(shared_bank_conflicts.TOOL, view) == said_of(view, shared_bank_conflicts.TOOL)
    bare = msgspec.structs.replace(transposed, metrics={}, lines={}, stalls={}, instructions=())
    view = view_of("tr", counters=bare)
    for tool in (register_spills, l2_thrashing, warp_divergence, barrier_heavy, uncoalesced_global_write):
        assert judged(tool.TOOL, view) == said_of(view, tool.TOOL)


def test_warps_that_wait_for_loads_confirm_that_too_little_is_in_flight(transposed: CounterEvidence) -> None:
    waiting = msgspec.structs.replace(transposed, stalls={"long_scoreboard": 0.8, "wait": 0.2})
    finding = judged(occupancy_registers.TOOL, view_of("tr", counters=waiting))
    assert finding is not None
    assert finding.evidence[-1].value == pytest.approx(11.7, abs=0.1)
    busy = msgspec.structs.replace(waiting, metrics={names.DRAM_THROUGHPUT: 91.0})
    assert judged(occupancy_registers.TOOL, view_of("tr", counters=busy)) is None
    full = msgspec.structs.replace(transposed, stalls={"lg_throttle": 1.0})
    assert judged(occupancy_registers.TOOL, view_of("tr", counters=full)) is None, "its queue is full"


def counted(stalls: dict[str, float] | None = None, **metrics: float) -> CounterEvidence:
    """Counters of a launch of 1 ms, of which only the given were read."""
    read = {names.DURATION: 1e6} | {getattr(names, name): value for name, value in metrics.items()}
    return CounterEvidence("ncu 2025.3", "k", "", "9.0", (1, 1, 1), (32, 1, 1), read, stalls=stalls or {})


def with_units(counters: CounterEvidence, **busy: float) -> CounterEvidence:
    """The same with busy shares of units, per cent: L1, L2, ALU, FMA, issue, tensor, constants."""
    where = {
        "L1": names.MEMORY_PARTS["L1 and shared-memory data"], "L2": names.MEMORY_PARTS["L2"],
        "ALU": names.COMPUTE_PIPES["ALU"], "FMA": names.COMPUTE_PIPES["FMA"],
        "issue": names.COMPUTE_PIPES["instruction issue"], "tensor": names.COMPUTE_PIPES["tensor"],
        "constants": names.CONSTANT_CACHE, "DRAM": names.DRAM_THROUGHPUT,
    }  # fmt: skip
    read = {where[unit]: share for unit, share in busy.items()}
    return msgspec.structs.replace(counters, metrics=counters.metrics | read)


def test_stalls_on_fixed_latencies_confirm_low_parallelism() -> None:
    waits = counted({"wait": 0.5, "short_scoreboard": 0.2, "long_scoreboard": 0.3}, ISSUE_ACTIVE=40.0)
    finding = judged(low_ilp.TOOL, view_of("tr", counters=waits))
    assert finding is not None
    assert finding.gain == Gain(2.5, 1.0, 2.5), "the issue slots that are left"
    full = msgspec.structs.replace(waits, metrics={names.ISSUE_ACTIVE: 95.0})
    assert judged(low_ilp.TOOL, view_of("tr", counters=full)) is None


#: Tool, what confirms it, its gain then (3 was expected), and what contradicts it.
DECIDED: tuple[
    tuple[MicroTool, dict[str, float], dict[str, float], float, dict[str, float], dict[str, float]], ...
] = (
    (divergent_constant_access.TOOL, {}, {"constants": 92.0, "DRAM": 50.0}, 2.0, {}, {"constants": 2.0}),
    (excess_barriers.TOOL, {"barrier": 0.5, "wait": 0.5}, {"issue": 62.5}, 1.6, {"wait": 1.0}, {}),
    (barrier_heavy.TOOL, {"barrier": 0.4, "wait": 0.6}, {"issue": 90.0}, 1.67, {"wait": 1.0}, {}),
    (integer_division.TOOL, {}, {"ALU": 80.0, "DRAM": 50.0}, 2.0, {"long_scoreboard": 1.0}, {"issue": 3.0}),
    (
        non_fused_arithmetic.TOOL,
        {"wait": 0.9, "drain": 0.1},
        {"L2": 40.0},
        2.5,
        {"drain": 1.0},
        {"issue": 3.0},
    ),
    (tensor_cores_unused.TOOL, {}, {"FMA": 60.0}, 2.5, {"long_scoreboard": 1.0}, {"FMA": 2.0}),
    (missing_cache_reuse.TOOL, {}, {"L1": 81.0, "FMA": 32.0}, 3.12, {"wait": 1.0}, {"L1": 3.0}),
    (scalar_access.TOOL, {"long_scoreboard": 1.0}, {"DRAM": 50.0}, 2.0, {"wait": 1.0}, {"L1": 3.0}),
    (aliasing_reload.TOOL, {"lg_throttle": 0.5, "wait": 0.5}, {"L1": 40.0}, 2.0, {"wait": 1.0}, {"L1": 3.0}),
    (unoverlapped_copy.TOOL, {"long_scoreboard": 0.4, "wait": 0.6}, {}, 1.67, {"wait": 1.0}, {}),
    (wgmma_serialized.TOOL, {}, {"tensor": 40.0}, 2.5, {}, {"tensor": 97.0}),
)


@pytest.mark.parametrize("case", DECIDED, ids=lambda c: c[0].slug)
def test_the_units_and_stalls_of_a_cause_decide_it(
    case: tuple[MicroTool, dict[str, float], dict[str, float], float, dict[str, float], dict[str, float]],
) -> None:
    tool, stalls, busy, gain, other_stalls, other_busy = case
    finding = judged(tool, view_of("tr", counters=with_units(counted(stalls), **busy)))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(gain, abs=0.01)
    assert not faults_of(finding, tool, SourceText(PROGRAM))
    against = with_units(counted(other_stalls), **other_busy)
    assert judged(tool, view_of("tr", counters=against)) is None


@pytest.mark.parametrize("tool", [c[0] for c in DECIDED], ids=lambda t: t.slug)
def test_units_that_were_not_read_decide_nothing(tool: MicroTool) -> None:
    view = view_of("tr", counters=counted())
    assert judged(tool, view) == said_of(view, tool)


def test_what_gains_next_to_nothing_is_no_warning() -> None:
    at_the_limit = with_units(counted({"long_scoreboard": 1.0}), DRAM=95.0)
    finding = judged(scalar_access.TOOL, view_of("tr", counters=at_the_limit))
    assert finding is not None
    assert (finding.severity, finding.gain) == ("information", Gain(1.05, 1.0, 1.05))


def test_the_busiest_slice_of_l2_decides_contention() -> None:
    crowded = with_units(counted(BUSIEST_ATOMICS=80.0, MEAN_ATOMICS=1.0), DRAM=1.0)
    finding = judged(global_atomic_contention.TOOL, view_of("tr", counters=crowded))
    assert finding is not None
    assert finding.gain == Gain(60.0, 1.0, 100.0), "device memory, at 60 % of its roof or at all of it"
    idle = counted(BUSIEST_ATOMICS=2.0, MEAN_ATOMICS=1.0)
    assert judged(global_atomic_contention.TOOL, view_of("tr", counters=idle)) is None


def test_the_path_of_shared_atomics_decides_contention() -> None:
    crowded = with_units(counted({"short_scoreboard": 0.7, "wait": 0.3}), L1=98.0, DRAM=15.0)
    finding = judged(shared_atomic_contention.TOOL, view_of("tr", counters=crowded))
    assert finding is not None
    assert finding.gain == Gain(4.0, 1.0, 6.67)
    waits = with_units(counted({"short_scoreboard": 0.5, "wait": 0.5}), L1=20.0)
    finding = judged(shared_atomic_contention.TOOL, view_of("tr", counters=waits))
    assert finding is not None
    assert finding.gain == Gain(2.0, 1.0, 2.0)
    assert (
        judged(shared_atomic_contention.TOOL, view_of("tr", counters=with_units(counted(), L1=2.0))) is None
    )


def test_sms_without_work_decide_waves_and_small_grids() -> None:
    uneven = counted(
        SM_ACTIVE=50.0, SM_ACTIVE_MOST=100.0, ACHIEVED_OCCUPANCY=25.0, THEORETICAL_OCCUPANCY=25.0
    )
    finding = judged(wave_quantization.TOOL, view_of("tr", counters=uneven))
    assert finding is not None
    assert finding.gain == Gain(2.0, 1.0, 2.0)
    even = counted(SM_ACTIVE=99.0, SM_ACTIVE_MOST=100.0, ACHIEVED_OCCUPANCY=98.0, THEORETICAL_OCCUPANCY=100.0)
    assert judged(wave_quantization.TOOL, view_of("tr", counters=even)) is None
    finding = judged(grid_too_small.TOOL, view_of("tr", counters=with_units(uneven, FMA=40.0)))
    assert finding is not None
    assert finding.gain == Gain(2.5, 1.0, 2.5)
    assert judged(grid_too_small.TOOL, view_of("tr", counters=even)) is None


def test_local_memory_counts_by_its_share() -> None:
    line = InstructionCounters(0, "LDL R0, [R1]", None, {"inst_executed": 1.0, names.LOCAL_SECTORS: 1.0})
    other = InstructionCounters(16, "FADD R0, R1, R2", None, {"inst_executed": 1.0})
    spilled = msgspec.structs.replace(counted(), instructions=(line, other))
    finding = judged(register_spills.TOOL, view_of("tr", counters=spilled))
    assert finding is not None
    assert finding.gain == Gain(3.0, 1.0, 9.0), "all sectors that moved were local"
    lines = {names.GLOBAL_SECTORS: 1000.0, "inst_executed": 1000.0}
    rare = msgspec.structs.replace(spilled, instructions=(line, msgspec.structs.replace(other, values=lines)))
    finding = judged(register_spills.TOOL, view_of("tr", counters=rare))
    assert finding is not None
    assert finding.severity == "information"


def recorded_gpu(calibrated: float | None = None) -> Gpu:
    gpu = report_gpu(RAW[0])
    assert gpu is not None
    if calibrated is None:
        return gpu
    roof = Ceiling(calibrated, "byte/s", "calibrated", "a copy on this card")
    return msgspec.structs.replace(gpu, ceilings=gpu.ceilings | {"dram": roof})


def roof_of(name: str, launch: int, gpu: Gpu) -> list[Finding]:
    view = view_of(name, counters=counter_evidence(RAW[launch]))
    return at_the_roof.TOOL.run(msgspec.structs.replace(view, gpu=gpu))


def test_a_kernel_at_a_calibrated_roof_has_nothing_left_to_gain() -> None:
    (finding,) = roof_of("saxpy", 0, recorded_gpu(3.4e12))
    assert finding.severity == "information"
    assert "device memory" in finding.message
    assert finding.gain is not None
    assert finding.gain.estimate == 1.0
    assert not faults_of(finding, at_the_roof.TOOL, SourceText(PROGRAM))


def test_the_roof_is_not_claimed_below_it_nor_for_wasted_traffic() -> None:
    assert roof_of("saxpy", 0, recorded_gpu()) == [], "71 % of the datasheet's roof"
    assert roof_of("tr", 1, recorded_gpu(0.5e12)) == [], "most of its sectors are wasted"
    other = msgspec.structs.replace(recorded_gpu(3.4e12), name="another card")
    assert roof_of("saxpy", 0, other) == []


def copy(start: float, end: float, direction: str, memory: str) -> Activity:
    return Activity(start, end, "transfer", "copy", bytes=4 << 20, direction=direction, host_memory=memory)


def timeline_of(*activities: Activity, calls: tuple[HostCall, ...] = ()) -> TimelineEvidence:
    found = build_timeline(activities, calls, origin="nsys 2025.3")
    assert found is not None
    return found


def kernel(start: float, end: float, correlation: int | None = None) -> Activity:
    return Activity(start, end, "kernel", "halve", correlation)


def test_a_timeline_tells_what_pageable_copies_cost() -> None:
    slow = timeline_of(copy(0, 400, "host to device", "pageable"), kernel(400, 500))
    (finding,) = pageable_transfer.TOOL.run(view_of("halve", text=STREAM, timeline=slow))
    assert (finding.confidence, finding.evidence[-1].tier) == ("high", "timeline")
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(1 / (0.2 + 0.8 / 2), rel=0.01)
    both = timeline_of(copy(0, 400, "host to device", "pageable"), copy(400, 500, "host to device", "pinned"))
    (finding,) = pageable_transfer.TOOL.run(view_of("halve", text=STREAM, timeline=both))
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(1 / (0.2 + 0.8 / 4), rel=0.01), (
        "pinned copies ran 4 times as fast"
    )


def test_pinned_or_short_copies_withdraw_it() -> None:
    pinned = timeline_of(copy(0, 400, "host to device", "pinned"), kernel(400, 500))
    short = timeline_of(copy(0, 10, "host to device", "pageable"), kernel(10, 500))
    for timeline in (pinned, short):
        assert pageable_transfer.TOOL.run(view_of("halve", text=STREAM, timeline=timeline)) == []


def test_copies_with_nothing_beside_them_confirm_that_they_are_serial() -> None:
    alone = timeline_of(
        copy(0, 100, "host to device", "pinned"), kernel(100, 150), copy(150, 250, "device to host", "pinned")
    )
    (finding,) = serial_copies.TOOL.run(view_of("halve", text=STREAM, timeline=alone))
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(2.5), "the longest engine needs 100 of 250"
    overlapped = timeline_of(
        copy(0, 100, "host to device", "pinned"), kernel(0, 101), copy(1, 100, "device to host", "pinned")
    )
    assert serial_copies.TOOL.run(view_of("halve", text=STREAM, timeline=overlapped)) == []


def test_idle_time_by_cause_confirms_launches_and_waits() -> None:
    calls = (
        HostCall(-2, -1, "cudaLaunchKernel", 1),
        HostCall(0, 25, "cudaDeviceSynchronize"),
        HostCall(50, 55, "cudaLaunchKernel", 2),
    )
    waited = timeline_of(kernel(0, 20, 1), kernel(60, 80, 2), calls=calls)
    view = view_of("halve", text=STREAM, timeline=waited)
    finding = judged(host_sync_in_loop.TOOL, view)
    assert finding is not None
    assert finding.gain == Gain(2.0, 1.0, 2.0)
    assert judged(launch_overhead.TOOL, view) is None
