# SPDX-License-Identifier: Apache-2.0
"""Edits offered with their proof, until the user applies them or the server ends."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from warplens.lsp import protocol, uris
from warplens.lsp.connection import Connection
from warplens.lsp.convert import builtins, wire_edit, workspace_edit
from warplens.lsp.session import OpenFile
from warplens.lsp.shift import shift_edits, shift_lines
from warplens.measure.verdict import State
from warplens_tools.errors import InputError, WarplensError
from warplens_tools.finding import Fix
from warplens_tools.text import SourceText, TextEdit

_APPLY = "Apply"


class Basis(msgspec.Struct, frozen=True):
    """The text a job starts from: the file as saved, which is what it measures."""

    file: OpenFile
    state: int
    text: SourceText
    #: Lines of the kernel the job is about.
    lines: tuple[int, int]
    path: Path


class Offer(msgspec.Struct, frozen=True):
    """What a job comes to, in plain data. `edits` are against the text of its basis."""

    kernel: str
    title: str
    state: State
    edits: tuple[TextEdit, ...]
    #: Markdown.
    proof: str


def unproven(kernel: str, fix: Fix, error: WarplensError) -> Offer:
    """A fix that nothing could judge, and why."""
    remedy = f" To have it measured: {error.remedy}." if error.remedy else ""
    caveat = f"\n\nResults may change: {fix.caveat}." if fix.caveat else ""
    proof = f"**Unproven:** {str(error).rstrip('.')}.{remedy}{caveat}"
    return Offer(kernel, f"{fix.title} (unproven)", "unproven", fix.edits, proof)


class Proposals:
    """The proposals of this session."""

    def __init__(self, server: Connection) -> None:
        self._server = server
        self._offered: dict[str, tuple[Basis, Offer]] = {}

    def basis(self, uri: str, kernel: str) -> Basis:
        """What a job on a kernel starts from.

        Raises:
            InputError: the document is not open, has no file, or is not saved; or has no such kernel.
        """
        session = self._server.session
        file, view = session.file(uri), session.view(uris.key(uri))
        if file is None or view is None:
            raise InputError("the file is not open in the editor")
        document = file.document
        if document.path is None:
            raise InputError("the document has no file yet", remedy="save it first")
        if SourceText.read(document.path).text != document.text.text:
            raise InputError(
                f"{document.path.name} has unsaved changes",
                remedy="save it first: the file on disk is measured",
            )
        found = view.kernel(kernel) if kernel else None
        if kernel and found is None:
            raise InputError(f"there is no kernel {kernel!r} in {document.path.name}")
        lines = (found.line, found.end_line) if found is not None else (1, document.text.line_count)
        return Basis(file, document.state, document.text, lines, document.path)

    def offer(self, basis: Basis, offer: Offer) -> protocol.Proposal:
        """Offer an edit: to a client that shows proposals as such, else by a question.

        Raises:
            InputError: the kernel was edited since the job began.
        """
        edits = self._present(basis, offer)
        document = basis.file.document
        name = str(uuid.uuid4())
        self._offered[name] = (basis, offer)
        shown = self._server.session.positions.edits(document.text, edits)
        proposal = protocol.Proposal(
            id=name,
            uri=document.uri,
            version=document.version,
            kernel=offer.kernel,
            title=offer.title,
            state=offer.state,
            edits=tuple(map(wire_edit, shown)),
            new_text=document.text.apply(list(edits)).text,
            proof=offer.proof,
        )
        if self._server.session.accepts(protocol.PROPOSAL):
            self._server.protocol.notify(protocol.PROPOSAL, builtins(proposal))
        else:
            self._server.spawn(self._ask(proposal))
        return proposal

    async def apply(self, name: str) -> protocol.ApplyResult:
        """Have the client apply an offered edit."""
        if name not in self._offered:
            return protocol.ApplyResult(applied=False, reason="there is no such proposal")
        basis, offer = self._offered[name]
        try:
            edits = self._present(basis, offer)
        except InputError as error:
            return protocol.ApplyResult(applied=False, reason=f"{error}")
        document = basis.file.document
        change = workspace_edit(
            document.uri,
            document.version,
            self._server.session.positions.edits(document.text, edits),
            versioned=self._server.versioned_edits,
        )
        try:
            answer = await self._server.workspace_apply_edit_async(
                types.ApplyWorkspaceEditParams(change, label=offer.title)
            )
        except JsonRpcException as error:
            return protocol.ApplyResult(applied=False, reason=f"the editor answered: {error}")
        return protocol.ApplyResult(applied=answer.applied, reason=answer.failure_reason or "")

    def _present(self, basis: Basis, offer: Offer) -> tuple[TextEdit, ...]:
        """The edits where their places are now: what was judged is the kernel as it was."""
        document = basis.file.document
        open_file = self._server.session.file(document.uri)
        changes = document.changes_since(basis.state)
        if open_file is not basis.file:
            raise InputError(f"{offer.kernel}: its file was closed", remedy="open it and run this again")
        edits = None if changes is None else shift_edits(offer.edits, changes)
        if changes is None or edits is None or shift_lines(*basis.lines, changes) is None:
            raise InputError(
                f"{offer.kernel} was edited since the work on it began", remedy="save it and run this again"
            )
        return edits

    async def _ask(self, proposal: protocol.Proposal) -> None:
        answer = await self._server.window_show_message_request_async(
            types.ShowMessageRequestParams(
                types.MessageType.Info,
                f"{proposal.title}\n\n{proposal.proof}",
                actions=[types.MessageActionItem(_APPLY), types.MessageActionItem("Dismiss")],
            )
        )
        if answer is not None and answer.title == _APPLY:
            result = await self.apply(proposal.id)
            if not result.applied:
                self._server.say(
                    InputError(f"the edit was not applied: {result.reason or 'no reason given'}")
                )
