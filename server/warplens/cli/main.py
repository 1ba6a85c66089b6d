"""The `warplens` command: mounts the sub-commands lazily and maps errors to sentences and exit statuses."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

import warplens
from warplens_tools.errors import CancelledError, WarplensError

#: Exit statuses of every command: 0 clean, 1 findings at or above `--fail-on`, 2 could not run.
EXIT_CLEAN, EXIT_FINDINGS, EXIT_FAILED = 0, 1, 2

app = App(
    name="warplens",
    help="A performance lens for CUDA: findings on the line, and faster kernels with their proof.",
    version=lambda: warplens.__version__,
    help_format="plaintext",
    result_action="return_value",
)
app.command("warplens.cli.check:check", name="check", help="Findings on the lines of files and folders.")
app.command(
    "warplens.cli.profile:profile",
    name="profile",
    help="Everything known of a file's kernels, reports imported.",
)
app.command(
    "warplens.cli.optimize:optimize",
    name="optimize",
    help="Search for a faster version of a kernel, proven on this GPU.",
)
app.command("warplens.cli.history:app", name="history", help="Past runs, and what the rules were worth.")
app.command("warplens.cli.search:search", name="search", help="Find a CUTLASS/CuTe symbol or example.")
app.command("warplens.cli.index:app", name="index", help="Build and update the CUTLASS/CuTe index.")
app.command(
    "warplens.cli.calibrate:calibrate",
    name="calibrate",
    help="Measure this card's ceilings with ruler kernels.",
)
app.command("warplens.cli.doctor:doctor", name="doctor", help="What this machine has and what is missing.")
app.command("warplens.cli.setup:app", name="setup", help="Bring what this machine lacks, with consent.")


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit status."""
    level = os.environ.get("WARPLENS_LOG", "ERROR").upper()
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s")
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        status = app(list(arguments), exit_on_error=False, print_error=True, error_console=errors)
    except CycloptsError:
        return EXIT_FAILED
    except (CancelledError, KeyboardInterrupt):
        errors.print("warplens: cancelled")
        return 128 + signal.SIGINT
    except WarplensError as error:
        print_error(errors, error)
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader (`head`, a closed pager) has what it wanted; keep the interpreter from saying so.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CLEAN
    return status if isinstance(status, int) else EXIT_CLEAN


def print_error(console: Console, error: WarplensError) -> None:
    """One sentence, and what to do about it."""
    console.print(f"warplens: {error}", markup=False)
    if error.remedy:
        console.print(f"  → {error.remedy}", markup=False)
