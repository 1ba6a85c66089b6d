# SPDX-License-Identifier: Apache-2.0
"""The tool of `docs/adding/micro-tool.md` is what the page says it is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from warplens_tools.micro.base import MicroTool
from warplens_tools.testing import MicroToolConformance, Sample, findings

PAGE = (Path(__file__).parents[3] / "docs" / "adding" / "micro-tool.md").read_text("utf-8")


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
