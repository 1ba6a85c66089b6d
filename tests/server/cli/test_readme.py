# SPDX-License-Identifier: Apache-2.0
"""The README shows what the demo prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warplens.cli.main import run

ROOT = Path(__file__).parents[3]


@pytest.mark.compiler
def test_the_sample_is_the_answer_of_the_demo(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = re.search(
        r"^```\n(examples/first/.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert found
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WARPLENS_ARCHITECTURE", "sm_90")
    assert run(["check", "examples/first", "--fail-on", "never"]) == 0
    printed = capfd.readouterr().out
    assert _any_release(found[1]) in _any_release(printed)


def _any_release(text: str) -> str:
    return re.sub(r"nvcc [\d.]+", "nvcc", text)
