# SPDX-License-Identifier: Apache-2.0
"""What a step is expected to bring before anything was tried: from findings, then from measured hit rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from warplens.store.rates import HitRate
from warplens_tools.collect import metrics
from warplens_tools.evidence import CounterEvidence
from warplens_tools.finding import Confidence, Gain

#: Chance that an edit which answers a finding is right and faster, by the finding's own confidence.
CONFIDENCE: dict[Confidence, float] = {"high": 0.7, "medium": 0.5, "low": 0.3}
#: Trials that the prior counts for against measured ones: a rule's first few results move it, no more.
STRENGTH = 4.0
#: A rewrite that no finding asks for: seldom right, and little to gain.
UNASKED = (0.1, 1.05)
#: Parameters that no finding asks for, as (chance, gain) of one change. Chances and gains of occupancy and
#: of tiling are KernelPro's (arXiv 2606.26453, table 9: 13.3 % at 1.48x, 9.3 % at 1.42x); unrolling, which
#: it does not list, is put below both.
PARAMETERS: dict[str, tuple[float, float]] = {
    "parameter:block": (0.133, 1.48),
    "parameter:launch_bounds": (0.133, 1.48),
    "parameter:tile": (0.093, 1.42),
    "parameter:template_argument": (0.093, 1.42),
    "parameter:unroll": (0.08, 1.2),
}
#: Parameters that answer a finding, by its slug.
ANSWERS: dict[str, tuple[str, ...]] = {
    "register-spills": ("parameter:launch_bounds", "parameter:unroll"),
    "occupancy-registers": ("parameter:launch_bounds", "parameter:block"),
    "occupancy-shared-memory": ("parameter:block", "parameter:tile"),
    "occupancy-block-size": ("parameter:block",),
}
#: A resource this busy leaves a step that does not relieve it at most a tenth to win.
SATURATED = 0.9
#: Parameters that only hide latency or spare arithmetic, by the resource they cannot relieve (a rewrite's own is
#: its `useless_at`).
NEEDS_ROOM: dict[str, str] = {
    "parameter:block": "dram",
    "parameter:launch_bounds": "dram",
    "parameter:unroll": "dram",
}


class Cause(msgspec.Struct, frozen=True):
    """What the search needs to know of a finding."""

    code: str
    slug: str
    #: Qualified name.
    kernel: str
    confidence: Confidence
    gain: Gain | None = None
    #: Slugs of the rewrites that answer it.
    rewrites: tuple[str, ...] = ()


class Expectation(msgspec.Struct, frozen=True):
    """Chance that a step is right and faster, by how much it then is, and the findings it answers."""

    probability: float
    gain: float
    answers: tuple[str, ...] = ()


def expect(rule: str, causes: Sequence[Cause], rates: Sequence[HitRate]) -> Expectation:
    """What one step of a rule may bring for the kernel that `causes` speak of."""
    asking = [cause for cause in causes if _asks(cause, rule)]
    if asking:
        best = max(asking, key=lambda f: (CONFIDENCE[f.confidence], f.gain.estimate if f.gain else 1.0))
        chance = CONFIDENCE[best.confidence]
        gain = max((f.gain.estimate for f in asking if f.gain is not None), default=UNASKED[1])
        for cause in asking:
            chance = _posterior(chance, _rate(rates, "tool", cause.code))
    else:
        chance, gain = PARAMETERS.get(rule, UNASKED)
    measured = _rate(rates, "rule", rule)
    return Expectation(
        probability=_posterior(chance, measured),
        gain=_blended(gain, measured),
        answers=tuple(dict.fromkeys(f.code for f in asking)),
    )


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


def _asks(cause: Cause, rule: str) -> bool:
    return rule in cause.rewrites or rule in ANSWERS.get(cause.slug, ())


def _rate(rates: Sequence[HitRate], kind: str, subject: str) -> HitRate | None:
    return next((r for r in rates if r.kind == kind and r.subject == subject), None)


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
