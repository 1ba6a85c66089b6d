"""`warplens search`: find a CUTLASS/CuTe symbol or example, from words, a name, or code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from warplens.cli.main import EXIT_CLEAN
from warplens_cutlass.engine import SearchOptions
from warplens_cutlass.engine import search as search_corpora
from warplens_cutlass.model import Answer, Kind
from warplens_tools.errors import InputError
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
    format
        Text for people, or one JSON object.
    """
    options = SearchOptions(
        arch=arch, kinds=tuple(kind or ()), type=type, limit=max(limit, 1), corpora=tuple(corpus or ())
    )
    answer = search_corpora(
        " ".join(query), like=read_code(like) if like else "", options=options, progress=_say
    )
    if format == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(answer), indent=1) + b"\n")
    else:
        print_answer(Console(highlight=False, soft_wrap=True), answer)
    return EXIT_CLEAN


def read_code(like: str) -> str:
    """The text that FILE[:START[-END]] names; one line alone stands for the kernel or block around it.

    Raises:
        InputError: the file cannot be read, or has no such lines.
    """
    if like == "-":
        return sys.stdin.read()
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
