# SPDX-License-Identifier: Apache-2.0
"""`warplens search`: find a CUTLASS/CuTe symbol or example, from words, a name, or code."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from warplens.cli.main import EXIT_CLEAN
from warplens.cli.streams import STDIN, write_json
from warplens.cli.streams import console as terminal
from warplens_cutlass.corpus import corpora
from warplens_cutlass.engine import SearchOptions
from warplens_cutlass.engine import search as search_corpora
from warplens_cutlass.extract.architecture import architectures
from warplens_cutlass.model import Answer, Kind
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText

_LIKE = re.compile(r"^(?P<file>.+?)(?::(?P<start>\d+)(?:-(?P<end>\d+))?)?$")


def search(
    *query: str,
    arch: str = "",
    kind: Annotated[list[Kind] | None, Parameter(negative="")] = None,
    type: Annotated[str, Parameter(name="--type")] = "",
    like: str = "",
    limit: int = 10,
    corpus: Annotated[list[str] | None, Parameter(negative="")] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Find a CUTLASS/CuTe definition or example.

    Parameters
    ----------
    query
        Words, or a symbol: exact, in part, misspelt or split.
    arch
        Keep what is for this architecture (sm_90, hopper) or for none in particular.
    kind
        Keep these kinds, such as struct, function, atom or example; may be repeated.
    type
        Keep what speaks of this element type, such as fp8 or bf16.
    like
        Code to find an abstraction for: FILE, FILE:LINE, or FILE:START-END; - reads standard input.
    limit
        The most results to show.
    corpus
        Search these corpora only; may be repeated.
    yes
        Where nothing is indexed yet, download the CUTLASS headers and examples and index them, unasked.
    format
        Text for people, or one JSON object.
    """
    _require_known(arch, corpus or ())
    if limit < 1:
        raise InputError(f"--limit {limit} leaves nothing to show", remedy="give a number from 1")
    code = read_code(like) if like else ""
    if not corpora() and (query or like):
        _offer_index(yes=yes)
    options = SearchOptions(
        arch=arch, kinds=tuple(kind or ()), type=type, limit=limit, corpora=tuple(corpus or ())
    )
    answer = search_corpora(" ".join(query), like=code, options=options, task=Task(_say))
    if format == "json":
        write_json(answer)
    else:
        print_answer(terminal(), answer)
    return EXIT_CLEAN


def _require_known(arch: str, names: Sequence[str]) -> None:
    """Refuse what would silently find nothing.

    Raises:
        InputError: no such architecture, or no corpus of that name.
    """
    if arch and not architectures(arch) and not architectures(arch.replace("sm", "sm_").replace("__", "_")):
        raise InputError(f"{arch} is no architecture", remedy="write it as sm_90, or as hopper")
    known = [c.name for c in corpora()]
    for name in names:
        if known and name not in known:
            raise InputError(f"there is no corpus {name}", remedy=f"there are: {', '.join(known)}")


def _offer_index(*, yes: bool) -> None:
    """Bring CUTLASS and index it, where the user agrees.

    Raises:
        InputError: the user does not, or nobody is there to ask.
    """
    from warplens.cli.index import fetch_cutlass
    from warplens_cutlass.fetch import VERSION

    asked = yes or sys.stdin.isatty()
    if not asked or not fetch_cutlass(VERSION, yes=yes, why="Nothing is indexed yet. "):
        remedy = "add --yes to download and index CUTLASS (as `warplens setup cutlass` does), "
        raise InputError(
            "nothing is indexed yet", remedy=remedy + "or index a folder: warplens index build PATH"
        )


def read_code(like: str) -> str:
    """The text that FILE[:START[-END]] names; one line alone stands for the kernel or block around it.

    Raises:
        InputError: the file cannot be read, or has no such lines.
    """
    if like in ("-", STDIN):
        return SourceText.decode(sys.stdin.buffer.read(), name="standard input").text
    match = _LIKE.match(like)
    whole = Path(like).exists() or match is None or match["start"] is None
    text = SourceText.read(Path(like if whole or match is None else match["file"]))
    if whole or match is None:
        return text.text
    start = int(match["start"])
    end = int(match["end"] or start)
    if not 1 <= start <= end or start > text.line_count:
        raise InputError(f"{like} names no lines of the file", remedy=f"it has {text.line_count} lines")
    if match["end"] is None:
        start, end = _around(text, start)
    return "\n".join(text.line_text(n) for n in range(start, min(end, text.line_count) + 1))


def _around(text: SourceText, line: int) -> tuple[int, int]:
    """The definition of the file that holds a line; twenty lines either way where there is none."""
    from warplens_cutlass.extract.file import extract_file
    from warplens_cutlass.model import FileFacts

    facts = extract_file("selection.cu", text.text.encode())
    around = [
        (d.end_line - d.line, d.line, d.end_line)
        for d in (facts.definitions if isinstance(facts, FileFacts) else ())
        if d.line <= line <= d.end_line and d.kind in ("kernel", "function")
    ]
    if around:
        _, start, end = min(around)
        return start, end
    return max(1, line - 20), line + 20


def print_answer(console: Console, answer: Answer) -> None:
    """Results for people, the corpus root said once."""
    for sentence in answer.recognised:
        console.print(Text(f"it {sentence}", style="dim"))
    for root in answer.corpora:
        version = f" {root.version}" if root.version else ""
        console.print(Text(f"{root.name}{version} in {root.root}", style="dim"))
    for result in answer.results:
        head = Text(f"{result.path}:{result.line}", style="bold")
        head.append(f"  {result.kind} {result.symbol}", style="cyan")
        if result.corpus:
            head.append(f"  [{result.corpus}]", style="dim")
        console.print(head)
        console.print(Text(f"    {result.why}"))
        for line in result.snippet.splitlines():
            console.print(Text(f"    | {line}", style="dim"))
    if not answer.results:
        console.print("nothing found; try other words or `warplens index status`", markup=False)


def _say(message: str, _share: float | None = None) -> None:
    sys.stderr.write(f"warplens: {message}\n") if "indexing" in message else None
