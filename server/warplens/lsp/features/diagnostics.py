"""Publishes findings as diagnostics: of the open files, and of the headers their checks looked into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.convert import diagnostic, notice
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText

if TYPE_CHECKING:
    from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""
    shown: dict[str, types.PublishDiagnosticsParams] = {}

    def publish(key: str) -> None:
        params = _params(server, key)
        if params is None:
            before = shown.pop(key, None)
            if before is not None and before.diagnostics:
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(before.uri, []))
        elif shown.get(key) != params:
            shown[key] = params
            server.text_document_publish_diagnostics(params)

    server.analysis.changed.append(publish)


def _params(server: WarplensServer, key: str) -> types.PublishDiagnosticsParams | None:
    session = server.session
    file, view = session.files.get(key), session.view(key)
    if file is not None:
        uri, text, version = file.document.uri, file.document.text, file.document.version
    elif view is not None:
        try:
            uri, text, version = uris.from_path(Path(key)), SourceText.read(Path(key)), None
        except InputError:  # deleted since
            return None
    else:
        return None
    found = view.report.findings if view is not None else ()
    diagnostics = [diagnostic(f, uri, text, session.positions) for f in found]
    if file is not None:
        wrong = session.settings_failure(file.document.path)
        failures = [*file.failures.values(), *([wrong] if wrong else [])]
        diagnostics += map(notice, dict.fromkeys(failures))
    return types.PublishDiagnosticsParams(uri, diagnostics, version)
