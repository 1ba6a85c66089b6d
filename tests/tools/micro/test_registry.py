# SPDX-License-Identifier: Apache-2.0
"""The list of tools, the folder and the pages agree."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from warplens_tools.evidence import TIERS
from warplens_tools.micro import registry
from warplens_tools.micro.base import MicroTool
from warplens_tools.rewrite.registry import REWRITES

FOLDER = Path(registry.__file__).parent


def test_the_list_holds_every_file_of_the_folder() -> None:
    files = {p.stem for p in FOLDER.glob("*.py")} - {"__init__", "base", "registry"}
    assert {tool.slug.replace("-", "_") for tool in registry.TOOLS} == files


def test_codes_and_slugs_are_unique() -> None:
    assert (
        len({t.code for t in registry.TOOLS}) == len({t.slug for t in registry.TOOLS}) == len(registry.TOOLS)
    )


@pytest.mark.parametrize("tool", registry.TOOLS, ids=lambda t: t.slug)
def test_a_tool_is_complete_and_its_page_is_in_its_docstring(tool: type[MicroTool]) -> None:
    assert re.fullmatch(r"WL\d{3}", tool.code)
    assert tool.tiers
    assert set(tool.tiers) <= set(TIERS)
    assert tool.relevant
    page = inspect.getdoc(inspect.getmodule(tool)) or ""
    assert page.splitlines()[0] == tool.slug
    for part in (
        "**What.**",
        "**Why it costs.**",
        "**Wrong**",
        "**Right**",
        "**Evidence.**",
        "**Threshold.**",
        "**References.**",
    ):
        assert part in page, part


def test_rewrites_answer_findings_that_exist() -> None:
    slugs = {tool.slug for tool in registry.TOOLS}
    assert all(set(rewrite.answers) <= slugs for rewrite in REWRITES)
