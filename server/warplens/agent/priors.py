# SPDX-License-Identifier: Apache-2.0
"""What a step is expected to bring before it was tried: from findings, then from what like steps were worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from warplens.store.rates import HitRate
from warplens_tools.collect import metrics
from warplens_tools.evidence import CounterEvidence
from warplens_tools.finding import Confidence, Gain
from warplens_tools.rewrite.base import Rewrite
from warplens_tools.tunable.parameter import Answer, Kind

#: Chance that an edit which answers a finding is right and faster, by the finding's own confidence.
CONFIDENCE: dict[Confidence, float] = {"high": 0.7, "medium": 0.5, "low": 0.3}
#: Trials that the prior counts for against measured ones: a rule's first few results move it, no more.
STRENGTH = 4.0
#: Gain of a step that answers a finding which names none: little.
UNNAMED_GAIN = 1.05
#: A resource this busy leaves a step that does not relieve it at most a tenth to win.
SATURATED = 0.9


class Cause(msgspec.Struct, frozen=True):
    """What the search needs to know of a finding."""

    code: str
    slug: str
    #: Qualified name.
    kernel: str
    confidence: Confidence
    gain: Gain | None = None
    #: Slugs of the rewrites that answer it at its own place.
    rewrites: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """What is known of a kind of step before anything was tried: of a rewrite, of a parameter going one way."""

    name: str
    #: Chance and gain where no finding asks for it.
    chance: float
    gain: float
    answers: tuple[Answer, ...] = ()
    useless_at: str = ""

    @classmethod
    def of_rewrite(cls, rewrite: Rewrite) -> Rule:
        """The rule of a rewrite."""
        answers = tuple(Answer(slug) for slug in rewrite.answers)
        return cls(rewrite.slug, rewrite.chance, rewrite.gain, answers, rewrite.useless_at)

    @classmethod
    def of_parameter(cls, kind: Kind, direction: int) -> Rule:
        """The rule of a parameter that goes up (1) or down (-1)."""
        answers = tuple(a for a in kind.answers if a.direction in (0, direction))
        return cls(kind.rule, kind.chance, kind.gain, answers, kind.useless_at)


class Expectation(msgspec.Struct, frozen=True):
    """Chance that a step is right and faster, by how much it then is, and the findings it answers."""

    probability: float
    gain: float
    answers: tuple[str, ...] = ()
    #: In words, for people.
    why: str = ""


class Known(msgspec.Struct, frozen=True):
    """All that is known of one kernel before a step on it is tried."""

    causes: tuple[Cause, ...] = ()
    rates: tuple[HitRate, ...] = ()
    #: How busy each resource was, 0 to 1 of its peak ("dram", "l2", "sm").
    busy: Mapping[str, float] = {}

    def expect(self, rule: Rule) -> Expectation | None:
        """What one step of a rule may bring; None where the resource that it needs is saturated."""
        asking = self._asking(rule)
        if not asking and masked(rule.useless_at, self.busy):
            return None
        chance, gain, why = rule.chance, rule.gain, ""
        if asking:
            cause, weight = max(asking, key=_confident_gain)
            promised = cause.gain.estimate if cause.gain is not None else UNNAMED_GAIN
            asked = CONFIDENCE[cause.confidence] * weight
            # A finding that names little speaks of what it saw, a rule that fits of what it does: the larger counts.
            if asked * math.log2(max(promised, 1.0)) >= chance * math.log2(gain):
                chance, gain = asked, promised
            why = f"answers {cause.code} {cause.slug}"
            chance = _posterior(chance, _rate(self.rates, "tool", cause.code))
        measured = _rate(self.rates, "rule", rule.name)
        return Expectation(
            probability=_posterior(chance, measured),
            gain=_blended(gain, measured),
            answers=tuple(dict.fromkeys(cause.code for cause, _ in asking)),
            why=why or _rated(measured),
        )

    def _asking(self, rule: Rule) -> list[tuple[Cause, float]]:
        weights = {answer.slug: answer.weight for answer in rule.answers}
        return [
            (cause, 1.0 if rule.name in cause.rewrites else weights[cause.slug])
            for cause in self.causes
            if rule.name in cause.rewrites or cause.slug in weights
        ]


def masked(resource: str, busy: Mapping[str, float]) -> bool:
    """Whether a step cannot pay because the resource that it does not relieve ("" for none) is saturated."""
    return busy.get(resource, 0.0) >= SATURATED


def busy_shares(counters: CounterEvidence | None) -> dict[str, float]:
    """How busy each resource was, 0 to 1 of its peak, as Nsight Compute saw it; the unseen is absent."""
    if counters is None:
        return {}
    compute = metrics.compute_throughput(counters)
    shares = {
        "dram": metrics.value(counters, metrics.DRAM_THROUGHPUT),
        "l2": metrics.l2_throughput(counters),
        "sm": None if compute is None else compute[0],
    }
    return {resource: share / 100 for resource, share in shares.items() if share is not None}


def _confident_gain(asking: tuple[Cause, float]) -> float:
    """Expected log2 gain of an answer, so that a sure gain comes before a doubtful one of the same size."""
    cause, weight = asking
    gain = cause.gain.estimate if cause.gain is not None else UNNAMED_GAIN
    return weight * CONFIDENCE[cause.confidence] * math.log2(max(gain, 1.001))


def _rate(rates: Iterable[HitRate], kind: str, subject: str) -> HitRate | None:
    return next((r for r in rates if r.kind == kind and r.subject == subject), None)


def _rated(rate: HitRate | None) -> str:
    return f"paid {rate.hits} times in {rate.trials}" if rate is not None and rate.hits else ""


def _posterior(prior: float, rate: HitRate | None) -> float:
    """Mean of a beta distribution that began at `prior` with the weight of `STRENGTH` trials."""
    if rate is None:
        return prior
    return (prior * STRENGTH + rate.hits) / (STRENGTH + rate.trials)


def _blended(prior: float, rate: HitRate | None) -> float:
    """The gain on hits and misses alike, in log space, as far as it was measured."""
    if rate is None or rate.mean_measured is None:
        return prior
    weighted = STRENGTH * math.log(prior) + rate.trials * math.log(rate.mean_measured)
    return max(1.0, math.exp(weighted / (STRENGTH + rate.trials)))


def of_kernel(causes: Sequence[Cause], kernel: str) -> tuple[Cause, ...]:
    """Those causes that speak of one kernel."""
    return tuple(cause for cause in causes if cause.kernel == kernel)
