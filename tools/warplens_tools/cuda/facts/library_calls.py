# SPDX-License-Identifier: Apache-2.0
"""Which functions of the mathematical library a line calls, as it is written."""

from __future__ import annotations

import re

_CALL = re.compile(
    r"(?<![\w.>:])(?:std::)?((?:sin|cos|sincos|tan|asin|acos|atan2?|sinh|cosh|tanh|exp2?|exp10|expm1|log|log2|log10"
    r"|log1p|pow|cbrt|erfc?|erfinv|normcdf|tgamma|lgamma|sinpi|cospi|fmod|remainder)f?)(?=\s*\()"
)


def library_calls(line: str) -> list[str]:
    """The names of those that are called, in text order: "sinf" of "y = std::sinf(x);"."""
    return _CALL.findall(line.partition("//")[0])
