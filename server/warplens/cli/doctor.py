# SPDX-License-Identifier: Apache-2.0
"""`warplens doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.text import Text

from warplens.cli.main import EXIT_CLEAN, EXIT_FINDINGS
from warplens.cli.streams import console as terminal
from warplens.cli.streams import write_json
from warplens.present.abilities import summary
from warplens.service.service import Service

_MARKS = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "missing": ("–", "dim"),
    "broken": ("✗", "bold red"),
}


def doctor(*, format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text") -> int:
    """Check the compiler, its headers, CUPTI, the driver and the profilers against each other.

    Parameters
    ----------
    format
        Text for people, or one JSON object.
    """
    checks = Service(Path.cwd()).doctor()
    if format == "json":
        write_json({"version": 1, "checks": checks})
    else:
        console = terminal()
        console.print(Text(summary(checks), style="bold"))
        for check in checks:
            mark, colour = _MARKS[check.status]
            line = Text(f"{mark} ", style=colour)
            line.append(f"{check.name}: ", style="bold")
            line.append(check.text)
            console.print(line)
            if check.status != "ok":
                for label, words in (("without it", check.takes_away), ("do", check.remedy)):
                    if words:
                        console.print(Text(f"    {label}: {words}", style="dim"))
    return EXIT_FINDINGS if any(check.status == "broken" for check in checks) else EXIT_CLEAN
