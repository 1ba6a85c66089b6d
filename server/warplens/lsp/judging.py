# SPDX-License-Identifier: Apache-2.0
"""What *Optimize* and *Fix and prove* ask of the search and the judge. Called on a worker thread."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from warplens.agent.llm.editor import AskEditor
from warplens.lsp.proposals import Offer
from warplens.service.service import Service
from warplens_tools.finding import Fix
from warplens_tools.process.task import Task


class Search(msgspec.Struct, frozen=True):
    """What to make faster, and how much to spend; None means the setting, "" the hottest kernel."""

    kernel: str = ""
    budget: int | None = None
    seconds: float | None = None
    #: Asks a language model of the editor's; None where the client has none to ask.
    ask_editor: AskEditor | None = None


class Judging(Protocol):
    """Judges edits of one workspace folder's files."""

    def optimize(self, path: Path, search: Search, *, task: Task) -> Offer:
        """Search for a faster version; the state says whether one was proven.

        Raises:
            MissingToolError: a compiler or a part of the measurement is missing.
            WarplensError: the workload itself cannot be measured, or `task` was stopped.
        """

    def prove(self, path: Path, kernel: str, fix: Fix, *, task: Task) -> Offer:
        """Judge one edit.

        Raises:
            MissingToolError: nothing can be measured here.
            WarplensError: as `optimize`.
        """

    def remember(self, path: Path, kernel: str, rewrite: str, code: str) -> None:
        """Note that the user applied a rewrite that answers the finding `code`."""


class ServiceJudging:
    """The search and the judge of the service.

    They are imported with the first use: a session that only looks at kernels never pays for them.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def optimize(self, path: Path, search: Search, *, task: Task) -> Offer:
        """See `Judging`."""
        from warplens.lsp.proof import offer_of
        from warplens.service.optimize import OptimizeOptions, optimize_path

        options = OptimizeOptions(kernel=search.kernel, candidates=search.budget, seconds=search.seconds)
        found = optimize_path(self._service, path, options, task=task, ask_editor=search.ask_editor)
        return offer_of(found)

    def prove(self, path: Path, kernel: str, fix: Fix, *, task: Task) -> Offer:
        """See `Judging`."""
        from warplens.lsp.proof import offer_of_fix
        from warplens.service.optimize import inputs_of
        from warplens.service.prove import prove_fix

        inputs = inputs_of(self._service, path, task=task)
        return offer_of_fix(prove_fix(inputs, kernel, fix, task=task), fix)

    def remember(self, path: Path, kernel: str, rewrite: str, code: str) -> None:
        """See `Judging`."""
        from warplens.service.applying import remember_fix

        remember_fix(path, kernel, rewrite, code)
