# SPDX-License-Identifier: Apache-2.0
"""Other inputs for a program that is judged from outside: what it remembers of the first does not hold for them."""

from __future__ import annotations

import array
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from warplens.measure.program.program_sandbox import ProgramSandbox, Trial

_INTEGER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_FRACTION = re.compile(r"(?<![\w.])(\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")
#: Files up to this size are changed: each trial is a run of both programs.
_MOST_BYTES = 16 << 20
#: What a program reads of its folder without it being its input.
_SOURCES = {".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".py", ".so", ".o", ".toml", ".cmake"}
#: Least and largest magnitude of an input that is taken for a float; small integers read as floats are below.
_FLOATS = (1e-20, 1e20)


def trials(sandbox: ProgramSandbox, read: frozenset[str]) -> Iterator[Trial]:
    """Runs with one input each changed: numbers among the arguments, then files that were `read`, by name."""
    arguments = sandbox.workload.arguments
    for index, word in enumerate(arguments):
        changed = _argument(word)
        if changed != word:
            words = (*arguments[:index], changed, *arguments[index + 1 :])
            yield Trial(words, title=f"argument {changed} instead of {word}")
    for name in sorted(read | _named(sandbox, arguments)):
        path = sandbox.copied / name
        if path.suffix in _SOURCES or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            continue
        data = changed_content(path.read_bytes())
        if data is not None:
            yield Trial(files={name: data}, title=f"other numbers in {name}")


def _argument(word: str) -> str:
    """The first number in a word made smaller: halved, so that sizes stay multiples, or a small one raised by one."""
    fraction = _FRACTION.search(word)
    if fraction is not None:
        return f"{word[: fraction.start()]}{float(fraction[0]) / 2:g}{word[fraction.end() :]}"
    integer = _INTEGER.search(word)
    if integer is None or "/" in word:
        return word
    value = int(integer[0])
    other = value // 2 if value >= 16 else value + 1
    return f"{word[: integer.start()]}{other}{word[integer.end() :]}"


def _named(sandbox: ProgramSandbox, words: Sequence[str]) -> set[str]:
    """Files of the copied folder that arguments name, for file systems that do not note reading."""
    parts = {part for word in words for part in (word, word.partition("=")[2]) if part}
    directory = Path(sandbox.workload.directory or Path(sandbox.workload.source).parent).resolve()
    paths = (directory / part for part in parts)
    return {
        str(path.relative_to(sandbox.copied))
        for path in paths
        if path.is_file() and sandbox.copied in path.parents
    }


def changed_content(data: bytes) -> bytes | None:
    """An input file with other numbers of the same kind; None where it holds none that are known.

    Fractions in a text and floats of a binary are halved every other time, which changes sums and keeps signs.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _binary(data)
    if "\0" in text:
        return _binary(data)
    count = 0

    def halved(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{float(match[0]) / 2!r}" if count % 2 else match[0]

    changed = _FRACTION.sub(halved, text).encode()
    return changed if changed != data else None


def _binary(data: bytes) -> bytes | None:
    for kind in ("f", "d"):
        values = array.array(kind)
        if not data or len(data) % values.itemsize:
            continue
        values.frombytes(data)
        if all(value == 0 or _FLOATS[0] < abs(value) < _FLOATS[1] for value in values):
            for index in range(0, len(values), 2):
                values[index] /= 2
            changed = values.tobytes()
            return changed if changed != data else None
    return None
