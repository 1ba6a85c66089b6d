# SPDX-License-Identifier: Apache-2.0
"""`make bench-index`: builds the index of the CUTLASS wheel and measures ranking and latency.

Writes `docs/benchmarks/index.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
from tests.index import evaluate as e

from warplens_cutlass.corpus import Corpus
from warplens_cutlass.fetch import fetch_cutlass
from warplens_cutlass.search.reader import Reader, open_reader
from warplens_cutlass.store.build import BuildReport, build, update
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.store.status import corpus_status

SETS = (
    "cutlass-4.2.0.json",
    "fresh-4.2.0.json",
    "third-4.2.0.json",
    "fourth-4.2.0.json",
    "fifth-4.2.0.json",
    "sixth-4.2.0.json",
)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--corpus", type=Path, help="cutlass_library/source of the unpacked wheel; fetched if left out"
    )
    parser.add_argument("--judged", nargs="*", default=SETS)
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument(
        "--worst", action="store_true", help="print the queries whose first right file is not first"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("WARPLENS_HOME", home)
        root = options.corpus or fetch_cutlass().root_path
        with Memory() as memory:
            report = build(root, name="" if options.corpus else "cutlass")
        measured: dict[str, Any] = {"build": _build_figures(report, memory)}
        measured["sets"] = {name: measure(report.corpus, name, options) for name in options.judged}
        measured["cold"] = _cold_command()
    measured["machine"] = machine()
    sys.stdout.write(json.dumps({k: v for k, v in measured.items() if k != "sets"}, indent=1) + "\n")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(measured, indent=1) + "\n")


class Memory:
    """The most memory that this process and its children hold together, sampled; bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        this = psutil.Process()
        while not self._stop.wait(0.05):
            total = 0
            for process in (this, *this.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
            self.peak = max(self.peak, total)


def _build_figures(report: BuildReport, memory: Memory) -> dict[str, Any]:
    database = current_index(report.corpus)
    assert database is not None
    (report.corpus.root_path / "include/cute/layout.hpp").touch()
    updated = update(report.corpus)
    state = corpus_status(report.corpus)
    return {
        "seconds": round(report.seconds, 2),
        "peak_memory_mb": round(memory.peak / 1e6),
        "files": report.files_total,
        "symbols": report.symbols,
        "index_mb": round(database.stat().st_size / 1e6, 1),
        "update_one_file_seconds": round(updated.seconds, 3),
        "header_share_outside_errors": round(state.header_share or 0.0, 5),
        "share_outside_errors": round(state.parsed_share or 0.0, 5),
    }


def _cold_command() -> dict[str, float]:
    """Seconds of whole `warplens search` processes."""
    seconds = []
    for query in ("make_tiled_copy", "persistent ping-pong GEMM with fp8 on Hopper", "named barrier") * 5:
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-P", "-m", "warplens", "search", query], check=True, capture_output=True
        )
        seconds.append(time.perf_counter() - started)
    return _latency(seconds)


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    return {"processor": _processor(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
            "python": platform.python_version(), "sqlite": sqlite3.sqlite_version,
            "date": time.strftime("%Y-%m-%d")}  # fmt: skip


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def measure(corpus: Corpus, judged: str, options: argparse.Namespace) -> dict[str, Any]:
    """Scores of every ranking on every group of queries of a set."""
    sys.stdout.write(f"{judged}\n")
    queries = e.load(judged)
    database = current_index(corpus)
    assert database is not None
    reader = open_reader(corpus, database)
    lines = lines_of(reader)
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
    return table


def lines_of(reader: Reader) -> e.Lines:
    """The lines of every definition, by file and name."""
    lines: e.Lines = {}
    for path, name, line in reader.rows(
        "SELECT f.path, n.name, s.line FROM symbols s JOIN files f ON f.id = s.file_id JOIN names n ON n.id = s.name_id"
    ):
        lines.setdefault((str(path), str(name)), []).append(int(str(line)))
    return lines


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
