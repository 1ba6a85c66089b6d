# SPDX-License-Identifier: Apache-2.0
"""The space of a PyTorch task: one Python file that defines `ModelNew`, with as many kernels as it takes.

It begins as the task's own module under that name. No rewrite and no parameter applies to a file as a whole: all steps
come from further sources.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Sequence

from warplens.agent.actions import KernelSpace
from warplens.agent.versions import ProposalSource
from warplens_tools.arch.gpu import Limits
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText, Span, TextEdit
from warplens_tools.tunable.parameter import Geometry

#: What a solution defines, and what its task does.
SOLUTION, REFERENCE = "ModelNew", "Model"
_ASKED = {REFERENCE, "get_inputs", "get_init_inputs"}


class TaskSpace(KernelSpace):
    """See `warplens.agent.versions.Space`."""

    def __init__(
        self, baseline: SourceText, *, path: str, limits: Limits, further: Sequence[ProposalSource]
    ) -> None:
        super().__init__(baseline, path=path, kernel=SOLUTION, limits=limits, further=further)

    def geometry(self, text: SourceText) -> Geometry:
        """A module launches as it likes."""
        del text
        return Geometry()

    def illegal(self, text: SourceText) -> str:
        """Why a version could not run."""
        return why_no_solution(text.text)


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
    return hashlib.sha256(dumped.encode()).hexdigest()
