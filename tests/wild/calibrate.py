# SPDX-License-Identifier: Apache-2.0
"""What separates right warnings from others: python -m tests.wild.calibrate --set DRAW ANSWERS --now DIR.

--set (once a set) is a draw with its readers' answers, --now the answers of `tests.wild.again` or `tests.wild.gather`.
Each label is held against what the tool says now of that kernel on that line with that code: still a warning, said
below one, or not at all. Of what still is a warning, and of each *kind* (code, and which facts were not seen), the
labels are counted; also by confidence, size of the gain, and how many facts were not seen. --remarks prints the
readers' important remarks beside what is said of those kernels now: whether that is the remark is a reader's to say.

--left-out counts what would warn of each set if the others alone had decided which kinds may.

--kinds writes the counts that `warplens_tools.earned` judges kinds by: of every labelled finding that is still said
with a gain, at whatever severity, and of the planted programs that are named. A kind has the facts that were seen on
that day: run again after a change of the tools, a label may count for another kind of its check.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.planted.scoring import mark_of, planted
from tests.wild.score import LABELS, joined, read

from warplens.service.service import CheckOptions, Service
from warplens_tools.earned import WARNED_OF, WARNS, Labels, facts_of, kind_of, share_of
from warplens_tools.earned import table as earned_table
from warplens_tools.settle import WARNED_UNMEASURED

Row = dict[str, Any]
_WARNINGS = ("warning", "error")
_ABOUT = {
    "command": "python -m tests.wild.calibrate --set DRAW ANSWERS … --now DIR --json …",
    "note": (
        "Open sets, seen by the repairers, and the counts that decide what warns are made of the same labels: this "
        "says what became of the labelled warnings, not how right the tool is on code that nobody looked at."
    ),
}


def findings_now(answers: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """What is said now, by repository and path; the same thing seen from several units once."""
    found: dict[tuple[str, str], dict[Any, Row]] = defaultdict(dict)
    for row in answers:
        for file in row["answer"].get("files", ()):
            path = Path(file["path"])
            if not path.is_relative_to(row["root"]):
                continue
            place = found[row["repository"], str(path.relative_to(row["root"]))]
            for finding in file["findings"]:
                key = finding["code"], finding["kernel"], finding["span"]["line"]
                if key not in place or finding["severity"] in _WARNINGS:
                    place[key] = finding
    return {place: list(findings.values()) for place, findings in found.items()}


def held(labelled: Iterable[Row], now: dict[tuple[str, str], list[Row]]) -> list[Row]:
    """Each labelled warning with `now`: what became of it ("gone" where nothing is said), and its present form."""
    result = []
    for row in labelled:
        said = [
            f
            for f in now.get((row["repository"], row["path"]), ())
            if f["code"] == row["code"] and f["kernel"] == row["kernel"] and f["span"]["line"] == row["line"]
        ]
        result.append(
            {**row, "now": said[0]["severity"] if said else "gone", "said": said[0] if said else None}
        )
    return result


def kind(row: Row) -> str:
    """The kind of a finding, as `warplens_tools.earned` has it."""
    return kind_of(row["code"], [seen["tier"] for seen in row["evidence"]], row["missing"])


def kinds(rows: Iterable[Row]) -> dict[str, Counter[str]]:
    """Labels of every kind, of the findings that are still said with a gain (kinds are asked of no others whether they
    may warn); given as `held` makes them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["said"] is not None and row["said"]["gain"] is not None:
            counts[kind(row["said"])][row["label"]] += 1
    return counts


def left_out(rows: Iterable[Row], named: Mapping[str, int]) -> Row:
    """Of each set, given as `set`, the labels of what would warn if the other sets alone decided which kinds may.

    It says how the decision carries over to code that gave no label; repairs that were made on a set are not undone.
    """
    every = list(rows)
    found: Row = {}
    for name in sorted({row["set"] for row in every}):
        counts = kinds(row for row in every if row["set"] != name)
        table = {k: Labels(counts[k]["right"], counts[k].total(), named.get(k, 0)) for k in {*counts, *named}}
        warned = [row for row in every if row["set"] == name and _may_warn(row["said"], table)]
        found[name] = {label: sum(row["label"] == label for row in warned) for label in LABELS}
    return found


def _may_warn(said: Row | None, table: Mapping[str, Labels]) -> bool:
    """Whether a finding would be a warning where `table` says which kinds may: one without a gain is as it is."""
    if said is None or said["gain"] is None:
        return said is not None and said["severity"] in _WARNINGS
    told = facts_of(said["missing"]) in WARNED_OF and said["gain"]["estimate"] >= WARNED_UNMEASURED
    return told and share_of(kind(said), table) >= WARNS


