# SPDX-License-Identifier: Apache-2.0
"""The service around the search: workload, refusals, no GPU, applying, one fix proven."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE
from tests.server.agent.doubles import CODE, ComputedJudge, NoGpu

from warplens.agent.judging import JudgeSession
from warplens.agent.result import OptimizeResult
from warplens.agent.search_settings import Objective
from warplens.measure.judge import Baseline
from warplens.measure.judge_settings import Allowed
from warplens.read_settings import load
from warplens.service.applying import apply_result
from warplens.service.edited import edits_between, prove_edited
from warplens.service.optimize import (
    FileInputs,
    OpenJudge,
    OptimizeOptions,
    causes_of,
    idioms_for,
    inputs_of,
    optimize_file,
    rewrites_for,
)
from warplens.service.prove import prove_fix
from warplens.service.report import FileReport
from warplens.service.service import Service
from warplens.service.tune import tune_file, write_t4
from warplens.service.workloads import workload_of
from warplens.store.database import data_folder, open_store
from warplens.store.rates import hit_rates
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.finding import Finding, Fix, Gain
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, Span, TextEdit

BLOCK_128 = Fix("Use 128 threads", "block-size", (TextEdit(Span(1, 15, 1, 18), "128"),), "", "unproven")
FINDING = Finding(
    code="WL113",
    slug="occupancy-block-size",
    kernel="scale",
    span=Span(2, 1, 2, 5),
    severity="warning",
    confidence="high",
    message="",
    guidance="",
    gain=Gain(1.3, 1.0, 1.5),
    evidence=(),
    fixes=(BLOCK_128,),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    path = tmp_path / "work" / "scale.cu"
    path.parent.mkdir()
    path.write_text(CODE)
    return path


def inputs(path: Path) -> FileInputs:
    return FileInputs(
        path=path,
        unit=path,
        loaded=load(path, root=path.parent),
        gpu=load_architecture("sm_90"),
        rewrites=REWRITES,
        report=lambda: FileReport(str(path), (), (FINDING,)),
    )


def test_a_lower_precision_is_tried_where_it_is_allowed(file: Path) -> None:
    offered = {r.slug for r in rewrites_for(inputs(file), Allowed())}
    allowed = {r.slug for r in rewrites_for(inputs(file), Allowed(lower_precision=True))}
    assert allowed - offered == {r.slug for r in REWRITES if r.lowers} and offered < allowed


@pytest.mark.parametrize(
    ("setting", "option", "tried"),
    [("", None, False), ("true", None, True), ("true", False, False), ("false", True, True)],
)
def test_idioms_are_tried_where_they_are_asked_for(
    file: Path, setting: str, option: bool | None, tried: bool
) -> None:
    if setting:
        (file.parent / "warplens.toml").write_text(f"[optimize]\nidioms = {setting}\n")
    found = idioms_for(OptimizeOptions(idioms=option), inputs(file).loaded)
    assert found == (IDIOMS if tried else ())


def opened(judge: ComputedJudge) -> OpenJudge:
    @contextmanager
    def session(workload: Workload, kernel: str, arch: str) -> Iterator[JudgeSession]:
        assert Path(workload.source).is_absolute() and kernel in ("", "scale") and not arch
        yield judge

    def open_it(
        workload: Workload, kernel: str, arch: str, allowed: Allowed
    ) -> AbstractContextManager[JudgeSession]:
        assert allowed == Allowed()
        return session(workload, kernel, arch)

    return open_it


def noting(asked: list[Allowed]) -> OpenJudge:
    """Opens a computed judge, and notes what it is allowed."""

    def ask(
        workload: Workload, kernel: str, arch: str, permitted: Allowed
    ) -> AbstractContextManager[JudgeSession]:
        asked.append(permitted)
        return opened(ComputedJudge(SourceText(CODE)))(workload, kernel, arch, Allowed())

    return ask


@pytest.mark.parametrize(
    ("setting", "option", "allowed"),
    [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
)
def test_host_edits_and_lower_precision_are_judged_only_where_that_is_asked_for(
    file: Path, setting: bool, option: bool | None, allowed: bool
) -> None:
    asked: list[Allowed] = []
    ask = noting(asked)
    said = str(setting).lower()
    (file.parent / "warplens.toml").write_text(f"[optimize]\nhost-edits = {said}\nlower-precision = {said}\n")
    options = OptimizeOptions(candidates=1, host_edits=option, lower_precision=option)
    optimize_file(inputs(file), options, judge=ask)
    prove_fix(inputs(file), "scale", BLOCK_128, judge=ask)
    assert asked == [Allowed(allowed, allowed), Allowed(setting, setting)]


@pytest.mark.parametrize(
    ("setting", "option", "measured"),
    [
        ("time", None, False),
        ("energy", None, True),
        ("lexicographic", "time", False),
        ("time", "lexicographic", True),
    ],
)
def test_energy_is_measured_where_it_is_an_objective(
    file: Path, setting: str, option: Objective | None, measured: bool
) -> None:
    asked: list[Allowed] = []
    ask = noting(asked)
    (file.parent / "warplens.toml").write_text(f'[optimize]\nobjective = "{setting}"\n')
    optimize_file(inputs(file), OptimizeOptions(candidates=1, objective=option), judge=ask)
    assert asked == [Allowed(energy=measured)]


def found(path: Path, **options: object) -> OptimizeResult:
    judge = opened(ComputedJudge(SourceText(path.read_text())))
    chosen = OptimizeOptions(candidates=40, **options)  # type: ignore[arg-type]
    return optimize_file(inputs(path), chosen, judge=judge)


def test_a_faster_version_is_found_and_applied_whole(file: Path) -> None:
    file.chmod(0o640)
    result = found(file, kernel="scale")
    assert result.outcome == "faster"
    apply_result(result)
    assert "#define BLOCK 128" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [p.name for p in file.parent.iterdir()] == ["scale.cu"]
    with open_store(data_folder({"WARPLENS_HOME": str(file.parents[1] / "home")})) as store:
        accepted = {r.subject: r.accepted for r in hit_rates(store) if r.kind == "rule"}
    assert accepted["parameter:block"] == 1


def test_tuning_changes_numbers_alone_and_writes_its_results(file: Path, tmp_path: Path) -> None:
    judge = opened(ComputedJudge(SourceText(CODE)))
    result = tune_file(inputs(file), OptimizeOptions(candidates=12, search="random"), judge=judge)
    assert {t.origin for t in result.tried} <= {"parameters", "chain"} and result.spent is not None
    assert write_t4(inputs(file), result, tmp_path / "t4.json") == len(result.tried) == 12
    results = json.loads((tmp_path / "t4.json").read_text())["results"]
    assert all({"BLOCK", "unroll, line 4"} <= r["configuration"].keys() for r in results)
    with pytest.raises(InputError, match="cannot write"):
        write_t4(inputs(file), result, tmp_path / "no/t4.json")


def test_the_file_is_checked_while_its_program_is_measured(file: Path) -> None:
    measured = threading.Event()

    class Measuring(ComputedJudge):
        def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
            measured.set()
            return super().baseline(task=task)

    def report() -> FileReport:
        assert measured.wait(PATIENCE), "the check was waited for"
        return FileReport(str(file), (), (FINDING,))

    waiting = msgspec.structs.replace(inputs(file), report=report)
    options = OptimizeOptions(candidates=2)
    result = optimize_file(waiting, options, judge=opened(Measuring(SourceText(CODE))))
    assert result.tried and result.spent is not None


def test_what_is_wrong_with_the_file_is_said_rather_than_what_is_wrong_with_its_program(file: Path) -> None:
    def report() -> FileReport:
        raise InputError("the file is broken")

    broken = msgspec.structs.replace(inputs(file), report=report)
    with pytest.raises(InputError, match="the file is broken"):
        optimize_file(broken, OptimizeOptions(), judge=opened(NoGpu(SourceText(CODE))))


@pytest.mark.thorough
def test_byte_order_mark_and_line_endings_survive(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + CODE.replace("\n", "\r\n").encode())
    text = SourceText.read(file)
    judge = ComputedJudge(text)
    apply_result(optimize_file(inputs(file), OptimizeOptions(candidates=40), judge=opened(judge)))
    data = file.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf#define BLOCK 128\r\n")
    assert data.count(b"\n") == data.count(b"\r\n") == CODE.count("\n")


def test_a_file_that_changed_meanwhile_is_not_overwritten(file: Path) -> None:
    result = found(file)
    file.write_text(CODE + "// mine\n")
    with pytest.raises(InputError, match="changed since") as caught:
        apply_result(result)
    assert caught.value.remedy
    assert file.read_text() == CODE + "// mine\n"


@pytest.mark.thorough
def test_a_link_is_written_through(file: Path) -> None:
    link = file.parent / "link.cu"
    link.symlink_to(file)
    apply_result(found(link))
    assert link.is_symlink() and "BLOCK 128" in file.read_text()


def test_nothing_unproven_is_applied(file: Path) -> None:
    result = optimize_file(inputs(file), OptimizeOptions(), judge=opened(NoGpu(SourceText(CODE))))
    assert result.outcome == "unproven" and result.offers[0].answers == ("WL113",)
    with pytest.raises(InputError, match="no proven version"):
        apply_result(result)
    assert file.read_text() == CODE


def test_an_unknown_kernel_is_refused_with_those_there_are(file: Path) -> None:
    with pytest.raises(InputError, match="no kernel shrink") as caught:
        found(file, kernel="shrink")
    assert "scale" in caught.value.remedy


def test_a_file_without_kernels_is_refused(file: Path) -> None:
    file.write_text("int main() { return 0; }\n")
    with pytest.raises(InputError, match="defines no kernel"):
        found(file)


def test_a_file_without_main_needs_a_program(file: Path) -> None:
    file.write_text(CODE.replace("int main()", "int start()"))
    with pytest.raises(InputError, match="no main") as caught:
        found(file)
    assert "[[program]]" in caught.value.remedy
    (file.parent / "warplens.toml").write_text('[[program]]\nsource = "*.cu"\nbuild = "make {output}"\n')
    assert found(file).outcome == "faster"


@pytest.mark.parametrize("options", [{"seconds": 0.0}, {"seconds": -1.0}])
def test_a_budget_of_nothing_is_refused(file: Path, options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="budget"):
        found(file, **options)


def test_the_workload_is_the_programs_of_the_settings(file: Path) -> None:
    (file.parent / "warplens.toml").write_text(
        """[[program]]
