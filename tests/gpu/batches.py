# SPDX-License-Identifier: Apache-2.0
"""Batches of candidates that the judge is tried on, one TOML file each in `exploits/`: exploits, and honest ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from tests.suite.catalogue import programs

from warplens.measure.verdict import Candidate, State
from warplens.service.edited import edits_between
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit

HERE = Path(__file__).parent
#: Another folder of them may be named, as one of programs with less to do.
BATCHES = Path(os.environ.get("WARPLENS_BATCHES") or HERE / "exploits")
PROGRAMS = HERE / "programs"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """One candidate of a batch."""

    name: str
    #: Verdicts that are right, after the confirmation where it was called faster; the first is the expected one.
    states: tuple[State, ...]
    #: [old, new] pairs, each for the first occurrence; `@CANARY@` in a new text is the canary's folder, `@PORT@` the
    #: port that it listens on.
    edits: tuple[tuple[str, str], ...] = ()
    #: In place of edits: a file beside the batch that holds the whole new text.
    edited: str = ""
    #: Right and meant to be accepted; everything else is an exploit.
    honest: bool = False
    #: A file in `programs/`, or a path beside the batch; "" for the batch's own.
    program: str = ""
    kernel: str = ""
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    lower_precision: bool = False


class Scores(msgspec.Struct, frozen=True):
    """What became of a batch."""

    exploits: int
    caught: int
    honest: int
    accepted: int
    date: str = ""
    #: Of the judge.
    commit: str = ""


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of candidates."""

    candidate: tuple[Entry, ...]
    program: str = ""
    #: What it scored before anything was changed for it; None while that is not known.
    first: Scores | None = None


class Run(msgspec.Struct, frozen=True):
    """Candidates that one judge takes: of one program, started in one way."""

    workload: Workload
    kernel: str
    lower_precision: bool
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """Its command line, as it were."""
        return " ".join([Path(self.workload.source).name, *self.workload.arguments])


def names() -> tuple[str, ...]:
    """Every batch."""
    return tuple(sorted(path.stem for path in BATCHES.glob("*.toml")))


def experts() -> Batch:
    """Of every program of the suite the expert's version, whole: honest all of them."""
    found = tuple(
        Entry(p.name, ("faster",), edited=str(p.expert), honest=True, program=str(p.path), kernel=p.kernel)
        for p in programs()
        if p.expert.exists()
    )
    return Batch(found)


def read(name: str) -> Batch:
    """A batch by its name; "experts" is made of the suite."""
    if name == "experts":
        return experts()
    return msgspec.toml.decode((BATCHES / f"{name}.toml").read_bytes(), type=Batch)


def runs(batch: Batch) -> tuple[Run, ...]:
    """A batch's candidates, by the program and how it is started."""
    found: dict[tuple[object, ...], list[Entry]] = {}
    for entry in batch.candidate:
        program = entry.program or batch.program
        key = (program, entry.kernel, entry.arguments, entry.flags, entry.lower_precision)
        found.setdefault(key, []).append(entry)
    return tuple(_run(batch, entries) for entries in found.values())


def _run(batch: Batch, entries: list[Entry]) -> Run:
    one = entries[0]
    program = one.program or batch.program
    beside = BATCHES / program
    path = str(beside if beside.exists() else PROGRAMS / program)
    work = Workload(path, path, arguments=one.arguments, flags=one.flags)
    return Run(work, one.kernel, one.lower_precision, tuple(entries))


def candidate(entry: Entry, source: Path, known: Mapping[str, str] | None = None) -> Candidate:
    """A candidate for the judge; `known` says what `@WORDS@` in its new text stand for."""

    def filled(text: str) -> str:
        for word, value in (known or {}).items():
            text = text.replace(word, value)
        return text

    text = SourceText.read(source)
    if entry.edited:
        after = SourceText(filled((BATCHES / entry.edited).read_text("utf-8")))
        return Candidate(entry.name, str(source), "", edits_between(text, after), title=entry.name)
    edits = []
    for old, new in entry.edits:
        start = text.text.index(old)
        edits.append(TextEdit(text.span(start, start + len(old)), filled(new)))
    return Candidate(entry.name, str(source), "", tuple(edits), title=entry.name)
