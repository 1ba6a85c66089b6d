# SPDX-License-Identifier: Apache-2.0
"""What two votes come to. Neither overrules the other in silence."""

from __future__ import annotations

import msgspec

from warplens_tools.finding import Bottleneck, Vote


def with_measured(bottleneck: Bottleneck, measured: Vote | None) -> Bottleneck:
    """The bottleneck of the analytic vote (or its "unknown") joined by the measured one.

    Agreement is certain. On disagreement the measured vote says what bounds the kernel as it is, and the
    reason tells what the analytic vote allows; only a program bound by its launches stays so, as no counter of
    a kernel tells of the time between two.
    """
    if measured is None:
        return bottleneck
    analytic = bottleneck.analytic
    evidence = (*measured.evidence, *bottleneck.evidence)
    joined = msgspec.structs.replace(bottleneck, measured=measured, evidence=evidence, bound=measured.bound)
    if analytic is None:
        return msgspec.structs.replace(joined, confidence=measured.confidence, reason=measured.reason)
    if analytic.bound == measured.bound:
        reason = f"{measured.reason}; the code asks for the same: {analytic.reason}"
        return msgspec.structs.replace(joined, confidence="high", reason=reason)
    if analytic.bound == "launch":
        # Counters are of one launch by itself; that launching takes longer was judged by its measured duration.
        reason = f"{analytic.reason}; of one launch by itself, {measured.reason}"
        return msgspec.structs.replace(joined, bound="launch", confidence=analytic.confidence, reason=reason)
    reason = (
        f"as it is, {measured.reason}; by its code it would be {analytic.bound}: {analytic.reason}. "
        "What lies between the two is what the implementation leaves unused"
    )
    return msgspec.structs.replace(joined, confidence=measured.confidence, reason=reason)
