# SPDX-License-Identifier: Apache-2.0
"""Runs a spec's statements on what its first launches get: a script for the Python that has numpy or torch.

`python compute.py FOLDER`, with a JSON list of {"launch", "code", "arrays", "outputs"} on standard input. It reads the
arrays FOLDER/LAUNCH-NAME (doubles) and writes FOLDER/LAUNCH-NAME.expected. Needs nothing of Warplens.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    """Compute all."""
    import numpy as np

    for asked in json.load(sys.stdin):
        launch, code = asked["launch"], asked["code"]
        names: dict[str, Any] = {"np": np, "numpy": np}
        made: Any = np.asarray
        if "torch" in code:
            import torch

            names["torch"], made = torch, torch.from_numpy
        for line in (folder / f"{launch}-numbers").read_text().splitlines():
            name, value = line.split()
            number = float(value)
            names[name] = int(number) if number.is_integer() else number
        for name in asked["arrays"]:
            names[name] = made(np.fromfile(folder / f"{launch}-{name}"))
        exec(code, names)
        for name in asked["outputs"]:
            found = np.asarray(names[name], dtype=np.float64).ravel()
            # what the statements leave as it was is none of their results
            if not np.array_equal(found, np.fromfile(folder / f"{launch}-{name}"), equal_nan=True):
                found.tofile(folder / f"{launch}-{name}.expected")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
