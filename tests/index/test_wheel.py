# SPDX-License-Identifier: Apache-2.0
"""The CUTLASS wheel, fetched, indexed and searched as a user would; one test, so that it is built once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.index import evaluate

from warplens_cutlass.corpus import Corpus
from warplens_cutlass.fetch import fetch_cutlass, setup_cutlass
from warplens_cutlass.lookup import look_up
from warplens_cutlass.search.reader import open_reader
from warplens_cutlass.store.build import update
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.store.status import corpus_status
from warplens_tools.errors import ToolFailedError

#: Mean reciprocal rank at 10, file level, per kind of query: what was reached on the sixth set before the ranking was
#: cut down to what this set showed worth of. It keeps that from getting worse; it is no figure of an unseen set.
AIMS = {"words": 0.849, "symbol": 0.99, "code": 0.866}
SIXTH = "sixth-4.2.0.json"
JUDGED = (
    "cutlass-4.2.0.json",
    "fresh-4.2.0.json",
    "third-4.2.0.json",
    "fourth-4.2.0.json",
    "fifth-4.2.0.json",
    SIXTH,
)
#: On every set; words and code of the others fell with the patterns and constants that were fitted on them.
NAMES = 0.95
#: Definitions that a set names and that stand where the grammars err, or are parameters of templates.
UNREAD = {"warpgroup_reg_set", "GroupProblemShape"}


@pytest.mark.slow
@pytest.mark.thorough
def test_the_wheel_is_found_in(home: Path) -> None:  # noqa: ARG001 - sets the managed folder
    try:
        report = setup_cutlass()
    except ToolFailedError as error:
        pytest.skip(f"the wheel cannot be downloaded here: {error.output[-200:]}")
    corpus = report.corpus
    assert corpus.version == "4.2.0" and report.files_total > 1300 and report.symbols > 30_000
    assert {p.name for p in corpus.root_path.iterdir()} == {"include", "examples", "tools", "LICENSE.txt"}
    assert fetch_cutlass() == corpus
    state = corpus_status(corpus)
    assert state.header_share is not None and state.header_share >= 0.97
    assert state.index_bytes < 60_000_000

    definitions = _definitions(corpus)
    for name in JUDGED:
        # Judgements name files and definitions; a misspelt one would only ever count against the search.
        for query in evaluate.load(name):
            named = {(a.path, s) for a in query.answers for s in a.symbols if s not in UNREAD}
            assert named <= definitions, query.id
        for kind, aim in AIMS.items() if name == SIXTH else [("symbol", NAMES)]:
            answers, _ = evaluate.run(evaluate.ours, [q for q in evaluate.load(name) if q.kind == kind])
            assert evaluate.file_scores(answers).mrr_10 >= aim, (name, kind)

    header = corpus.root_path / "include/cute/layout.hpp"
    header.touch()
    started = time.process_time()
    assert update(corpus).files_read == 1
    assert time.process_time() - started < 3.0
    card = look_up("cute::make_tiled_copy")
    assert card is not None and card.path == "include/cute/atom/copy_atom.hpp" and card.used_in > 10
    # Its file makes members with macros that stand alone, which the grammars cannot read.
    assert look_up("AttentionBackwardKernel") is not None


def _definitions(corpus: Corpus) -> set[tuple[str, str]]:
    database = current_index(corpus)
    assert database is not None
    rows = open_reader(corpus, database).rows(
        "SELECT f.path, n.name FROM symbols s JOIN files f ON f.id = s.file_id JOIN names n ON n.id = s.name_id"
    )
    return {(str(path), str(name)) for path, name in rows}
