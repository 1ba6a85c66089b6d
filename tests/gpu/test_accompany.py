# SPDX-License-Identifier: Apache-2.0
"""A whole program with a candidate's device code in its kernel's place, on a card."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.accompany import AccompaniedRun, Replacement, accompany
from warplens.measure.program.whole import difference
from warplens.measure.verdict import Candidate
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.elements import probed_parameters
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

PROGRAMS = Path(__file__).parent / "programs"
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(200)]


def accompanied(name: str, kernel: str, old: str, new: str, *, stands: bool = True) -> AccompaniedRun:
    """The program run once with that edit of its kernel; its output is compared with its own."""
    path = PROGRAMS / f"{name}.cu"
    text = SourceText.read(path)
    start = text.text.index(old)
    edit = TextEdit(text.span(start, start + len(old)), new)
    candidate = Candidate("mine", str(path), kernel, (edit,))
    settings = MeasureSettings(measure_identical=True)
    with Judge(Workload(str(path), str(path)), kernel=kernel, settings=settings) as judge:
        opened = judge._open(UNATTENDED)
        (built,) = judge._build(opened, [candidate], lambda verdict: pytest.fail(verdict.reason), UNATTENDED)
        target = opened.target
        replacement = Replacement(
            target.live,
            built.job,
            launches=sum(s.runs for s in (target.shape, *target.others)),
            parameters=probed_parameters(target.compiled.demangled, opened.place.parameters),
        )
        ran = accompany(opened.place, [replacement], settings, judge._folder, stands=stands)
        if ran.program is not None and ran.state == "right":
            assert difference([opened.baseline.program], [ran.program], rounding=1e-4) == ""
    return ran


@pytest.mark.parametrize("stands", [True, False])
@pytest.mark.parametrize(
    ("name", "kernel"),
    [("affine", ""), ("anonymous_globals", ""), ("threads", "scale"), ("captured_solver", "relax")],
)
def test_a_program_runs_to_its_end_with_its_own_kernel_in_place(name: str, kernel: str, stands: bool) -> None:
    text = (PROGRAMS / f"{name}.cu").read_text()
    first = text.splitlines()[0]
    ran = accompanied(name, kernel, first, f"{first} //", stands=stands)
    if name == "captured_solver":
        # every launch is captured: the candidate stands in the graph, but nothing of it is compared
        assert ran.state == "unproven"
        return
    assert ran.state == "right", ran.reason
    (one,) = ran.kernels
    assert one.compared >= min(4, one.launches)
    assert one.replaced == (one.launches + one.captured if stands else 0)
    # the driver makes the launch that the call's parameters were changed to
    assert one.in_place == stands


def test_a_candidate_that_is_wrong_seldom_is_found() -> None:
    ran = accompanied("affine", "", "+ shift[column]", "+ (row == 3 && column == 7 ? 0.0f : shift[column])")
    assert ran.state == "wrong", ran.reason
    assert "at launch" in ran.reason
