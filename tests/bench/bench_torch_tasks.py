# SPDX-License-Identifier: Apache-2.0
"""The PyTorch tasks on the card of this machine, forward and backward, as JSON.

    python tests/bench/bench_torch_tasks.py [--python PYTHON_WITH_TORCH] [--json FILE]

Every task with its honest `ModelNew` in inline CUDA where there is one, and the defective ones. `--do-bench` puts what
`triton.testing.do_bench` says of the eager reference beside our time of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from warplens.measure.torch_task.task import TorchTask, examine

TASKS = Path(__file__).parents[1] / "torch_tasks"
DO_BENCH = """
import importlib.util, json, sys, torch
from triton.testing import do_bench
spec = importlib.util.spec_from_file_location("task", sys.argv[1])
task = importlib.util.module_from_spec(spec); spec.loader.exec_module(task)
model = task.Model(*task.get_init_inputs()).cuda()
inputs = [x.cuda() if torch.is_tensor(x) else x for x in task.get_inputs()]
def forward():
    with torch.no_grad(): model(*inputs)
print(json.dumps(do_bench(forward) / 1e3))
"""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--do-bench", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for path in sorted((TASKS / "tasks").glob("*.py")):
        candidate = TASKS / "cuda" / path.name
        if not candidate.exists() and (TASKS / "honest" / path.name).exists():
            continue
        candidate = candidate if candidate.exists() else TASKS / "cuda/damped_wave.py"
        for backward in (False, True) if path.stem == "scale_shift" else (False,):
            asked = TorchTask(str(path), str(candidate), backward=backward)
            row: dict[str, Any] = {"task": path.stem, "backward": backward}
            row |= msgspec.to_builtins(examine(asked, python=options.python))
            if options.do_bench and not backward and row["seconds"]:
                done = subprocess.run(
                    [options.python, "-c", DO_BENCH, str(path)], capture_output=True, text=True, check=True
                )
                row["do_bench_eager_seconds"] = json.loads(done.stdout)
            rows.append(row)
            sys.stderr.write(
                f"{path.stem}{' backward' if backward else ''}: {row['state']}: {row['reason']}\n"
            )
    head = {
        "command": "python tests/bench/bench_torch_tasks.py " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    text = json.dumps({**head, "tasks": rows}, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
