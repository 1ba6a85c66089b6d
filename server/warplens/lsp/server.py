"""The language server process: `python -P -m warplens lsp`, over standard input and output."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import traceback
import uuid
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

from cattrs import Converter
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage

from warplens import __version__
from warplens.lsp import convert, protocol
from warplens.lsp.analysis import Analysis
from warplens.lsp.features import FEATURES
from warplens.lsp.jobs import Jobs
from warplens.lsp.judging import Judging, ServiceJudging
from warplens.lsp.proposals import Proposals
from warplens.lsp.protocol import StatusState
from warplens.lsp.session import Session
from warplens.service.service import Service
from warplens_tools.errors import WarplensError

_Steps = Generator[Any, Any, Any]


class WarplensProtocol(LanguageServerProtocol):
    """pygls' protocol without its own copy of the documents (see `documents`), and with command progress."""

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

    @property
    def shut_down(self) -> bool:
        """Whether the client asked for the end before `exit`."""
        return self._shutdown


def plain_converter() -> Converter:
    """The protocol's types, with messages that are not the protocol's left as JSON values.

    pygls' own converter makes named tuples of these, which lose the names msgspec reads.
    """
    converter = get_converter()
    for kind in (JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage):
        converter.register_structure_hook(kind, lambda message, cls: cls(**message))
    return converter


class WarplensServer(LanguageServer):
    """The server: the session, its analysis, and how to speak to the client."""

    protocol: WarplensProtocol

    def __init__(
        self,
        make_service: Callable[[Path], Service] = Service,
        make_judging: Callable[[Service], Judging] = ServiceJudging,
    ) -> None:
        super().__init__(
            "warplens",
            __version__,
            protocol_cls=WarplensProtocol,
            converter_factory=plain_converter,
        )
        self.session = Session(make_service)
        self.analysis = Analysis(self)
        self.jobs = Jobs(self)
        self.proposals = Proposals(self)
        self._make_judging = make_judging
        self._tasks: set[asyncio.Task[None]] = set()
        self._said: set[str] = set()
        #: Called when client and settings are known, and again when the folders change.
        self.on_ready: list[Callable[[], None]] = []
        self.on_close: list[Callable[[], None]] = []
        for feature in FEATURES:
            feature.register(self)

    def judging(self, path: Path) -> Judging:
        """What judges edits of a file."""
        return self._make_judging(self.session.service(path))

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
        """Log what no handler caught, with its traceback on standard error and a sentence to the client."""
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

    def status(self, state: StatusState, message: str = "", remedy: str = "", uri: str = "") -> None:
        """Tell a client that shows it what the server is doing."""
        if self.session.accepts(protocol.STATUS):
            if state == "ready" and not self.session.trusted:
                state, message = "limited", "The workspace is not trusted: nothing in it is built or run"
            status = protocol.Status(state=state, message=message, remedy=remedy, uri=uri)
            self.protocol.notify(protocol.STATUS, convert.builtins(status))

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

    def close(self) -> None:
        """End jobs, their process trees, and watching."""
        for listener in self.on_close:
            self.guard(listener)
        self.jobs.close()
        self.analysis.close()

    def _log(self, kind: types.MessageType, message: str) -> None:
        self.window_log_message(types.LogMessageParams(kind, message))


def main() -> None:
    """Serve one client on standard input and output until it ends the session."""
    serve(Service)


def serve(
    make_service: Callable[[Path], Service], make_judging: Callable[[Service], Judging] = ServiceJudging
) -> None:
    """As `main`, with services made by `make_service`; exits 0 after an orderly shutdown, else 1."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    server = WarplensServer(make_service, make_judging)
    # The protocol's thousand classes live as long as the process: a collection need not look at them again.
    gc.freeze()
    # An analysis allocates by the ten thousand and leaves few cycles: looking for them each time took a tenth of it.
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    try:
        server.start_io()
    finally:
        server.close()
    sys.exit(0 if server.protocol.shut_down else 1)
