# SPDX-License-Identifier: Apache-2.0
"""Kernels replaced by versions that multiply with CuTe's wgmma pass all that is asked before a card is."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.measure.build.candidates import Builder, Built
from warplens.measure.build.own_geometry import as_written
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.cutlass_flags import headers_for
from warplens.service.edited import edits_between
from warplens.service.library_build import built_for
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain

FOLDER = Path(__file__).parents[3] / "gpu" / "tensor_cores"
#: Block, dynamic shared bytes: four stages of 128 by 64 and 256 by 64 elements; of the product eight
#: barriers besides, and a warpgroup more, which loads.
STAGES = 4 * (128 + 256) * 64 * 2
GEOMETRY = {"gemm": ((384, 1, 1), STAGES + 8 * 8), "wgrad": ((256, 1, 1), STAGES)}


@pytest.mark.compiler
@pytest.mark.parametrize("kernel", ["gemm", "wgrad"])
def test_a_product_on_tensor_cores_may_replace_a_naive_one(kernel: str, tmp_path: Path) -> None:
    toolchain = resolve_toolchain()
    unit = FOLDER / f"{kernel}.cu"
    if toolchain.find("nvcc") is None or headers_for(unit) is None:
        pytest.skip("no nvcc, or no headers of CUTLASS")
    after = SourceText.read(FOLDER / f"{kernel}_wgmma.cu")
    workload, arch = built_for(Workload(str(unit), str(unit)), "", "sm_90", [after.text])
    assert arch == "sm_90a" and "-DNDEBUG" in workload.flags
    builder = Builder(
        workload,
        toolchain=toolchain,
        arch=arch,
        folder=tmp_path,
        settings=MeasureSettings(build_jobs=1),
    )
    baseline = builder.baseline()
    (target,) = baseline.evidence.kernels
    candidate = Candidate("c1", str(unit), kernel, edits_between(builder.text, after))
    candidate = as_written(candidate, builder, kernel)
    done: list[Built | Verdict] = []
    builder.build_all([candidate], baseline, target, baseline.cubin, on_done=done.append)
    (built,) = done
    assert isinstance(built, Built), built
    assert candidate.asks_program or (candidate.block, candidate.dynamic_shared_bytes) == GEOMETRY[kernel]
    assert not builder.host_differs(after.text, tmp_path / "host")
    assert builder.keeps_sizes(after.text) is False
