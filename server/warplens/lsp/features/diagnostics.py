# SPDX-License-Identifier: Apache-2.0
"""Publishes findings of the open files, and what is wrong in settings files, as diagnostics."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from warplens.lsp import uris, words
from warplens.lsp.convert import diagnostic, notice, problem_diagnostic
from warplens.lsp.server import WarplensServer
from warplens.lsp.session import OpenFile
from warplens.settings import Problem
from warplens_tools.finding import Finding


def register(server: WarplensServer) -> None:
    """Register with the server."""
    shown: dict[str, _Shown] = {}
    wrong: dict[str, tuple[Problem, ...]] = {}

    def publish(key: str) -> None:
        file = server.session.files.get(key)
        if file is None:
            before = shown.pop(key, None)
            if before is not None and before.texts:
                server.publish(before.uri, None, [])
            return
        uri = file.document.uri
        before = shown.get(key)
        now = _Shown(server, file, before if before is not None and before.uri == uri else None)
        if before is None or (now.uri, now.version, now.texts) != (before.uri, before.version, before.texts):
            server.publish(now.uri, now.version, now.texts)
        shown[key] = now

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


class _Shown:
    """What is published of a file. What `before` holds of the same findings is not made again."""

    def __init__(self, server: WarplensServer, file: OpenFile, before: _Shown | None) -> None:
        document, view = file.document, file.shown
        self.uri, self.version = document.uri, document.version
        #: The diagnostics as JSON.
        self.texts: list[str] = []
        # positions of other texts depend on more of a line than its findings tell
        self._plain = document.text.text.isascii()
        #: By identity, with the finding and the words behind its sentence.
        self._known: dict[int, tuple[Finding, str, str]] = {}
        known = before._known if before is not None and before._plain and self._plain else {}
        for finding in view.report.findings if view is not None else ():
            mark = words.BEING_CHECKED if view is not None and view.is_touched(finding) else ""
            made = known.get(id(finding))
            if made is None or made[0] is not finding or made[1] != mark:
                new = diagnostic(finding, self.uri, document.text, server.session.positions, mark)
                made = finding, mark, server.as_json(new)
            self._known[id(finding)] = made
            self.texts.append(made[2])
        problems = [problem.message for problem in server.session.settings_problems(document.path)]
        notices = dict.fromkeys([*file.failures.values(), *problems])
        self.texts += [server.as_json(notice(message)) for message in notices]
