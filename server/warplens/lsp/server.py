# SPDX-License-Identifier: Apache-2.0
"""What the server is made of: the connection, its analysis, its long jobs, what it offers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from warplens.lsp.analysis import Analysis
from warplens.lsp.connection import Connection
from warplens.lsp.jobs import Jobs
from warplens.lsp.judging import Judging, ServiceJudging
from warplens.lsp.proposals import Proposals
from warplens.service.service import Service


class WarplensServer(Connection):
    """What every feature gets."""

    def __init__(
        self,
        make_service: Callable[[Path], Service] = Service,
        make_judging: Callable[[Service], Judging] = ServiceJudging,
    ) -> None:
        super().__init__(make_service)
        self.analysis = Analysis(self)
        self.jobs = Jobs(self)
        self.proposals = Proposals(self)
        self._make_judging = make_judging
        #: Called when client and settings are known, and again when the folders change.
        self.on_ready: list[Callable[[], None]] = []
        self.on_close: list[Callable[[], None]] = []

    def judging(self, path: Path) -> Judging:
        """What judges edits of a file."""
        return self._make_judging(self.session.service(path))

    def stop(self) -> None:
        """Cancel jobs and checks, without waiting for them."""
        self.jobs.stop()
        self.analysis.stop()

    def close(self) -> None:
        """End jobs, their process trees, and watching."""
        self.jobs.close()
        self.analysis.close()
        for listener in self.on_close:
            self.guard(listener)
