# SPDX-License-Identifier: Apache-2.0
"""What rewrites and idioms make of their samples, launches and all, may be judged: the host sees other sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.compiled import unit_file
from tests.patience import PATIENCE
from tests.standard import STANDARD

from warplens.measure.build.allowed import why_not_allowed
from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_split import HostSplit
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.cuda.parse import parse
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.process.task import UNATTENDED
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain

FENCE = re.compile(r"```cuda\n(.*?)```", re.DOTALL)
#: Rewrites that change the launch, whose candidates host code tells apart.
CHANGES_LAUNCH = (
    "warp-per-row",
    "block-per-row",
    "split-columns",
    "swap-thread-axes",
    "spread-over-grid",
    "loop-into-grid",
    "loop-into-threads",
    "register-tile-again",
)


def sample(of: Rewrite) -> str:
    page = __import__(of.apply.__module__, fromlist=["__doc__"]).__doc__ or ""
    before: str = FENCE.findall(page)[0]
    return "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + before


#: Its sample declares the kernel apart, which is host code too.
DECLARES = ("restrict-const",)


@pytest.mark.parametrize(
    "of", [r for r in (*IDIOMS, *REWRITES) if r.slug not in DECLARES], ids=lambda r: r.slug
)
def test_a_rewritten_sample_is_allowed_on_sight(of: Rewrite) -> None:
    before = SourceText(sample(of))
    model = parse(before, "k.cu")
    result = of.apply(before, model, model.kernels[0], EVERYWHERE)
    assert result.edits
    after = before.apply(list(result.edits))
    assert why_not_allowed(before, after, model.kernels[0].qualified_name, "k.cu") == ""


@pytest.mark.compiler
@pytest.mark.parametrize(
    "of", [*IDIOMS, *(r for r in REWRITES if r.slug in CHANGES_LAUNCH)], ids=lambda r: r.slug
)
@pytest.mark.sampled(1)
def test_the_host_gate_takes_a_rewritten_launch(of: Rewrite, tmp_path: Path) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    before = SourceText(sample(of))
    model = parse(before, "k.cu")
    after = before.apply(list(of.apply(before, model, model.kernels[0], EVERYWHERE).edits))
    unit, folder = unit_file(before.text), tmp_path / "build"
    flags = flags_of(Workload(str(unit), str(unit), flags=STANDARD))
    split = HostSplit(unit, unit, toolchain=toolchain, flags=flags, arch="sm_90", timeout=PATIENCE)
    gates = HostGates(split, before.text, folder, Fence(toolchain, flags, MeasureSettings()))
    assert gates.why_not(after.text, folder / "candidate", UNATTENDED) == ""
