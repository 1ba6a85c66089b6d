# SPDX-License-Identifier: Apache-2.0
"""A kernel as a few numbers between 0 and 1, so that what helped one can be expected of another like it.

Static ones come from its text, dynamic ones from what is known of how it ran. What is not known is absent, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from warplens.agent.priors import CONFIDENCE, Cause
from warplens_tools.cuda.model import Kernel

#: What a kernel's code holds, by a pattern that says so.
_HOLDS = {
    "shared": re.compile(r"\b__shared__\b"),
    "barrier": re.compile(r"\b__sync(?:threads|warp)\w*|\bsync\s*\("),
    "atomic": re.compile(r"\batomic[A-Z]\w*"),
    "shuffle": re.compile(r"\b__(?:shfl|reduce)\w*"),
    "double": re.compile(r"\bdouble\b"),
    "half": re.compile(r"\b(?:__half2?|__nv_bfloat162?|half)\b"),
    "transcendental": re.compile(r"\b_*(?:exp|log|sin|cos|tanh|pow|sqrt|rsqrt|erf)f?\s*\("),
    "two axes": re.compile(r"\b(?:threadIdx|blockIdx)\.y"),
    "divides": re.compile(r"[/%]\s*[A-Za-z_(]"),
    "indirect": re.compile(r"\[[^\[\]]*\w+\["),
}
_LOOP = re.compile(r"\b(?:for|while)\s*\(")
#: Loops beyond these, and gains beyond these octaves, tell no more.
_LOOPS, _OCTAVES = 4, 4.0


def features_of(
    kernel: Kernel, body: str, causes: Sequence[Cause], busy: Mapping[str, float]
) -> dict[str, float]:
    """Features of a kernel with that body (without comments), those findings, and those busy resources."""
    found = {f"text:{name}": float(bool(pattern.search(body))) for name, pattern in _HOLDS.items()}
    found["text:loops"] = min(len(_LOOP.findall(body)), _LOOPS) / _LOOPS
    found["text:pointers"] = min(sum("*" in p.type for p in kernel.parameters), _LOOPS) / _LOOPS
    for cause in causes:
        gain = math.log2(max(cause.gain.estimate, 1.0)) if cause.gain is not None else 0.5
        worth = CONFIDENCE[cause.confidence] * (0.5 + 0.5 * min(gain, _OCTAVES) / _OCTAVES)
        found[f"finding:{cause.slug}"] = max(found.get(f"finding:{cause.slug}", 0.0), worth)
    return found | {f"busy:{resource}": min(share, 1.0) for resource, share in busy.items()}
