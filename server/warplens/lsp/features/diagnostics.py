# SPDX-License-Identifier: Apache-2.0
"""Publishes findings of the open files, and what is wrong in settings files, as diagnostics."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from warplens.lsp import uris, words
from warplens.lsp.convert import diagnostic, notice, problem_diagnostic
from warplens.lsp.server import WarplensServer
from warplens.settings import Problem


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
    if file is None:
        return None
    document = file.document
    uri, text, positions = document.uri, document.text, session.positions
    diagnostics: list[types.Diagnostic] = []
    if view is not None:
        for finding in view.report.findings:
            mark = words.BEING_CHECKED if view.is_touched(finding) else ""
            diagnostics.append(diagnostic(finding, uri, text, positions, mark))
    wrong = [problem.message for problem in session.settings_problems(document.path)]
    diagnostics += map(notice, dict.fromkeys([*file.failures.values(), *wrong]))
    return types.PublishDiagnosticsParams(uri, diagnostics, document.version)
