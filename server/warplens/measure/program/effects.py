# SPDX-License-Identifier: Apache-2.0
"""What a run of a program did, as seen from outside, and whether another one did the same."""

from __future__ import annotations

import array
import contextlib
import hashlib
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from warplens.measure.program.whole import (
    ROUNDING,
    ProgramRun,
    difference,
    numbers_in,
    steady_lines,
    unlike_text,
)

#: Files up to this size are kept, and compared within rounding; larger ones by their digest.
KEPT_BYTES = 64 << 20
#: Times and rates that a program prints of itself: a faster one prints others.
_OF_TIME = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=\s*(?:(?:[nuµm]?s|sec|seconds?|milliseconds?|microseconds?)\b"
    r"|[kMGT]?i?B(?:yte)?/s|[kMGT]?FLOPS?(?:/s)?\b|[kMG]?Hz\b|fps\b|FPS\b|/s\b))"
)
#: Magnitudes between which words of a file are taken for floats; small integers lie below it, read as floats.
_FLOATS = (1e-30, 1e30)
#: Inode and time of the last change of any kind, which no program can set; ns.
Stamp = tuple[int, int]


class Written(msgspec.Struct, frozen=True):
    """What a run made of one file."""

    kind: Literal["file", "link", "removed", "other"]
    size: int = 0
    digest: str = ""
    #: Its content, where it is a file of at most `KEPT_BYTES`.
    data: bytes | None = None


class RunEffects(msgspec.Struct, frozen=True):
    """What a run did: how it ended, what it printed, what it wrote."""

    run: ProgramRun
    #: By path under the copied folder.
    files: dict[str, Written] = {}
    #: Files that were there and were opened for reading; empty where the file system does not note that.
    read: frozenset[str] = frozenset()


def stamps_of(folder: Path) -> dict[str, Stamp]:
    """All files of a folder as they are before a run, prepared so that reading one shows."""
    stamps: dict[str, Stamp] = {}
    for name in _files_under(folder):
        path = folder / name
        with contextlib.suppress(OSError):
            if not path.is_symlink():
                # an access time before that of the last change is renewed by reading (relatime)
                os.utime(path, ns=(0, max(path.stat().st_mtime_ns, 1)))
            found = path.lstat()
            stamps[name] = (found.st_ino, found.st_ctime_ns)
    return stamps


def written_since(folder: Path, before: Mapping[str, Stamp]) -> tuple[dict[str, Written], frozenset[str]]:
    """The files that were made, changed or removed since `before`, and those that were read."""
    files: dict[str, Written] = {}
    read: set[str] = set()
    now = _files_under(folder)
    for name in now:
        found = (folder / name).lstat()
        if found.st_atime_ns and name in before and stat.S_ISREG(found.st_mode):
            read.add(name)
        if before.get(name) != (found.st_ino, found.st_ctime_ns):
            files[name] = _content(folder / name, found)
    gone = set(before) - set(now)
    return files | {name: Written("removed") for name in gone}, frozenset(read)


def _files_under(folder: Path) -> list[str]:
    return [
        os.path.relpath(Path(path) / name, folder)
        for path, folders, files in os.walk(folder)
        for name in (*files, *(f for f in folders if (Path(path) / f).is_symlink()))
    ]


