# SPDX-License-Identifier: Apache-2.0
"""One role's conversation: asked, looked up, corrected, within the bounds on tokens, money, turns and time.

Whatever comes back is counted and answered: a reply that cannot be used is told why, twice at most; a provider that
fails for good, or over and over, is asked no more in this run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from warplens.agent.llm.anchors import AnchorError
from warplens.agent.llm.library import Library
from warplens.agent.llm.provider import (
    CHARACTERS_PER_TOKEN,
    LASTING,
    Message,
    Provider,
    ProviderError,
    Question,
    Reply,
    Role,
    cut,
    estimated_tokens,
)
from warplens.agent.llm.replies import ReplyError, looks_of, sound, whole
from warplens.agent.llm.spending import Ledger
from warplens_tools.process.task import Task

T = TypeVar("T")
#: Planning is to vary, writing and repairing is not (STARK's temperatures).
TEMPERATURES: Mapping[Role, float] = {"planner": 0.8, "coder": 0.1, "debugger": 0.1}
#: Replies that a role may give after one that could not be used, and turns in which it may look things up.
CORRECTIONS, LOOKS = 2, 3
#: Looks of one turn that are answered.
LOOKS_A_TURN = 3
#: Questions in a row without a reply after which the provider is given up for the run.
FAILURES = 3
#: Share of the bound on a prompt that its case may take; the rest is for the conversation that follows.
CASE_SHARE, CASE_SHARE_WITH_LOOKS = 0.85, 0.7


class Bounds(msgspec.Struct, frozen=True):
    """Bounds on every question: tokens of its prompt and of its reply, and seconds."""

    prompt_tokens: int = 12_000
    reply_tokens: int = 4_000
    seconds: float = 180.0


class Asker:
    """Asks one provider, and keeps count."""

    def __init__(
        self, provider: Provider, ledger: Ledger, bounds: Bounds, library: Library | None = None
    ) -> None:
        self.provider, self.ledger, self.bounds, self.library = provider, ledger, bounds, library
        #: What went wrong, by kind: of replies, of anchors, of the provider.
        self.troubles: Counter[str] = Counter()
        #: Why nothing is asked any more; "" while there is.
        self.closed = ""
        self._failures = 0

    def room(self, system: str) -> int:
        """Tokens that a case may take beside what its role is told."""
        share = CASE_SHARE if self.library is None else CASE_SHARE_WITH_LOOKS
        return max(int(self.bounds.prompt_tokens * share) - estimated_tokens(system), 200)

    def converse(
        self,
        role: Role,
        system: str,
        case: str,
        understand: Callable[[str], T],
        task: Task,
        schema: Mapping[str, Any] | None = None,
    ) -> T | None:
        """What a role comes to, as `understand` reads it; None where it comes to nothing.

        Raises:
            CancelledError: `task` was stopped.
        """
        messages = [Message("system", system), Message("user", case)]
        corrections, looks = 0, 0
        while corrections <= CORRECTIONS:
            reply = self._ask(role, messages, schema, task)
            if reply is None:
                return None
            try:
                text = whole(reply)
                wishes = looks_of(text) if self.library is not None else ()
                if not wishes:
                    return understand(text)
                if looks >= LOOKS:
                    raise ReplyError("looked_too_long", "you have looked often enough: answer now")
                looks += 1
                answer = "\n\n".join(
                    f"{wish.tool} {wish.query!r}:\n{self.library.look(wish)}"  # type: ignore[union-attr]
                    for wish in wishes[:LOOKS_A_TURN]
                )
            except (ReplyError, AnchorError) as error:
                self.troubles[error.kind] += 1
                corrections += 1
                answer = f"That cannot be used: {error}. Reply again, in the form that was asked for."
            messages += [Message("assistant", reply.text), Message("user", answer)]
        return None

    def _ask(
        self, role: Role, messages: list[Message], schema: Mapping[str, Any] | None, task: Task
    ) -> Reply | None:
        if self.closed:
            return None
        bounds = self.bounds
        question = Question(
            role,
            shortened(messages, bounds.prompt_tokens),
            TEMPERATURES[role],
            bounds.reply_tokens,
            bounds.seconds,
            schema,
        )
        if not self.ledger.affords(question):
            self.closed = f"the budget for the model is used up ({self.ledger.words()})"
            return None
        task.say(f"{role} at work, {self.ledger.words()} so far")
        try:
            reply = self.provider.ask(question, task)
        except ProviderError as error:
            self._failed(question, error)
            return None
        self._failures = 0
        self.troubles.update(reply.survived)
        self.ledger.charge(question, reply.usage)
        return msgspec.structs.replace(reply, text=sound(reply.text))

    def _failed(self, question: Question, error: ProviderError) -> None:
        self.troubles.update((*error.survived, error.kind))
        self.ledger.charge(question, error.usage)
        self._failures += 1
        if error.kind in LASTING or self._failures >= FAILURES:
            self.closed = f"{error}" + (f" ({error.remedy})" if error.remedy else "")


def shortened(messages: list[Message], tokens: int) -> tuple[Message, ...]:
    """A conversation within a bound: its task and case stay, older turns go first, what is left is cut."""
    head, turns = messages[:2], messages[2:]
    room = tokens - sum(estimated_tokens(message.text) for message in head)
    while len(turns) > 2 and sum(estimated_tokens(t.text) for t in turns) > room:
        turns = turns[2:]
    kept: list[Message] = []
    for message in reversed(turns):  # the last word is why it is asked again
        text = cut(message.text, max(room * CHARACTERS_PER_TOKEN, 60))
        room -= estimated_tokens(text)
        kept.append(msgspec.structs.replace(message, text=text))
    return (*head, *reversed(kept))
