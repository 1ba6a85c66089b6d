# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as they are: closed, full, or of a terminal that does not know every character."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from warplens_tools.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN = {
    "→": "->", "←": "<-", "×": "x", "µ": "u", "μ": "u", "·": "-", "…": "...", "–": "-", "—": "-", "≥": ">=", "≤": "<=",
    "✓": "ok", "✗": "!!", "█": "#", "▌": "|", "²": "2", "³": "3", "⁻": "-", "“": '"', "”": '"', "’": "'",
    "\u2009": " ", "\u00a0": " ", "━": "-", "╸": "-", "╺": "-",
}  # fmt: skip
_HANDLER = "warplens-plain"
#: What a lone `-` on the command line means.
STDIN = "/dev/stdin"


def prepare() -> None:
    """Have characters that a stream's encoding lacks written plainly.

    Raises:
        InputError: standard output is closed, so that there is nowhere to answer.
    """
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors=_HANDLER)  # type: ignore[union-attr]
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stdout is None:
        raise InputError("standard output is closed", remedy="redirect it: > FILE, or > /dev/null")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def write(data: bytes) -> None:
    """Bytes to standard output, all of them, now."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """A reader that has enough (`head`, a pager that was closed) ends the answer, not the command, nor its status."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence()


def write_json(value: Any) -> None:
    """One JSON value to standard output."""
    import msgspec

    write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console that wraps nothing of its own accord; a reader that has gone is an exception, not an exit."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Plain(stderr=stderr, highlight=False, soft_wrap=True, width=width)


def say(message: str, share: float | None = None) -> None:
    """A `Progress` on stderr, where a person watches."""
    if sys.stderr.isatty():
        done = f"{share:4.0%} " if share is not None else ""
        sys.stderr.write(f"warplens: {done}{message} …\n")


def write_failed(error: OSError) -> str:
    """The sentence for a standard stream that takes no more; "" where the error is of something else."""
    if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT):
        return ""
    return f"the answer could not be written: {error.strerror}"


def silence() -> None:
    """Keep the interpreter from writing what is left in a broken standard output's buffer when it ends."""
    _silence(sys.stdout)


def silence_broken() -> None:
    """The same of whichever stream takes no more, as both of a terminal that has gone: the status would be another."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            _silence(stream)


def _silence(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
