# SPDX-License-Identifier: Apache-2.0
"""A measurement confirms, refines or withdraws what the tools say, on recorded reports and built timelines."""

from __future__ import annotations

import msgspec
import pytest
from tests.tools.micro.judging import PROGRAM, REPORTS, judged, said_of, view_of

from warplens_tools.arch.gpu import Ceiling, Gpu
from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu_csv import parse_csv
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.profiled import counter_evidence
from warplens_tools.collect.report_gpu import report_gpu
from warplens_tools.collect.timeline import Activity, HostCall, build_timeline
from warplens_tools.evidence import (
    CounterEvidence,
    TimelineEvidence,
)
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro import (
    at_the_roof,
    barrier_heavy,
    excess_barriers,
    host_sync_in_loop,
    l2_thrashing,
    launch_overhead,
    local_memory_array,
    low_ilp,
    occupancy_registers,
    pageable_transfer,
    register_spills,
    serial_copies,
    shared_bank_conflicts,
    uncoalesced_global_read,
    uncoalesced_global_write,
    warp_divergence,
)
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common import judges
from warplens_tools.testing import faults_of
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain

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


def test_sectors_that_were_counted_confirm_an_uncoalesced_store(transposed: CounterEvidence) -> None:
    view = view_of("tr", counters=transposed)
    (finding,) = uncoalesced_global_write.UncoalescedGlobalWrite.run(view)
    assert finding.confidence == "high"
    assert finding.evidence[-1].tier == "counters"
    assert finding.evidence[-1].value == pytest.approx(4.5, rel=0.01)
    assert not faults_of(finding, uncoalesced_global_write.UncoalescedGlobalWrite, SourceText(PROGRAM))


def test_sectors_that_were_not_wasted_withdraw_it(transposed: CounterEvidence) -> None:
    line = transposed.lines[3]
    ideal = {"memory_l2_theoretical_sectors_global_ideal": line["memory_l2_theoretical_sectors_global"]}
    even = msgspec.structs.replace(transposed, lines={3: line | ideal})
    assert uncoalesced_global_write.UncoalescedGlobalWrite.run(view_of("tr", counters=even)) == []


def test_a_gain_lies_between_the_model_s_and_what_was_wasted_of_the_time(transposed: CounterEvidence) -> None:
    view = view_of("tr", counters=transposed)
    finding = judged(uncoalesced_global_read.UncoalescedGlobalRead, view)
    assert finding is not None
    assert finding.gain is not None
    waits = sum(transposed.stalls.get(reason, 0.0) for reason in judges.GLOBAL_STALLS)
    spared = 1 / (1 - waits * (1 - 1 / 4.5))
    assert finding.gain.estimate == pytest.approx((3.0 * spared) ** 0.5, abs=0.01)
    assert finding.gain.high == pytest.approx(4.5, abs=0.01)
    stored = judged(uncoalesced_global_write.UncoalescedGlobalWrite, view)
    assert stored is not None
    assert stored.gain is not None
    assert stored.gain.estimate == 3.0, "partial sectors cost more than their number says"


CONTRADICTED = (
    register_spills.RegisterSpills, local_memory_array.LocalMemoryArray, l2_thrashing.L2Thrashing,
    warp_divergence.WarpDivergence, barrier_heavy.BarrierHeavy,
    low_ilp.LowIlp, excess_barriers.ExcessBarriers,
)  # fmt: skip


@pytest.mark.parametrize("tool", CONTRADICTED, ids=lambda t: t.slug)
def test_the_recorded_transpose_contradicts(tool: type[MicroTool], transposed: CounterEvidence) -> None:
    """No local memory, 89 % L2 hits, whole warps, no barrier, stalls on stores."""
    assert judged(tool, view_of("tr", counters=transposed)) is None


def test_what_was_not_counted_changes_nothing(transposed: CounterEvidence) -> None:
    view = view_of("tr", counters=transposed)
    assert judged(shared_bank_conflicts.SharedBankConflicts, view) == said_of(
        view, shared_bank_conflicts.SharedBankConflicts
    )
    bare = msgspec.structs.replace(transposed, metrics={}, lines={}, stalls={}, instructions=())
    view = view_of("tr", counters=bare)
    for tool in (
        register_spills.RegisterSpills, l2_thrashing.L2Thrashing, warp_divergence.WarpDivergence,
        barrier_heavy.BarrierHeavy, uncoalesced_global_write.UncoalescedGlobalWrite,
    ):  # fmt: skip
        assert judged(tool, view) == said_of(view, tool)


