# SPDX-License-Identifier: Apache-2.0
"""Reads launch specs from comments above kernels.

    /* warplens: launch
    shapes = [{ n = 1048576 }, { n = 1000003 }]
    grid = "(n + 255) / 256"
    block = 256
    arguments.x = { count = "n" }
    */

or the same in `//` lines. The text after the first line is TOML.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec

from warplens_tools.cuda.model import SourceModel
from warplens_tools.decode import from_builtins
from warplens_tools.errors import InputError
from warplens_tools.run.spec.model import Data, LaunchSpec, PlacedSpec
from warplens_tools.text import SourceText

_BLOCK = re.compile(r"/\*[ \t]*warplens:[ \t]*launch\b[ \t]*(.*?)\*/", re.DOTALL)
_LINES = re.compile(r"^[ \t]*//[ \t]*warplens:[ \t]*launch\b[ \t]*(.*(?:\r?\n[ \t]*//.*)*)", re.MULTILINE)
_WHERE = re.compile(r"\(at line (\d+), column \d+\)")
_FIELD = re.compile(r"Object contains unknown field `(.+?)`")
_AT = re.compile(r" - at `\$\.?(.*)`$")


def specs_in(text: SourceText, model: SourceModel, name: str) -> tuple[PlacedSpec, ...]:
    """The specs that stand in comments of a file, each for the kernel below it.

    Raises:
        InputError: a comment does not parse, or stands above no kernel; the message names its line.
    """
    if "warplens:" not in text.text:
        return ()
    found = []
    for line, end, body in _comments(text.text):
        place = f"{name}:{line}"
        kernel = next((k for k in model.kernels if k.span.line >= end), None)
        if kernel is None:
            raise InputError(f"{place}: no kernel stands below this launch spec")
        found.append(PlacedSpec(decoded(_toml(body, place, line), place), kernel.qualified_name, place))
    names = [spec.kernel for spec in found]
    for spec in found:
        if names.count(spec.kernel) > 1:
            raise InputError(f"{spec.place}: {spec.kernel} has more than one launch spec")
    return tuple(found)


def decoded(table: dict[str, Any], place: str) -> LaunchSpec:
    """A spec from what TOML says.

    Raises:
        InputError: a key or a value is not one of a spec's.
    """
    for key in ("source", "kernel"):
        if key in table:
            raise InputError(f"{place}: a comment is for the kernel below it, and says no {key}")
    try:
        return from_builtins(table, LaunchSpec)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {plainly(str(error))}", remedy="see docs/launch-specs.md") from error


def plainly(error: str) -> str:
    """msgspec's sentence in the words of a spec."""
    at = _AT.search(error)
    where = f" in {at[1]}" if at and at[1] else ""
    if unknown := _FIELD.search(error):
        kinds = (Data,) if "arguments" in where or "buffers" in where or "symbols" in where else (LaunchSpec,)
        keys = [field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)]
        near = difflib.get_close_matches(unknown[1], keys, n=1)
        return f"there is no key {unknown[1]}{where}" + (f"; did you mean {near[0]}?" if near else "")
    said = _AT.sub("", error)
    return f"{at[1]}: {said[0].lower()}{said[1:]}" if at and at[1] else said


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """First line of each comment, the line after its end, and its body, whose first line is the comment's own."""
    matches = [(m, m[1]) for m in _BLOCK.finditer(text)]
    matches += [(m, re.sub(r"(?m)^[ \t]*//[ ]?", "", m[1])) for m in _LINES.finditer(text)]
    for match, body in sorted(matches, key=lambda pair: pair[0].start()):
        line = text.count("\n", 0, match.start()) + 1
        yield line, text.count("\n", 0, match.end()) + 1, body


def _toml(body: str, place: str, line: int) -> dict[str, Any]:
    body = re.sub(r"(?m)^[ \t]*\*[ \t]?", "", body) if _starred(body) else body
    try:
        return tomllib.loads(body.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        at = _WHERE.search(str(error))
        where = place if at is None else f"{place.rsplit(':', 1)[0]}:{line + int(at[1]) - 1}"
        said = _WHERE.sub("", str(error)).strip()
        raise InputError(
            f"{where}: the launch spec does not parse: {said[0].lower()}{said[1:]}",
            remedy="it is TOML; see docs/launch-specs.md",
        ) from error


def _starred(body: str) -> bool:
    """Whether every line begins with a star, as documentation comments are written."""
    lines = [line.strip() for line in body.splitlines()[1:] if line.strip()]
    return bool(lines) and all(line.startswith("*") for line in lines)
