# SPDX-License-Identifier: Apache-2.0
"""Every built-in tool passes the examination that third-party tools are offered, and one of those joins."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from tests.tools.micro.samples import SAMPLES

from warplens.service.service import CheckOptions, Service
from warplens_tools.finding import Finding, Gain
from warplens_tools.micro import registry, strided_field_access
from warplens_tools.micro.base import MicroTool
from warplens_tools.testing import MicroToolConformance, faults_of
from warplens_tools.text import SourceText, Span

PLUGIN = '''"""dot-product-by-hand

**What.** A.

**Why it costs.** B.

**Wrong**

**Right**

**Evidence.** C.

**Threshold.** D.

**References.** E.
"""

from warplens_tools.evidence import Observation
from warplens_tools.micro.base import MicroTool


class Tool(MicroTool):
    code = "ACME001"
    slug = "dot-product-by-hand"
    title = "A dot product by hand"
    tiers = ("source",)
    relevant = ("memory",)

    def check(self):
        for line in range(self.view.kernel.span.line, self.view.kernel.span.end_line + 1):
            if "dot" in self.view.text.line_text(line):
                seen = (Observation("source", "acme 1.0", "dots", 1.0),)
                yield self.finding(
                    line, confidence="low", message="A dot product.", guidance="Call the library.", evidence=seen
                )
'''


@pytest.mark.parametrize("tool", registry.TOOLS, ids=lambda t: t.slug)
class TestBuiltIn(MicroToolConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, tool: type[MicroTool]) -> None:
        type(self).tool, type(self).samples = tool, SAMPLES.get(tool.slug, ())


def test_every_sample_is_of_a_tool_and_shows_both_sides() -> None:
    assert SAMPLES.keys() <= {tool.slug for tool in registry.TOOLS}
    assert all({sample.finds for sample in samples} == {True, False} for samples in SAMPLES.values())


def test_a_bad_finding_is_told_what_is_wrong_with_it() -> None:
    tool = strided_field_access.StridedFieldAccess
    bad = Finding(
        "WL999", tool.slug, "k", Span(9, 1, 9, 4), "warning", "high", "no stop", "", (), Gain(0.5, 1.0, 0.2)
    )
    assert len(faults_of(bad, tool, SourceText("one line\n"))) == 6


def test_a_tool_of_another_distribution_joins_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_lens.py").write_text(PLUGIN, "utf-8")
    info = tmp_path / "acme_lens-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-lens\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[warplens.micro]\ndots = acme_lens:Tool\n", "utf-8")
    kernel = tmp_path / "dots.cu"
    kernel.write_text("__global__ void product(float *a)\n{\n    a[0] = dot(a, a);\n}\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    registry.all_tools.cache_clear()
    try:
        assert "dot-product-by-hand" in [t.slug for t in registry.all_tools()]
        report = Service(tmp_path).check([kernel], CheckOptions(tier="source", arch="sm_90"))
        # and has no page among Warplens' own
        told = [(f.line, f.code, f.page) for file in report.files for f in file.findings]
        assert told == [(3, "ACME001", "")]
    finally:
        registry.all_tools.cache_clear()
        sys.modules.pop("acme_lens", None)
