# SPDX-License-Identifier: Apache-2.0
"""What is shown while typing over a checked file."""

from __future__ import annotations

from pathlib import Path

from tests.server.lsp.sample_service import SampleService

from warplens.lsp.documents import ContentChange, Document
from warplens.lsp.session import OpenFile
from warplens.lsp.view import View, view_of
from warplens.service.service import CheckOptions
from warplens_tools.text import Span

TEXT = """__global__ void first() {
  int a;  // source: kept
  int b;  // source: taken // refute
  int c;  // binary: spill
}
__global__ void second() {
  int d;  // binary: bank
}
"""


def _checked(tmp_path: Path, text: str = TEXT) -> OpenFile:
    path = tmp_path / "k.cu"
    file = OpenFile(Document(path.as_uri(), "cuda-cpp", 1, text))
    _save(file, tmp_path)
    return file


def _stages(file: OpenFile, tmp_path: Path) -> list[tuple[View, bool]]:
    """The stages of a check of the text as it is now."""
    path = tmp_path / "k.cu"
    path.write_text(file.document.text.text)
    early, *others = SampleService(tmp_path).stages(path, CheckOptions())
    return [
        (view_of(c.report, early.report, file.document.text, c.unknown, complete=c.complete), c.complete)
        for c in (early, *others)
    ]


def _save(file: OpenFile, tmp_path: Path) -> None:
    for stage, complete in _stages(file, tmp_path):
        file.checked(stage, file.document.text.text, [], complete=complete)


def _type(file: OpenFile, span: Span, new: str, *, analyse: bool = True) -> View:
    file.apply(ContentChange(span, new))
    if analyse:
        file.heard(SampleService(Path("/")).check_text(Path("k.cu"), file.document.text.text), [])
    assert file.view is not None
    return file.view


def _lines(view: View) -> list[tuple[int, str]]:
    return sorted((f.line, f.message) for f in view.report.findings)


def test_an_unedited_file_shows_the_check(tmp_path: Path) -> None:
    view = _checked(tmp_path).view
    assert view is not None
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]


def test_findings_move_with_lines_typed_above(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(1, 1, 1, 1), "// one\n// two\n")
    assert _lines(view) == [(4, "kept"), (6, "spill"), (9, "bank")]
    assert not view.edited
    assert [(k.name, k.line, k.end_line) for k in view.report.kernels] == [("first", 3, 7), ("second", 8, 10)]


def test_what_the_compiler_said_of_an_edited_line_stays_and_is_marked(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(4, 3, 4, 6), "float")
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]
    assert [f.message for f in view.report.findings if view.is_touched(f)] == ["spill"]


def test_a_deleted_line_takes_its_finding_along(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(4, 1, 5, 1), "")
    assert _lines(view) == [(2, "kept"), (6, "bank")]


def test_a_finding_the_compiler_took_back_stays_away_until_the_next_check(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(3, 3, 3, 6), "long")
    assert [line for line, _ in _lines(view)] == [2, 4, 7]


def test_a_text_that_does_not_parse_takes_back_nothing(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    view = _type(file, Span(6, 24, 6, 24), "(")
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]
    view = _type(file, Span(2, 11, 2, 27), "")
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]
    view = _type(file, Span(6, 24, 6, 25), "")
    assert _lines(view) == [(4, "spill"), (7, "bank")]


