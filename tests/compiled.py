# SPDX-License-Identifier: Apache-2.0
"""What the compilers made of a text for one test is there for the next that gives them the same: kept, as `kept` does.

Nothing is assumed of what a command does: it is found by its words (the fence around it among them), the contents of
the files they name, and the compilers' versions; it holds while what else it included is the same. The folder that a
command works in, and the one above, may be others; what names any other folder that is gone after the test is not kept,
so a test that wants its units found again puts them where `unit_file` says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from tests.kept import digest_of, kept, version_of
from tests.standard import standard_of

from warplens.measure.build import host_split
from warplens_tools.process.run import Completed, run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain import compile as compile_room
from warplens_tools.toolchain import link
from warplens_tools.toolchain.locate import resolve_toolchain

_PATH = re.compile(r"/[^\s\"',\]=:]+")
_MARKER = re.compile(rb'^# \d+ "(/[^"]*)"', re.MULTILINE)
#: What a version stands for, or what says nothing of the outcome.
_SYSTEM = ("/usr/", "/opt/", "/lib", "/bin/", "/etc/", "/proc/", "/sys/", "/dev/", sys.prefix)
_BINARY = b"\x7fELF"
#: Where folders are made that nobody finds again.
_PASSING = os.fsencode(tempfile.gettempdir()) + b"/"
#: Stands for the folder that a command works in, and for the one above.
_WORK, _ABOVE = "\x02work\x02", "\x02above\x02"


class _Made(msgspec.Struct, frozen=True):
    """What a command left behind, its folders' names apart."""

    completed: Completed
    files: dict[str, bytes]
    #: Files it included, with their digests.
    included: dict[str, str]


def unit_file(text: str) -> Path:
    """A file with this text, at the same place in every test and run."""
    return kept("unit.cu", digest_of(text), lambda out: out.write_text(text, "utf-8"))


