# SPDX-License-Identifier: Apache-2.0
"""Random files through `check --fix --diff` and `--fix-all`: what must hold whatever the bytes are."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from warplens.cli.main import run

ROOT = Path(__file__).parents[3]
_NEWLINE = re.compile(rb"\r\n|\n|\r")
_ODD = (
    b"\xe9",
    b"\xff",
    b"\xe2\x82",
    b"\xc3\xa9",
    "𝄞".encode(),
    b"\xed\xa0\x80",
    b"\x0c",
    b"\x1a",
    b"\xe2\x80\xa8",
)
#: Two causes with a fix each, where the sources of the examples may be cut before theirs.
_FIXED = (
    "__global__ void turn(float *out)\n{\n    __shared__ float t[32][32];\n"
    "    t[threadIdx.y][threadIdx.x] = out[threadIdx.x] * 0.5;\n    __syncthreads();\n"
    "    out[threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}\n"
    "void f(float *o) { turn<<<1, dim3(32, 32)>>>(o); }\n"
)


class Outcome(NamedTuple):
    """What one file came to."""

    kind: str
    edits: int
    refused: bool
    #: "" where everything held.
    wrong: str


def sources() -> list[str]:
    """Programs to spoil."""
    files = sorted((ROOT / "examples" / "first").glob("*.cu"))
    return [_FIXED, _FIXED, *(path.read_text("utf-8") for path in files)]


def random_file(rng: random.Random) -> tuple[str, bytes]:
    """A kind, and a file of it."""
    kind = rng.choice(["utf-8", "bom", "latin-1", "utf-16-le", "utf-16-be", "truncated", "spoilt", "noise"])
    text = rng.choice(sources())
    text = f"// {rng.choice(['café', 'µs → ns', '𝄞', 'plain'])}\n{text}"
    ends = rng.choice(["\n", "\r\n", "\r", "mixed"])
    text = "".join(
        part if part != "\n" else (rng.choice(["\n", "\r\n", "\r"]) if ends == "mixed" else ends)
        for part in re.split("(\n)", text)
    )
    if rng.random() < 0.3:
        text = text.rstrip()
    if kind == "bom":
        return kind, b"\xef\xbb\xbf" + text.encode()
    if kind == "latin-1":
        return kind, text.encode("latin-1", errors="replace")
    if kind.startswith("utf-16"):
        mark = b"\xff\xfe" if kind.endswith("le") else b"\xfe\xff"
        return kind, mark + text.encode(kind) + rng.choice([b"", b"\x00", b"\x00\xd8"])
    data = text.encode()
    if kind == "truncated":
        data = data[: rng.randrange(len(data))]
    elif kind == "spoilt":
        for _ in range(rng.randrange(1, 12)):
            at = rng.randrange(len(data))
            data = data[:at] + rng.choice(_ODD) + data[at + rng.randrange(3) :]
    elif kind == "noise":
        data = rng.randbytes(rng.randrange(400)).replace(b"\0", b" ") + data
    return kind, data


def try_file(folder: Path, kind: str, data: bytes) -> Outcome:
    """Take one file through the commands."""
    path = folder / "k.cu"
    path.write_bytes(data)
    status, out, err = command(folder, "--format", "json")
    if status == 2 and not out:
        return Outcome(kind, 0, True, "" if err.startswith(b"warplens: ") else f"said {err!r}")
    status, patch, err = command(folder, "--fix-all", "--diff")
    if path.read_bytes() != data:
        return Outcome(kind, 0, False, "--diff wrote the file")
    status, out, err = command(folder, "--fix-all", "--format", "json")
    report: dict[str, Any] = json.loads(out)
    applied = [f for finding in report["files"][0]["findings"] for f in finding["fixes"] if f["applied"]]
    edits = {json.dumps(edit): edit for fix in applied for edit in fix["edits"]}.values()
    after = path.read_bytes()
    if after != expected(data, list(edits)):
        return Outcome(kind, len(edits), False, "a byte outside an edit changed")
    path.write_bytes(data)
    if patch and after != patched(folder, patch):
        return Outcome(kind, len(edits), False, f"patch made something else: {err!r}")
    return Outcome(
        kind, len(edits), False, "" if bool(patch) == bool(edits) else "the patch is not what --fix-all did"
    )


def command(folder: Path, *options: str) -> tuple[int, bytes, bytes]:
    """A check of the source tier in this process: status, standard output and error."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(["check", "k.cu", "--tier", "source", "--arch", "sm_90", *options])
    out.flush()
    err.flush()
    return status, out.buffer.getvalue(), err.buffer.getvalue()


def patched(folder: Path, patch: bytes) -> bytes:
    """The file after `patch -p1`."""
    done = subprocess.run(
        ["patch", "-p1", "--quiet"], cwd=folder, input=patch, capture_output=True, check=False
    )
    return (folder / "k.cu").read_bytes() if done.returncode == 0 else done.stdout + done.stderr


def expected(data: bytes, edits: list[dict[str, Any]]) -> bytes:
    """The edits made by hand: lines found among the bytes, columns counted by decoding a line bit by bit."""
    codec = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(data[:2], "utf-8")
    mark = 2 if codec != "utf-8" else 3 if data.startswith(b"\xef\xbb\xbf") else 0
    starts = [mark, *_line_ends(data, mark, codec)]
    cuts = []
    for edit in edits:
        span = edit["span"]
        first = _byte(data, starts, span["line"], span["column"], codec)
        last = _byte(data, starts, span["end_line"], span["end_column"], codec)
        cuts.append((first, last, edit["new_text"].encode(codec)))
    for first, last, new in sorted(cuts, reverse=True):
        data = data[:first] + new + data[last:]
    return data


def _line_ends(data: bytes, mark: int, codec: str) -> Iterator[int]:
    if codec == "utf-8":
        yield from (match.end() for match in _NEWLINE.finditer(data, mark))
        return
    big = codec.endswith("be")
    units = [
        int.from_bytes(data[i : i + 2], "big" if big else "little") for i in range(mark, len(data) - 1, 2)
    ]
    for index, unit in enumerate(units):
        if unit == 10 or (unit == 13 and units[index + 1 : index + 2] != [10]):
            yield mark + 2 * index + 2


def _byte(data: bytes, starts: list[int], line: int, column: int, codec: str) -> int:
    start = starts[line - 1]
    end = starts[line] if line < len(starts) else len(data)
    for at in range(start, end + 1):
        # a prefix that ends within a character decodes to as many characters as one that ends after it
        if len(data[start:at].decode(codec, errors="replace")) >= column - 1 and _whole(
            data, start, at, end, codec
        ):
            return at
    return end


def _whole(data: bytes, start: int, at: int, end: int, codec: str) -> bool:
    """Whether a character ends at `at`: both sides decode to what the line does."""
    whole = data[start:end].decode(codec, errors="replace")
    return (
        data[start:at].decode(codec, errors="replace") + data[at:end].decode(codec, errors="replace") == whole
    )


def fuzz(folder: Path, count: int, seed: int = 1) -> list[Outcome]:
    """That many files; a traceback is an outcome too."""
    rng = random.Random(seed)
    outcomes = []
    for _ in range(count):
        kind, data = random_file(rng)
        try:
            outcomes.append(try_file(folder, kind, data))
        except Exception as error:  # noqa: BLE001 - any is what is looked for
            outcomes.append(Outcome(kind, 0, False, f"{type(error).__name__}: {error}"))
    return outcomes
