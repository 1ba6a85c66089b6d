# SPDX-License-Identifier: Apache-2.0
"""Inline assembler that does more than compute: it declares, calls, or leaves its function; read from PTX.

nvcc writes the text of every `asm` that is compiled between two comments, its macros and literals put together. What
the text may do (PTX ISA 9.0, sections 4 and 11) is a list of what is known to stay within it, not of what is not.
"""

from __future__ import annotations

import re

#: The comments as nvcc writes them, each a line.
_BLOCK = re.compile(r"^\t// begin inline asm\n(.*?)\n\t// end inline asm$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REGISTER = re.compile(r"%[A-Za-z_$][\w$]*")
_LABEL = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*:(?!:)")
_GUARD = re.compile(r"\s*@!?\s*[\w$%]+\s*")
_TARGET = re.compile(r"\s*bra(?:\.\w+)*\s+([\w$%]+)\s*")
#: Statements that leave a function, by their first word.
_LEAVING = ("call", "ret", "exit", "brx")
#: What may be declared: registers, which belong to the block they stand in. Its type may follow without a space.
_DECLARES_REGISTERS = re.compile(r"\.reg(?![A-Za-z0-9_$])")


def new_blocks(baseline: str, candidate: str) -> tuple[str, ...]:
    """Texts of inline assembler in a candidate's PTX that its baseline's PTX has not, whatever the registers."""
    known = {_REGISTER.sub("%", block) for block in _BLOCK.findall(baseline)}
    return tuple(block for block in _BLOCK.findall(candidate) if _REGISTER.sub("%", block) not in known)


def escapes(baseline: str, candidate: str) -> str:
    """By what the candidate's new inline assembler does more than compute, in words; "" if it does not."""
    return next((why for block in new_blocks(baseline, candidate) if (why := _why(block))), "")


def _why(block: str) -> str:
    code = re.sub(r'"[^"\n]*"', '""', _COMMENT.sub(" ", block))
    depth = 0
    for bracket in re.findall(r"[{}]", code):
        depth += 1 if bracket == "{" else -1
        if depth < 0:
            break
    if depth:
        return "closes or opens a block that is not its own"
    pieces = re.split(r"[;{}]", code)
    labels = {label for piece in pieces for label in _labelled(piece)[0]}
    return next((why for piece in pieces if (why := _statement(_labelled(piece)[1], labels))), "")


def _labelled(piece: str) -> tuple[list[str], str]:
    """The labels before a statement, and the statement without its guard."""
    labels = []
    while (match := _LABEL.match(piece)) is not None:
        labels.append(match[1])
        piece = piece[match.end() :]
    return labels, _GUARD.sub("", piece, count=1) if _GUARD.match(piece) else piece.lstrip()


def _statement(text: str, labels: set[str]) -> str:
    word = (text.split() or [""])[0]
    if word.startswith(".") and not _DECLARES_REGISTERS.match(word):
        return f"declares by {word}"
    opcode = word.split(".")[0]
    if opcode in _LEAVING:
        return f"leaves its function by {word}"
    if opcode == "bra":
        target = _TARGET.fullmatch(text)
        if target is None or target[1] not in labels:
            return f"leaves its text by {text.strip()}"
    return ""
