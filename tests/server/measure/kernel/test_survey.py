# SPDX-License-Identifier: Apache-2.0
"""What a run under the probe says of a program's kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.measure.kernel import survey as surveying
from warplens_tools.errors import InputError
from warplens_tools.process.run import Completed
from warplens_tools.run.probe.records import SurveyedShape, SurveyEnd
from warplens_tools.run.probe.visit import Command, ProbeRun


def shape(*samples: float) -> SurveyedShape:
    """One launch, and what CUPTI told of it."""
    told = (len(samples), 0, sum(samples), samples)
    return SurveyedShape("_Z5scalePf", (4, 1, 1), (64, 1, 1), 0, 1, 0, *told)


@pytest.mark.parametrize(("told", "stands"), [((), False), ((1184.0,), True)])
def test_a_program_whose_kernels_fail_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: tuple[float, ...], *, stands: bool
) -> None:
    records = (shape(*told), SurveyEnd("CUDA_ERROR_ILLEGAL_ADDRESS"))
    ran = ProbeRun(records, Completed(("program",), 0, "", "", 0.2))
    monkeypatch.setattr(surveying, "run_with_probe", lambda *_, **__: ran)
    command = Command(("program",), str(tmp_path))
    if stands:
        # another kernel may be at fault
        assert surveying.survey(command, tmp_path, tmp_path, 5.0) == (shape(*told),)
        return
    with pytest.raises(InputError, match="own kernels fail on this card: CUDA_ERROR_ILLEGAL_ADDRESS"):
        surveying.survey(command, tmp_path, tmp_path, 5.0)
