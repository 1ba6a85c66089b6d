# SPDX-License-Identifier: Apache-2.0
"""`warplens search`, `warplens index` and `warplens setup cutlass` as commands."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from warplens.cli import index as cli_index
from warplens.cli.main import run
from warplens.cli.search import read_code
from warplens_cutlass.store.build import build
from warplens_tools.errors import InputError

MINI = Path(__file__).parents[2] / "data" / "mini_corpus"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A copy of the small corpus."""
    return Path(shutil.copytree(MINI, tmp_path / "mini"))


Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def warplens(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command with a home folder, and a text on its standard input."""

    def ask(home: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("WARPLENS_HOME", str(home))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status = run(arguments)
        return subprocess.CompletedProcess(arguments, status, *capfd.readouterr())

    return ask


def test_build_search_update_remove(warplens: Ask, tmp_path: Path, corpus: Path) -> None:
    home = tmp_path / "home"
    built = warplens(home, "index", "build", str(corpus), "--name", "mini")
    assert built.returncode == 0 and built.stdout.startswith("built mini: 7 files,"), built.stderr
    found = warplens(home, "search", "cp_async_wait", "--format", "json", "--limit", "2")
    answer = json.loads(found.stdout)
    assert answer["root"] == str(corpus) and len(answer["results"]) == 2
    assert set(answer["results"][0]) == {
        "path",
        "symbol",
        "kind",
        "line",
        "end_line",
        "score",
        "why",
        "snippet",
    }
    assert (
        answer["results"][0]["symbol"] == "mini::cp_async_wait" and answer["results"][1]["kind"] == "example"
    )
    text = warplens(home, "search", "avoid", "bank", "conflicts", "--kind", "struct")
    assert "include/mini/layout.hpp:27  struct mini::Swizzle" in text.stdout
    (corpus / "include/mini/layout.hpp").unlink()
    assert "removed 1" in warplens(home, "index", "update", "mini").stdout
    state = warplens(home, "index", "status", "--verbose")
    assert "100.00% of header bytes" in state.stdout and "kernel" in state.stdout
    assert (
        json.loads(warplens(home, "index", "status", "--format", "json").stdout)["corpora"][0]["files"] == 6
    )
    assert warplens(home, "index", "remove", "mini").returncode == 0
    nothing = warplens(home, "search", "anything")
    assert (
        nothing.returncode == 2
        and "warplens setup cutlass" in nothing.stderr
        and "Traceback" not in nothing.stderr
    )


def test_code_is_searched_for_by_lines_and_from_standard_input(
    warplens: Ask, tmp_path: Path, corpus: Path
) -> None:
    home = tmp_path / "home"
    warplens(home, "index", "build", str(corpus), "--name", "mini")
    file = tmp_path / "k.cu"
    code = 'void a();\nasm volatile("cp.async.cg.shared.global [%0], [%1], 16;");\nvoid b();\n'
    file.write_text(code)
    for arguments, text in (([f"--like={file}:2-2"], ""), ([f"--like={file}"], ""), (["--like=-"], code)):
        found = warplens(home, "search", *arguments, "--format", "json", text=text)
        answer = json.loads(found.stdout)
        assert answer["results"][0]["symbol"] == "mini::SM80_CP_ASYNC_CACHEGLOBAL"
        assert "cp.async" in answer["recognised"][0]


def test_one_line_stands_for_the_kernel_around_it(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("int a;\n__global__ void k() {\n  int x;\n  int y;\n}\nint b;\n")
    assert read_code(f"{file}:3") == "__global__ void k() {\n  int x;\n  int y;\n}"
    assert read_code(f"{file}:3-4") == "  int x;\n  int y;"
    assert read_code(str(file)).startswith("int a;")
    for like in (f"{file}:99", f"{file}:4-3", str(tmp_path / "none.cu")):
        with pytest.raises(InputError):
            read_code(like)


def test_what_cannot_be_done_is_said_in_a_sentence(warplens: Ask, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for arguments in (
        ["search"],
        ["index", "build", str(tmp_path / "none")],
        ["index", "remove", "none"],
        ["setup", "cutlass"],
    ):
        done = warplens(home, *arguments)
        assert (
            done.returncode == 2 and done.stderr.startswith("warplens: ") and "Traceback" not in done.stderr
        )


def test_a_corpus_is_named_and_one_that_is_not_there_refused(
    warplens: Ask, tmp_path: Path, corpus: Path
) -> None:
    home = tmp_path / "home"
    warplens(home, "index", "build", str(corpus), "--name", "mini")
    found = warplens(home, "search", "cp_async_wait", "--corpus", "mini", "--format", "json")
    assert json.loads(found.stdout)["results"][0]["symbol"] == "mini::cp_async_wait"
    refused = warplens(home, "search", "cp_async_wait", "--corpus", "maxi")
    assert refused.returncode == 2 and "there are: mini" in refused.stderr


def test_where_nothing_is_indexed_the_index_is_offered_and_built(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    # stands for the download alone
    monkeypatch.setattr(cli_index, "setup_cutlass", lambda **_: build(corpus, name="cutlass"))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda: "n")
    assert run(["search", "cp_async_wait"]) == 2
    said = capfd.readouterr()
    assert "Nothing is indexed yet. Warplens will download" in said.err and said.out == ""
    monkeypatch.setattr("builtins.input", lambda: "y")
    assert run(["search", "cp_async_wait", "--limit", "1"]) == 0
    assert "mini::cp_async_wait" in capfd.readouterr().out
