# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """ "1 block", "2 blocks"; `plural` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
