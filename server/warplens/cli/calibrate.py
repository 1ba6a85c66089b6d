# SPDX-License-Identifier: Apache-2.0
"""`warplens calibrate`: measure this card's ceilings."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter, validators
from rich.table import Table

from warplens.cli.main import EXIT_CLEAN
from warplens.cli.streams import console as terminal
from warplens.cli.streams import write_json
from warplens_tools.arch.ceilings import Calibration, repeatability, save_calibration
from warplens_tools.collect.calibrate import calibrate as measure
from warplens_tools.collect.calibrate import device_at, merged
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.toolchain.locate import resolve_toolchain


def calibrate(
    *,
    device: int = 0,
    runs: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=20))] = 1,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Measure this GPU's ceilings with ruler kernels; findings are judged against them from then on.

    Parameters
    ----------
    device
        The GPU, as the CUDA driver counts.
    runs
        Times to measure; several show how well the figures repeat.
    format
        Text for people, or one JSON object.
    """
    card = device_at(device)
    toolchain = resolve_toolchain()
    with gpu_lock(card.uuid, "calibrating"):
        done = [measure(toolchain=toolchain, device=device) for _ in range(runs)]
    calibration = merged(done)
    path = save_calibration(calibration)
    if format == "json":
        write_json(calibration)
        return EXIT_CLEAN
    console = terminal()
    console.print(f"{calibration.gpu}, driver {calibration.driver}, {calibration.compiler}")
    console.print(_table(calibration, repeatability(done) if runs > 1 else {}))
    for reason in sorted({r for state in calibration.states for r in state.slowed}):
        console.print(f"note: the card was held back by its {reason}")
    console.print(f"kept in {path}")
    return EXIT_CLEAN


def _table(calibration: Calibration, repeats: dict[str, float]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("ruler", "best", "median", "unit", "spread", *(["runs differ by"] if repeats else [])):
        table.add_column(column, justify="left" if column in ("ruler", "unit") else "right")
    for ruler in calibration.rulers:
        row = [ruler.name, f"{ruler.best:.4g}", f"{ruler.median:.4g}", ruler.unit, f"{ruler.spread:.1%}"]
        table.add_row(*row, *([f"{repeats[ruler.name]:.1%}"] if repeats else []))
    return table
