# SPDX-License-Identifier: Apache-2.0
"""CUDA in strings of a Python script, as CuPy's RawKernel, NVRTC and PyTorch's load_inline take it: each string is a
file of its own, whose edits are made in the script.

A kernel there is run by the program of its launch spec, which stands in the string; the script itself is not run.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.agent.edits import text_hash
from warplens.agent.result import OptimizeResult
from warplens.service.optimize import OpenJudge, OptimizeOptions, open_judge, optimize_path
from warplens.service.service import Service
from warplens.service.specs import without_spec
from warplens.service.torch_host import device_side
from warplens_tools.collect.cache import cache_folder
from warplens_tools.cuda.model import SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.encoded import EncodedText
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.spec.infer import comment_edit, inferred
from warplens_tools.run.spec.read import specs_in
from warplens_tools.text import SourceText, TextEdit, unified_diff

_OPENING = re.compile(r"[rRuU]?(\"\"\"|'''|\"|')")
_MARK = "__global__"


class Embedded(msgspec.Struct, frozen=True):
    """One string: its text, and where that begins in the script, in characters."""

    text: SourceText
    start: int
    line: int

    def in_script(self, script: SourceText, edits: Sequence[TextEdit]) -> tuple[TextEdit, ...]:
        """Edits of the string as edits of the script."""
        return tuple(
            TextEdit(
                script.span(
                    self.start + self.text.offset(e.span.line, e.span.column),
                    self.start + self.text.offset(e.span.end_line, e.span.end_column),
                ),
                e.new_text,
            )
            for e in edits
        )

    def model(self, path: Path) -> SourceModel:
        """What the string says."""
        return parse(self.text, f"{path}:{self.line}")


def embedded(script: SourceText, path: Path) -> list[Embedded]:
    """The strings of a script that hold kernels.

    Raises:
        InputError: it is no Python, or such a string is not written as it is meant (escapes, pieces).
    """
    try:
        tree = ast.parse(script.text)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path.name} is no Python: {error}") from error
    lines = script.text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and _MARK in node.value):
            continue
        written = script.text[offset(node.lineno, node.col_offset) :]
        opening = _OPENING.match(written)
        start = offset(node.lineno, node.col_offset) + (opening.end() if opening else 0)
        if opening is None or not script.text.startswith(node.value + opening[1], start):
            raise InputError(
                f"{path.name}:{node.lineno}: the string with {_MARK} has escapes or pieces, so it cannot be edited",
                remedy='write it as one raw string: r"""…"""',
            )
        found.append(Embedded(SourceText(node.value), start, node.lineno))
    return sorted(found, key=lambda e: e.start)


def chosen(script: SourceText, path: Path, kernel: str) -> Embedded:
    """The string that defines a kernel, or the only one.

    Raises:
        InputError: as `embedded`, or there is none, or several and no name.
    """
    strings = embedded(script, path)
    if not strings:
        raise InputError(f"{path.name} has no string with a kernel")
    named = [s for s in strings if not kernel or s.model(path).kernel(kernel) is not None]
    if len(named) != 1:
        names = ", ".join(k.qualified_name for s in strings for k in s.model(path).kernels)
        what = f"no kernel {kernel}" if kernel and not named else "several strings with kernels"
        raise InputError(f"{path.name} has {what}", remedy=f"name one by --kernel: {names}")
    return named[0]


def optimize_script(
    service: Service,
    path: Path,
    options: OptimizeOptions,
    *,
    task: Task = UNATTENDED,
    judge: OpenJudge = open_judge,
) -> OptimizeResult:
    """`optimize_path` for a kernel in a string of a script; the result's edits and diff are the script's.

    Raises:
        InputError: as `chosen`, or the kernel has no launch spec.
        As `optimize_path`.
    """
    path = path.absolute()
    script = SourceText.read(path)
    string = chosen(script, path, options.kernel)
    folder = (
        cache_folder() / "embedded" / hashlib.sha256(f"{path}\0{string.text.text}".encode()).hexdigest()[:32]
    )
    unit = folder / f"{path.stem}_{string.line}.cu"
    folder.mkdir(parents=True, exist_ok=True)
    unit.write_text(device_side(string.text).text, encoding="utf-8", newline="")
    model = string.model(path)
    if not specs_in(string.text, model, f"{path.name}:{string.line}"):
        raise InputError(
            f"the kernels in {path.name}:{string.line} have no launch spec",
            remedy=f"warplens spec {path.name} writes a first one into the string",
        )
    result = optimize_path(service, unit, options, task=task, judge=judge)
    edits = string.in_script(script, result.edits)
    return msgspec.structs.replace(
        result,
        path=str(path),
        name=path.name,
        baseline_hash=text_hash(script),
        edits=edits,
        diff=unified_diff(script, script.apply(list(edits)), path=path.name) if edits else "",
        offers=(),
    )


def first_specs_in_script(path: Path, kernel: str) -> tuple[EncodedText, list[TextEdit], list[str]]:
    """As `specs.first_specs`, for the string of a script that defines the kernel. Raises as `chosen` too."""
    before = EncodedText.read(path)
    script = SourceText.decode(before.data, name=str(path))
    string = chosen(script, path, kernel)
    model = string.model(path)
    kernels = without_spec(model, specs_in(string.text, model, path.name), path, kernel)
    edits = [comment_edit(string.text, k, inferred(string.text, str(path), k)) for k in kernels]
    return before, list(string.in_script(script, edits)), [k.qualified_name for k in kernels]
