# SPDX-License-Identifier: Apache-2.0
"""What each weight of the ranking, and the thesaurus, is worth: the sixth set without each of them.

`python -m tests.index.ablate --json docs/benchmarks/index_ablation.json`. The sixth set was written by somebody who
had no part in the ranking, but it chose which weights stayed and the values of some: it is no longer unseen, and the
differences lean to the weights' side. `--judged` takes another set.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from tests.index import evaluate as e
from tests.index.bench import lines_of, machine

from warplens_cutlass.fetch import setup_cutlass
from warplens_cutlass.index_settings import RankingWeights
from warplens_cutlass.search.reader import open_reader
from warplens_cutlass.store.generation import current_index

SIXTH = "sixth-4.2.0.json"
#: The value at which each weight says nothing.
NEUTRAL = {
    "concept": 0.0,
    "concept_place": 1.0,
    "full_coverage": 0.0,
    "included": 0.0,
    "file_focus": 0.0,
    "aside": 1.0,
    "crowding": 1.0,
    "name": 1.0,
}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--judged", default=SIXTH)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("WARPLENS_HOME", home)
        corpus = setup_cutlass().corpus
        database = current_index(corpus)
        assert database is not None
        lines = lines_of(open_reader(corpus, database))
        table = {"as it is": scores(options.judged, RankingWeights(), lines)}
        for name, value in NEUTRAL.items():
            weights = msgspec.structs.replace(RankingWeights(), **{name: value})
            table[f"without {name}"] = scores(options.judged, weights, lines)
    for name, row in table.items():
        sys.stdout.write(f"{name:24} {'  '.join(f'{k} {v}' for k, v in row.items())}\n")
    if options.json:
        measured = {"judged": options.judged, "scores": table, "machine": machine()}
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


def scores(judged: str, weights: RankingWeights, lines: e.Lines) -> dict[str, Any]:
    """By kind of query: MRR@10 of files and of symbols, nDCG@10 of files."""
    answers, _ = e.run(lambda query: e.ours(query, weights), e.load(judged))
    found = {}
    for kind in ("words", "symbol", "code"):
        some = [a for a in answers if a[0].kind == kind]
        files = e.file_scores(some)
        found[kind] = {"file_mrr": files.mrr_10, "symbol_mrr": e.symbol_scores(some, lines).mrr_10,
                       "file_ndcg": files.ndcg_10}  # fmt: skip
    return found


if __name__ == "__main__":
    main()
