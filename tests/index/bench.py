"""`make bench-index`: builds the index of the CUTLASS wheel and measures ranking and latency.

Writes `docs/benchmarks/index.json`. `--worst` also prints the queries whose first right file is not first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from tests.index import evaluate as e

from warplens_cutlass.corpus import Corpus
from warplens_cutlass.search.reader import open_reader
from warplens_cutlass.store.build import build
from warplens_cutlass.store.generation import current_index


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--corpus", type=Path, required=True, help="cutlass_library/source of the unpacked wheel"
    )
    parser.add_argument("--judged", default="cutlass-4.2.0.json")
    parser.add_argument("--half", default="")
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--worst", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("WARPLENS_HOME", home)
        started = time.perf_counter()
        report = build(options.corpus, name="cutlass")
        seconds = time.perf_counter() - started
        measured = measure(report.corpus, options)
    measured["build"] = {"seconds": round(seconds, 2), "files": report.files_total, "symbols": report.symbols}
    measured["machine"] = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                           "python": platform.python_version(), "date": time.strftime("%Y-%m-%d")}  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps(measured, indent=1) + "\n")


def measure(corpus: Corpus, options: argparse.Namespace) -> dict[str, Any]:
    """Scores of every ranking on every group of queries."""
    queries = [q for q in e.load(options.judged) if not options.half or q.half == options.half]
    database = current_index(corpus)
    assert database is not None
    reader = open_reader(corpus, database)
    lines: e.Lines = {}
    for path, name, line in reader.rows(
        "SELECT f.path, n.name, s.line FROM symbols s JOIN files f ON f.id = s.file_id JOIN names n ON n.id = s.name_id"
    ):
        lines.setdefault((str(path), str(name)), []).append(int(str(line)))
    paths = [str(row[0]) for row in reader.rows("SELECT path FROM files")]
    rankings: dict[str, e.Ranking] = {"warplens": e.ours}
    if options.baselines:
        rankings["distinct words (ripgrep)"] = e.DistinctWords(corpus.root_path, paths)
        rankings["FTS5 over 60-line chunks"] = e.Chunks(corpus.root_path, paths)
    e.run(e.ours, queries[:10])
    table: dict[str, Any] = {}
    for name, ranking in rankings.items():
        answers, seconds = e.run(ranking, queries)
        table[name] = _groups(answers, lines) | {"latency": _latency(seconds)}
        print_scores(name, table[name])
        if name == "warplens" and options.worst:
            print_worst(answers)
    return {"rankings": table, "index_bytes": database.stat().st_size}


def _groups(answers: list[tuple[e.Query, list[e.Place]]], lines: e.Lines) -> dict[str, Any]:
    groups = {"all": answers}
    for kind in ("words", "symbol", "code"):
        groups[kind] = [a for a in answers if a[0].kind == kind]
    for half in ("tune", "held"):
        groups[half] = [a for a in answers if a[0].half == half]
    return {
        group: {
            "file": msgspec.to_builtins(e.file_scores(some)),
            "symbol": msgspec.to_builtins(e.symbol_scores(some, lines)),
        }
        for group, some in groups.items()
        if some
    }


def _latency(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median_ms": round(1000 * statistics.median(ordered), 2),
        "p95_ms": round(1000 * ordered[int(0.95 * (len(ordered) - 1))], 2),
        "max_ms": round(1000 * ordered[-1], 2),
    }


def print_scores(name: str, table: dict[str, Any]) -> None:
    """One line per group."""
    out = sys.stdout.write
    out(f"{name}  {table['latency']}\n")
    for group, scores in table.items():
        if group != "latency":
            f, s = scores["file"], scores["symbol"]
            out(f"  {group:7} n={f['queries']:3}  file: S@1 {f['success_1']:.2f} S@5 {f['success_5']:.2f} "
                f"MRR {f['mrr_10']:.3f} nDCG {f['ndcg_10']:.3f}   symbol: S@1 {s['success_1']:.2f} "
                f"S@5 {s['success_5']:.2f} MRR {s['mrr_10']:.3f} nDCG {s['ndcg_10']:.3f}\n")  # fmt: skip


def print_worst(answers: list[tuple[e.Query, list[e.Place]]]) -> None:
    """Queries whose first result is not a right file, with what came instead."""
    for query, places in answers:
        grades = e.file_grades(places, query)
        rank = next((i for i, g in enumerate(grades, 1) if g), 0)
        if rank != 1:
            text = (query.query + " " + query.code).strip().replace("\n", " ")[:90]
            sys.stdout.write(f"{query.id} rank {rank}: {text}\n")
            for place in places[: max(rank, 4)]:
                sys.stdout.write(f"      {place.path} {place.symbol}\n")


if __name__ == "__main__":
    main()
