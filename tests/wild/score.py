# SPDX-License-Identifier: Apache-2.0
"""How labelled findings come out: python -m tests.wild.score DRAW.jsonl ANSWERS.jsonl ... [--json FILE] [--keep FILE].

DRAW is of `tests.wild.draw`; each line of ANSWERS is a reader's word on one of its entries, by `id`. A warning's
`label` is right, arguable, misleading or wrong; `missed` names the reader's important remark that is not among what
the tool says of that kernel, "" for none. Of a kernel without a warning a reader says whether it is `hot`, what
important `remarks` an expert would make of it, the most important first, and for each whether the tool `has` it below
the rank of a warning. --keep writes what may be kept of the set: path, line, label and reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LABELS = ("right", "arguable", "misleading", "wrong")
Row = dict[str, Any]
_KEPT = ("id", "kind", "repository", "commit", "path", "line", "code", "confidence", "gain", "tool")
_ANSWERED = ("label", "reason", "missed", "hot", "remarks", "has")


def joined(drawn: Iterable[Row], answers: Iterable[Row]) -> list[Row]:
    """Each entry with its reader's answer.

    Raises:
        ValueError: an entry has no answer, or one that is not complete.
    """
    by_id = {answer["id"]: answer for answer in answers}
    rows = [
        {**entry, **{k: v for k, v in by_id.get(entry["id"], {}).items() if k in _ANSWERED}}
        for entry in drawn
    ]
    for row in rows:
        if row["kind"] == "warning":
            complete = row.get("label") in LABELS
        else:
            complete = "hot" in row and len(row.get("remarks", ())) == len(row.get("has", ()))
        if not complete:
            raise ValueError(f"no complete answer: {row['id']} {row['path']}:{row['line']}")
    return rows


def shares(rows: list[Row]) -> Row:
    """Counts of the labels, and the shares that are right and wrong."""
    counts = Counter(row["label"] for row in rows)
    total = sum(counts.values())
    share = {label: round(counts[label] / total, 3) for label in ("right", "wrong")} if total else {}
    return {"warnings": total, **{label: counts[label] for label in LABELS}, "share": share}


def scored(rows: list[Row]) -> Row:
    """The figures of one set, its entries joined with their answers."""
    warnings = [row for row in rows if row["kind"] == "warning"]
    silent = [row for row in rows if row["kind"] == "silent"]
    hot = [row for row in silent if row["hot"]]
    important = _of_warned(warnings) + [bool(row["has"][0]) for row in hot if row["remarks"]]
    remarks = [bool(has) for row in hot for has in row["has"]]
    return {
        "tool": sorted({row["tool"] for row in rows}),
        "repositories": len({row["repository"] for row in rows}),
        "files": len({(row["repository"], row["path"]) for row in rows}),
        "all": shares(warnings),
        "by_confidence": {
            level: shares([row for row in warnings if row["confidence"] == level])
            for level in ("high", "medium", "low")
        },
        "by_code": {
            code: shares([row for row in warnings if row["code"] == code])
            for code in sorted({row["code"] for row in warnings})
        },
        "by_repository": {
            name: shares([row for row in warnings if row["repository"] == name])
            for name in sorted({row["repository"] for row in warnings})
        },
        "kernels_with_a_warning": len({_kernel(row) for row in warnings}),
        "silent_kernels": {
            "kernels": len(silent),
            "hot": len(hot),
            "hot_with_an_important_remark": sum(bool(row["remarks"]) for row in hot),
            "remarks": len(remarks),
            "remarks_said_below_a_warning": sum(remarks),
        },
        "kernels_with_an_important_remark": len(important),
        "of_these_the_tool_has_it": round(sum(important) / len(important), 3) if important else None,
    }


def _of_warned(warnings: list[Row]) -> list[bool]:
    """For each warned kernel with an important remark, whether it is among the warnings."""
    missed = {_kernel(row) for row in warnings if row.get("missed")}
    right = {_kernel(row) for row in warnings if row["label"] == "right"}
    return [kernel not in missed for kernel in sorted(missed | right)]


def _kernel(row: Row) -> tuple[str, str, str]:
    return row["repository"], row["path"], row["kernel"]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("draw", type=Path)
    parser.add_argument("answers", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    rows = joined(read([given.draw]), read(given.answers))
    result = json.dumps(scored(rows), indent=1) + "\n"
    sys.stdout.write(result)
    if given.json:
        given.json.write_text(result)
    if given.keep:
        kept = [{key: row[key] for key in (*_KEPT, *_ANSWERED) if row.get(key) is not None} for row in rows]
        given.keep.write_text("".join(json.dumps(row) + "\n" for row in kept))


def read(paths: Iterable[Path]) -> list[Row]:
    """The rows of files with one a line."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines() if line]


if __name__ == "__main__":
    main()
