# SPDX-License-Identifier: Apache-2.0
"""The tool of `docs/adding/micro-tool.md` is what the page says it is."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.tools.sass.written import code, placed

from warplens_tools.evidence import BinaryEvidence, CompiledKernel, KernelEvidence, Resources
from warplens_tools.kernel import KernelView
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.listing import Sass
from warplens_tools.testing import MicroToolConformance, Sample, findings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adding" / "micro-tool.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> type[MicroTool]:
    return loaded(tmp_path_factory.mktemp("acme"), 0, "SquareByPower")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> type[MicroTool]:
    return loaded(tmp_path_factory.mktemp("acme"), 1, "ConversionsInLoop")


def loaded(folder: Path, block: int, name: str) -> type[MicroTool]:
    """The tool of that name in one of the page's blocks of code."""
    place = folder / "acme_lens.py"
    place.write_text(blocks("python")[block], "utf-8")
    spec = importlib.util.spec_from_file_location("acme_lens", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: type[MicroTool] = getattr(module, name)
    assert issubclass(found, MicroTool)
    return found


LOOP = """
S2R R0, SR_TID.X
.L_1:
I2FP.F32.S32 R3, R0
FFMA R5, R3, R4, R5
IADD3 R0, R0, 0x1, RZ
ISETP.NE.AND P0, PT, R0, R7, PT
@P0 BRA `(.L_1)
STG.E desc[UR4][R8.64], R5
EXIT
"""


@pytest.mark.parametrize("converts", [True, False])
def test_the_reader_of_sass_finds_conversions_in_a_loop_and_passes_its_examination(
    reader: type[MicroTool], converts: bool
) -> None:
    text = (
        "__global__ void k(float *a, int n)\n{\n    for (int i = 0; i < n; ++i) s += i * t;\n    *a = s;\n}\n"
    )
    listing = LOOP if converts else LOOP.replace("I2FP.F32.S32", "MOV")
    lines = (2, 3, 3, 3, 3, 3, 4, 5)
    instructions = tuple(
        placed(x, line, path="sample.cu") for x, line in zip(code(listing), lines, strict=True)
    )
    compiled = (CompiledKernel("k", "k", "k", "sm_90", Resources(16), instructions),)
    binary = BinaryEvidence("sample.cu", "sm_90", "nvcc", (), compiled, disassembled=True)
    evidence = {"k": KernelEvidence(compiled=compiled, binary=binary)}
    found = findings(reader, text, evidence)
    assert [(f.span.line, "into R3" in f.message) for f in found] == ([(3, True)] if converts else [])

    class Examined(MicroToolConformance):
        samples = (Sample("loop", text, finds=converts, evidence=evidence),)

    examined = Examined()
    type(examined).tool = reader
    examined.test_it_is_complete()
    examined.test_it_never_raises()
    examined.test_it_is_silent_without_its_evidence()
    examined.test_it_finds_what_it_is_for()


def test_it_finds_the_fault_of_the_page_on_its_line(tool: type[MicroTool]) -> None:
    (kernel,) = blocks("cuda")
    assert [(f.span.line, f.message) for f in findings(tool, kernel)] == [
        (5, "powf(v[i], 2.0f) computes a square by a power.")
    ]


def test_it_passes_its_own_examination(tool: type[MicroTool]) -> None:
    written = re.findall(r'Sample\("(\w+)", "([^"]+)", finds=(\w+)\)', PAGE)
    assert len(written) == 2

    class Examined(MicroToolConformance):
        samples = tuple(Sample(name, text, finds=finds == "True") for name, text, finds in written)

    examined = Examined()
    type(examined).tool = tool
    examined.test_it_is_complete()
    examined.test_it_never_raises()
    examined.test_it_finds_what_it_is_for()


def test_its_samples_pass_lint(tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed here")
    # Of the test beside it the order of imports hangs on where it stands, and tests have no docstrings.
    for block, ignored in zip(blocks("python"), ([], [], ["--extend-ignore", "D1,I001"]), strict=True):
        (tmp_path / "sample.py").write_text(block, "utf-8")
        command = [
            ruff,
            "check",
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
            *ignored,
        ]
        done = subprocess.run(
            [*command, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout


def test_its_distribution_installs_its_module_and_not_the_test_beside_it() -> None:
    (written,) = (tomllib.loads(block) for block in blocks("toml"))
    assert written["project"]["entry-points"]["warplens.micro"] == {
        "square-by-power": "acme_lens:SquareByPower"
    }
    assert written["tool"]["setuptools"]["py-modules"] == ["acme_lens"]


def test_its_severity_is_that_of_what_is_known(tool: type[MicroTool]) -> None:
    (kernel,) = blocks("cuda")
    assert [f.severity for f in findings(tool, kernel)] == ["information"]


def test_every_helper_of_the_page_exists() -> None:
    rows = re.findall(r"^\| [^|]+ \| (.*`.*) \|$", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`((?:cuda|evidence)\.[\w.]+)", row)}
    # `sass` alone is the tool's own, its room is written in full
    named |= {name for row in rows for name in re.findall(r"`warplens_tools\.([\w.]+)", row)}
    assert len(named) >= 10
    for name in named:
        module, _, attribute = f"warplens_tools.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
    members = {name for row in rows for name in re.findall(r"`sass\.(\w+)", row)}
    assert members - {"instructions"} <= set(dir(Sass))
    assert {name for row in rows for name in re.findall(r"`view\.(\w+)", row)} <= {
        *dir(KernelView), *KernelView.__struct_fields__
    }  # fmt: skip
