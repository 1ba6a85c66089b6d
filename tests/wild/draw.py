# SPDX-License-Identifier: Apache-2.0
"""What readers label: python -m tests.wild.draw ANSWERS ... --out DIR --tool COMMIT [--warnings 160] [--silent 70].

From the answers that `tests.wild.gather` kept of files that compile, warnings and kernels without one are drawn,
the repositories taking turns, so many a repository and a file at most, before anybody looked at any. DIR gets
`draw.jsonl` and the same in parts of about equal length, a file's entries together. Neither is ever committed: they
hold what the tool says of other people's code.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.wild.gather import compile_error

Row = dict[str, Any]
_WARNINGS = ("warning", "error")


@dataclass(frozen=True)
class Most:
    """Most entries of one kind: of a repository, of a file in it, and of one check's in that file."""

    repository: int
    file: int
    code: int


_MOST = {"warning": Most(25, 6, 6), "silent": Most(8, 2, 2)}


def entries(answers: Iterable[Row]) -> list[Row]:
    """Everything that can be drawn: each warning and each silent kernel once, whatever units it was seen from."""
    found: dict[tuple[Any, ...], Row] = {}
    warned: set[tuple[str, str, str]] = set()
    for row in answers:
        for entry in _of_answer(row):
            found.setdefault(_place(entry), entry)
            if entry["kind"] == "warning":
                warned.add(_kernel(entry))
    return [
        e for _, e in sorted(found.items(), key=str) if e["kind"] == "warning" or _kernel(e) not in warned
    ]


def _place(entry: Row) -> tuple[Any, ...]:
    return tuple(entry.get(k) for k in ("repository", "path", "line", "kind", "code", "kernel"))


def _kernel(entry: Row) -> tuple[str, str, str]:
    return entry["repository"], entry["path"], entry["kernel"]


def _of_answer(row: Row) -> Iterator[Row]:
    answer = row["answer"]
    if "files" not in answer or compile_error(answer):
        return
    for file in answer["files"]:
        path = Path(file["path"])
        if not path.is_relative_to(row["root"]):
            continue
        place = {
            "repository": row["repository"],
            "commit": row["commit"],
            "path": str(path.relative_to(row["root"])),
            "file": str(path),
            "unit": row["path"],
            "arch": file["arch"],
        }
        by_kernel: dict[str, list[Row]] = defaultdict(list)
        for finding in file["findings"]:
            by_kernel[finding["kernel"]].append(finding)
        yield from _warnings(file, place, by_kernel)
        yield from _silent(file, place, by_kernel)


def _warnings(file: Row, place: Row, by_kernel: dict[str, list[Row]]) -> Iterator[Row]:
    for finding in file["findings"]:
        if finding["severity"] not in _WARNINGS:
            continue
        gain = finding.get("gain")
        shown = ("kernel", "code", "slug", "severity", "confidence", "message", "guidance", "missing")
        yield {
            **place,
            "kind": "warning",
            "line": finding["span"]["line"],
            **{name: finding.get(name) for name in shown},
            "gain": gain and [gain["low"], gain["estimate"], gain["high"]],
            "evidence": finding.get("evidence", []),
            "related": finding.get("related", []),
            "fixes": [fix["title"] for fix in finding.get("fixes", ())],
            "others": _briefly(f for f in by_kernel[finding["kernel"]] if f is not finding),
        }


def _silent(file: Row, place: Row, by_kernel: dict[str, list[Row]]) -> Iterator[Row]:
    for kernel in file["kernels"]:
        said = by_kernel.get(kernel["qualified_name"], [])
        # What was not compiled, such as a template that nothing instantiates, was not looked at.
        if kernel.get("resources") is None or any(f["severity"] in _WARNINGS for f in said):
            continue
        yield {
            **place,
            "kind": "silent",
            "line": kernel["line"],
            "end_line": kernel["end_line"],
            "kernel": kernel["qualified_name"],
            "bottleneck": kernel.get("bottleneck"),
            "others": _briefly(said),
        }


