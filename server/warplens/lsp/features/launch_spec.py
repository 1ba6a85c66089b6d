# SPDX-License-Identifier: Apache-2.0
"""*Write a launch spec*: a first one above a kernel that no program launches, as an ordinary edit."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from warplens.lsp.convert import workspace_edit
from warplens.lsp.server import WarplensServer
from warplens.lsp.session import OpenFile
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.run.spec.infer import comment_edit, inferred
from warplens_tools.run.spec.read import specs_in


def register(server: WarplensServer) -> None:
    """Nothing of its own: the list of code actions asks `action`."""
    del server


def action(server: WarplensServer, file: OpenFile, first: int, last: int) -> Iterator[types.CodeAction]:
    """One for every kernel whose head the lines `first` to `last` touch and that has no spec, in a file without
    `main`."""
    document = file.document
    if document.path is None:
        return
    text, path = document.text, str(document.path)
    model = parse(text, path)
    heads = [k for k in model.kernels if not k.macro and k.span.line <= last and first <= k.name_span.line]
    if model.has_main or not heads:
        return
    try:
        said = {spec.kernel for spec in specs_in(text, model, document.path.name)}
    except InputError:
        # one that does not parse is the user's to mend
        return
    for kernel in heads:
        if kernel.qualified_name in said:
            continue
        edits = server.session.positions.edits(
            text, [comment_edit(text, kernel, inferred(text, path, kernel))]
        )
        yield types.CodeAction(
            f"Write a launch spec for {kernel.name}",
            kind=types.CodeActionKind.RefactorRewrite,
            edit=workspace_edit(document.uri, document.version, edits, versioned=server.versioned_edits),
        )