def _content(path: Path, found: os.stat_result) -> Written:
    try:
        if stat.S_ISLNK(found.st_mode):
            return Written("link", digest=os.readlink(path))  # noqa: PTH115
        if not stat.S_ISREG(found.st_mode):
            return Written("other", digest=str(stat.S_IFMT(found.st_mode)))
        with path.open("rb") as file:
            if found.st_size <= KEPT_BYTES:
                data = file.read()
                return Written("file", len(data), hashlib.sha256(data).hexdigest(), data)
            return Written("file", found.st_size, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        return Written("other", digest=f"unreadable: {error.strerror}")


def unlike(before: Sequence[RunEffects], after: RunEffects) -> str:
    """How a run did otherwise than the baseline's runs; "" if it did the same, up to rounding.

    What the baseline's own runs do otherwise each time is not compared.
    """
    strange = difference([_untimed(d.run) for d in before], [_untimed(after.run)], rounding=ROUNDING)
    if strange:
        return strange
    names = {name for d in before for name in d.files}
    for name in sorted(set(after.files) - names):
        return f"the rebuilt program writes {name}, the original does not"
    for name in sorted(names):
        known = [d.files[name] for d in before if name in d.files]
        if name not in after.files and len(known) == len(before):
            return f"the rebuilt program does not write {name}"
        if name in after.files:
            strange = _unlike_file(name, known, after.files[name])
            if strange:
                return strange
    return ""


def _untimed(run: ProgramRun) -> ProgramRun:
    return msgspec.structs.replace(run, stdout=_OF_TIME.sub("(time)", run.stdout))


def _unlike_file(name: str, known: Sequence[Written], new: Written) -> str:
    if new.digest in {k.digest for k in known if k.kind == new.kind}:
        return ""
    if any(k.kind != new.kind for k in known):
        return f"{name} is a {new.kind} after the rebuilt program, and a {known[0].kind} after the original"
    texts = [_text(k) for k in known]
    text = _text(new)
    if text is not None and all(t is not None for t in texts):
        said = unlike_text([t for t in texts if t is not None], text, rounding=ROUNDING)
        return f"in {name} the rebuilt program writes {said[0]}, the original {said[1]}" if said else ""
    if len({k.digest for k in known}) > 1:
        return ""
    if new.data is None or known[0].data is None:
        return f"the rebuilt program writes other bytes to {name}, too many to tell rounding from error"
    if new.size != known[0].size:
        return f"the rebuilt program writes {new.size} bytes to {name}, the original {known[0].size}"
    if any(_near(kind, known[0].data, new.data) for kind in ("f", "d")):
        return ""
    return f"the rebuilt program writes other bytes to {name}, beyond the rounding of floats"


def _text(written: Written) -> str | None:
    if written.data is None or b"\0" in written.data:
        return None
    try:
        return _OF_TIME.sub("(time)", written.data.decode())
    except UnicodeDecodeError:
        return None


def _near(kind: str, before: bytes, after: bytes) -> bool:
    """Whether both are arrays of such floats with differences as of rounding."""
    old, new = array.array(kind), array.array(kind)
    if len(before) % old.itemsize:
        return False
    old.frombytes(before)
    new.frombytes(after)
    return all(map(_plausible, old)) and all(
        a == b or (_plausible(b) and math.isclose(a, b, rel_tol=ROUNDING))
        for a, b in zip(old, new, strict=True)
    )


def _plausible(value: float) -> bool:
    return value == 0 or _FLOATS[0] < abs(value) < _FLOATS[1]


def compared(runs: Sequence[RunEffects]) -> tuple[str, ...]:
    """What of the baseline's doings repeats, and is compared, in words; () if that holds no result at all."""
    lines = steady_lines([_untimed(d.run).stdout for d in runs])
    numbers = sum(len(numbers_in(line)) for line in lines)
    files = [name for name in runs[0].files if _repeats(name, runs)]
    sizes = sum(runs[0].files[name].size for name in files)
    if not numbers and not sizes:
        return ()
    found = [f"exit status {runs[0].run.status}"]
    found += [f"{len(lines)} lines of output with {numbers} numbers"] if lines else []
    return (*found, *([f"{len(files)} files of {sizes} bytes ({_few(files)})"] if files else []))


def left_out(runs: Sequence[RunEffects]) -> tuple[str, ...]:
    """What of the baseline's doings does not repeat, in words."""
    counts = {len(d.run.stdout.splitlines()) for d in runs}
    if len(counts) > 1:
        lines = [f"output, of {min(counts)} to {max(counts)} lines"]
    else:
        other = counts.pop() - len(steady_lines([_untimed(d.run).stdout for d in runs]))
        lines = (
            [f"the numbers in {other} lines of output, where they vary by more than rounding"]
            if other
            else []
        )
    if any(_OF_TIME.search(d.run.stdout) for d in runs):
        lines.append("times and rates that it prints of itself")
    names = sorted({name for d in runs for name in d.files})
    files = [name for name in names if not _repeats(name, runs)]
    return (
        *lines,
        *([f"what varies in {_few(files)}"] if files else []),
        "standard error and files outside the folder",
    )


def _repeats(name: str, runs: Sequence[RunEffects]) -> bool:
    return len({d.files[name].digest if name in d.files else None for d in runs}) == 1


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
