# SPDX-License-Identifier: Apache-2.0
"""What units were busy with, and what warps waited for, bounds what a repair of each cause can gain."""

from __future__ import annotations

import msgspec
import pytest
from tests.tools.micro.judging import PROGRAM, judged, said_of, view_of

from warplens_tools.collect import metrics as names
from warplens_tools.evidence import (
    CounterEvidence,
    InstructionCounters,
)
from warplens_tools.finding import Gain
from warplens_tools.micro import (
    aliasing_reload,
    barrier_heavy,
    divergent_constant_access,
    excess_barriers,
    global_atomic_contention,
    grid_too_small,
    integer_division,
    low_ilp,
    missing_cache_reuse,
    non_fused_arithmetic,
    register_spills,
    scalar_access,
    shared_atomic_contention,
    tensor_cores_unused,
    unoverlapped_copy,
    wave_quantization,
    wgmma_serialized,
)
from warplens_tools.micro.base import MicroTool
from warplens_tools.testing import faults_of
from warplens_tools.text import SourceText


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
    finding = judged(low_ilp.LowIlp, view_of("tr", counters=waits))
    assert finding is not None
    assert finding.gain == Gain(2.5, 1.0, 2.5), "the issue slots that are left"
    full = msgspec.structs.replace(waits, metrics={names.ISSUE_ACTIVE: 95.0})
    assert judged(low_ilp.LowIlp, view_of("tr", counters=full)) is None


#: Tool, what confirms it, its gain then (3 was expected), and what contradicts it.
DECIDED: tuple[
    tuple[type[MicroTool], dict[str, float], dict[str, float], float, dict[str, float], dict[str, float]], ...
] = (
    (
        divergent_constant_access.DivergentConstantAccess,
        {},
        {"constants": 92.0, "DRAM": 50.0},
        2.0,
        {},
        {"constants": 2.0},
    ),
    (excess_barriers.ExcessBarriers, {"barrier": 0.5, "wait": 0.5}, {"issue": 62.5}, 1.6, {"wait": 1.0}, {}),
    (barrier_heavy.BarrierHeavy, {"barrier": 0.4, "wait": 0.6}, {"issue": 90.0}, 1.67, {"wait": 1.0}, {}),
    (
        integer_division.IntegerDivision,
        {},
        {"ALU": 80.0, "DRAM": 50.0},
        2.0,
        {"long_scoreboard": 1.0},
        {"issue": 3.0},
    ),
    (
        non_fused_arithmetic.NonFusedArithmetic,
        {"wait": 0.9, "drain": 0.1},
        {"L2": 40.0},
        2.5,
        {"drain": 1.0},
        {"issue": 3.0},
    ),
    (tensor_cores_unused.TensorCoresUnused, {}, {"FMA": 60.0}, 2.5, {"long_scoreboard": 1.0}, {"FMA": 2.0}),
    (missing_cache_reuse.MissingCacheReuse, {}, {"L1": 81.0, "FMA": 32.0}, 3.12, {"wait": 1.0}, {"L1": 3.0}),
    (scalar_access.ScalarAccess, {"long_scoreboard": 1.0}, {"DRAM": 50.0}, 2.0, {"wait": 1.0}, {"L1": 3.0}),
    (
        aliasing_reload.AliasingReload,
        {"lg_throttle": 0.5, "wait": 0.5},
        {"L1": 40.0},
        2.0,
        {"wait": 1.0},
        {"L1": 3.0},
    ),
    (unoverlapped_copy.UnoverlappedCopy, {"long_scoreboard": 0.4, "wait": 0.6}, {}, 1.67, {"wait": 1.0}, {}),
    (wgmma_serialized.WgmmaSerialized, {}, {"tensor": 40.0}, 2.5, {}, {"tensor": 97.0}),
)


