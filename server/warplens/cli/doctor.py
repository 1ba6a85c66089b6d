"""`warplens doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from warplens.cli.main import EXIT_CLEAN, EXIT_FINDINGS
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
        sys.stdout.buffer.write(
            msgspec.json.format(msgspec.json.encode({"version": 1, "checks": checks}), indent=1) + b"\n"
        )
    else:
        console = Console(highlight=False, soft_wrap=True)
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