def nvcc_made(name: str, text: str, *options: str) -> Path:
    """The file of this name, e.g. "k.ptx", that nvcc makes of a text with these options, by the plainest standard
    unless one of them names another; skips where there is none."""
    nvcc = resolve_toolchain().find("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    source, path = unit_file(text), nvcc.path
    if not any(option.startswith("-std") for option in options):
        options = (*standard_of(text), *options)

    def make(out: Path) -> None:
        subprocess.run([path, *options, str(source), "-o", str(out)], check=True)

    included = [Path(option) for option in options if Path(option).is_file()]
    rests_on = digest_of(version_of(path), version_of("g++"), "\0".join(options), text, *included)
    return kept(name, rests_on, make)


def ptx_of_each(texts: Mapping[str, str], kernel: str, *options: str, head: str = "") -> dict[str, str]:
    """By name, the PTX that nvcc makes for sm_90 of each text, which holds one kernel, called alike in all of them.

    It is that of a unit of `head` and this text; all are compiled as one, as most of a small unit is its headers.
    """
    parts = (
        f"#define {kernel} {kernel}_{n}_\n{text}\n#undef {kernel}\n" for n, text in enumerate(texts.values())
    )
    made = nvcc_made("k.ptx", f"{head}\n{''.join(parts)}", "-ptx", "-arch=sm_90", *options).read_text()
    made, _, after = made.rpartition("\n}\n")
    before, *entries = re.split(r"^(?=\t// \.globl\t)", f"{made}\n}}\n", flags=re.MULTILINE)
    found = {}
    for n, name in enumerate(texts):
        own = next(entry for entry in entries if f"{kernel}_{n}_" in entry.split("\n", 1)[0])
        own = re.sub(rf"(_ZZ?)\d+{kernel}_{n}_", rf"\g<1>{len(kernel)}{kernel}", own)
        found[name] = before + re.sub(r"(?<=\$L__BB)\d+", "0", own) + after
    return found


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    """While it is open, units are compiled, split and linked once for all tests, processes and runs."""
    with contextlib.ExitStack() as patched:
        for room in (compile_room, host_split, link):
            patched.enter_context(mock.patch.object(room, "run", _run_once))
        yield


def _run_once(
    arguments: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    task: Task = UNATTENDED,
    **given: Any,
) -> Completed:
    words, work = [str(word) for word in arguments], Path((env or {}).get("TMPDIR", ""))
    if "--dryrun" in words or not work.is_absolute() or not any(_is_compiler(word) for word in words):
        return run(arguments, env=env, task=task, **given)
    task.check()
    fresh: list[Completed] = []

    asked = _asked(words, work, env or {}, given)
    if _PASSING in asked:
        return run(arguments, env=env, task=task, **given)

    def make(out: Path) -> None:
        before = {path: path.stat().st_mtime_ns for path in work.iterdir() if path.is_file()}
        fresh.append(run(arguments, env=env, task=task, **given))
        made = [p for p in work.iterdir() if p.is_file() and before.get(p) != p.stat().st_mtime_ns]
        out.write_bytes(zlib.compress(msgspec.msgpack.encode(_made(fresh[0], made, work)), 1))

    file = kept("compiled", digest_of(asked), make)
    if fresh:
        return fresh[0]
    found = msgspec.msgpack.decode(zlib.decompress(file.read_bytes()), type=_Made)
    if any(_digest(path) != digest for path, digest in found.included.items()):
        return run(arguments, env=env, task=task, **given)
    for name, data in found.files.items():
        (work / name).write_bytes(_named(data, work))
    done = found.completed
    out, err = (_named(text.encode(), work).decode() for text in (done.stdout, done.stderr))
    return Completed(tuple(words), done.status, out, err, done.seconds)


def _is_compiler(word: str) -> bool:
    return word == "/bin/sh" or Path(word).name == "nvcc"


def _asked(words: Sequence[str], work: Path, env: Mapping[str, str], given: Mapping[str, Any]) -> bytes:
    """All that is asked, but for who asks (the guard's parent) and where."""
    asked = [word for word in words if word != str(os.getpid())]
    # a word may be a path with anything in it, or hold some
    files = dict.fromkeys(path for word in asked for path in (word, *_PATH.findall(word)))
    contents = [Path(f).read_bytes() for f in files if not f.startswith(_SYSTEM) and _is_file(f)]
    variables = json.dumps([sorted(env.items()), str(given.get("cwd"))])
    compilers = [version_of(word) for word in asked if Path(word).name == "nvcc"]
    text = "\0".join([*asked, variables, *compilers, version_of("g++")])
    return b"\0".join(_unnamed(data, work) for data in (text.encode(), *contents))


def _is_file(name: str) -> bool:
    """No error for what is too long for a name."""
    with contextlib.suppress(OSError):
        return Path(name).is_file()
    return False


def _made(completed: Completed, files: Sequence[Path], work: Path) -> _Made:
    data = {path.name: path.read_bytes() for path in files}
    markers = {path for name, text in data.items() if name.endswith(".ii") for path in _MARKER.findall(text)}
    ours = (*map(os.fsencode, _SYSTEM), os.fsencode(work.parent))
    included = [os.fsdecode(path) for path in markers if not path.startswith(ours)]
    out, err = (_unnamed(text.encode(), work).decode() for text in (completed.stdout, completed.stderr))
    return _Made(
        Completed((), completed.status, out, err, completed.seconds),
        {name: _unnamed(text, work) for name, text in data.items()},
        {path: _digest(path) for path in included if Path(path).is_file()},
    )


def _digest(path: str) -> str:
    file = Path(path)
    return digest_of(file) if file.is_file() else ""


def _unnamed(data: bytes, work: Path) -> bytes:
    if data.startswith(_BINARY):
        return data
    above = os.fsencode(work.parent)
    return data.replace(os.fsencode(work), _WORK.encode()).replace(above, _ABOVE.encode())


def _named(data: bytes, work: Path) -> bytes:
    if data.startswith(_BINARY):
        return data
    above = os.fsencode(work.parent)
    return data.replace(_WORK.encode(), os.fsencode(work)).replace(_ABOVE.encode(), above)
