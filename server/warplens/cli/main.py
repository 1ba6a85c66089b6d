# SPDX-License-Identifier: Apache-2.0
"""The `warplens` command: finds the sub-command and maps errors to sentences and exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import warplens
from warplens.cli.commands import ABOUT, COMMANDS, help_page, help_text
from warplens.cli.interrupt import Interrupts, interrupts
from warplens.cli.streams import STDIN, prepare, silence, silence_broken, write, write_failed
from warplens_tools.errors import CancelledError, InputError, WarplensError

if TYPE_CHECKING:
    from cyclopts import App

#: Exit statuses of every command: 0 clean, 1 findings at or above `--fail-on`, 2 something could not be done.
EXIT_CLEAN, EXIT_FINDINGS, EXIT_FAILED = 0, 1, 2
_SIGNALLED = 128
#: Commands whose words are paths and values: an empty one would silently mean the current folder.
_TAKE_PATHS = frozenset(
    {"check", "profile", "optimize", "evaluate", "spec", "task", "bench", "config", "index"}
)
_SIGINT = 2
#: Words of a command line that asks for help: a command, its own command, and --help.
_LONGEST = 4


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit status."""
    came = Interrupts()
    try:
        prepare()
        with interrupts() as came:
            status = _dispatch(list(arguments))
            sys.stdout.flush()
    except BrokenPipeError:
        # the reader (`head`, a closed pager) has what it wanted
        silence()
        return EXIT_CLEAN
    except (CancelledError, KeyboardInterrupt):
        _say("warplens: cancelled")
        silence_broken()
        return _SIGNALLED + (came.number or _SIGINT)
    except WarplensError as error:
        print_error(error)
        return EXIT_FAILED
    except OSError as error:
        sentence = write_failed(error)
        if not sentence:
            raise
        silence()
        _say(f"warplens: {sentence}")
        return EXIT_FAILED
    return status


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments in (["--help"], ["-h"]):
        write(help_text().encode())
        return EXIT_CLEAN
    if (
        len(arguments) < _LONGEST
        and arguments[-1] in ("--help", "-h")
        and (page := help_page(arguments[:-1]))
    ):
        write(page.encode())
        return EXIT_CLEAN
    if arguments == ["--version"]:
        write(f"{warplens.__version__}\n".encode())
        return EXIT_CLEAN
    level = os.environ.get("WARPLENS_LOG", "").upper()
    if level:
        import logging

        logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s")
    return _run_app(arguments)


def _run_app(arguments: list[str]) -> int:
    from cyclopts import CycloptsError

    name = arguments[0]
    if not name.startswith("-") and name not in {known for known, _, _ in COMMANDS}:
        raise InputError(f"there is no command {name}", remedy=_nearest(name))
    if "" in arguments and name in _TAKE_PATHS:
        raise InputError(
            "an empty word stands where a path or a value is meant", remedy="a variable may be unset"
        )
    # the parser takes a lone hyphen for an option
    words = [STDIN if word == "-" else word for word in arguments]
    try:
        status = build_app([name])(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        # in one line of its own, not in a box that cuts it at its width
        from warplens.cli.mistakes import sentence

        raise InputError(sentence(error), remedy=f"see `warplens {name} --help`") from error
    return status if isinstance(status, int) else EXIT_CLEAN


def build_app(names: Sequence[str]) -> App:
    """The parser of these commands; each is imported when it is called."""
    from cyclopts import App

    app = App(
        name="warplens",
        help=ABOUT,
        version=lambda: warplens.__version__,
        help_format="markdown",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for name, place, about in COMMANDS:
        if name in names:
            app.command(place, name=name, help=about)
    return app


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [known for known, _, _ in COMMANDS], n=1)
    return f"did you mean `warplens {near[0]}`?" if near else "see `warplens --help`"


def print_error(error: WarplensError) -> None:
    """One sentence, and what to do about it."""
    _say(f"warplens: {error}")
    if error.remedy:
        _say(f"  → {error.remedy}")


def _say(line: str) -> None:
    """A line on stderr, whole; where that is gone too (the terminal ended), nobody is there to read it."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
