# SPDX-License-Identifier: Apache-2.0
"""Sees files that change outside the editor: by the client's own watching, else by watchdog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.server import WarplensServer
from warplens.lsp.watch import GLOBS, Watcher, is_settings
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText

#: A checkout or a generator changes many files at once; they are answered together.
_GATHER_SECONDS = 0.2


def register(server: WarplensServer) -> None:
    """Register with the server."""
    waiting: set[Path] = set()

    def changed(path: Path) -> None:
        if not waiting:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, answer)
        waiting.add(path)

    def answer() -> None:
        paths = frozenset(waiting)
        waiting.clear()
        server.guard(recheck, server, paths)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            path = uris.to_path(change.uri)
            if path is not None:
                changed(path)

    watching = _Watching(server, changed)
    server.on_ready.append(lambda: server.spawn(watching.start()))
    server.on_close.append(watching.close)


class _Watching:
    """Whoever watches: the client once and for all, or watchdog on the folders there are now."""

    def __init__(self, server: WarplensServer, changed: Callable[[Path], None]) -> None:
        self._server, self._changed = server, changed
        self._by_client = False
        self._watcher: Watcher | None = None

    async def start(self) -> None:
        workspace = self._server.session.capabilities.workspace
        watched = workspace.did_change_watched_files if workspace is not None else None
        if self._by_client:
            return
        if watched is not None and watched.dynamic_registration:
            self._by_client = True
            watchers = [types.FileSystemWatcher(glob) for glob in GLOBS]
            await self._server.register_capability(
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions(watchers),
            )
            return
        loop = asyncio.get_running_loop()
        if self._watcher is None:

            def changed(path: Path) -> None:
                loop.call_soon_threadsafe(self._changed, path)

            self._watcher = Watcher(changed)
        folders = list(self._server.session.folders())
        for large in await asyncio.to_thread(self._watcher.watch, folders):
            self._server.log_once(f"{large} has too many folders to watch: save a file to check it again.")

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()


def recheck(server: WarplensServer, paths: Iterable[Path]) -> None:
    """Check again what changed files concern; a text that the last check already read is no news."""
    session, analysis = server.session, server.analysis
    if any(map(is_settings, paths)):
        session.forget_settings()
        analysis.everything()
        return
    for path in paths:
        file = session.files.get(str(path))
        if file is None:
            analysis.dependency_changed(path)
        elif not path.exists():
            analysis.gone(str(path))
        elif _text(path) not in (None, file.checked_text):
            analysis.saved(str(path))
            analysis.dependency_changed(path)


def _text(path: Path) -> str | None:
    try:
        return SourceText.read(path).text
    except InputError:
        return None
