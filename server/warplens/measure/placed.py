# SPDX-License-Identifier: Apache-2.0
"""Candidates built beside the programs that are asked how they launch them, and placed as those say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from warplens.measure.build.candidates import Built
from warplens.measure.build.own_geometry import asking
from warplens.measure.session import PreparedWorkload
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


def build_beside(
    opened: PreparedWorkload,
    candidates: Sequence[Candidate],
    made: Callable[[Built | Verdict], None],
    task: Task,
) -> None:
    """Build candidates, and beside their own units the programs that are asked for a geometry later: nobody has the
    card while the compiler works.

    Raises:
        CancelledError, MissingToolError: as named.
    """
    builder, name = opened.builder, opened.target.compiled.qualified_name

    def rebuild() -> None:
        opened.geometries.rebuild(asking(builder, candidates, name), task)

    with ThreadPoolExecutor(1) as aside:
        rebuilding = aside.submit(rebuild)
        builder.build_all(
            candidates,
            opened.unit,
            opened.target.compiled,
            opened.program.read_bytes(),
            task=task,
            on_done=made,
        )
        rebuilding.result()


def placed(
    opened: PreparedWorkload, built: list[Built], tell: Callable[[Verdict], None], task: Task
) -> list[Built]:
    """The candidates with the geometry that their rebuilt programs launch with.

    Raises:
        CancelledError, MissingToolError: as named.
    """
    texts = {b.candidate.id: opened.builder.edited(b.candidate) for b in built if b.candidate.asks_program}
    if not texts:
        return built
    found: list[Built] = []
    shapes = (opened.target.shape, *opened.target.others)
    with opened.session.card("reading launch geometry", task.part()):
        opened.geometries.ask(list(texts.values()), task)
        for one in built:
            done: Built | Verdict = one
            if one.candidate.id in texts:
                done = opened.geometries.place(one, texts[one.candidate.id], shapes, task)
            if isinstance(done, Verdict):
                tell(done)
            else:
                found.append(done)
    return found
