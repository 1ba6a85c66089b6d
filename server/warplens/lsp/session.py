# SPDX-License-Identifier: Apache-2.0
"""What the server knows: folders and their services, open files, settings, trust. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.convert import Positions
from warplens.lsp.documents import ContentChange, Document
from warplens.lsp.protocol import InitializationOptions
from warplens.lsp.shift import LineChange, carry_report
from warplens.lsp.view import View, view_of
from warplens.read_settings import load_usable
from warplens.service.report import FileReport
from warplens.service.service import Service
from warplens.service.suppression import suppressions, wanted
from warplens.settings import Loaded, Problem, Settings
from warplens_tools.text import SourceText

#: Above this many code points a text is analysed on opening and saving, not while typing.
TYPED_LIMIT = 1_000_000


class OpenFile:
    """An open document and what is known of it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.view: View | None = None
        #: What the source tier last said, in lines of the text on screen.
        self.typed: FileReport | None = None
        #: Text the last check of the saved file read, to know a change on disk from one's own save.
        self.checked_text: str | None = None
        #: What the last whole check said of it: an undo back to that text brings back all of it.
        self._checked: View | None = None
        self._shown: tuple[View | None, View | None] = None, None
        #: Files that the last check's unit was compiled from; empty where nothing was compiled.
        self.built_from: frozenset[str] = frozenset()
        #: Set when the first analysis has finished, well or not.
        self.analysed = asyncio.Event()
        #: Why the last work of each kind ("typing", "check") failed, as one sentence.
        self.failures: dict[str, str] = {}

    def apply(self, change: ContentChange) -> None:
        """Apply an edit, and move all that is known with it."""
        changes, before = self.document.apply(change), self.view
        text = self.document.text
        if self._checked is not None and text.text == self.checked_text:
            self.view, self.typed = self._checked, self._checked.source
            return
        if before is not None:
            self.view = before.moved(changes).on(text)
        if before is not None and self.view is not None and before.source is self.typed:
            self.typed = self.view.source
        elif self.typed is not None:
            self.typed = carry_report(self.typed, changes)

    def heard(self, report: FileReport, changes: Sequence[LineChange]) -> None:
        """Take what the source tier says of a text, `changes` ago."""
        self.typed, text = carry_report(report, changes), self.document.text
        if self.view is None:
            self.view = view_of(self.typed, self.typed, text)
        else:
            self.view = self.view.heard(self.typed).on(text)

    def checked(self, stage: View, text: str, changes: Sequence[LineChange], *, complete: bool) -> None:
        """Take what a stage of a check says of the `text` that it read, `changes` ago."""
        if not changes:
            self.typed = stage.source
        fresh = stage.moved(changes)
        view = fresh if self.view is None else self.view.checked(fresh, complete=complete)
        self.view = view.heard(self.typed or fresh.source).on(self.document.text)
        self.checked_text = text
        self._checked = stage.heard(stage.source) if complete and not stage.failed else None

    @property
    def shown(self) -> View | None:
        """What is known, without the findings that a comment in the text on screen silences."""
        if self._shown[0] is not self.view:
            self._shown = self.view, self.view and _wanted(self.view, self.document.text)
        return self._shown[1]


def _wanted(view: View, text: SourceText) -> View:
    found = view.report.findings
    kept = wanted(found, suppressions(text), ())
    if len(kept) == len(found):
        return view
    return msgspec.structs.replace(view, report=msgspec.structs.replace(view.report, findings=kept))


class Session:
    """The state of one client's session."""

    def __init__(self, make_service: Callable[[Path], Service] = Service) -> None:
        self._make_service = make_service
        self._services: dict[Path, Service] = {}
        self._settings: dict[Path, Loaded] = {}
        self.roots: list[Path] = []
        self.files: dict[str, OpenFile] = {}
        #: Keys of the files on screen; None where the client does not say.
        self.visible: frozenset[str] | None = None
        self._looked_at = ""
        self.positions = Positions("utf-16")
        self.options = InitializationOptions()
        self.trusted = True
        self.editor: Mapping[str, Any] = {}
        #: Set once the client's settings are known, so that nothing is compiled twice at the start.
        self.configured = asyncio.Event()
        self.capabilities = types.ClientCapabilities()

    def open(self, uri: str, language: str, version: int, text: str) -> OpenFile:
        """A document was opened."""
        file = OpenFile(Document(uri, language, version, text))
        key = uris.key(uri)
        self.files[key] = file
        return file

    def edit(self, uri: str, change: ContentChange) -> None:
        """An open document was edited."""
        self.files[uris.key(uri)].apply(change)

    def file(self, uri: str) -> OpenFile | None:
        """The open file of a URI in any spelling."""
        return self.files.get(uris.key(uri))

    def close(self, key: str) -> None:
        """Forget a document."""
        self.files.pop(key, None)

    def look_at(self, key: str) -> None:
        """Something was asked of a file: where the client does not say what is in sight, it is this."""
        self._looked_at = key

    def in_sight(self, key: str) -> bool:
        """Whether a file is on screen, as far as the client says."""
        return key in self.visible if self.visible is not None else key == self._looked_at

    def view(self, key: str) -> View | None:
        """What is known of an open file, as it is shown; None before its first analysis."""
        file = self.files.get(key)
        return file.shown if file is not None else None

    def root_of(self, path: Path | None) -> Path:
        """The innermost workspace folder that holds `path`, else the file's own folder."""
        if path is None:
            return self.roots[0] if self.roots else Path.cwd()
        inside = [root for root in self.roots if path.is_relative_to(root)]
        return max(inside, key=lambda root: len(root.parts), default=path.parent)

    def service(self, path: Path | None) -> Service:
        """The service of the folder that holds `path`."""
        root = self.root_of(path)
        if root not in self._services:
            self._services[root] = self._make_service(root)
            self._services[root].configure(self.editor)
        return self._services[root]

    def settings(self, path: Path | None) -> Settings:
        """Settings for `path`; the defaults for what is wrong in them (`settings_problems` says what)."""
        return self._loaded(path).settings

    def settings_problems(self, path: Path | None) -> tuple[Problem, ...]:
        """What is wrong with the settings for `path`."""
        return self._loaded(path).problems

    def settings_files(self) -> dict[str, tuple[Problem, ...]]:
        """The settings files in use, with what is wrong in each."""
        files = {loaded.file: loaded.problems for loaded in self._settings.values() if loaded.file}
        return {file: tuple(p for p in found if p.file == file) for file, found in files.items()}

    def configure(self, editor: Mapping[str, Any]) -> None:
        """The editor's settings are these now."""
        self.editor = editor
        self.forget_settings()
        for service in self._services.values():
            service.configure(editor)

    def forget_settings(self) -> None:
        """Read settings anew: a settings file changed. Services read theirs for every check."""
        self._settings.clear()

    def forget_builds(self) -> None:
        """Read anew how files are built."""
        for service in self._services.values():
            service.forget_builds()

    def accepts(self, method: str) -> bool:
        """Whether the client said that it handles this message of Warplens' own."""
        return method in self.options.accepts

    def folders(self) -> Iterator[Path]:
        """Workspace folders that exist on disk."""
        return (root for root in self.roots if root.is_dir())

    def _loaded(self, path: Path | None) -> Loaded:
        root = self.root_of(path)
        folder = path.parent if path is not None else root
        if folder not in self._settings:
            self._settings[folder] = load_usable(folder, root=root, editor=self.editor)
        return self._settings[folder]
