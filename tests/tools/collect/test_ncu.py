# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu import (
    NcuRequest,
    collect_counters,
    explain_failure,
    ncu_command,
    requested_metrics,
)
from warplens_tools.collect.ncu_csv import parse_csv
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.profiled import counter_evidence
from warplens_tools.errors import InputError, MissingToolError, ToolFailedError, WarplensError
from warplens_tools.process.run import Completed
from warplens_tools.toolchain.locate import Missing, Tool, Toolchain, resolve_toolchain

REPORTS = Path(__file__).parents[2] / "data/reports"
REPORT = REPORTS / "tr.ncu-rep"
REQUEST = NcuRequest(kernel="tr", skip=1)


def test_a_request_asks_for_no_more_than_its_needs() -> None:
    assert requested_metrics(NcuRequest("k", needs=("scheduling",))) == names.NEEDS["scheduling"]
    whole = requested_metrics(NcuRequest("k", tensor=True))
    assert set(names.TENSOR_METRICS) < set(whole)
    assert len(set(whole)) == len(whole)
    assert names.SM_THROUGHPUT not in whole, "nine passes for one figure"


def test_the_command_touches_no_clocks_and_names_the_launch() -> None:
    command = ncu_command("ncu", NcuRequest("my.kernel", skip=2, count=3), ["./a", "-n", "5"], Path("/tmp/o"))
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--kernel-name") + 1] == r"regex:^my\.kernel$"
    assert command[command.index("--launch-skip") + 1] == "2"
    assert command[-3:] == ["./a", "-n", "5"]
    exact = ncu_command("ncu", NcuRequest("_Z1kv", mangled=True), ["./a"], Path("/tmp/o"))
    assert exact[exact.index("--kernel-name-base") + 1] == "mangled"


@pytest.mark.parametrize(
    ("output", "kind", "said"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
            "Counters on the target device 0.",
            MissingToolError,
            "ERR_NVGPUCTRPERM",
        ),
        ("==WARNING== No kernels were profiled.", InputError, "never launched tr more than 1 times"),
        (
            "==ERROR== The application returned an error code (1).",
            ToolFailedError,
            "failed before it launched tr",
        ),
        ("==ERROR== Failed to find metric nope__x.sum", ToolFailedError, "nope__x.sum"),
        (
            "==ERROR== Cuda driver is not compatible with Nsight Compute.",
            MissingToolError,
            "no usable driver",
        ),
        ("==ERROR== Something new happened", ToolFailedError, "Something new happened"),
        ("", ToolFailedError, "status 9"),
    ],
)
def test_failures_are_explained(output: str, kind: type[WarplensError], said: str) -> None:
    error = explain_failure(Completed(("ncu",), 9, output, "", 1.0), REQUEST, has_report=False)
    assert isinstance(error, kind)
    assert said in str(error)


def test_permission_names_its_cures() -> None:
    error = explain_failure(Completed(("ncu",), 1, "", "ERR_NVGPUCTRPERM", 1.0), REQUEST, has_report=True)
    assert error is not None
    assert "NVreg_RestrictProfilingToAdminUsers=0" in error.remedy
    assert "container" in error.remedy


def test_without_ncu_it_says_where_it_looked(tmp_path: Path) -> None:
    chain = Toolchain(
        {}, {"ncu": Missing("ncu", "ncu was not found (looked at PATH)", "install Nsight Compute")}
    )
    with pytest.raises(MissingToolError, match="looked at PATH"):
        collect_counters(["./a"], REQUEST, toolchain=chain, workdir=tmp_path)


def test_a_report_file_is_read_without_gpu_or_nsight() -> None:
    first, second = read_report(REPORT, toolchain=resolve_toolchain())
    evidence = counter_evidence(first)
    assert first.kernel == second.kernel == "tr(const float *, float *, int)"
    assert (first.mangled, first.gpu_name, first.grid) == ("_Z2trPKfPfi", "NVIDIA H200", (256, 256, 1))
    assert evidence.passes == 8
    assert next(iter(evidence.stalls)) == "drain"
    store = next(i for i in first.instructions if i.text.startswith("STG"))
    assert store.place is not None
    assert (Path(store.place.path).name, store.place.line) == ("t.cu", 3)
    assert store.values["memory_l2_theoretical_sectors_global"] == 67108864
    assert "__global__" in first.sources[store.place.path]
    assert all(names.value(evidence, name) is not None for name in names.NEEDS["roofline"])


def test_the_source_page_of_named_metrics_has_lines() -> None:
    text = (REPORTS / "tr.source_cuda_sass.csv").read_text()
    first = parse_csv(text)[0]
    store = next(i for i in first.instructions if i.text.startswith("STG"))
    assert store.place is not None
    assert store.place.line == 3
    assert store.values["inst_executed"] > 0


def _stands_for_ncu(folder: Path, *commands: str) -> Toolchain:
    """A program in place of Nsight Compute, which writes $REPORT."""
    program = folder / "ncu"
    program.write_text("\n".join(["#!/bin/sh", f"REPORT={folder}/work/counters.ncu-rep", *commands]) + "\n")
    program.chmod(0o755)
    return Toolchain({"ncu": Tool("ncu", str(program), "a test")}, {})


def test_the_reader_runs_the_profiler_in_the_program_s_own_place(tmp_path: Path) -> None:
    chain = _stands_for_ncu(tmp_path, f'test "$MINE $PWD" = "yes {tmp_path}" && cp {REPORT} $REPORT')
    first, _ = collect_counters(
        ["./a"],
        REQUEST,
        toolchain=chain,
        workdir=tmp_path / "work",
        cwd=tmp_path,
        env={"MINE": "yes", "PATH": "/usr/bin:/bin"},
    )
    assert first.mangled == "_Z2trPKfPfi"
    assert first.instructions


def test_the_profiler_s_failure_comes_through_its_reader(tmp_path: Path) -> None:
    chain = _stands_for_ncu(tmp_path, "echo '==ERROR== The card left'", "exit 7")
    with pytest.raises(ToolFailedError, match="The card left"):
        collect_counters(["./a"], REQUEST, toolchain=chain, workdir=tmp_path / "work")


def test_a_damaged_report_of_a_run_is_said(tmp_path: Path) -> None:
    chain = _stands_for_ncu(
        tmp_path, f'case "$*" in *"--import "*) exit 1;; esac; head -c 9000 {REPORT} > $REPORT'
    )
    with pytest.raises(InputError, match="damaged, empty, or of a newer version"):
        collect_counters(["./a"], REQUEST, toolchain=chain, workdir=tmp_path / "work")


def test_a_profiler_that_is_not_there_is_named(tmp_path: Path) -> None:
    chain = Toolchain({"ncu": Tool("ncu", str(tmp_path / "none"), "a test")}, {})
    with pytest.raises(MissingToolError, match="none was not found"):
        collect_counters(["./a"], REQUEST, toolchain=chain, workdir=tmp_path / "work")


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.999])
def test_a_damaged_report_ends_nothing_but_its_own_reader(tmp_path: Path, keep: float) -> None:
    data = REPORT.read_bytes()
    damaged = tmp_path / "cut.ncu-rep"
    damaged.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(InputError, match="damaged, empty, or of a newer version"):
        read_report(damaged, toolchain=Toolchain({}, {}))