def _briefly(findings: Iterable[Row]) -> list[Row]:
    return [
        {"line": f["span"]["line"], **{k: f[k] for k in ("code", "severity", "confidence", "message")}}
        for f in findings
    ]


def taken(
    found: Sequence[Row], kind: str, many: int, draw: random.Random, most: Mapping[str, Most] = _MOST
) -> list[Row]:
    """As many of a kind as asked for, the repositories taking turns, each in an order drawn, within `most`."""
    waiting: dict[str, list[Row]] = defaultdict(list)
    for entry in found:
        if entry["kind"] == kind:
            waiting[entry["repository"]].append(entry)
    queues = [_capped(waiting[name], most[kind], draw) for name in sorted(waiting)]
    result: list[Row] = []
    while any(queues) and len(result) < many:
        for queue in queues:
            if queue and len(result) < many:
                result.append(queue.pop())
    return result


def _capped(entries: list[Row], most: Most, draw: random.Random) -> list[Row]:
    draw.shuffle(entries)
    files: Counter[str] = Counter()
    codes: Counter[tuple[str, str]] = Counter()
    kept = []
    for entry in entries:
        path, code = entry["path"], (entry["path"], entry.get("code") or "")
        if files[path] < most.file and codes[code] < most.code:
            files[path] += 1
            codes[code] += 1
            kept.append(entry)
    return kept[: most.repository]


def parts(drawn: Sequence[Row], many: int) -> list[list[Row]]:
    """The entries in parts of about equal length, a file's together."""
    files: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for entry in drawn:
        files[entry["repository"], entry["path"]].append(entry)
    result: list[list[Row]] = [[] for _ in range(many)]
    for group in sorted(files.values(), key=len, reverse=True):
        min(result, key=len).extend(group)
    order: Callable[[Row], Any] = lambda e: (e["repository"], e["path"], e["line"])  # noqa: E731
    return [sorted(part, key=order) for part in result]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--warnings", type=int, default=160)
    parser.add_argument("--silent", type=int, default=70)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="earlier draws, of the same tool")
    parser.add_argument("--parts", type=int, default=3)
    for kind, usual in _MOST.items():
        caps = [usual.repository, usual.file, usual.code]
        parser.add_argument(
            f"--most-{kind}", type=int, nargs=3, default=caps, metavar=("REPOSITORY", "FILE", "CODE")
        )
    given = parser.parse_args()
    rows = [json.loads(p.read_text()) for folder in given.answers for p in sorted(folder.glob("*.json"))]
    before = {_place(json.loads(line)) for path in given.without for line in path.read_text().splitlines()}
    found = [e for e in entries(rows) if _place(e) not in before]
    draw = random.Random(given.seed)
    most = {"warning": Most(*given.most_warning), "silent": Most(*given.most_silent)}
    drawn = taken(found, "warning", given.warnings, draw, most)
    drawn += taken(found, "silent", given.silent, draw, most)
    for number, entry in enumerate(drawn, 1):
        entry["id"] = f"{entry['kind'][0]}{len(before) + number:03}"
        entry["tool"] = given.tool
    given.out.mkdir(parents=True, exist_ok=True)
    _write(given.out / "draw.jsonl", drawn)
    for number, part in enumerate(parts(drawn, given.parts), 1):
        _write(given.out / f"part{number}.jsonl", part)
    kinds = Counter(e["kind"] for e in drawn)
    compiled = sum("files" in r["answer"] and not compile_error(r["answer"]) for r in rows)
    repositories = len({e["repository"] for e in drawn})
    print(f"{dict(kinds)} of {repositories} repositories; {compiled} of {len(rows)} files compile")  # noqa: T201
    print(dict(Counter(e["repository"] for e in drawn if e["kind"] == "warning")))  # noqa: T201


def _write(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps({"id": row["id"], **row}) + "\n" for row in rows))


if __name__ == "__main__":
    main()
