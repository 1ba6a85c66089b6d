# SPDX-License-Identifier: Apache-2.0
"""The editor's own models, which the language server hands in as a function."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from warplens.agent.llm.provider import (
    CHARACTERS_PER_TOKEN,
    FailureKind,
    ProviderError,
    Question,
    Reply,
    Usage,
    estimated_tokens,
)
from warplens_tools.process.task import Task

#: Seconds between two looks at whether an answer came.
PAUSE = 0.05


class EditorAnswer(msgspec.Struct, frozen=True):
    """What the editor says: a text, or why there is none."""

    text: str = ""
    #: "" where there is a text; else as the editor's own errors: "NoPermissions", "Blocked", "NotFound", or others.
    error: str = ""
    message: str = ""
    #: Tokens of the prompt as the model counts them; None where it does not.
    input_tokens: int | None = None
    output_tokens: int | None = None


#: Asks the editor for a model's answer. Cancelling the future tells the editor to stop.
AskEditor = Callable[[str, Question], "Future[EditorAnswer]"]
_KINDS: dict[str, FailureKind] = {"NoPermissions": "denied", "NotFound": "rejected", "Blocked": "limited"}


class EditorModel:
    """A provider that asks through the editor, so that no key is needed."""

    name = "editor"

    def __init__(self, ask: AskEditor, model: str = "") -> None:
        self.model = model
        self._ask = ask

    def ask(self, question: Question, task: Task) -> Reply:
        """See `Provider`."""
        future = self._ask(self.model, question)
        answer = self._wait(future, question, task)
        if answer.error:
            raise ProviderError(
                _KINDS.get(answer.error, "failing"),
                f"the editor's model gave no answer: {answer.message[:200] or answer.error}",
                remedy="allow Warplens to use the editor's models, or choose another by model.name"
                if answer.error in _KINDS
                else "",
            )
        room = question.reply_tokens * CHARACTERS_PER_TOKEN * 2
        sent, came = answer.input_tokens or 0, answer.output_tokens or 0
        # a client that counts says of no prompt that it is empty
        known = sent > 0 and came >= 0
        counted = (sent, came) if known else (question.tokens, estimated_tokens(answer.text))
        usage = Usage(*counted, estimated=not known)
        return Reply(answer.text[:room], "length" if len(answer.text) > room else "stop", usage)

    def _wait(self, future: Future[EditorAnswer], question: Question, task: Task) -> EditorAnswer:
        ends = time.monotonic() + question.seconds
        try:
            while not future.done():
                task.check()
                if time.monotonic() > ends:
                    raise ProviderError(
                        "late",
                        f"the editor's model gave no answer in {question.seconds:g} s",
                        usage=Usage(question.tokens, 0, estimated=True),
                    )
                time.sleep(PAUSE)
        finally:
            future.cancel()  # nothing where it is done
        try:
            return future.result()
        except Exception as error:
            raise ProviderError("failing", f"the editor did not answer: {type(error).__name__}") from error
