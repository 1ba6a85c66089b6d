"""What is shown while typing over a checked file."""

from __future__ import annotations

from pathlib import Path

from tests.server.lsp.sample_service import SampleService

from warplens.lsp.documents import ContentChange, Document
from warplens.lsp.session import OpenFile
from warplens.lsp.view import Saved, View, merge
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
    path.write_text(text)
    service = SampleService(tmp_path)
    file = OpenFile(Document(path.as_uri(), "cuda-cpp", 1, text))
    partials: list[Saved] = []
    report = service.check_file(
        path, CheckOptions(), on_partial=lambda r: partials.append(Saved(report=r, source=r))
    )
    file.saved = Saved(report.files[0], partials[0].source)
    file.typed = service.check_text(path, text)
    return file


def _type(file: OpenFile, span: Span, new: str, *, analyse: bool = True) -> View:
    file.apply(ContentChange(span, new))
    if analyse:
        file.typed = SampleService(Path("/")).check_text(Path("k.cu"), file.document.text.text)
    view = merge(file.typed, file.saved)
    assert view is not None
    return view


def _lines(view: View) -> list[tuple[int, str]]:
    return sorted((f.line, f.message) for f in view.report.findings)


def test_an_unedited_file_shows_the_check(tmp_path: Path) -> None:
    view = merge(*(lambda f: (f.typed, f.saved))(_checked(tmp_path)))
    assert view is not None
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]


def test_findings_move_with_lines_typed_above(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(1, 1, 1, 1), "// one\n// two\n")
    assert _lines(view) == [(4, "kept"), (6, "spill"), (9, "bank")]
    assert not view.edited
    assert [(k.name, k.line, k.end_line) for k in view.report.kernels] == [("first", 3, 7), ("second", 8, 10)]


def test_an_edited_line_drops_what_the_compiler_said_of_it(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(4, 3, 4, 6), "float")
    assert _lines(view) == [(2, "kept"), (7, "bank")]


def test_a_finding_the_compiler_refuted_returns_when_its_line_is_edited(tmp_path: Path) -> None:
    view = _type(_checked(tmp_path), Span(3, 3, 3, 6), "long")
    assert [line for line, _ in _lines(view)] == [2, 3, 4, 7]


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
    assert file.saved is not None
    text = file.document.text.text
    source = SampleService(tmp_path).check_text(tmp_path / "k.cu", text)
    early = Saved(source, source).keeping(file.saved)
    view = merge(source, early)
    assert view is not None
    assert _lines(view) == [(2, "kept"), (4, "spill")]
    assert view.edited == {"second"}
    (tmp_path / "k.cu").write_text(text)
    final = SampleService(tmp_path).check_file(tmp_path / "k.cu", CheckOptions())
    view = merge(source, Saved(final.files[0], source).keeping(early))
    assert view is not None
    assert not view.edited
    assert _lines(view) == [(2, "kept"), (4, "spill"), (7, "bank")]
