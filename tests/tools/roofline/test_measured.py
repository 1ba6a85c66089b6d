# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.arch.gpu import Ceiling, Gpu
from warplens_tools.arch.load import load_architecture
from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu_csv import parse_csv
from warplens_tools.collect.profiled import ProfiledLaunch, counter_evidence
from warplens_tools.collect.report_gpu import report_gpu
from warplens_tools.evidence import CounterEvidence, LaunchTiming
from warplens_tools.finding import Bottleneck, Vote
from warplens_tools.roofline.classify import with_measured
from warplens_tools.roofline.measured import measured_vote
from warplens_tools.roofline.model import Amounts, amounts_of, roofline_of
from warplens_tools.roofline.svg import Theme, roofline_svg

RAW = (Path(__file__).parents[2] / "data/reports/saxpy_transpose.raw.csv").read_text()
SAXPY, TRANSPOSE = parse_csv(RAW)


def h200() -> Gpu:
    gpu = report_gpu(SAXPY)
    assert gpu is not None
    return gpu


def made(memory: float, compute: float, **more: float) -> CounterEvidence:
    metrics = {names.MEMORY_THROUGHPUT: memory, names.SM_THROUGHPUT: compute, **more}
    return CounterEvidence("ncu 2025.3", "k", "", "9.0", (1, 1, 1), (32, 1, 1), metrics)


def timing(ns: float) -> LaunchTiming:
    return LaunchTiming("CUPTI", 1, (1, 1, 1), (32, 1, 1), 0, ns, ns, ns)


def test_the_gpu_of_a_report_comes_from_its_attributes() -> None:
    gpu = h200()
    assert (gpu.name, gpu.arch, gpu.multiprocessors, gpu.present) == ("NVIDIA H200", "sm_90", 132, False)
    assert gpu.ceilings["dram"].value == pytest.approx(4.81e12, rel=0.01)
    foreign = msgspec.structs.replace(SAXPY, compute_capability="99.0")
    assert report_gpu(foreign) is None


def test_saxpy_moves_what_it_must() -> None:
    amounts = amounts_of(counter_evidence(SAXPY))
    assert amounts is not None
    assert amounts.moved["dram"] == pytest.approx(3 * 2**26 * 4, rel=0.03)
    assert amounts.moved["l2"] >= amounts.moved["dram"]
    assert amounts.operations["fp32"] == pytest.approx(2 * 2**26, rel=1e-3)


def test_reach_of_each_roof_is_nearest_first() -> None:
    amounts = amounts_of(counter_evidence(SAXPY))
    assert amounts is not None
    roofline = roofline_of(amounts, h200())
    assert roofline.reaches[0].roof == "dram"
    assert roofline.reaches[0].share == pytest.approx(0.709, abs=0.01), "as ncu's own DRAM throughput"
    assert {p.level for p in roofline.points} == {"dram", "l2", "shared"}


@pytest.mark.parametrize("launch", [SAXPY, TRANSPOSE], ids=["saxpy", "transpose"])
def test_recorded_kernels_are_memory_bound(launch: ProfiledLaunch) -> None:
    vote = measured_vote(counter_evidence(launch), h200())
    assert vote is not None
    assert (vote.bound, vote.confidence) == ("memory", "high")
    assert vote.evidence[0].metric == names.MEMORY_THROUGHPUT


@pytest.mark.parametrize(
    ("memory", "compute", "bound"),
    [(90, 20, "memory"), (20, 90, "compute"), (85, 80, "mixed"), (40, 30, "latency")],
)
def test_the_class_follows_the_throughputs(memory: float, compute: float, bound: str) -> None:
    vote = measured_vote(made(memory, compute), load_architecture("sm_80"))
    assert vote is not None
    assert vote.bound == bound


def test_latency_names_the_stall_and_the_grid() -> None:
    counters = msgspec.structs.replace(made(10, 10, **{names.WAVES: 0.25}), stalls={"barrier": 0.7})
    vote = measured_vote(counters, load_architecture("sm_80"))
    assert vote is not None
    assert "0.25 of one wave" in vote.reason
    assert "70% of stalled warps wait on barrier" in vote.reason


