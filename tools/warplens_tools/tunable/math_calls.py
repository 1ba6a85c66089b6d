# SPDX-License-Identifier: Apache-2.0
"""Functions of the math library that an edit calls, and the original does not."""

from __future__ import annotations

import re

from warplens_tools.tunable.source import File

#: Those that are worked out by polynomials (CUDA Math API): not roots, absolute values or what rounds.
_CALLS = re.compile(
    r"(?<![\w.])(?:std::|cuda::std::|::)?((?:sincos|sin|cos|tan|asin|acos|atan2?|sinh|cosh|tanh|asinh|acosh|atanh|exp|exp2"
    r"|exp10|expm1|log|log2|log10|log1p|logb|pow|powi|cbrt|rcbrt|hypot|rhypot|norm3d|norm4d|erf|erfc|erfcx|erfinv|erfcinv"
    r"|normcdf|normcdfinv|tgamma|lgamma|j0|j1|jn|y0|y1|yn|cyl_bessel_i[01]|sinpi|cospi|sincospi|fmod|remainder)f?)\s*\("
)


def calls_more(before: File, after: File) -> bool:
    """Whether an edit names such a function that the original does not; those of floats are others."""
    return bool(set(_CALLS.findall(after.code)) - set(_CALLS.findall(before.code)))