source = "other.cu"
build = "false"
[[program]]
source = "*.cu"
build = "make -C {root} 'a b' OUT={output}"
arguments = ["--size", "9"]
directory = "data"
environment = { A = "1" }
time-limit = 5
"""
    )
    workload = workload_of(file, file, load(file))
    root = str(file.parent)
    assert workload.build == ("make", "-C", "{root}", "a b", "OUT={output}")
    assert workload.root == root
    assert workload.arguments == ("--size", "9")
    assert (workload.directory, workload.time_limit) == (f"{root}/data", 5)
    assert workload.environment == {"A": "1"}


def test_a_command_that_does_not_parse_is_said_so(file: Path) -> None:
    (file.parent / "warplens.toml").write_text('[[program]]\nsource = "*.cu"\nbuild = "make \'"\n')
    with pytest.raises(InputError, match="does not parse"):
        workload_of(file, file, load(file))


def test_findings_become_causes() -> None:
    (cause,) = causes_of(FileReport("k.cu", (), (FINDING,)))
    assert (cause.code, cause.kernel, cause.rewrites) == ("WL113", "scale", ("block-size",))


def test_what_the_service_knows_of_a_file(file: Path) -> None:
    known = inputs_of(Service(file.parent), file)
    assert known.path == known.unit == file
    assert known.gpu.limits.warp_size == 32
    assert {rewrite.slug for rewrite in known.rewrites} >= {"pad-shared-tile", "restrict-const"}


def test_one_fix_is_judged_confirmed_and_credited(file: Path) -> None:
    judge = ComputedJudge(SourceText(CODE))
    result = prove_fix(inputs(file), "scale", BLOCK_128, judge=opened(judge))
    assert result.outcome == "faster" and result.edits == BLOCK_128.edits
    assert result.proof is not None and result.proof.answers == ("WL113",)
    assert judge.confirmed == ["c1"]
    with open_store(data_folder({"WARPLENS_HOME": str(file.parents[1] / "home")})) as store:
        assert {(r.subject, r.hits) for r in hit_rates(store)} == {("block-size", 1), ("WL113", 1)}


def test_a_fix_that_does_not_help_is_said_so(file: Path) -> None:
    worse = msgspec.structs.replace(BLOCK_128, edits=(TextEdit(Span(1, 15, 1, 18), "32"),))
    result = prove_fix(inputs(file), "scale", worse, judge=opened(ComputedJudge(SourceText(CODE))))
    assert result.outcome == "nothing" and result.proof is None
    assert "slower" in result.reason


def test_a_fix_cannot_be_proven_without_a_gpu(file: Path) -> None:
    with pytest.raises(MissingToolError):
        prove_fix(inputs(file), "scale", BLOCK_128, judge=opened(NoGpu(SourceText(CODE))))


def test_a_header_is_measured_through_the_program_that_includes_it(file: Path) -> None:
    kernel, main = CODE.split("int main()")
    header = file.with_suffix(".cuh")
    header.write_text(kernel)
    file.write_text(f'#include "scale.cuh"\nint main(){main}')
    known = inputs_of(Service(file.parent), header)
    assert (known.path, known.unit) == (header, file)
    assert workload_of(known.path, known.unit, known.loaded).unit == str(file)


def test_a_header_that_nothing_includes_is_refused(file: Path) -> None:
    header = file.with_name("alone.cuh")
    header.write_text(CODE)
    with pytest.raises(InputError, match=r"no .cu file .* includes alone.cuh"):
        inputs_of(Service(file.parent), header)


def test_a_version_that_somebody_wrote_is_judged_and_counts_for_no_rule(file: Path) -> None:
    edited = file.parent / "mine.txt"
    service, judge = Service(file.parent), ComputedJudge(SourceText(CODE))
    edited.write_text(CODE)
    with pytest.raises(InputError, match="the same as"):
        prove_edited(service, file, edited, OptimizeOptions(), judge=opened(judge))
    edited.write_text(CODE.replace("BLOCK 256", "BLOCK 128"))
    result = prove_edited(service, file, edited, OptimizeOptions(), judge=opened(judge))
    assert result.outcome == "faster" and result.proof is not None
    assert SourceText(CODE).apply(list(result.edits)).text == edited.read_text()
    assert result.proof.rules == ()
    with open_store(data_folder({"WARPLENS_HOME": str(file.parents[1] / "home")})) as store:
        assert not hit_rates(store)
    assert "mine.txt" in result.reason


@given(st.text("ab\n"), st.text("ab\n"))
def test_edits_between_two_texts_make_one_of_the_other(before: str, after: str) -> None:
    edits = edits_between(SourceText(before), SourceText(after))
    assert SourceText(before).apply(list(edits)).text == after
