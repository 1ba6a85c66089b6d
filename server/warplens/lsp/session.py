"""What the server knows: folders and their services, open files, settings, trust. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.convert import Positions
from warplens.lsp.documents import ContentChange, Document
from warplens.lsp.protocol import InitializationOptions
from warplens.lsp.shift import LineChange, differences, shift_report
from warplens.lsp.view import Saved, View, merge, with_units
from warplens.service.report import FileReport
from warplens.service.service import Service
from warplens.settings import Loaded, Problem, Settings, load_usable
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText

#: Above this many code points a text is analysed on opening and saving, not while typing.
TYPED_LIMIT = 1_000_000


class OpenFile:
    """An open document and what is known of it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.typed: FileReport | None = None
        self.saved: Saved | None = None
        #: Text the last check of the saved file read, to know a change on disk from one's own save.
        self.checked_text: str | None = None
        #: Set when the first analysis has finished, well or not.
        self.analysed = asyncio.Event()
        #: Why the last work of each kind ("typing", "check") failed, as one sentence.
        self.failures: dict[str, str] = {}

    def apply(self, change: ContentChange) -> Sequence[LineChange]:
        """Apply an edit, and move all that is known with it."""
        changes = self.document.apply(change)
        if self.typed is not None:
            self.typed = shift_report(self.typed, changes)
        if self.saved is not None:
            self.saved = self.saved.moved(changes)
        return changes


class Session:
    """The state of one client's session."""

    def __init__(self, make_service: Callable[[Path], Service] = Service) -> None:
        self._make_service = make_service
        self._services: dict[Path, Service] = {}
        self._settings: dict[Path, Loaded] = {}
        self.roots: list[Path] = []
        self.files: dict[str, OpenFile] = {}
        #: What a unit's check found in other files: by that file's key, then the unit's.
        self.elsewhere: dict[str, dict[str, FileReport]] = {}
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
        units = self.elsewhere.get(key, {})
        for unit, report in units.items():
            units[unit] = self.on_screen(key, report)
        return file

    def edit(self, uri: str, change: ContentChange) -> None:
        """An open document was edited."""
        key = uris.key(uri)
        changes = self.files[key].apply(change)
        units = self.elsewhere.get(key, {})
        for unit, report in units.items():
            units[unit] = shift_report(report, changes)

    def on_screen(self, key: str, report: FileReport) -> FileReport:
        """A report on a file as it is on disk, moved to its open document, if there is one."""
        file = self.files.get(key)
        if file is None:
            return report
        try:
            return shift_report(report, differences(SourceText.read(Path(key)), file.document.text))
        except InputError:
            return report

    def file(self, uri: str) -> OpenFile | None:
        """The open file of a URI in any spelling."""
        return self.files.get(uris.key(uri))

    def close(self, uri: str) -> set[str]:
        """Forget a document and what its check found elsewhere; returns the keys of those files."""
        key = uris.key(uri)
        self.files.pop(key, None)
        return self.replace_elsewhere(key, {})

    def replace_elsewhere(self, unit: str, reports: Mapping[str, FileReport]) -> set[str]:
        """Put what a unit's newest check found in other files in place of what it had found there."""
        touched = {key for key, units in self.elsewhere.items() if units.pop(unit, None) is not None}
        for key, report in reports.items():
            self.elsewhere.setdefault(key, {})[unit] = report
        for key in [key for key, units in self.elsewhere.items() if not units]:
            del self.elsewhere[key]
        return touched | set(reports)

    def view(self, key: str) -> View | None:
        """What is known of a file, open or not; None before its first analysis."""
        file = self.files.get(key)
        own = merge(file.typed, file.saved) if file is not None else None
        return with_units(own, self.elsewhere.get(key, {}).values())

    def root_of(self, path: Path | None) -> Path:
        """The innermost workspace folder that holds `path`, else the file's own folder."""
        if path is None:
            return self.roots[0] if self.roots else Path.cwd()
        inside = [root for root in self.roots if path.is_relative_to(root)]
        return max(inside, key=lambda root: len(root.parts), default=path.parent)

    def in_workspace(self, path: Path) -> bool:
        """Whether a file lies in a workspace folder."""
        return any(path.is_relative_to(root) for root in self.roots)

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
