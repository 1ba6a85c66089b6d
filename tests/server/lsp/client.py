# SPDX-License-Identifier: Apache-2.0
"""A bare language client that keeps what the server sent, and waits for what a test asks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from cattrs import Converter
from lsprotocol import types
from pygls.io_ import run_async
from pygls.lsp.client import LanguageClient
from tests.patience import PATIENCE
from tests.server.lsp.fork_server import Forked, fork

from warplens.lsp.connection import plain_converter

SAMPLE = [sys.executable, "-P", str(Path(__file__).with_name("sample_service.py"))]
REAL = [sys.executable, "-P", "-m", "warplens", "lsp"]


@functools.cache
def _converter() -> Converter:
    """One for all clients: what reads and writes a type is made when it is first met."""
    return plain_converter()


class Client(LanguageClient):
    """Records notifications and answers the server's requests."""

    def __init__(self) -> None:
        super().__init__("warplens-tests", "1", converter_factory=_converter)
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.history: list[types.PublishDiagnosticsParams] = []
        self.logged: list[str] = []
        self.shown: list[str] = []
        self.reports: list[tuple[types.ProgressToken, Any]] = []
        self.created: list[types.ProgressToken] = []
        self.registered: list[str] = []
        self.applied: list[types.WorkspaceEdit] = []
        self.refreshed: list[str] = []
        self.custom: list[tuple[str, Any]] = []
        self.settings: dict[str, Any] = {}
        self.accept_edits = True
        self.answer_model: Callable[[Any], Any] = lambda _: {}
        self.answer_request: Callable[[types.ShowMessageRequestParams], str] = lambda _: ""
        self.capabilities: types.ServerCapabilities = types.ServerCapabilities()
        _record(self)

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._server is not None
        return self._server.pid

    def running(self, words: str) -> list[psutil.Process]:
        """The server's descendants whose command line has these words."""
        found = []
        for process in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if words in " ".join(process.cmdline()):
                    found.append(process)
        return found

    async def begin(
        self,
        root: Path,
        *,
        capabilities: types.ClientCapabilities | None = None,
        options: Any = None,
        command: Sequence[str] = SAMPLE,
        roots: Sequence[Path] = (),
        fresh: bool = False,
    ) -> types.InitializeResult:
        """Start a server and open a session on `root` (and `roots`); `fresh` runs the command itself."""
        if fresh:
            await self.start_io(*command)
        else:
            await self._start_forked(await fork(sample=command is SAMPLE))
        folders = [types.WorkspaceFolder(uri=path.as_uri(), name=path.name) for path in (root, *roots)]
        result = await self.initialize_async(
            types.InitializeParams(
                capabilities=capabilities or types.ClientCapabilities(),
                root_uri=root.as_uri(),
                workspace_folders=folders,
                initialization_options=options,
            )
        )
        self.capabilities = result.capabilities
        self.initialized(types.InitializedParams())
        return result

    async def _start_forked(self, server: Forked) -> None:
        """As `start_io` does with a command's process."""
        self.protocol.set_writer(server.stdin)
        self._server = server  # type: ignore[assignment]
        listening = run_async(
            stop_event=self._stop_event,
            reader=server.stdout,
            protocol=self.protocol,
            error_handler=self.report_server_error,
        )
        self._async_tasks += [asyncio.create_task(listening), asyncio.create_task(self._server_exit())]  # type: ignore[no-untyped-call]

    async def end(self) -> int:
        """Shut down in order; returns the server's exit status."""
        await asyncio.wait_for(self.shutdown_async(None), PATIENCE)
        self.exit(None)
        assert self._server is not None
        status = await asyncio.wait_for(self._server.wait(), PATIENCE)
        await self.stop()  # type: ignore[no-untyped-call]
        return status

    async def raw(self, method: str, params: Any) -> Any:
        """A request's result as JSON, not as the library's types."""
        name = str(uuid.uuid4())
        future = self.protocol.send_request(method, params, msg_id=name)
        self.protocol._result_types[name] = None
        return await asyncio.wrap_future(future)

    def open(self, uri: str, text: str, version: int = 1) -> None:
        """Open a document."""
        item = types.TextDocumentItem(uri=uri, language_id="cuda-cpp", version=version, text=text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, uri: str, version: int, *changes: types.TextDocumentContentChangeEvent) -> None:
        """Edit a document."""
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(version, uri), changes)
        )

    def replace(self, uri: str, version: int, text: str) -> None:
        """Replace a document's whole text."""
        self.change(uri, version, types.TextDocumentContentChangeWholeDocument(text))

    def insert(self, uri: str, version: int, line: int, character: int, text: str) -> None:
        """Insert at an LSP position."""
        here = types.Position(line, character)
        self.change(uri, version, types.TextDocumentContentChangePartial(types.Range(here, here), text))

    def save(self, uri: str) -> None:
        """Tell that a document was saved."""
        self.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def close(self, uri: str) -> None:
        """Close a document."""
        self.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def found(self, uri: str) -> list[tuple[int, str]]:
        """0-based line and message, without the kernel it begins with, of what is shown for a document."""
        params = self.published.get(uri)
        return sorted((d.range.start.line, _sentence(d)) for d in params.diagnostics) if params else []

    def shown_of(self, uri: str) -> list[list[tuple[int, str]]]:
        """What was shown for a document at any time, first things first."""
        return [
            [(d.range.start.line, _sentence(d)) for d in p.diagnostics] for p in self.history if p.uri == uri
        ]

    async def until(self, condition: Callable[[], object], seconds: float = 90) -> None:
        """Wait until `condition` holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.explain()
            await asyncio.sleep(0.005)

    def explain(self) -> str:
        """What was received, for a failed test."""
        return f"published {self.published}; logged {self.logged}; shown {self.shown}"


def _sentence(diagnostic: types.Diagnostic) -> str:
    data: Any = diagnostic.data or {}
    return diagnostic.message.removeprefix(f"{data.get('kernel')}: ")


def _record(client: Client) -> None:
    def publish(params: types.PublishDiagnosticsParams) -> None:
        client.published[params.uri] = params
        client.history.append(params)

    def ask(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        client.shown.append(params.message)
        title = client.answer_request(params)
        return types.MessageActionItem(title) if title else None

    def register(params: types.RegistrationParams) -> None:
        client.registered += [r.method for r in params.registrations]

    def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        client.applied.append(params.edit)
        return types.ApplyWorkspaceEditResult(client.accept_edits)

    handlers: dict[str, Callable[[Any], Any]] = {
        types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: publish,
        types.WINDOW_LOG_MESSAGE: lambda params: client.logged.append(params.message),
        types.WINDOW_SHOW_MESSAGE: lambda params: client.shown.append(params.message),
        types.WINDOW_SHOW_MESSAGE_REQUEST: ask,
        types.PROGRESS: lambda params: client.reports.append((params.token, params.value)),
        types.WINDOW_WORK_DONE_PROGRESS_CREATE: lambda params: client.created.append(params.token),
        types.CLIENT_REGISTER_CAPABILITY: register,
        types.WORKSPACE_CONFIGURATION: lambda params: [client.settings for _ in params.items],
        types.WORKSPACE_APPLY_EDIT: apply,
        types.WORKSPACE_CODE_LENS_REFRESH: lambda _: client.refreshed.append("lens"),
        types.WORKSPACE_INLAY_HINT_REFRESH: lambda _: client.refreshed.append("hint"),
        "warplens/status": lambda params: client.custom.append(("status", params)),
        "warplens/notice": lambda params: client.custom.append(("notice", params)),
        "warplens/proposal": lambda params: client.custom.append(("proposal", params)),
    }
    for method, handler in handlers.items():
        client.feature(method)(handler)

    async def model(params: Any) -> Any:
        answer = client.answer_model(params)
        return await answer if inspect.isawaitable(answer) else answer

    client.feature("warplens/model")(model)
