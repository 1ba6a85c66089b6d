# SPDX-License-Identifier: Apache-2.0
"""What comparisons become where their sides are exchanged, and where they are to hold when they did not."""

from __future__ import annotations

#: With both sides exchanged, of those that order.
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: What holds of two integers where a comparison that orders them does not; of floats neither holds of a NaN.
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
#: The same of all comparisons.
NEGATED = {**OPPOSITE, "==": "!=", "!=": "=="}
