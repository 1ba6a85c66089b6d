# SPDX-License-Identifier: Apache-2.0
"""Every exception Warplens raises on purpose.

    WarplensError
    ├── InputError            the user's file, argument or configuration cannot be used as it is
    ├── MissingToolError      a program or library is not there; says how to get it
    ├── ToolFailedError       a program ran and failed; carries its exit status and output
    │   └── CompileError      nvcc rejected the unit; carries its diagnostics
    ├── TimeLimitError        a program was stopped at its time limit
    └── CancelledError        the user, or newer work, asked for it to stop

Analysis of broken user code is not exceptional: it returns what could be seen. Front ends map these
to one sentence and an exit status; nothing else may reach a user as a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warplens_tools.evidence import CompilerMessage


class WarplensError(Exception):
    """The base: `str(error)` is one sentence for the user, `remedy` what to do about it ("" if nothing)."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class InputError(WarplensError):
    """The user's file, argument or configuration cannot be used as it is."""


class MissingToolError(WarplensError):
    """A program or library is not there; `remedy` says how to get it."""


class ToolFailedError(WarplensError):
    """A program ran and failed."""

    def __init__(
        self, message: str, *, remedy: str = "", status: int | None = None, output: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.output = output


class CompileError(ToolFailedError):
    """nvcc rejected the unit; `output` holds what it printed, `messages` the same with lines."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        status: int | None = None,
        output: str = "",
        messages: tuple[CompilerMessage, ...] = (),
    ) -> None:
        super().__init__(message, remedy=remedy, status=status, output=output)
        self.messages = messages


class TimeLimitError(WarplensError):
    """A program was stopped, with all its children, at its time limit."""


class CancelledError(WarplensError):
    """The user, or newer work, asked for the work to stop."""