def test_a_check_that_does_not_compile_keeps_what_the_last_one_found(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    _type(file, Span(8, 2, 8, 2), "  // does not compile")
    _save(file, tmp_path)
    assert file.view is not None
    assert _lines(file.view) == [(2, "kept"), (4, "spill"), (7, "bank")]
    assert all(k.bottleneck.bound == "memory" for k in file.view.report.kernels)
    assert [u.what for u in file.view.unknown] == ["binary tier of k.cu"]


def test_a_check_of_an_older_text_brings_back_nothing_that_was_fixed_since(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    stages, state = _stages(file, tmp_path), file.document.state
    text = file.document.text.text
    view = _type(file, Span(2, 11, 2, 27), "")
    assert _lines(view) == [(4, "spill"), (7, "bank")]
    for stage, complete in stages:
        changes = file.document.changes_since(state)
        assert changes
        file.checked(stage, text, changes, complete=complete)
        assert file.view is not None and _lines(file.view) == [(4, "spill"), (7, "bank")]


def test_a_kernel_keeps_its_evidence_while_its_name_is_typed(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(1, 17, 1, 22), "head")
    kernel = view.kernel("head")
    assert kernel is not None and kernel.resources is not None
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]


def test_a_file_that_is_replaced_as_a_whole_keeps_what_it_shares_with_the_old_one(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    view = _type(file, Span(1, 1, 9, 1), "// one\n" + TEXT.replace("int b", "long b") + "// end\n")
    assert _lines(view) == [(3, "kept"), (5, "spill"), (8, "bank")]
    assert not view.touched and view.edited == {"first"}


def test_a_finding_that_typing_removed_goes_before_the_next_save(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(2, 11, 2, 27), "")
    assert _lines(view) == [(4, "spill"), (7, "bank")]


def test_an_edited_kernel_keeps_its_figures_and_says_so(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(2, 3, 2, 3), "const ")
    assert view.edited == {"first"}
    kernel = view.kernel("first")
    assert kernel is not None and kernel.resources is not None and kernel.resources.registers == 40


def test_the_compilers_fixes_go_when_their_kernel_was_edited(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(2, 3, 2, 3), "const ")
    fixes = {f.message: len(f.fixes) for f in view.report.findings}
    assert fixes == {"kept": 1, "spill": 0, "bank": 1}


def test_before_the_analysis_of_an_edit_the_old_results_stand_shifted(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(1, 1, 1, 1), "\n", analyse=False)
    assert _lines(view) == [(3, "kept"), (5, "spill"), (8, "bank")]


def test_deleting_everything_leaves_nothing(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(1, 1, 9, 1), "")
    assert not view.report.findings and not view.report.kernels


def test_a_new_check_keeps_the_last_ones_findings_until_it_has_its_own(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    _type(file, Span(7, 3, 7, 6), "long")
    (early, _), (final, _) = _stages(file, tmp_path)
    text = file.document.text.text
    file.checked(early, text, [], complete=False)
    assert file.view is not None
    assert _lines(file.view) == [(2, "kept"), (4, "spill"), (7, "bank")]
    assert file.view.edited == {"second"}
    file.checked(final, text, [], complete=True)
    assert not file.view.edited and not file.view.touched
    assert _lines(file.view) == [(2, "kept"), (4, "spill"), (7, "bank")]


def test_an_undo_brings_back_all_that_was_known(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    before = file.view
    view = _type(file, Span(4, 1, 5, 1), "")
    assert _lines(view) == [(2, "kept"), (6, "bank")] and view.edited == {"first"}
    view = _type(file, Span(4, 1, 4, 1), "  int c;  // binary: spill\n", analyse=False)
    assert view == before


def test_an_undo_in_one_kernel_leaves_the_other_ones_mark(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    _type(file, Span(7, 3, 7, 6), "long")
    assert _type(file, Span(4, 3, 4, 6), "float").edited == {"first", "second"}
    view = _type(file, Span(4, 3, 4, 8), "int")
    assert view.edited == {"second"}
    assert [f.message for f in view.report.findings if view.is_touched(f)] == ["bank"]


def test_an_edit_of_comments_or_blanks_leaves_a_kernel_unedited(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    _type(file, Span(4, 1, 4, 1), "  // why\n\n")
    view = _type(file, Span(6, 6, 6, 6), "  /* typed */ ")
    assert not view.edited and not view.touched
    assert _lines(view) == [(2, "kept"), (6, "spill"), (9, "bank")]
    assert _type(file, Span(6, 6, 6, 6), " d,").edited == {"first"}


def test_a_comment_silences_what_the_compiler_found_at_once(tmp_path: Path) -> None:
    file = _checked(tmp_path)
    _type(file, Span(4, 1, 4, 1), "  // warplens: ignore WL902: cold code\n")
    assert file.shown is not None and _lines(file.shown) == [(2, "kept"), (8, "bank")]
    _type(file, Span(4, 1, 5, 1), "")
    assert file.shown is not None and _lines(file.shown) == [(2, "kept"), (4, "spill"), (7, "bank")]
