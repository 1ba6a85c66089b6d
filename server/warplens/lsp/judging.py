"""The seam to the search and the judge: what *Optimize* and *Fix and prove* ask, and what they get."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from warplens.lsp.proposals import Offer
from warplens.service.report import FixReport
from warplens.service.service import Service
from warplens_tools.errors import MissingToolError
from warplens_tools.run.cancel import CancelToken, Progress


class Search(msgspec.Struct, frozen=True):
    """What to make faster, and how much to spend; None means the setting, "" the hottest kernel."""

    kernel: str = ""
    budget: int | None = None
    seconds: float | None = None


class Judging(Protocol):
    """Judges edits of one workspace folder's files. Called on a worker thread."""

    def optimize(self, path: Path, search: Search, *, progress: Progress, cancel: CancelToken) -> Offer:
        """Search for a faster version; the state says whether one was proven.

        Raises:
            MissingToolError: there is no GPU, driver, compiler or CUPTI.
            WarplensError: the workload itself cannot be measured, or `cancel` was triggered.
        """

    def prove(
        self, path: Path, kernel: str, fix: FixReport, *, progress: Progress, cancel: CancelToken
    ) -> Offer:
        """Judge one edit.

        Raises:
            as `optimize`.
        """


class NoJudging:
    """Stands in where nothing can be measured; the edits are then offered unproven, with this reason."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def optimize(self, *_: Any, **__: Any) -> Offer:
        """Say why not."""
        raise MissingToolError("this build of Warplens does not measure kernels from the editor")

    def prove(self, *_: Any, **__: Any) -> Offer:
        """Say why not."""
        raise MissingToolError("this build of Warplens does not measure kernels from the editor")
