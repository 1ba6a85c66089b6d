# SPDX-License-Identifier: Apache-2.0
"""Runs the checks of open files: the source tier while typing, the tiers above on save."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from warplens.lsp import uris
from warplens.lsp.connection import Connection
from warplens.lsp.includes import includes
from warplens.lsp.progress import Job
from warplens.lsp.scheduler import Debounce, GaveWayError, Pool
from warplens.lsp.session import TYPED_LIMIT, OpenFile
from warplens.lsp.shift import LineChange, differences
from warplens.lsp.view import View, view_of
from warplens.service.build_messages import NOT_COMPILED
from warplens.service.check import Checked
from warplens.service.report import FileReport
from warplens.service.service import CheckOptions
from warplens_tools.errors import CancelledError, WarplensError
from warplens_tools.process.cancel import CancelToken, RightOfWay
from warplens_tools.text import SourceText

T = TypeVar("T")

#: A request for a file whose first analysis has not finished waits this long for it.
_PATIENCE_SECONDS = 2.0
#: Seconds that a check is expected to take for each code point, where the file was never checked.
_SECONDS_A_CHARACTER = 1e-5
#: What may be lacking: how it begins in `Unknown.what`, in two words, and what is left without it.
_LIMITS = (
    ("binary tier of", "source only", "What is shown rests on the text alone"),
    ("SASS of", "no SASS", "What bounds the kernels is not known"),
)
#: Checks at once: a compiler takes a core, and a machine has other work.
_MOST_AT_ONCE = 4


class Analysis:
    """The checks of the open files. `changed` is called with a file's key when what is known of it changed."""

    def __init__(self, server: Connection) -> None:
        self._server = server
        self._session = server.session
        self._took: dict[str, float] = {}
        size = min(os.cpu_count() or 1, _MOST_AT_ONCE)
        way = RightOfWay()
        self._source = Pool("warplens-source", 1, self._rank, takes=way)
        self._saves = Pool("warplens-check", size, self._rank, gives=way)
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
            self._server.status("checking", "Reading the file", uri=file.document.uri)
            self._typing.request(key, at_once=True)

    async def check(self, key: str) -> bool:
        """Check a file as on a save; whether the check came to its end."""
        file = self._session.files.get(key)
        if file is None or file.document.path is None or not self._session.trusted:
            self.saved(key)
            return False
        await self._check_file(key, file, file.document.path)
        return not self._saves.running(key) and "check" not in file.failures

    def closed(self, key: str) -> None:
        """A document was closed: its jobs end, and what it showed goes."""
        self._session.close(key)
        self.gone(key)
        self._tell(key)

    def gone(self, key: str) -> None:
        """A file is no longer there, or no longer open: nothing more is done for it."""
        self._typing.forget(key)
        self._source.cancel(key)
        self._saves.cancel(key)

    def everything(self) -> None:
        """Settings, trust or flags changed: check every open file again."""
        self._session.forget_builds()
        for key in list(self._session.files):
            if not self._session.trusted:
                self._saves.cancel(key)
            self.opened(key)

    def dependency_changed(self, path: Path) -> None:
        """A file changed on disk: check the open units that include it again."""
        real = os.path.realpath(path)
        for key, file in self._session.files.items():
            unit = file.document.path
            if unit is None or key == str(path):
                continue
            if file.built_from:
                concerned = real in file.built_from
            else:
                concerned = includes(unit, path, self._session.root_of(unit))
            if concerned:
                self.saved(key)

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

    def _rank(self, key: str) -> tuple[bool, float]:
        file = self._session.files.get(key)
        size = len(file.document.text.text) if file is not None else 0
        return self._session.in_sight(key), self._took.get(key, size * _SECONDS_A_CHARACTER)

    async def _check_text(self, key: str) -> None:
        file = self._session.files.get(key)
        if file is None:
            return
        document = file.document
        state, text = document.state, document.text
        path = document.path or Path(uris.display_name(document.uri))
        service = self._session.service(document.path)
        readable = file.view.report.syntax_errors if file.view is not None else None

        def look() -> FileReport | None:
            if readable is not None and service.syntax_errors(path, text) > readable:
                return None
            return service.check_text(path, text)

        try:
            report, seconds = await self._source.run(key, CancelToken(), lambda: _timed(look))
        except GaveWayError:
            self._typing.request(key)
            return
        except CancelledError:
            return
        except WarplensError as error:
            self._failed(key, file, "typing", error)
            return
        file.failures.pop("typing", None)
        changes = document.changes_since(state)
        # a text in the midst of typing is read quickly, however long the whole of it took before
        self._typing.took(key, seconds)
        if self._session.files.get(key) is file and changes is not None:
            if report is not None:
                file.heard(report, changes)
            self._tell(key)
        if document.path is None or not self._session.trusted:
            self._server.status("ready", uri=document.uri)

    async def _check_file(self, key: str, file: OpenFile, path: Path) -> None:
        """One save, to its diagnostics: every stage of the check, as it comes, onto the text on screen."""
        uri, started = file.document.uri, time.monotonic()
        self._server.status("checking", f"Checking {path.name}", uri=uri)
        await self._session.configured.wait()
        job = _Check(self, key, file, path)
        try:
            async with job.task:
                await self._saves.run(key, job.task.token, job.run)
        except GaveWayError:
            self.saved(key)
            return
        except CancelledError:
            if not self._saves.running(key):
                self._server.status("ready", uri=uri)
            return
        except WarplensError as error:
            self._failed(key, file, "check", error)
            return
        except Exception as error:
            self._failed(key, file, "check", _own_error(error))
            raise
        self._took[key] = time.monotonic() - started
        self._tell(key)

    def place(self, job: _Check, checked: Checked) -> None:
        """Show a stage of a check on the text as it is now; nothing if the job was overtaken."""
        file, session = job.file, self._session
        since = file.document.changes_since(job.state)
        if job.task.token.cancelled or since is None or session.files.get(job.key) is not file:
            return
        if checked.report.tiers == ("source",) and job.source is None:
            job.source = checked.report
        source = job.source or FileReport(checked.report.path, (), ())
        disk, complete = job.disk, checked.complete
        stage = view_of(checked.report, source, disk, checked.unknown, complete=complete)
        file.checked(stage, disk.text, [*job.unsaved, *since], complete=complete)
        if checked.complete:
            file.built_from = checked.built_from
            file.failures.pop("check", None)
        self._tell(job.key)
        if checked.complete:
            self._say_unknown(file, checked)

    def _failed(self, key: str, file: OpenFile, work: str, error: WarplensError) -> None:
        file.failures[work] = f"{error}" + (f" ({error.remedy})" if error.remedy else "")
        self._server.log_error(error, uris.display_name(file.document.uri))
        self._server.status("error", str(error), error.remedy, file.document.uri)
        self._tell(key)

    def _say_unknown(self, file: OpenFile, checked: Checked) -> None:
        """What could not be established is logged once; a missing tier is the status."""
        for item in checked.unknown:
            sentence = f"{item.what}: {item.why}"
            self._server.log_once(f"{sentence}; {item.remedy}." if item.remedy else f"{sentence}.")
        uri = file.document.uri
        for lacking, label, effect in _LIMITS:
            missing = next((u for u in checked.unknown if u.what.startswith(lacking)), None)
            if missing is not None:
                broken = any(f.slug == NOT_COMPILED[1] for f in checked.report.findings)
                label = "does not compile" if broken else label
                self._server.status("limited", f"{effect}: {missing.why}", missing.remedy, uri, label)
                return
        self._server.status("ready", uri=uri)

    def _tell(self, key: str) -> None:
        file = self._session.files.get(key)
        if file is not None and (file.view or "typing" in file.failures):
            file.analysed.set()
        for listener in self.changed:
            self._server.guard(listener, key)


