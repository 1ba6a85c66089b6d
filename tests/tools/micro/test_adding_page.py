# SPDX-License-Identifier: Apache-2.0
"""The tool of `docs/adding/micro-tool.md` is what the page says it is."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from warplens_tools.micro.base import MicroTool
from warplens_tools.testing import MicroToolConformance, Sample, findings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adding" / "micro-tool.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> type[MicroTool]:
    place = tmp_path_factory.mktemp("acme") / "acme_lens.py"
    place.write_text(blocks("python")[0], "utf-8")
    spec = importlib.util.spec_from_file_location("acme_lens", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: type[MicroTool] = module.SquareByPower
    assert issubclass(found, MicroTool)
    return found


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
    for block, ignored in zip(blocks("python"), ([], ["--extend-ignore", "D1,I001"]), strict=True):
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
            [*command, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
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
