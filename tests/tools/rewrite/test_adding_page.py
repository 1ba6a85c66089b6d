# SPDX-License-Identifier: Apache-2.0
"""The rewrite of `docs/adding/rewrite.md` is what the page says it is, and the helpers that it names are there."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from warplens_tools.cuda.parse import parse
from warplens_tools.micro.base import MicroTool
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adding" / "rewrite.md").read_text("utf-8")
(CODE,) = re.findall(r"````python\n(.*?)````", PAGE, re.DOTALL)
BEFORE, AFTER = re.findall(r"```cuda\n(.*?)```", CODE, re.DOTALL)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Rewrite:
    place = tmp_path_factory.mktemp("rewrite") / "square_by_product.py"
    place.write_text(CODE, "utf-8")
    spec = importlib.util.spec_from_file_location("square_by_product", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.REWRITE
    assert isinstance(found, Rewrite)
    return found


def run(rewrite: Rewrite, code: str, target: Target | None = None) -> tuple[RewriteResult, str]:
    text = SourceText(code)
    model = parse(text, "k.cu")
    result = rewrite.apply(text, model, model.kernels[0], target or Target())
    return result, text.apply(list(result.edits)).text


def test_it_gives_its_sample_and_is_done_once(sample: Rewrite) -> None:
    assert run(sample, BEFORE)[1] == AFTER
    again, text = run(sample, AFTER)
    assert (text, bool(again.refused)) == (AFTER, True)


@pytest.mark.parametrize(
    "body",
    [
        "a[0] = powf(a[n++], 2.0f);",
        "a[0] = powf(sinf(a[1]), 2.0f);",
        "a[0] = powf(n, 2.0f);",
        "a[0] = powf(a[1], 3.0f);",
        "a[0] = pow(a[1], 2.0);",
    ],
)
def test_it_refuses_what_it_cannot_prove(sample: Rewrite, body: str) -> None:
    result, _ = run(sample, f"__global__ void k(float* a, int n) {{ {body} }}\n")
    assert result.refused
    assert not result.edits


def test_a_finding_takes_its_fix(sample: Rewrite) -> None:
    text = SourceText(BEFORE)
    model = parse(text, "k.cu")
    (fix,) = sample.fixes(text, model, model.kernels[0], Target(lines=(3,)))
    assert (fix.rewrite, fix.status) == ("square-by-product", "unproven")
    assert text.apply(list(fix.edits)).text == AFTER
    assert sample.fixes(text, model, model.kernels[0], Target(lines=(2,))) == ()


def test_the_page_is_formatted_and_passes_lint(tmp_path: Path) -> None:
    file = tmp_path / "square_by_product.py"
    file.write_text(CODE, "utf-8")
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), str(file)]
        done = subprocess.run(ruff, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_tool_has_the_call_of_the_page() -> None:
    assert "self.fixes_of(REWRITE" in PAGE
    assert {"finding", "fixes_of"} <= set(dir(MicroTool))


def test_every_helper_of_the_page_exists() -> None:
    rows = re.findall(r"^\| [^|]+ \| (`.*`[^|]*) \|$", PAGE, re.MULTILINE)
    named = {
        name for row in rows for name in re.findall(r"`(?:warplens_tools\.)?((?:cuda|rewrite)\.[\w.]+)", row)
    }
    assert len(named) >= 16
    for name in named:
        module, _, attribute = f"warplens_tools.{name}".rpartition(".")
        try:
            importlib.import_module(f"{module}.{attribute}")
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name
