# SPDX-License-Identifier: Apache-2.0
"""How to speak to the one client: logging, messages, status, and work beside the message loop.

What the server is made of (`server`) and what it can do (`features`) rest on this; it knows of neither.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
import uuid
from collections.abc import Callable, Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any

from cattrs import Converter
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage

from warplens import __version__
from warplens.lsp import convert, protocol
from warplens.lsp.protocol import NoticeAction, StatusState
from warplens.lsp.session import Session
from warplens.service.service import Service
from warplens_tools.errors import WarplensError

_NOT_TRUSTED = "The workspace is not trusted: nothing in it is built or run"
_Steps = Generator[Any, Any, Any]


class WarplensProtocol(LanguageServerProtocol):
    """pygls' protocol without its own copy of the documents (see `documents`), and with command progress."""

    #: Whether `exit` came.
    exited = False

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> _Steps:
        """Hand on to `features.synchronization`."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> _Steps:
        """Hand on to `features.synchronization`."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> _Steps:
        """Hand on to `features.synchronization`."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """Give the handler all parameters, and `$/cancelRequest`: pygls' own passes on the arguments alone."""
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"Warplens has no command {params.command!r}")
        return await handler(params)

    def write(self, body: str) -> None:
        """Send a message that is JSON already, in ASCII."""
        writer = self.writer
        if writer is not None:
            writer.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii"))

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: object) -> None:  # type: ignore[override]
        """End the message loop; pygls' own raises `SystemExit` from inside it."""
        self.exited = True


def plain_converter() -> Converter:
    """The protocol's types, with messages that are not the protocol's left as JSON values.

    pygls' own converter makes named tuples of these, which lose the names msgspec reads.
    """
    converter = get_converter()
    for kind in (JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage):
        converter.register_structure_hook(kind, lambda message, cls: cls(**message))
    return converter


class Connection(LanguageServer):
    """The session with one client, and how to speak to it."""

    protocol: WarplensProtocol

    def __init__(self, make_service: Callable[[Path], Service] = Service) -> None:
        super().__init__(
            "warplens", __version__, protocol_cls=WarplensProtocol, converter_factory=plain_converter
        )
        self.session = Session(make_service)
        self._tasks: set[asyncio.Task[None]] = set()
        self._said: set[str] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the message loop; its failure is logged and ends nothing else."""
        task = asyncio.get_running_loop().create_task(self.guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Await work of the background; its failure is logged and ends nothing else."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the edge: one failure must not stop the server
            self.report_server_error(error, type(error))

    def guard(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a listener; its failure is logged and keeps no other from being called."""
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - the edge: one failure must not stop the server
            self.report_server_error(error, type(error))

    def report_server_error(self, error: Exception, source: object) -> None:  # noqa: ARG002 - pygls' signature
        """Log what no handler caught, with its traceback on standard error and a sentence to the client.

        What the client did wrong is in the answer that it got.
        """
        if isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError):
            return
        traceback.print_exception(error, file=sys.stderr)
        self._log(types.MessageType.Error, f"internal error: {type(error).__name__}: {error}")

    def log_error(self, error: WarplensError, subject: str) -> None:
        """Log a failure of background work; it does not interrupt the user."""
        remedy = f" ({error.remedy})" if error.remedy else ""
        self._log(types.MessageType.Warning, f"{subject}: {error}{remedy}")

    def log_once(self, message: str) -> None:
        """Log something that stays true for the session."""
        if message not in self._said:
            self._said.add(message)
            self._log(types.MessageType.Info, message)

    def say(self, error: WarplensError) -> None:
        """Answer an action of the user that failed: one sentence and what to do about it."""
        remedy = f" {error.remedy[:1].upper()}{error.remedy[1:]}." if error.remedy else ""
        self.window_show_message(
            types.ShowMessageParams(types.MessageType.Error, f"{str(error).rstrip('.')}.{remedy}")
        )

    def notice(self, message: str, *actions: NoticeAction) -> None:
        """Answer an action of the user where nothing failed."""
        if self.session.accepts(protocol.NOTICE):
            notice = protocol.Notice(message=message, actions=actions)
            self.protocol.notify(protocol.NOTICE, convert.builtins(notice))
        else:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))

    def status(
        self, state: StatusState, message: str = "", remedy: str = "", uri: str = "", label: str = ""
    ) -> None:
        """Tell a client that shows it what the server is doing."""
        if self.session.accepts(protocol.STATUS):
            if state == "ready" and not self.session.trusted:
                state, label, message = "limited", "not trusted", _NOT_TRUSTED
            status = protocol.Status(state=state, label=label, message=message, remedy=remedy, uri=uri)
            self.protocol.notify(protocol.STATUS, convert.builtins(status))

    def as_json(self, value: Any) -> str:
        """A value of the protocol's types as it is written."""
        return json.dumps(self.protocol._converter.unstructure(value))

    def publish(self, uri: str, version: int | None, diagnostics: Sequence[str]) -> None:
        """`textDocument/publishDiagnostics` with diagnostics that are written already (`as_json`)."""
        head = {"uri": uri} if version is None else {"uri": uri, "version": version}
        params = f'{json.dumps(head)[:-1]}, "diagnostics": [{", ".join(diagnostics)}]}}'
        body = (
            f'{{"jsonrpc": "2.0", "method": "{types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS}", "params": {params}}}'
        )
        self.protocol.write(body)

    async def register_capability(self, method: str, options: Any) -> None:
        """Ask the client for notifications it sends only on request."""
        registration = types.Registration(str(uuid.uuid4()), method, options)
        try:
            await self.client_register_capability_async(types.RegistrationParams([registration]))
        except JsonRpcException as error:
            self.log_once(f"The client declined {method}: {error}.")

    @property
    def versioned_edits(self) -> bool:
        """Whether the client checks the version of the document that an edit is against."""
        workspace = self.session.capabilities.workspace
        edit = workspace.workspace_edit if workspace is not None else None
        return bool(edit is not None and edit.document_changes)

    def _log(self, kind: types.MessageType, message: str) -> None:
        self.window_log_message(types.LogMessageParams(kind, message))
