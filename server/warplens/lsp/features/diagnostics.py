"""Publishes findings as diagnostics: of the open files, of the headers their checks looked into, of settings files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.convert import diagnostic, notice, problem_diagnostic
from warplens.settings import Problem
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText

if TYPE_CHECKING:
    from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""
    shown: dict[str, types.PublishDiagnosticsParams] = {}
    wrong: dict[str, tuple[Problem, ...]] = {}

    def publish(key: str) -> None:
        params = _params(server, key)
        if params is None:
            before = shown.pop(key, None)
            if before is not None and before.diagnostics:
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(before.uri, []))
        elif shown.get(key) != params:
            shown[key] = params
            server.text_document_publish_diagnostics(params)

    def publish_settings(_key: str) -> None:
        files = server.session.settings_files()
        for file in files.keys() | wrong.keys():
            found = files.get(file, ())
            if wrong.pop(file, ()) != found:
                uri = uris.from_path(Path(file))
                diagnostics = [problem_diagnostic(problem) for problem in found]
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))
            if found:
                wrong[file] = found

    server.analysis.changed += [publish, publish_settings]


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
        wrong = [problem.message for problem in session.settings_problems(file.document.path)]
        failures = [*file.failures.values(), *wrong]
        diagnostics += map(notice, dict.fromkeys(failures))
    return types.PublishDiagnosticsParams(uri, diagnostics, version)
