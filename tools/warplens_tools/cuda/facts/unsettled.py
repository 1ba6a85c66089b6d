# SPDX-License-Identifier: Apache-2.0
"""Parts of a kernel that another build may leave out: those between `#if` and `#endif` on a macro nobody defines."""

from __future__ import annotations

import re

from warplens_tools.cuda.model import Kernel
from warplens_tools.text import SourceText

_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//.*|/\*.*?\*/")


def unsettled_macro(text: SourceText, kernel: Kernel, line: int) -> str:
    """The macro on which it hangs whether a line of the kernel's body is compiled; "" where that is settled.

    What the text or the command line defines is settled, and so is what the compiler defines itself (`__CUDA_ARCH__`).
    """
    open_: list[str] = []
    for number in range(kernel.body.line, line):
        found = _DIRECTIVE.match(text.line_text(number))
        if found is None:
            continue
        word, rest = found[1], _COMMENT.sub("", found[2])
        if word == "endif":
            del open_[-1:]
        elif word.startswith("if"):
            open_.append(_asked(rest, text))
        elif open_ and word == "elif":
            open_[-1] = open_[-1] or _asked(rest, text)
    return next((name for name in open_ if name), "")


def _asked(condition: str, text: SourceText) -> str:
    names = [n for n in _NAME.findall(condition) if n != "defined" and not n.startswith("__")]
    return next((n for n in names if n not in text.defines and not _is_defined(n, text)), "")


def _is_defined(name: str, text: SourceText) -> bool:
    return re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", text.text, re.MULTILINE) is not None
