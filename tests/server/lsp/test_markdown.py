# SPDX-License-Identifier: Apache-2.0
"""Pages and cards, and the sentence of a finding among others."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.server.lsp.sample_service import SampleService

from warplens.lsp import markdown, words
from warplens.lsp.convert import Positions, diagnostic
from warplens.lsp.view import View, view_of
from warplens.present.abilities import abilities, summary
from warplens.present.words import gain, quantity, short_gain
from warplens.service.service import CheckOptions
from warplens_tools.collect.doctor import Check
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain
from warplens_tools.text import SourceText

TEXT = SourceText("__global__ void scale(float *a) {\n  a[0] = 1;  // binary: late\n}\n")


def _view(tmp_path: Path) -> View:
    path = tmp_path / "k.cu"
    path.write_text(TEXT.text)
    early, late = SampleService(tmp_path).stages(path, CheckOptions())
    return view_of(late.report, early.report, TEXT)


def test_a_page_begins_with_what_bounds_the_kernel_and_its_findings(tmp_path: Path) -> None:
    view = _view(tmp_path)
    page = markdown.kernel_page(view, view.report.kernels[0], "file:///k.cu")
    order = [
        page.index(part)
        for part in (
            "## `scale`: memory-bound",
            "Every load is used once. Medium confidence.",
            "### [WL902]",
            "[line 2](file:///k.cu#L2)",
            "**What to do.**",
            "### What it takes",
        )
    ]
    assert order == sorted(order)


def test_occupancy_is_said_once_in_a_card_and_in_a_page(tmp_path: Path) -> None:
    view = _view(tmp_path)
    kernel = view.report.kernels[0]
    for text in (markdown.kernel_card(view, kernel), markdown.kernel_page(view, kernel, "file:///k.cu")):
        assert text.lower().count("occupancy") == 1
    assert "| marks |" not in markdown.kernel_card(view, kernel)


def test_a_column_without_content_is_left_out() -> None:
    seen = Observation("binary", "nvcc", "stall, share of the busiest", 0.25)
    assert markdown.evidencetable([seen]).startswith("| what | seen | by |")
    assert quantity(seen, 1) == "100%"
    shared = msgspec.structs.replace(seen, metric="shared-memory wavefronts per request")
    assert quantity(shared, 1.0) == "1"


def test_a_gain_has_the_same_words_long_and_short() -> None:
    bound, ranged, inside = Gain(3.9, 1.0, 3.9), Gain(3.9, 2.6, 3.9), Gain(2.0, 1.0, 3.9)
    assert [short_gain(g) for g in (bound, ranged, inside)] == ["up to 3.9×", "2.6× to 3.9×", "2.0×"]
    assert gain(ranged) == "2.6× to 3.9× expected"
    assert gain(inside) == "2.0× expected (at most 3.9×)"


def test_a_problem_names_its_kernel_once(tmp_path: Path) -> None:
    view = _view(tmp_path)

    def message(finding: Finding) -> str:
        return diagnostic(finding, "file:///k.cu", TEXT, Positions("utf-16")).message

    (finding,) = view.report.findings
    assert message(finding) == "scale: late"
    assert message(msgspec.structs.replace(finding, message="scale spills")) == "scale spills"
    assert message(msgspec.structs.replace(finding, message="scaled")) == "scale: scaled"
    assert words.headline(view, view.report.kernels[0]).count("scale") == 0


def test_the_doctor_begins_with_what_works() -> None:
    tools = (
        "nvcc",
        "ptxas",
        "cicc",
        "CUDA headers",
        "host compiler",
        "nvdisasm",
        "CUPTI headers",
        "CUPTI library",
    )
    checks = [Check(name, "ok", "13.0") for name in tools]
    card = Check("GPU", "missing", "no NVIDIA driver is loaded", "measuring")
    ncu = Check("ncu", "missing", "ncu was not found", "the counters tier", "install it")
    page = markdown.diagnosis([*checks, ncu, card])
    assert page.startswith("**All that needs no GPU works here.")
    assert "| ncu | the counters tier | install it |" in page
    assert page.index("works |") < page.index("What would add to that") < page.index("What was looked at")
    assert "**[Set up](command:x)**" in markdown.diagnosis(checks, ["[Set up](command:x)"])
    assert [bool(a.lacking) for a in abilities([*checks, ncu, card])] == [False] * 3 + [True] * 4
    assert summary([Check("nvcc", "missing", "nvcc was not found"), card]) == (
        "Findings rest on the text alone: nvcc was not found."
    )
    assert summary([*checks, Check("GPU", "ok", "H100")]).startswith("Everything works here")
