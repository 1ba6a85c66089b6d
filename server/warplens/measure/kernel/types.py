# SPDX-License-Identifier: Apache-2.0
"""What the source says of a program's data: structures, variables, pointers that may be null, and what nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from warplens.measure.build.unit import Unit
from warplens_tools.cuda.syntax.tree import SourceTree, parse_apart, parse_tree
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.layouts import Record
from warplens_tools.run.elements import optional_names
from warplens_tools.run.probe.job import JobParameter
from warplens_tools.run.variables import variable_parameters
from warplens_tools.text import SourceText
from warplens_tools.toolchain.symbols import unit_free_name
from warplens_tools.tunable.array_ends import largest_that_fit
from warplens_tools.tunable.scratch import unseen_after
from warplens_tools.tunable.source import File

#: Headers are read as far as they are the user's: so many, none larger.
_MOST_HEADERS, _MOST_BYTES = 40, 200_000
_LIBRARIES = frozenset(
    {"cutlass", "cute", "cub", "thrust", "cccl", "libcudacxx", "site-packages", "include-fixed"}
)


class SourceTypes(msgspec.Struct, frozen=True):
    """What the text of a unit and of the user's headers says."""

    #: Structures by name.
    records: dict[str, Record]
    #: What variables hold, by their names in the program.
    held: dict[str, JobParameter]
    #: Names that are asked for whether they are null.
    optional: frozenset[str]


def source_types(
    text: SourceText, source: Path, dependencies: Sequence[str], variables: Iterable[str]
) -> SourceTypes:
    """The types of a unit's data. A structure that two files define differently is left out."""
    trees = [parse_tree(text), *_headers(source, dependencies)]
    records: dict[str, Record] = {}
    twice = set()
    for tree in trees:
        for name, record in layouts_of(tree).records.items():
            if records.setdefault(name, record) != record:
                twice.add(name)
    records = {name: record for name, record in records.items() if name not in twice}
    return SourceTypes(records, variable_parameters(trees, variables, records), optional_names(text.text))


def scratch_of(file: File, unit: Unit) -> dict[str, frozenset[int]]:
    """By kernel the parameters behind which blocks of one launch leave each other what nobody else sees.

    The host side hands the memory to no other kernel and reads none of it, and by the PTX the kernel writes and reads
    there, with a fence between what its blocks see of one another.
    """
    found: dict[str, frozenset[int]] = {}
    for kernel in unit.evidence.kernels:
        known, name = unit.between.get(unit_free_name(kernel.mangled)), kernel.qualified_name
        if known is None or not known.fenced:
            found[name] = frozenset()
            continue
        handed_on = frozenset(map(int, known.read & known.written))
        found[name] = found.get(name, handed_on) & handed_on
    return {name: kept for name, both in found.items() if both and (kept := both & unseen_after(file, name))}


def ends_of(file: File, unit: Unit) -> dict[str, dict[int, int]]:
    """By kernel and parameter the largest integers by value that the kernel's own arrays have room for."""
    names = {kernel.qualified_name for kernel in unit.evidence.kernels}
    return {name: most for name in names if (most := largest_that_fit(file, name))}


def _headers(source: Path, dependencies: Sequence[str]) -> Iterator[SourceTree]:
    """The user's own headers among the files that a unit is built from."""
    read = 0
    for name in dependencies:
        path = Path(name).resolve()
        own = (
            path.name != source.name and not path.is_relative_to("/usr") and not _LIBRARIES & set(path.parts)
        )
        if not own or read >= _MOST_HEADERS or "targets" in path.parts:
            continue
        try:
            content = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
        except OSError:
            continue
        # the toolkit's own headers lie anywhere
        if content and b"NVIDIA Corporation" not in content[:400]:
            read += 1
            yield parse_apart(SourceText(content.decode("utf-8", "replace")))
