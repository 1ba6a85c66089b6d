# SPDX-License-Identifier: Apache-2.0
"""Edits that change nothing of the host are refused in none of the repository's own programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.standard import standard_of

from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_split import HostSplit
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.cuda.syntax.functions import find_functions
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain

pytestmark = [pytest.mark.compiler, pytest.mark.slow]

ROOT = Path(__file__).parents[4]
PROGRAMS = [
    *sorted((ROOT / "examples/first").glob("*.cu")),
    # those are judged on the card by the tests that need one, through the same gate
    *(
        pytest.param(p, marks=pytest.mark.thorough)
        for p in sorted((ROOT / "tests/gpu/programs").glob("*.cu"))
    ),
]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.sampled(1)
def test_a_comment_and_a_statement_in_a_kernel_pass(path: Path, tmp_path: Path) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    source = SourceText.read(path)
    flags = flags_of(Workload(str(path), str(path), flags=standard_of(source.text)))
    split = HostSplit(path, path, toolchain=toolchain, flags=flags, arch="sm_90", timeout=PATIENCE)
    gates = HostGates(split, source.text, tmp_path, Fence(toolchain, flags, MeasureSettings()))
    kernel = next(function for function in find_functions(parse_tree(source)) if function.is_kernel)
    data = source.text.encode()
    at = kernel.body.start_byte + 1
    edited = (data[:at] + b"\n    int noted = 0;\n    (void)noted;\n" + data[at:]).decode()
    text = "// a note\n\n" + edited
    assert gates.why_not(text, tmp_path / "candidate", UNATTENDED) == ""
    assert gates.why_not_built(text, tmp_path / "candidate", UNATTENDED) == ""
