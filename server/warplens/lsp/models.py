# SPDX-License-Identifier: Apache-2.0
"""The editor's language models for a search, and the user's consent to what a model is sent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from warplens.agent.llm.editor import AskEditor, EditorAnswer
from warplens.agent.llm.provider import Question
from warplens.lsp import convert, protocol
from warplens.lsp.connection import Connection
from warplens_tools.decode import from_builtins
from warplens_tools.errors import InputError

T = TypeVar("T")
_AGREE = "Agree"


def editor_models(server: Connection) -> AskEditor | None:
    """What asks the client for a model's answer, from any thread; None where it has none to ask."""
    if not server.session.accepts(protocol.MODEL):
        return None
    loop = asyncio.get_running_loop()

    def ask(model: str, question: Question) -> Future[EditorAnswer]:
        return asyncio.run_coroutine_threadsafe(_asked(server, model, question), loop)

    return ask


async def _asked(server: Connection, model: str, question: Question) -> EditorAnswer:
    """One request to the client. Whatever it answers is an answer: a reply may be anything."""
    wire = protocol.ModelQuestion(
        model=model,
        messages=tuple(protocol.ModelMessage(role=m.role, text=m.text) for m in question.messages),
        temperature=question.temperature,
        reply_tokens=question.reply_tokens,
    )
    number = str(uuid.uuid4())
    try:
        said = await server.protocol.send_request_async(protocol.MODEL, convert.builtins(wire), msg_id=number)
        answer = from_builtins(said, protocol.ModelAnswer)
    except asyncio.CancelledError:
        server.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(number))
        raise
    except JsonRpcException as error:
        return EditorAnswer(error="Failed", message=str(error))
    except msgspec.ValidationError as error:
        return EditorAnswer(error="Failed", message=f"the client's answer is none: {error}")
    return EditorAnswer(answer.text, answer.error, answer.message, answer.input_tokens, answer.output_tokens)


async def with_consent(server: Connection, work: Callable[[], Awaitable[T]]) -> T:
    """Do work that may send something to a model; where the user has not agreed yet, ask, and do it then.

    Raises:
        InputError: the user does not agree.
        As `work`.
    """
    from warplens.service.model import ConsentError, give_consent

    try:
        return await work()
    except ConsentError as error:
        answer = await server.window_show_message_request_async(
            types.ShowMessageRequestParams(
                types.MessageType.Info,
                error.destination.words(),
                actions=[types.MessageActionItem(_AGREE), types.MessageActionItem("Not now")],
            )
        )
        if answer is None or answer.title != _AGREE:
            raise InputError("nothing was sent, as you did not agree", remedy=error.remedy) from None
        give_consent(error.destination)
        return await work()