def test_warps_that_wait_for_loads_confirm_that_too_little_is_in_flight(transposed: CounterEvidence) -> None:
    waiting = msgspec.structs.replace(transposed, stalls={"long_scoreboard": 0.8, "wait": 0.2})
    finding = judged(occupancy_registers.OccupancyRegisters, view_of("tr", counters=waiting))
    assert finding is not None
    assert finding.evidence[-1].value == pytest.approx(11.7, abs=0.1)
    busy = msgspec.structs.replace(waiting, metrics={names.DRAM_THROUGHPUT: 91.0})
    assert judged(occupancy_registers.OccupancyRegisters, view_of("tr", counters=busy)) is None
    full = msgspec.structs.replace(transposed, stalls={"lg_throttle": 1.0})
    assert judged(occupancy_registers.OccupancyRegisters, view_of("tr", counters=full)) is None, (
        "its queue is full"
    )


def recorded_gpu(calibrated: float | None = None) -> Gpu:
    gpu = report_gpu(RAW[0])
    assert gpu is not None
    if calibrated is None:
        return gpu
    roof = Ceiling(calibrated, "byte/s", "calibrated", "a copy on this card")
    return msgspec.structs.replace(gpu, ceilings=gpu.ceilings | {"dram": roof})


def roof_of(name: str, launch: int, gpu: Gpu) -> list[Finding]:
    view = view_of(name, counters=counter_evidence(RAW[launch]))
    return at_the_roof.AtTheRoof.run(msgspec.structs.replace(view, gpu=gpu))


def test_a_kernel_at_a_calibrated_roof_has_nothing_left_to_gain() -> None:
    (finding,) = roof_of("saxpy", 0, recorded_gpu(3.4e12))
    assert finding.severity == "information"
    assert "device memory" in finding.message
    assert finding.gain is not None
    assert finding.gain.estimate == 1.0
    assert not faults_of(finding, at_the_roof.AtTheRoof, SourceText(PROGRAM))


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
    (finding,) = pageable_transfer.PageableTransfer.run(view_of("halve", text=STREAM, timeline=slow))
    assert (finding.confidence, finding.evidence[-1].tier) == ("high", "timeline")
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(1 / (0.2 + 0.8 / 2), rel=0.01)
    both = timeline_of(copy(0, 400, "host to device", "pageable"), copy(400, 500, "host to device", "pinned"))
    (finding,) = pageable_transfer.PageableTransfer.run(view_of("halve", text=STREAM, timeline=both))
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(1 / (0.2 + 0.8 / 4), rel=0.01), (
        "pinned copies ran 4 times as fast"
    )


def test_pinned_or_short_copies_withdraw_it() -> None:
    pinned = timeline_of(copy(0, 400, "host to device", "pinned"), kernel(400, 500))
    short = timeline_of(copy(0, 10, "host to device", "pageable"), kernel(10, 500))
    for timeline in (pinned, short):
        assert pageable_transfer.PageableTransfer.run(view_of("halve", text=STREAM, timeline=timeline)) == []


def test_copies_with_nothing_beside_them_confirm_that_they_are_serial() -> None:
    alone = timeline_of(
        copy(0, 100, "host to device", "pinned"), kernel(100, 150), copy(150, 250, "device to host", "pinned")
    )
    (finding,) = serial_copies.SerialCopies.run(view_of("halve", text=STREAM, timeline=alone))
    assert finding.gain is not None
    assert finding.gain.estimate == pytest.approx(2.5), "the longest engine needs 100 of 250"
    overlapped = timeline_of(
        copy(0, 100, "host to device", "pinned"), kernel(0, 101), copy(1, 100, "device to host", "pinned")
    )
    assert serial_copies.SerialCopies.run(view_of("halve", text=STREAM, timeline=overlapped)) == []


def test_idle_time_by_cause_confirms_launches_and_waits() -> None:
    calls = (
        HostCall(-2, -1, "cudaLaunchKernel", 1),
        HostCall(0, 25, "cudaDeviceSynchronize"),
        HostCall(50, 55, "cudaLaunchKernel", 2),
    )
    waited = timeline_of(kernel(0, 20, 1), kernel(60, 80, 2), calls=calls)
    view = view_of("halve", text=STREAM, timeline=waited)
    finding = judged(host_sync_in_loop.HostSyncInLoop, view)
    assert finding is not None
    assert finding.gain == Gain(2.0, 1.0, 2.0)
    assert judged(launch_overhead.LaunchOverhead, view) is None