def planted_kinds() -> Counter[str]:
    """How many planted programs have their cause named by a finding of each kind."""
    programs = planted()
    report = Service(programs[0].parent).check(programs, CheckOptions(tier="binary"))
    marks = {path.name: mark_of(path).slug for path in programs}
    return Counter(
        kind_of(f.code, [seen.tier for seen in f.evidence], f.missing)
        for file in report.files
        for f in file.findings
        if f.slug == marks[Path(file.path).name]
    )


def written(counts: Mapping[str, Counter[str]], named: Counter[str]) -> str:
    """The text of `earned.toml`."""
    lines = [
        f'"{name}" = {{ right = {counts[name]["right"]}, of = {counts[name].total()}, planted = {named[name]} }}'
        for name in sorted({*counts, *named})
    ]
    source = (
        'source = "python -m tests.wild.calibrate … --kinds, once: what was said then of the kernels labelled in '
        'tests/wild/labels, and of tests/planted"'
    )
    return "\n".join([source, "", "[kinds]", *lines, ""])


def _size(row: Row) -> str:
    gain = row["gain"]["estimate"] if row["gain"] else 1.0
    return next((f"below {top}" for top in (1.2, 1.5, 2.0, 4.0, 20.0) if gain < top), "20 and more")


VIEWS: dict[str, Callable[[Row], str]] = {
    "code": lambda row: str(row["code"]),
    "kind": kind,
    "confidence": lambda row: str(row["confidence"]),
    "gain": _size,
    "missing facts": lambda row: str(len(row["missing"])),
}


def table(rows: Iterable[Row], by: Callable[[Row], str]) -> Row:
    """Counts of the labels by one property of what is said now."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[by(row)][row["label"]] += 1
    return {name: {label: counts[name][label] for label in LABELS} for name in sorted(counts)}


def calibrated(rows: Iterable[Row]) -> Row:
    """The tables of one tool on labelled warnings, given as `held` makes them."""
    rows = list(rows)
    warned = [row for row in rows if row["now"] in _WARNINGS]
    return {
        "labelled": dict(Counter(row["label"] for row in rows)),
        "now": table(rows, lambda row: str(row["now"])),
        **{
            name: table([{**row["said"], "label": row["label"]} for row in warned], by)
            for name, by in VIEWS.items()
        },
    }


def _printed(name: str, counts: Row) -> None:
    sys.stdout.write(f"\n{name}\n")
    for key, labels in counts.items():
        total = sum(labels.values())
        right = f"{labels['right'] / total:.0%}" if total else "-"
        sys.stdout.write(f"  {key:44}{total:5} {right:>5}  {' '.join(f'{n:4}' for n in labels.values())}\n")


def _remarks(rows: Iterable[Row], now: dict[tuple[str, str], list[Row]]) -> None:
    for row in rows:
        remarks = row.get("remarks") or ([row["missed"]] if row.get("missed") else [])
        if not remarks or not row.get("hot", True):
            continue
        sys.stdout.write(f"\n{row['id']} {row['repository']} {row['path']}:{row['line']} {row['kernel']}\n")
        for remark in remarks:
            sys.stdout.write(f"  - {remark}\n")
        for f in now.get((row["repository"], row["path"]), ()):
            if f["kernel"] == row["kernel"]:
                sys.stdout.write(f"    {f['severity'][:4]} {f['code']} {f['span']['line']}: {f['message']}\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", type=Path, nargs="+", action="append", required=True)
    parser.add_argument("--now", type=Path, nargs="+", required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kinds", type=Path)
    parser.add_argument("--remarks", action="store_true")
    parser.add_argument("--left-out", action="store_true")
    given = parser.parse_args()
    every = [
        {**row, "set": draw.stem}
        for draw, *answers in given.set
        for row in joined(read([draw]), read(answers))
    ]
    answers = [json.loads(p.read_text()) for folder in given.now for p in sorted(folder.glob("*.json"))]
    checked = {(answer["repository"], answer["path"]) for answer in answers if "files" in answer["answer"]}
    rows = [row for row in every if (row["repository"], row["unit"]) in checked]
    sys.stdout.write(f"{len(every) - len(rows)} of {len(every)} entries are of units that were not checked\n")
    now = findings_now(answers)
    warnings = held([row for row in rows if row["kind"] == "warning"], now)
    result = calibrated(warnings)
    _printed("labelled", {"all": result["labelled"]})
    for name, counts in list(result.items())[1:]:
        _printed(name, counts)
    if given.left_out:
        result["left_out"] = left_out(warnings, {k: v.planted for k, v in earned_table().kinds.items()})
        _printed("left out", result["left_out"])
    if given.remarks:
        _remarks(rows, now)
    if given.kinds:
        given.kinds.write_text(written(kinds(warnings), planted_kinds()))
    if given.json:
        given.json.write_text(json.dumps({**_ABOUT, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
