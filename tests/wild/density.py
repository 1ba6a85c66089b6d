# SPDX-License-Identifier: Apache-2.0
"""How often the tool warns: python -m tests.wild.density ANSWERS ... [--json FILE].

From the answers that `tests.wild.gather` kept of files that compile: warnings per 1000 lines of kernels, by check and
in all, each place once whatever units it was seen from. A kernel's lines are those from its head to its closing brace;
those of the functions it calls are not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.wild.draw import entries
from tests.wild.gather import compile_error

Row = dict[str, Any]


def density(rows: Iterable[Row]) -> Row:
    """The figures of one tool's answers."""
    compiled = [row for row in rows if "files" in row["answer"] and not compile_error(row["answer"])]
    warnings = [e for e in entries(compiled) if e["kind"] == "warning"]
    spans = {
        (row["repository"], file["path"], kernel["line"], kernel["end_line"])
        for row in compiled
        for file in row["answer"]["files"]
        if Path(file["path"]).is_relative_to(row["root"])
        for kernel in file["kernels"]
    }
    lines = sum(end - line + 1 for _, _, line, end in spans)
    return {
        "files": len(compiled),
        "kernels": len(spans),
        "kernel_lines": lines,
        "warnings": len(warnings),
        "warnings_per_1000_kernel_lines": round(1000 * len(warnings) / lines, 1) if lines else None,
        "by_code": dict(sorted(Counter(w["code"] for w in warnings).items())),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = [json.loads(p.read_text()) for folder in given.answers for p in sorted(folder.glob("*.json"))]
    result = json.dumps(density(rows), indent=1) + "\n"
    sys.stdout.write(result)
    if given.json:
        given.json.write_text(result)


if __name__ == "__main__":
    main()
