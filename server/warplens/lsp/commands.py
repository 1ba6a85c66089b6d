# SPDX-License-Identifier: Apache-2.0
"""What every command shares: reading its argument, and answering failures with a sentence."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec
from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.convert import builtins
from warplens.lsp.server import WarplensServer
from warplens_tools.decode import from_builtins
from warplens_tools.errors import CancelledError, InputError, WarplensError

M = TypeVar("M", bound=protocol.Message)


def argument(params: types.ExecuteCommandParams, kind: type[M]) -> M:
    """The command's only argument.

    Raises:
        InputError: it is missing or not of this form.
    """
    value = params.arguments[0] if params.arguments else {}
    try:
        return from_builtins(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{params.command}: {error}") from error


async def answer(server: WarplensServer, work: Awaitable[protocol.Message | None]) -> Any:
    """The JSON form of what `work` returns; a failure is said to the user, and the answer is null."""
    try:
        result = await work
    except CancelledError:
        return None
    except WarplensError as error:
        server.say(error)
        return None
    return None if result is None else builtins(result)


async def answer_page(server: WarplensServer, command: str, work: Awaitable[protocol.Evidence]) -> Any:
    """As `answer`; a client that does not show the page itself gets it as a message."""

    async def shown() -> protocol.Evidence:
        page = await work
        if not server.session.accepts(command):
            server.window_show_message(types.ShowMessageParams(types.MessageType.Info, page.markdown))
        return page

    return await answer(server, shown())