@pytest.mark.parametrize("case", DECIDED, ids=lambda c: c[0].slug)
def test_the_units_and_stalls_of_a_cause_decide_it(
    case: tuple[
        type[MicroTool], dict[str, float], dict[str, float], float, dict[str, float], dict[str, float]
    ],
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
def test_units_that_were_not_read_decide_nothing(tool: type[MicroTool]) -> None:
    view = view_of("tr", counters=counted())
    assert judged(tool, view) == said_of(view, tool)


def test_what_gains_next_to_nothing_is_no_warning() -> None:
    at_the_limit = with_units(counted({"long_scoreboard": 1.0}), DRAM=95.0)
    finding = judged(scalar_access.ScalarAccess, view_of("tr", counters=at_the_limit))
    assert finding is not None
    assert (finding.severity, finding.gain) == ("information", Gain(1.05, 1.0, 1.05))


def test_the_busiest_slice_of_l2_decides_contention() -> None:
    crowded = with_units(counted(BUSIEST_ATOMICS=80.0, MEAN_ATOMICS=1.0), DRAM=1.0)
    finding = judged(global_atomic_contention.GlobalAtomicContention, view_of("tr", counters=crowded))
    assert finding is not None
    assert finding.gain == Gain(25.0, 1.0, 100.0), "device memory, at a quarter of its roof or at all of it"
    idle = counted(BUSIEST_ATOMICS=2.0, MEAN_ATOMICS=1.0)
    assert judged(global_atomic_contention.GlobalAtomicContention, view_of("tr", counters=idle)) is None


def test_the_path_of_shared_atomics_decides_contention() -> None:
    crowded = with_units(counted({"short_scoreboard": 0.7, "wait": 0.3}), L1=98.0, DRAM=15.0)
    finding = judged(shared_atomic_contention.SharedAtomicContention, view_of("tr", counters=crowded))
    assert finding is not None
    assert finding.gain == Gain(3.0, 1.0, 6.67)
    waits = with_units(counted({"short_scoreboard": 0.5, "wait": 0.5}), L1=20.0)
    finding = judged(shared_atomic_contention.SharedAtomicContention, view_of("tr", counters=waits))
    assert finding is not None
    assert finding.gain == Gain(2.0, 1.0, 2.0)
    assert (
        judged(
            shared_atomic_contention.SharedAtomicContention,
            view_of("tr", counters=with_units(counted(), L1=2.0)),
        )
        is None
    )


def test_sms_without_work_decide_waves_and_small_grids() -> None:
    uneven = counted(
        SM_ACTIVE=50.0, SM_ACTIVE_MOST=100.0, ACHIEVED_OCCUPANCY=25.0, THEORETICAL_OCCUPANCY=25.0
    )
    finding = judged(wave_quantization.WaveQuantization, view_of("tr", counters=uneven))
    assert finding is not None
    assert finding.gain == Gain(2.0, 1.0, 2.0)
    even = counted(SM_ACTIVE=99.0, SM_ACTIVE_MOST=100.0, ACHIEVED_OCCUPANCY=98.0, THEORETICAL_OCCUPANCY=100.0)
    assert judged(wave_quantization.WaveQuantization, view_of("tr", counters=even)) is None
    finding = judged(grid_too_small.GridTooSmall, view_of("tr", counters=with_units(uneven, FMA=40.0)))
    assert finding is not None
    assert finding.gain == Gain(2.5, 1.0, 2.5)
    assert judged(grid_too_small.GridTooSmall, view_of("tr", counters=even)) is None


def test_local_memory_counts_by_its_share() -> None:
    line = InstructionCounters(0, "LDL R0, [R1]", None, {"inst_executed": 1.0, names.LOCAL_SECTORS: 1.0})
    other = InstructionCounters(16, "FADD R0, R1, R2", None, {"inst_executed": 1.0})
    spilled = msgspec.structs.replace(counted(), instructions=(line, other))
    finding = judged(register_spills.RegisterSpills, view_of("tr", counters=spilled))
    assert finding is not None
    assert finding.gain == Gain(3.0, 1.0, 9.0), "all sectors that moved were local"
    lines = {names.GLOBAL_SECTORS: 1000.0, "inst_executed": 1000.0}
    rare = msgspec.structs.replace(spilled, instructions=(line, msgspec.structs.replace(other, values=lines)))
    finding = judged(register_spills.RegisterSpills, view_of("tr", counters=rare))
    assert finding is not None
    assert finding.severity == "information"


@pytest.mark.parametrize(("samples", "kept"), [(None, False), (4000.0, False), (40.0, True)])
def test_few_samples_withdraw_nothing(samples: float | None, kept: bool) -> None:
    counters = msgspec.structs.replace(
        counted({"barrier": 0.0, "long_scoreboard": 1.0}), stall_samples=samples
    )
    found = judged(barrier_heavy.BarrierHeavy, view_of("tr", counters=counters))
    assert (found is not None) is kept
    if found is not None:
        assert found.gain == Gain(3.0, 1.0, 9.0), "what was not contradicted stays as it was"
        assert found.evidence[-1].tier == "counters"