@pytest.mark.parametrize(
    ("read", "stalls", "bound"),
    [
        ({names.BUSIEST_ATOMICS: 81.0, names.MEAN_ATOMICS: 0.9}, {}, "memory"),
        ({names.BUSIEST_ATOMICS: 20.0, names.MEAN_ATOMICS: 15.0}, {}, "latency"),
        ({names.CONSTANT_CACHE: 92.0}, {}, "memory"),
        ({}, {"lg_throttle": 0.8}, "memory"),
        ({}, {"math_pipe_throttle": 0.6}, "compute"),
        ({}, {"long_scoreboard": 0.8}, "latency"),
        ({names.ISSUE_ACTIVE: 93.0, names.COMPUTE_PIPES["instruction issue"]: 49.0}, {}, "compute"),
        ({names.ISSUE_ACTIVE: 50.0, names.COMPUTE_PIPES["instruction issue"]: 12.0}, {}, "latency"),
    ],
)
def test_a_busy_unit_behind_idle_averages_bounds_the_kernel(
    read: dict[str, float], stalls: dict[str, float], bound: str
) -> None:
    seen = msgspec.structs.replace(made(5, 4, **read), stalls=stalls)
    vote = measured_vote(seen, load_architecture("sm_90"))
    assert vote is not None
    assert vote.bound == bound


def test_a_program_bound_by_its_launches_stays_so() -> None:
    analytic = Vote("launch", "medium", "a host loop launches it for little work", ())
    measured = Vote("latency", "high", "no roof was reached", ())
    told = with_measured(Bottleneck("launch", "medium", "so it is", analytic=analytic), measured)
    assert (told.bound, told.measured) == ("launch", measured)
    assert "no roof was reached" in told.reason


def test_calibrated_roofs_count_more_than_theoretical_peaks() -> None:
    gpu = h200()
    measured = Ceiling(3.6e12, "B/s", "calibrated", "test")
    gpu = msgspec.structs.replace(gpu, ceilings={**gpu.ceilings, "dram": measured})
    vote = measured_vote(counter_evidence(SAXPY), gpu)
    assert vote is not None
    assert "memory reached 95%" in vote.reason


def test_a_kernel_shorter_than_a_launch_is_launch_bound() -> None:
    gpu = h200()
    launch = Ceiling(1e9 / 2500, "launch/s", "calibrated", "test")
    gpu = msgspec.structs.replace(gpu, ceilings={**gpu.ceilings, "launch": launch})
    short = measured_vote(None, gpu, timing=timing(1800))
    assert short is not None
    assert short.bound == "launch"
    assert measured_vote(None, gpu, timing=timing(9000)) is None, "a duration alone decides nothing"


def test_timing_with_known_work_decides_only_near_a_roof() -> None:
    gpu = h200()
    work = {"dram": 4.8e12 * 1e-3 * 0.8}
    near = measured_vote(None, gpu, timing=timing(1e6), work=work)
    assert near is not None
    assert near.bound == "memory"
    assert measured_vote(None, gpu, timing=timing(1e7), work=work) is None


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_the_drawing_is_well_formed(theme: Theme) -> None:
    amounts = amounts_of(counter_evidence(SAXPY))
    assert amounts is not None
    text = roofline_svg(roofline_of(amounts, h200()), title="saxpy<float & int>", theme=theme)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert "reached 71%" in text
    assert ("prefers-color-scheme" in text) == (theme == "auto")


amount = st.floats(1e-3, 1e18)


def test_the_parts_stand_for_the_whole_where_it_was_not_collected() -> None:
    metrics = {names.MEMORY_PARTS["L1 and shared-memory data"]: 95.0, names.MEMORY_PARTS["DRAM"]: 34.0}
    metrics |= {names.COMPUTE_PIPES["FMA"]: 30.0, names.COMPUTE_PIPES["ALU"]: 12.0}
    counters = msgspec.structs.replace(made(0, 0), metrics=metrics)
    vote = measured_vote(counters, load_architecture("sm_90"))
    assert vote is not None
    assert (
        vote.reason == "memory reached 95% and compute 30% of their roofs (L1 and shared-memory data busiest)"
    )


@given(
    st.dictionaries(st.sampled_from(["dram", "l2", "shared"]), amount),
    st.dictionaries(st.sampled_from(["fp32", "fp64", "tensor_bf16", "int32", "nonesuch"]), amount),
    st.floats(1.0, 1e12),
)
def test_any_amounts_can_be_drawn(moved: dict[str, float], operations: dict[str, float], ns: float) -> None:
    roofline = roofline_of(Amounts(ns, moved, operations), load_architecture("sm_75"))  # type: ignore[arg-type]
    ElementTree.fromstring(roofline_svg(roofline, title="k"))
    shares = [r.share for r in roofline.reaches]
    assert shares == sorted(shares, reverse=True)