def _own_error(error: Exception) -> WarplensError:
    said = f"{type(error).__name__}: {error}"
    remedy = "save the file again; if that does not help, report it with what the log says"
    return WarplensError(f"the check failed by an error in Warplens itself, {said}", remedy=remedy)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` gives, and the processor's seconds on this thread."""
    started = time.thread_time()
    return work(), time.thread_time() - started


class _Check:
    """One check of a saved file, and the text it was started for."""

    def __init__(self, analysis: Analysis, key: str, file: OpenFile, path: Path) -> None:
        self.key, self.file, self.path = key, file, path
        self.task = Job(analysis._server, f"Warplens: checking {path.name}")
        self.state = file.document.state
        #: The source tier on the text that is checked.
        self.source: FileReport | None = None
        #: From the text on disk to the editor's at the start; empty when the file was just saved.
        self.unsaved: list[LineChange] = []
        #: What was read.
        self.disk = SourceText("")
        self._analysis = analysis
        self._editor_text = file.document.text
        self._service = analysis._session.service(path)
        self._loop = asyncio.get_running_loop()

    def run(self) -> None:
        """On a thread of the pool."""
        self.disk = SourceText.read(self.path)
        self.unsaved = differences(self.disk, self._editor_text)
        options = CheckOptions()
        for checked in self._service.stages(self.path, options, task=self.task):
            self._loop.call_soon_threadsafe(self._analysis.place, self, checked)
