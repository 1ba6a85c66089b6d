# SPDX-License-Identifier: Apache-2.0
"""The two spellings of CUDA C++ that no macro can give a C++ compiler: launches, and dynamic shared memory."""

from __future__ import annotations

import re

#: `extern __shared__ __align__(16) float tile[];`, the type with all that stands before the name.
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*|alignas\s*\(\s*\d+\s*\)\s*)?"
    r"([\w:<>,\s]+?)\s*(\w+)\s*\[\s*\]\s*;"
)
_ALIGNED = re.compile(r"(__shared__)\s+(__align__\s*\(\s*\d+\s*\)|alignas\s*\(\s*\d+\s*\))")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def as_host_code(text: str) -> str:
    """The program as C++, line for line.

    Raises:
        ValueError: a launch whose end or callee cannot be found.
    """
    text = _DYNAMIC.sub(r"\1* \2 = HOST_CUDA_DYNAMIC(\1);", text)
    text = _ALIGNED.sub(r"\2 \1", text)
    while (start := text.find("<<<")) >= 0:
        text = _without_launch(text, start)
    return text


def _without_launch(text: str, start: int) -> str:
    """`callee<<<how>>>(given)` as `host_cuda::Launcher{...} = [&] { callee(given); }`."""
    callee = _callee(text, start)
    end = _closing(text, start + 3, ">>>")
    opening = end + 3
    while text[opening : opening + 1].isspace() or text[opening : opening + 2] == "\\\n":
        opening += 1
    if text[opening : opening + 1] != "(":
        raise ValueError(f"no arguments after the launch at {text[callee : end + 3]!r}")
    close = _closing(text, opening + 1, ")")
    name, how, given = text[callee:start], text[start + 3 : end], text[opening + 1 : close]
    launch = f"host_cuda::Launcher{{host_cuda::configure({how})}} = [&] {{ {name.strip()}({given}); }}"
    return text[:callee] + launch + text[close + 1 :]


def _callee(text: str, start: int) -> int:
    """Where `name`, `space::name` or `name<arguments>` before a launch begins."""
    at = start
    while at and text[at - 1].isspace():
        at -= 1
    if text[at - 1] == ">":
        depth = 0
        while at:
            at -= 1
            depth += (text[at] == ">") - (text[at] == "<")
            if depth == 0:
                break
        while at and text[at - 1].isspace():
            at -= 1
    if text[at - 1] == ")":
        while at and text[at] != "(":
            at -= 1
        return at
    while at and (text[at - 1].isalnum() or text[at - 1] in "_:"):
        at -= 1
    if at == start:
        raise ValueError("no kernel before a launch")
    return at


def _closing(text: str, at: int, end: str) -> int:
    """Where `end` stands outside of brackets and literals, from `at` on."""
    waiting: list[str] = []
    while at < len(text):
        character = text[at]
        if not waiting and text.startswith(end, at):
            return at
        if character in _PAIRS:
            waiting.append(_PAIRS[character])
        elif waiting and character == waiting[-1]:
            waiting.pop()
        elif character in "\"'":
            at = _literal(text, at)
        at += 1
    raise ValueError(f"no {end!r} for a launch")


def _literal(text: str, at: int) -> int:
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at
