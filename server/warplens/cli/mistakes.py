# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line, in the words of its help rather than of the library that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args, get_origin

if TYPE_CHECKING:
    from cyclopts import CycloptsError

_KINDS = {"int": "a whole number", "float": "a number", "Path": "a path", "bool": "yes or no"}


def sentence(error: CycloptsError) -> str:
    """One line, without the parser's own names for types and positional words."""
    from cyclopts import CoercionError, MissingArgumentError, UnknownCommandError, UnusedCliTokensError

    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"{' '.join(error.unused_tokens)} is one word too many"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.argument.name
        return f"{name} needs a value" if name.startswith("-") else f"{name} is missing"
    if isinstance(error, CoercionError) and error.argument is not None:
        given = error.token.value if error.token is not None else "the value"
        return f"{error.argument.name}: {given} is not {_kind(error.target_type)}"
    words = " ".join(str(error).split()).rstrip(".")
    return (
        words.replace("Unknown command", "there is no command")
        if isinstance(error, UnknownCommandError)
        else words
    )


def _kind(target: object) -> str:
    if get_origin(target) is Literal:
        return "one of " + ", ".join(map(str, get_args(target)))
    name = getattr(target, "__name__", "")
    return _KINDS.get(name, "what is taken here")
