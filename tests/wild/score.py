# SPDX-License-Identifier: Apache-2.0
"""How labelled findings come out: python -m tests.wild.score LABELS.jsonl [--json FILE].

A warning's label is right, arguable, misleading or wrong; a silent kernel's is "nothing" where its reader had no
important remark, "missed" where they had one, and "said" where the tool says it below the rank of a warning. A warned
kernel's rows may carry `"missed": true` where the reader's important remark is not among its warnings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

LABELS = ("right", "arguable", "misleading", "wrong")
SILENT = ("nothing", "said", "missed")


def shares(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of the labels, and the shares that are right and wrong."""
    counts = Counter(row["label"] for row in rows)
    total = sum(counts.values())
    share = {label: round(counts[label] / total, 3) for label in ("right", "wrong")} if total else {}
    return {"warnings": total, **{label: counts[label] for label in LABELS}, "share": share}


def scored(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of one set.

    Raises:
        ValueError: a row has no label, or one that does not exist.
    """
    warnings = [row for row in rows if row["kind"] == "warning"]
    silent = [row for row in rows if row["kind"] == "silent"]
    for row in warnings + silent:
        if row["label"] not in (LABELS if row["kind"] == "warning" else SILENT):
            raise ValueError(f"no label {row['label']!r}: {row['path']}:{row['line']}")
    kernels = {(row["repository"], row["path"], row["kernel"]) for row in warnings}
    missed = {(row["repository"], row["path"], row["kernel"]) for row in warnings if row.get("missed")}
    had = {(r["repository"], r["path"], r["kernel"]) for r in warnings if r["label"] == "right"} - missed
    said = [row for row in silent if row["label"] == "said"]
    important = len(had) + len(missed) + sum(row["label"] in ("said", "missed") for row in silent)
    by_confidence = {
        level: shares([row for row in warnings if row["confidence"] == level])
        for level in ("high", "medium", "low")
    }
    return {
        "repositories": len({row["repository"] for row in rows}),
        "files": len({(row["repository"], row["path"]) for row in rows}),
        "all": shares(warnings),
        "by_confidence": by_confidence,
        "kernels_with_a_warning": len(kernels),
        "silent_kernels": len(silent),
        "silent_labels": dict(Counter(row["label"] for row in silent)),
        "important_remarks": important,
        "important_remarks_it_has": round((len(had) + len(said)) / important, 3) if important else None,
        "nothing_said": sum(row["kind"] == "nothing said" for row in rows),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = [json.loads(line) for path in given.labels for line in path.read_text().splitlines() if line]
    result = json.dumps(scored(rows), indent=1) + "\n"
    sys.stdout.write(result)
    if given.json:
        given.json.write_text(result)


if __name__ == "__main__":
    main()
