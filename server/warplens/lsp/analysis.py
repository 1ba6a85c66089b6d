"""Runs the checks of open files and keeps their results on the right lines."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.lsp import uris
from warplens.lsp.progress import JobProgress
from warplens.lsp.scheduler import Debounce, Worker
from warplens.lsp.session import TYPED_LIMIT, OpenFile
from warplens.lsp.shift import LineChange, differences, shift_report
from warplens.lsp.view import Saved, View
from warplens.service.report import FileReport, Report
from warplens.service.service import CheckOptions
from warplens_tools.errors import CancelledError, WarplensError
from warplens_tools.evidence import Unknown
from warplens_tools.process.cancel import CancelToken
from warplens_tools.text import SourceText

if TYPE_CHECKING:
    from warplens.lsp.server import WarplensServer


#: A request for a file whose first analysis has not finished waits this long for it.
_PATIENCE_SECONDS = 2.0


class Analysis:
    """The source tier while typing, the tiers above on save. `changed` is called with a file's key."""

    def __init__(self, server: WarplensServer) -> None:
        self._server = server
        self._session = server.session
        self._source = Worker("warplens-source")
        self._saves = Worker("warplens-check")
        self._typing = Debounce(lambda key: server.guarded(self._check_text(key)))
        self.changed: list[Callable[[str], None]] = []

    def opened(self, key: str) -> None:
        """A document was opened: both tiers, the cheap one at once."""
        self._typing.request(key, at_once=True)
        self.saved(key)

    def typed(self, key: str) -> None:
        """A document was edited."""
        file = self._session.files[key]
        if len(file.document.text.text) > TYPED_LIMIT:
            file.typed = None
        else:
            self._typing.request(key)

    def saved(self, key: str) -> None:
        """A file was saved, or what it depends on changed."""
        file = self._session.files.get(key)
        if file is None:
            return
        if file.document.path is not None and self._session.trusted:
            self._server.spawn(self._check_file(key, file, file.document.path))
        else:
            self._typing.request(key, at_once=True)

    def closed(self, key: str, uri: str) -> None:
        """A document was closed: its jobs end, and what it showed goes."""
        self._typing.forget(key)
        self._saves.cancel(key)
        for other in self._session.close(uri) | {key}:
            self._tell(other)

    def everything(self) -> None:
        """Settings, trust or a shared dependency changed: check every open file again."""
        self._session.forget_builds()
        for key in list(self._session.files):
            if not self._session.trusted:
                self._saves.cancel(key)
            self.opened(key)

    def dependency_changed(self, key: str) -> None:
        """A file that units may include changed on disk: check the open units beside it again."""
        root = self._session.root_of(Path(key))
        for other, file in self._session.files.items():
            if other != key and self._session.root_of(file.document.path) == root:
                self.saved(other)

    async def view(self, uri: str) -> View | None:
        """What is known of an open file, after its first analysis; None if it is not open."""
        file = self._session.file(uri)
        if file is None:
            return None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(file.analysed.wait(), _PATIENCE_SECONDS)
        return self._session.view(uris.key(uri))

    def stop(self) -> None:
        """Cancel all jobs, without waiting for them."""
        self._saves.stop()
        self._source.stop()

    def close(self) -> None:
        """End all jobs and their process trees."""
        self._saves.close()
        self._source.close()

    async def _check_text(self, key: str) -> None:
        file = self._session.files.get(key)
        if file is None:
            return
        document = file.document
        state, text = document.state, document.text
        path = document.path or Path(uris.display_name(document.uri))
        service = self._session.service(document.path)
        try:
            report = await self._source.run(key, CancelToken(), lambda: service.check_text(path, text.text))
        except WarplensError as error:
            self._failed(key, file, "typing", error)
            return
        file.failures.pop("typing", None)
        changes = document.changes_since(state)
        if self._session.files.get(key) is file and changes is not None:
            file.typed = shift_report(report, changes)
            self._tell(key)

    async def _check_file(self, key: str, file: OpenFile, path: Path) -> None:
        await self._session.configured.wait()
        token = CancelToken()
        job = _Job(self, key, file, path, token)
        name = path.name
        self._server.status("checking", f"Checking {name}", uri=file.document.uri)
        try:
            async with JobProgress(self._server, f"Warplens: checking {name}", token) as progress:
                report = await self._saves.run(key, token, lambda: job.run(progress))
        except CancelledError:
            if not self._saves.running(key):
                self._server.status("ready")
            return
        except WarplensError as error:
            self._failed(key, file, "check", error)
            return
        self._finished(job, report)

    def _finished(self, job: _Job, report: Report) -> None:
        if self._session.files.get(job.key) is not job.file:
            return
        job.file.failures.pop("check", None)
        elsewhere: dict[str, FileReport] = {}
        for found in report.files:
            path = Path(os.path.abspath(found.path))  # noqa: PTH100 - without ".." but with its links
            if path == job.path or os.path.realpath(path) == os.path.realpath(job.path):
                self.place(job, found, report.unknown)
            elif self._session.in_workspace(path):
                elsewhere[str(path)] = self._session.on_screen(str(path), found)
        for key in self._session.replace_elsewhere(job.key, elsewhere):
            self._tell(key)
        self._say_unknown(job, report)

    def place(self, job: _Job, report: FileReport, unknown: Sequence[Unknown] | None = None) -> None:
        """Show a state of a check, moved to the text as it is now; dropped if the job was overtaken.

        `unknown` is None for all but the last state: until then what an earlier check found above the
        source tier stays, or saving would make it flicker.
        """
        file, session = job.file, self._session
        since = file.document.changes_since(job.state)
        if job.token.cancelled or since is None or session.files.get(job.key) is not file:
            return
        if unknown is None and report.tiers == ("source",):
            job.source = report
        source = job.source or FileReport(report.path, (), ())
        state = Saved(report, source, frozenset(), tuple(unknown or ())).moved([*job.unsaved, *since])
        file.saved = state if unknown is not None else state.keeping(file.saved)
        file.checked_text = job.text
        self._tell(job.key)

    def _failed(self, key: str, file: OpenFile, work: str, error: WarplensError) -> None:
        file.failures[work] = f"{error}" + (f" ({error.remedy})" if error.remedy else "")
        self._server.log_error(error, uris.display_name(file.document.uri))
        self._server.status("error", str(error), error.remedy, file.document.uri)
        self._tell(key)

    def _say_unknown(self, job: _Job, report: Report) -> None:
        """What could not be established is logged once; a missing tier is the status."""
        for item in report.unknown:
            sentence = f"{item.what}: {item.why}"
            self._server.log_once(f"{sentence}; {item.remedy}." if item.remedy else f"{sentence}.")
        missing = next((u for u in report.unknown if u.what.startswith("binary tier")), None)
        if missing is None:
            self._server.status("ready")
        else:
            self._server.status(
                "limited", f"{missing.what}: {missing.why}", missing.remedy, job.file.document.uri
            )

    def _tell(self, key: str) -> None:
        file = self._session.files.get(key)
        if file is not None and (file.typed or file.saved or "typing" in file.failures):
            file.analysed.set()
        for listener in self.changed:
            self._server.guard(listener, key)


class _Job:
    """One check of a saved file, and the text it was started for."""

    def __init__(self, analysis: Analysis, key: str, file: OpenFile, path: Path, token: CancelToken) -> None:
        self.key, self.file, self.path, self.token = key, file, path, token
        self.state = file.document.state
        self.source: FileReport | None = None
        #: From the text on disk to the editor's at the start; empty when the file was just saved.
        self.unsaved: list[LineChange] = []
        self.text = ""
        self._analysis = analysis
        self._editor_text = file.document.text
        session = analysis._session
        self._service = session.service(path)
        self._loop = asyncio.get_running_loop()

    def run(self, progress: JobProgress) -> Report:
        """On the worker thread."""
        disk = SourceText.read(self.path)
        self.text = disk.text
        self.unsaved = differences(disk, self._editor_text)
        return self._service.check_file(
            self.path, CheckOptions(), progress=progress, cancel=self.token, on_partial=self._partial
        )

    def _partial(self, report: FileReport) -> None:
        self._loop.call_soon_threadsafe(self._analysis.place, self, report)
