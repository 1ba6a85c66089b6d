# SPDX-License-Identifier: Apache-2.0
"""What a model may look up: bounded, CUTLASS alone, remembered by the run."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("openai")

from tests.server.agent.llm.scripted import (
    CODE,
    LINE,
    TextJudge,
    by_role,
    case_of,
    code,
    plan,
    role_of,
    searching,
)

from warplens.agent.llm.asking import LOOKS
from warplens.agent.llm.library import ANSWER_TOKENS, Library, open_library
from warplens.agent.llm.provider import CHARACTERS_PER_TOKEN
from warplens.agent.llm.replies import Look
from warplens.agent.search_loop import optimize
from warplens.store.database import open_store
from warplens_cutlass.store.build import build
from warplens_tools.text import SourceText

CORPUS = Path(__file__).parents[3] / "data" / "mini_corpus"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Over a small CUTLASS tree, beside a folder of the user's own that is indexed too."""
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    tree = tmp_path / "cutlass"
    shutil.copytree(CORPUS, tree)
    version = tree / "include" / "cutlass" / "version.h"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n")
    own = tmp_path / "own"
    own.mkdir()
    (own / "secret_kernel.cu").write_text(
        "// the user's own TMA copy\n__global__ void secret_copy(float* x) { x[0] = 1; }\n"
    )
    build(tree, name="cutlass")
    build(own, name="own")
    opened = open_library("sm_90")
    assert opened is not None
    return opened


def test_only_cutlass_trees_are_open(library: Library) -> None:
    assert [tree.name for tree in library.trees] == ["cutlass"]
    for look in (
        Look("search", "secret_copy"),
        Look("read", "secret_copy"),
        Look("read", "secret_kernel.cu"),
        Look("read", "../own/secret_kernel.cu"),
        Look("read", "/etc/passwd", 1),
    ):
        assert "the user's own" not in library.look(look) and "root:" not in library.look(look)


def test_without_an_index_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path))
    assert open_library("sm_90") is None


def test_looks_are_answered_within_their_bound_and_remembered(library: Library) -> None:
    header = next((p for p in CORPUS.rglob("*.hpp")), None)
    assert header is not None
    path = header.relative_to(CORPUS).as_posix()
    for look in (Look("search", "copy"), Look("examples", "gemm"), Look("read", path), Look("read", path, 3)):
        answer = library.look(look)
        assert 0 < len(answer) <= ANSWER_TOKENS * CHARACTERS_PER_TOKEN
    assert path in library.look(Look("read", path))
    assert any(path in line for line in library.discoveries)
    assert library.remembered().startswith("- ")
    assert library.look(Look("search", "")).startswith("nothing")
    assert library.look(Look("read", "no_such_symbol")).startswith("nothing")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def test_planner_and_coder_look_first_and_what_they_found_is_kept(
    library: Library, store: sqlite3.Connection
) -> None:
    looked = json.dumps({"look": [{"tool": "search", "query": "copy"}]})
    script = by_role(
        planner=[looked, plan("use cute"), plan("another")],
        coder=['<look tool="search">gemm</look>', code(f'{LINE}\n    asm("// speed=1.5");')],
    )
    with searching(script, library=library, candidates=2) as (problem, source, endpoint):
        result = optimize(problem, TextJudge(SourceText(CODE)), store)
    assert result.outcome == "faster" and source.asker.troubles.keys() <= {"duplicate"}
    first = [r for r in endpoint.requests if role_of(r) == "planner"]
    assert "search 'copy':" in first[1]["messages"][-1]["content"]
    assert "CUTLASS" in first[0]["messages"][0]["content"]
    assert any("Found in CUTLASS in this run" in case_of(r) for r in first[2:])


def test_looking_without_end_is_bounded(library: Library, store: sqlite3.Connection) -> None:
    looked = json.dumps({"look": [{"tool": "search", "query": "copy"}]})
    with searching(by_role(planner=[looked], coder="never"), library=library, candidates=2) as (p, source, e):
        optimize(p, TextJudge(SourceText(CODE)), store)
    assert source.asker.troubles["looked_too_long"] > 0
    assert len(e.requests) <= 2 * (LOOKS + 3)
