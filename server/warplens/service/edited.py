# SPDX-License-Identifier: Apache-2.0
"""Judges a version of a file that the user, or another tool, has written."""

from __future__ import annotations

import difflib
from pathlib import Path

from warplens.agent.edits import text_hash
from warplens.agent.result import OptimizeResult
from warplens.measure.verdict import Candidate
from warplens.service.optimize import OpenJudge, OptimizeOptions, inputs_of, open_judge
from warplens.service.prove import prove_one
from warplens.service.service import Service
from warplens.service.workloads import require_main
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText, TextEdit


def prove_edited(
    service: Service,
    path: Path,
    edited: Path,
    options: OptimizeOptions,
    *,
    task: Task = UNATTENDED,
    judge: OpenJudge = open_judge,
) -> OptimizeResult:
    """Judge `edited` as the new text of `path`, and confirm it if it is faster. Of the options, those of a search
    have no meaning.

    Raises:
        InputError: the two are equal, or as `prove_fix`.
        As `prove_fix` otherwise.
    """
    inputs = inputs_of(service, path, options.arch, task=task)
    require_main(inputs.path, inputs.unit, inputs.loaded, options.kernel)
    text, after = inputs.text(), SourceText.read(edited)
    edits = edits_between(text, after)
    if not edits:
        raise InputError(f"{edited} is the same as {path.name}")
    candidate = Candidate(
        id="c1",
        path=str(inputs.path),
        kernel=options.kernel,
        edits=edits,
        parent="baseline",
        origin="user",
        title=f"the version in {edited.name}",
        text_hash=text_hash(after),
    )
    return prove_one(inputs, text, candidate, options, task=task, judge=judge)


def edits_between(before: SourceText, after: SourceText) -> tuple[TextEdit, ...]:
    """The edits that make one text of another, by whole lines."""
    old, new = before.text.splitlines(keepends=True), after.text.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    return tuple(
        TextEdit(before.span(starts[a], starts[b]), "".join(new[c:d]))
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    )
