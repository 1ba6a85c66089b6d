# SPDX-License-Identifier: Apache-2.0
"""What asks a language model: one interface, whoever answers.

A provider sends one question and gives one reply, within the question's seconds and tokens. It decides nothing:
what a reply is worth is for `replies`, what may be spent for `spending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from warplens.measure.exchange import AwaitingError
from warplens_tools.errors import WarplensError
from warplens_tools.process.task import Task

Role = Literal["planner", "coder", "debugger"]
ROLES: tuple[Role, ...] = ("planner", "coder", "debugger")
#: `stop`     the model ended by itself
#: `length`   it was cut at the bound on its tokens
#: `refusal`  it declined, or its vendor's filter did
Finish = Literal["stop", "length", "refusal"]
#: `denied`       the key is missing, wrong, or may not use that model (401, 403)
#: `rejected`     the endpoint does not take the request (400, 404, 422)
#: `limited`      too many requests, or no quota left (429)
#: `failing`      the endpoint fails (500 and above)
#: `unreachable`  no connection, or it broke
#: `late`         no whole reply in time: it hangs, or drips
#: `endless`      more bytes than a reply of the allowed length can have
#: `garbled`      what came is not the protocol
FailureKind = Literal["denied", "rejected", "limited", "failing", "unreachable", "late", "endless", "garbled"]
#: Failures that the next request would meet too.
LASTING: frozenset[FailureKind] = frozenset({"denied", "rejected"})
#: Failures that a repetition may get past.
PASSING: frozenset[FailureKind] = frozenset({"limited", "failing", "unreachable"})

#: Characters of code in a token of the usual vocabularies, rounded down so that a bound holds; bytes of UTF-8 where
#: they are not ASCII, of which a token of other scripts has as many.
CHARACTERS_PER_TOKEN = 3


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


class Question(msgspec.Struct, frozen=True):
    """What a role asks, and within which bounds it is answered."""

    role: Role
    messages: tuple[Message, ...]
    temperature: float
    #: Tokens that a reply may have.
    reply_tokens: int
    #: Seconds until there must be a whole reply, retries among them.
    seconds: float
    #: JSON schema of the reply, for providers that can hold a model to one; None for free text.
    schema: Mapping[str, Any] | None = None

    @property
    def tokens(self) -> int:
        """Tokens of the messages, estimated from above."""
        return sum(estimated_tokens(message.text) for message in self.messages)


class Usage(msgspec.Struct, frozen=True):
    """Tokens that were paid for; `estimated` where the provider did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False


class Reply(msgspec.Struct, frozen=True):
    """What came back."""

    text: str
    finish: Finish
    usage: Usage
    #: Kinds of failures that retries got past, in order.
    survived: tuple[FailureKind, ...] = ()


class ProviderError(WarplensError):
    """No reply. `usage` is what it cost all the same, `survived` the failures before the last."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        remedy: str = "",
        usage: Usage | None = None,
        survived: tuple[FailureKind, ...] = (),
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.kind: FailureKind = kind
        self.usage = usage if usage is not None else Usage()
        self.survived = survived


class UnansweredError(AwaitingError):
    """Questions were put and nobody has answered yet; the search goes on when it is started again.

    Raised only by a provider that does not wait.
    """


class Provider(Protocol):
    """Whoever answers."""

    #: As the user named it: "openai", "editor", "files:DIR".
    name: str
    #: The model that answers; "" where the provider chooses.
    model: str

    def ask(self, question: Question, task: Task) -> Reply:
        """One reply.

        Raises:
            ProviderError: there is none; says why.
            UnansweredError: there is none yet.
            CancelledError: `task` was stopped.
        """


def estimated_tokens(text: str) -> int:
    """Tokens of a text, from above."""
    return -(-size_of(text) // CHARACTERS_PER_TOKEN)


def size_of(text: str) -> int:
    """Bytes of a text, which bounds go by: a letter of another script takes two or three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def cut(text: str, size: int) -> str:
    """The beginning of a text, in at most so many bytes."""
    if size_of(text) <= size:
        return text
    return text.encode("utf-8", "surrogatepass")[: max(size, 0)].decode("utf-8", "ignore")
