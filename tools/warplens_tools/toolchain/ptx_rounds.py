# SPDX-License-Identifier: Apache-2.0
"""What a kernel rounds to float from double, to half, bfloat16, TF32 or eight bits, by its PTX.

A kernel that a program launches is held to its own precision by what it computes. Another instantiation of it, for
floats where the program has halves, computes nothing: there what is rounded is all that can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import of_kernels

_SHORT = r"(bf16|f16|tf32|e4m3|e5m2|e3m2|e2m3|e2m1)"
_TO = re.compile(rf"\bcvt(?:\.(?:r\w+|satfinite|sat|ftz|relu))*\.{_SHORT}(?:x2|x4)?\.(?:f32|f64)\b")
_TO_FLOAT = re.compile(r"\bcvt(?:\.(?:r\w+|sat|ftz))*\.f32\.f64\s+(%f\d+)\b")
#: What computes with a float, or carries it on: what is stored alone is a result of its own.
_USED = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?!st\b)[a-z][\w.]*\s+[^,;]+,([^;]*);", re.MULTILINE)
_HELD = re.compile(rf"\.{_SHORT}(?:x2|x4)?\b")
_SAID = {"f32": "float", "f16": "half", "bf16": "bfloat16", "tf32": "TF32"}


class Rounds(msgspec.Struct, frozen=True):
    """The short formats that one kernel rounds to, and all that it names."""

    to: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


def rounds_in(ptx: str) -> dict[str, Rounds]:
    """Of each kernel of a unit, by the name that it has whatever the unit; a function counts for all kernels."""
    to = of_kernels(ptx, lambda body: frozenset(_TO.findall(body)) | _cut_doubles(body))
    # floats are held by nearly every kernel: what counts is whether doubles become some
    held = of_kernels(ptx, lambda body: frozenset(_HELD.findall(body)) | _cut_doubles(body))
    return {name: Rounds(formats, held[name]) for name, formats in to.items()}


def _cut_doubles(body: str) -> frozenset[str]:
    cut = set(_TO_FLOAT.findall(body))
    used = (re.findall(r"%f\d+\b", operands) for operands in _USED.findall(body) if cut)
    return frozenset({"f32"} if any(not cut.isdisjoint(one) for one in used) else ())


def rounds_unseen(baseline: Mapping[str, Rounds], candidate: Mapping[str, Rounds], judged: str) -> str:
    """To what a candidate's unit rounds in another instantiation of the judged kernel that held no such number before;
    "" for nothing. What the judged one newly rounds to as well, its results tell.
    """
    own = _newly(baseline.get(judged), candidate.get(judged))
    for name, new in candidate.items():
        if name == judged or "<" not in name or name.partition("<")[0] != judged.partition("<")[0]:
            continue
        more = sorted(_newly(baseline.get(name), new) - own)
        if more:
            return f"the edit rounds to {_SAID.get(more[0], 'eight bits or fewer')} in {name}"
    return ""


def _newly(known: Rounds | None, new: Rounds | None) -> frozenset[str]:
    return new.to - known.held if known is not None and new is not None else frozenset()
