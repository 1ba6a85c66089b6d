# SPDX-License-Identifier: Apache-2.0
"""The space of a PyTorch task: one Python file that defines `ModelNew`, with as many kernels as it takes.

It begins as the task's own module under that name. Steps are other values of the numbers that its kernels name, and
what further sources bring; no rewrite applies to a file as a whole.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence

from warplens.agent.edits import text_hash
from warplens.agent.moves import Move, Proposal
from warplens.agent.priors import Cause
from warplens.agent.text_source import TextSource
from warplens.agent.versions import ProposalSource
from warplens_tools.arch.gpu import Limits
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText, Span, TextEdit
from warplens_tools.tunable.parameter import Geometry

#: What a solution defines, and what its task does.
SOLUTION, REFERENCE = "ModelNew", "Model"
#: A named number of a kernel, as models are asked to write them.
_NUMBER = re.compile(
    r"""^[ \t]* (?:static\s+)? const(?:expr)? \s+ (?:int|unsigned|long) \s+
    (?P<name>\w+) \s*=\s* (?P<value>[1-9]\d*) \s*;""",
    re.MULTILINE | re.VERBOSE,
)
#: The largest that is tried; gain and chance that are expected of another number before any was tried, below those of
#: a model's step. Ours to choose.
_MOST, _PRIOR = 4096, (1.1, 0.25)
_ASKED = {REFERENCE, "get_inputs", "get_init_inputs"}


class TaskSpace:
    """See `warplens.agent.versions.SearchedSpace`. Counters are not asked for: there is nothing to learn."""

    def __init__(self, limits: Limits, further: Sequence[ProposalSource]) -> None:
        self.limits = limits
        self.features: Mapping[str, float] = {}
        self.sources: Sequence[ProposalSource] = (TextSource("parameters", numbers_of), *further)

    def learn(self, causes: Sequence[Cause], busy: Mapping[str, float]) -> None:
        """Numbers are expected to be worth the same whatever is found."""
        del causes, busy

    def geometry(self, text: SourceText) -> Geometry:
        """A module launches as it likes."""
        del text
        return Geometry()

    def illegal(self, text: SourceText) -> str:
        """Why a version could not run."""
        return why_no_solution(text.text)


def numbers_of(text: SourceText) -> Iterator[Proposal]:
    """Half and twice each named number of the file's kernels, such as a tile's size or the threads of a block."""
    for found in _NUMBER.finditer(text.text):
        name, written = found["name"], int(found["value"])
        span = text.span(found.start("value"), found.end("value"))
        for value in (2 * written, written // 2):
            if 1 <= value <= _MOST:
                title = f"{name}: {written} to {value}"
                move = Move((f"{name}={value}",), "parameter:number", title, *_PRIOR)
                yield Proposal(move, (TextEdit(span, str(value)),))


def is_task(text: str) -> bool:
    """Whether a text is a task: it defines a module and what makes its inputs."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    named = {n.name for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    return named >= _ASKED


def first_solution(task: SourceText) -> SourceText:
    """A task's own module under the solution's name: what a search begins from.

    Raises:
        InputError: the text is no task.
    """
    if not is_task(task.text):
        raise InputError(
            "the file is no PyTorch task", remedy=f"it has to define {', '.join(sorted(_ASKED))}"
        )
    words = tokenize.generate_tokens(io.StringIO(task.text).readline)
    edits = [
        TextEdit(Span(w.start[0], w.start[1] + 1, w.end[0], w.end[1] + 1), SOLUTION)
        for w in words
        if w.type == tokenize.NAME and w.string == REFERENCE
    ]
    return task.apply(edits)


def why_no_solution(text: str) -> str:
    """Why a text is no solution; "" if it may be one."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        return f"it is no Python: {error}"
    if any(isinstance(node, ast.ClassDef) and node.name == SOLUTION for node in body):
        return ""
    return f"it defines no class {SOLUTION}"


def python_essence(text: SourceText) -> str:
    """A hash of a Python text without its comments and blank lines."""
    try:
        dumped = ast.dump(ast.parse(text.text))
    except (SyntaxError, ValueError):
        dumped = text.text
    return text_hash(SourceText(dumped))
