# SPDX-License-Identifier: Apache-2.0
"""What a search may spend on a model and what it has spent: tokens and money, by role.

A question is only asked while its worst case, its whole prompt and the longest reply, still fits into what is left;
so a search of any length stays within its bound. Where an endpoint counts more than that, say for what a model thinks
and does not send, one question may go beyond it: from then on as much is expected of every other.
"""

from __future__ import annotations

import math

import msgspec

from warplens.agent.llm.provider import ROLES, Question, Role, Usage


class Prices(msgspec.Struct, frozen=True):
    """US dollars for a million tokens; 0 where they are not known, or nothing is charged."""

    input: float = 0.0
    output: float = 0.0

    def of(self, usage: Usage) -> float:
        """What tokens cost, in US dollars."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6


class Allowance(msgspec.Struct, frozen=True):
    """What one search may spend: tokens of prompts and replies, and US dollars at the prices."""

    tokens: int
    dollars: float
    prices: Prices = Prices()


class RoleSpent(msgspec.Struct, frozen=True):
    """What one role cost. `estimated` says that the provider did not count some of its tokens."""

    role: Role
    questions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    estimated: bool = False


class Ledger:
    """The account of one search."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self._spent: dict[Role, RoleSpent] = {}
        #: The most that a prompt was counted as over its estimate, and the longest reply.
        self._over, self._longest = 1.0, 0

    @property
    def tokens(self) -> int:
        """Tokens spent, prompts and replies."""
        return sum(s.input_tokens + s.output_tokens for s in self._spent.values())

    @property
    def dollars(self) -> float:
        """US dollars spent."""
        return sum(s.dollars for s in self._spent.values())

    def affords(self, question: Question) -> bool:
        """Whether the question's worst case fits into what is left."""
        worst = Usage(math.ceil(question.tokens * self._over), max(question.reply_tokens, self._longest))
        return (
            self.tokens + worst.input_tokens + worst.output_tokens <= self.allowance.tokens
            and self.dollars + self.allowance.prices.of(worst) <= self.allowance.dollars
        )

    def charge(self, question: Question, usage: Usage) -> None:
        """Note what a question cost."""
        self._over = max(self._over, usage.input_tokens / max(question.tokens, 1))
        self._longest = max(self._longest, usage.output_tokens)
        old = self._spent.get(question.role, RoleSpent(question.role))
        self._spent[question.role] = RoleSpent(
            question.role,
            old.questions + 1,
            old.input_tokens + usage.input_tokens,
            old.output_tokens + usage.output_tokens,
            old.dollars + self.allowance.prices.of(usage),
            old.estimated or usage.estimated,
        )

    def by_role(self) -> tuple[RoleSpent, ...]:
        """What each role cost that was asked."""
        return tuple(self._spent[role] for role in ROLES if role in self._spent)

    def words(self) -> str:
        """The account in a few words, for progress."""
        money = f", ${self.dollars:.2f}" if self.allowance.prices != Prices() else ""
        return f"{self.tokens:,} tokens{money}"
