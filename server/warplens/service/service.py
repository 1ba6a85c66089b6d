"""The service: one object per workspace, safe to call from several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens.service.report import FileReport, Report
from warplens_tools.evidence import Tier
from warplens_tools.run.cancel import CancelToken, Progress, no_progress


class CheckOptions(msgspec.Struct, frozen=True):
    """How far `check` goes. `arch` None means the GPU present, else the configured architecture."""

    #: The highest tier to collect; None means binary where a compiler is there, else source.
    tier: Tier | None = None
    arch: str | None = None


class Service:
    """Check, profile, optimize, search and doctor for one workspace folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check_text(self, path: Path, text: str) -> FileReport:
        """The source tier on a text that may not be saved; milliseconds, runs nothing."""
        raise NotImplementedError

    def check_file(
        self,
        path: Path,
        options: CheckOptions,
        *,
        progress: Progress = no_progress,
        cancel: CancelToken | None = None,
        on_partial: Callable[[FileReport], None] | None = None,
    ) -> Report:
        """One saved file through the tiers asked for.

        `on_partial` gets each earlier state of the file (source, then ptxas, then SASS) as it is known.
        """
        raise NotImplementedError

    def check(
        self,
        paths: Sequence[Path],
        options: CheckOptions,
        *,
        progress: Progress = no_progress,
        cancel: CancelToken | None = None,
    ) -> Report:
        """Files and folders, recursively."""
        raise NotImplementedError
