# SPDX-License-Identifier: Apache-2.0
"""The launch geometry that an edited text asks for, where whoever wrote the candidate has not said it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from warplens.measure.build.allowed import host_text, why_outside
from warplens.measure.build.candidates import Builder
from warplens.measure.verdict import Candidate
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText
from warplens_tools.tunable.extract import launch_geometry
from warplens_tools.tunable.source import File


def as_written(candidate: Candidate, builder: Builder, kernel: str) -> Candidate:
    """The candidate with the geometry that its text asks for, where it brings none and its edits can be applied."""
    try:
        text = builder.edited(candidate)
    except InputError:
        return candidate
    known = msgspec.structs.replace(candidate, path=candidate.path or builder.workload.source)
    if builder.workload.generated:
        return _launched_elsewhere(known, builder.text, text)
    return with_own_geometry(known, builder.text, text, kernel)


def asking(builder: Builder, candidates: Sequence[Candidate], kernel: str) -> list[SourceText]:
    """The texts of the candidates whose geometry their rebuilt programs are asked for; none whose edits overlap, and
    none that may not even be compiled."""
    texts: list[SourceText] = []
    for candidate in candidates:
        if candidate.asks_program:
            with contextlib.suppress(InputError):
                text = builder.edited(candidate)
                if why_outside(builder.text, text, kernel, builder.workload.source) == ("", ""):
                    texts.append(text)
    return texts


def _launched_elsewhere(candidate: Candidate, before: SourceText, after: SourceText) -> Candidate:
    """Whatever the text's own launches say, a generated program launches the kernel: where sizes change it is asked."""
    changed = host_text(before) != host_text(after)
    return msgspec.structs.replace(
        candidate, grid=None, block=None, dynamic_shared_bytes=None, asks_program=changed
    )


def with_own_geometry(candidate: Candidate, before: SourceText, after: SourceText, kernel: str) -> Candidate:
    """The candidate with its text's own geometry: from constants where they fix it, else the program is asked.

    A header has no launch of its own kernels; where a constant or a size in it changes, the program is asked too.
    """
    said = (candidate.grid, candidate.block, candidate.dynamic_shared_bytes) != (None, None, None)
    if said or candidate.asks_program:
        return candidate
    path = candidate.path
    if host_text(before) == host_text(after):
        return candidate
    old, new = _file(before, path), _file(after, path)
    kernels = old.model.kernel(kernel)
    if kernels is None or not old.launches_of(kernels):
        return msgspec.structs.replace(candidate, asks_program=True)
    found = launch_geometry(old, new, kernel)
    return msgspec.structs.replace(
        candidate,
        grid=found.grid,
        block=found.block,
        dynamic_shared_bytes=found.dynamic_shared_bytes,
        asks_program=not found.known,
    )


def _file(text: SourceText, path: str) -> File:
    return File(text, parse(text, path))
