# SPDX-License-Identifier: Apache-2.0
"""Random files through `check --fix-all --diff`, `--fix-all` and `patch -p1`, counted.

python -m tests.bench.fuzz_fix --count 1000 --json docs/benchmarks/fuzz_fix.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.server.cli.fuzz import fuzz


def main() -> int:
    """Print what went wrong; write the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = fuzz(Path(folder), given.count, given.seed)
    wrong = [o for o in outcomes if o.wrong]
    figures = {
        "command": f"python -m tests.bench.fuzz_fix --count {given.count} --seed {given.seed}",
        "files": len(outcomes),
        "by_kind": dict(sorted(Counter(o.kind for o in outcomes).items())),
        "files_with_edits": sum(o.edits > 0 for o in outcomes),
        "edits": sum(o.edits for o in outcomes),
        "refused_as_binary": sum(o.refused for o in outcomes),
        "bytes_changed_outside_an_edit": sum("outside" in o.wrong for o in outcomes),
        "patches_that_differ": sum("patch" in o.wrong for o in outcomes),
        "tracebacks": sum(":" in o.wrong for o in outcomes),
        "wrong": len(wrong),
        "seconds": round(time.monotonic() - began, 1),
    }
    for outcome in wrong[:20]:
        sys.stderr.write(f"{outcome}\n")
    text = json.dumps(figures, indent=1) + "\n"
    sys.stdout.write(text)
    if given.json:
        given.json.write_text(text)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
