# SPDX-License-Identifier: Apache-2.0
"""What is compiled before anybody asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.server.measure.build.test_candidates import PROGRAM, candidate
from tests.standard import STANDARD

from warplens.measure.build import candidates as building
from warplens.measure.build.ahead import Ahead
from warplens.measure.build.candidates import Builder, Built
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.locate import resolve_toolchain


def named(name: str) -> Candidate:
    return Candidate(name, "k.cu", "k", ())


def upper(one: Candidate) -> tuple[str, Callable[[], str]] | None:
    if one.id == "refused":
        return None

    def make() -> str:
        if one.id == "broken":
            raise ValueError(one.id)
        return one.id.upper()

    return one.id, make


@pytest.mark.parametrize("expected_first", [True, False])
def test_what_is_expected_is_made_whichever_side_comes_first(*, expected_first: bool) -> None:
    ahead: Ahead[str] = Ahead()
    wanted = [named("a"), named("refused"), named("broken")]
    if expected_first:
        ahead.expect(wanted)
    ahead.begin(upper, 2)
    if not expected_first:
        ahead.expect(wanted)
    assert [ahead.take(text) for text in ("a", "refused", "broken", "b")] == ["A", None, None, None]
    # it is given once: its files are one candidate's
    assert ahead.take("a") is None


def test_what_is_not_made_yet_is_waited_for() -> None:
    ahead: Ahead[str] = Ahead()
    going = threading.Event()

    def slow(one: Candidate) -> tuple[str, Callable[[], str]]:
        return one.id, lambda: "made" if going.wait(PATIENCE) else "late"

    ahead.begin(slow, 1)
    ahead.expect([named("a")])
    threading.Timer(0.05, going.set).start()
    assert ahead.take("a") == "made"


@pytest.mark.compiler
@pytest.mark.thorough
def test_expected_candidates_are_compiled_with_the_baseline_and_judged_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    compiled: list[str] = []
    plain: Callable[..., object] = vars(building)["compiled_alone"]

    def counted(*given: object, **named: object) -> object:
        compiled.append(Path(str(named["folder"])).name)
        return plain(*given, **named)

    monkeypatch.setattr(building, "compiled_alone", counted)
    wanted = [
        candidate("code", "sum += in[i] * table", "sum += 2 * in[i] * table"),
        candidate("host", 'std::printf("total', 'std::printf("Total'),
        candidate("reads", "float sum = 0;", '#include "/etc/passwd"\nfloat sum = 0;'),
    ]
    ahead = Ahead()  # type: ignore[var-annotated]
    ahead.expect(wanted)
    builder = Builder(
        Workload(str(PROGRAM), str(PROGRAM), flags=STANDARD),
        toolchain=toolchain,
        arch="sm_90",
        folder=tmp_path,
        settings=MeasureSettings(build_jobs=2),
        ahead=ahead,
    )
    baseline = builder.baseline()
    (kernel,) = baseline.evidence.kernels
    done: dict[str, Built | Verdict] = {}

    def take(one: Built | Verdict) -> None:
        done[one.candidate if isinstance(one, Verdict) else one.candidate.id] = one

    builder.build_all(wanted, baseline, kernel, baseline.cubin, on_done=take)
    before = {folder for folder in compiled if folder.startswith("ahead-")}
    # what may not be compiled is not, and nothing is compiled twice
    assert len(before) == 2 and set(compiled) == {"baseline", *before}
    assert len(compiled) == len(set(compiled))
    code, host, reads = done["code"], done["host"], done["reads"]
    assert isinstance(code, Built) and not code.identical and Path(code.job.cubin).is_file()
    assert isinstance(host, Verdict) and host.state == "refused" and "host" in builder.changing_host
    assert isinstance(reads, Verdict) and reads.state == "refused"
