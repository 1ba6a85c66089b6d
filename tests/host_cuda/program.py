# SPDX-License-Identifier: Apache-2.0
"""Building and running one CUDA program on the CPU, and comparing what two of them print."""

from __future__ import annotations

import functools
import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.host_cuda.translate import as_host_code
from tests.kept import digest_of, kept, version_of
from tests.patience import PATIENCE

from warplens_tools.toolchain.compile import WITHOUT_SPECIAL_FUNCTIONS

_HERE = Path(__file__).parent
_INCLUDE = _HERE / "include"
_RUNTIME = _HERE / "runtime.cpp"
#: Where `device.h` is: device memory with values, for the programs that name it; nvcc compiles it too.
DEVICE = _HERE / "device"
#: Alignment and bounds are what a card traps on, or, worse, does not. C++17's special functions, which <cmath> brings
#: along, would be instantiated for every program anew.
_OPTIONS = (
    "-std=c++17",
    "-O1",
    "-w",
    *WITHOUT_SPECIAL_FUNCTIONS,
    "-ffp-contract=off",
    "-fno-stack-protector",
    "-fsanitize=alignment,bounds",
    "-fno-sanitize-recover=all",
)
_FOLDERS = (f"-I{_INCLUDE}", f"-I{DEVICE}")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)")


class HostRunError(AssertionError):
    """A program that does not build, fails, or does what a card forbids; the message says which."""


class HostProgram:
    """A whole CUDA program as text, run on the CPU by `run`. Built once for a text, also across processes and runs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._built = _built(text)

    def run(self, *args: str, order: int = 0, seconds: float = PATIENCE) -> str:
        """What it prints. `order` draws the order of threads and blocks; 0 for ascending.

        Raises:
            HostRunError: it fails, or does what a card forbids.
        """
        environment = os.environ | {"HOST_CUDA_ORDER": str(order)}
        done = subprocess.run(
            [self._built, *args],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=environment,
            errors="replace",
        )
        if done.returncode:
            raise HostRunError(f"exit {done.returncode}: {done.stderr[-2000:]}\n{done.stdout[-500:]}")
        return done.stdout


def agree(before: str, after: str, *, relative: float = 0.0, absolute: float = 0.0) -> bool:
    """Whether two outputs are the same text with the same numbers, within the given errors."""
    if _NUMBER.sub("#", before) != _NUMBER.sub("#", after):
        return False
    numbers = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    return all(_close(float(a), float(b), relative, absolute) for a, b in numbers)


def same_results(
    before: str,
    after: str,
    *args: str,
    orders: Sequence[int] = (0, 1, 2),
    relative: float = 0.0,
    absolute: float = 0.0,
) -> None:
    """Two programs, given as text, print the same; the second in several orders of threads.

    Raises:
        HostRunError: they do not, or one of them fails; the message shows the first difference.
    """
    first, second = HostProgram(before), HostProgram(after)
    wanted = first.run(*args)
    for order in orders:
        got = second.run(*args, order=order)
        if not agree(wanted, got, relative=relative, absolute=absolute):
            raise HostRunError(f"in order {order}: {_difference(wanted, got)}\n{after}")


def _close(a: float, b: float, relative: float, absolute: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= max(absolute, relative * max(abs(a), abs(b)))


def _difference(wanted: str, got: str) -> str:
    lines = zip(wanted.splitlines(), got.splitlines(), strict=False)
    shown = next(((a, b) for a, b in lines if a != b), (wanted[-200:], got[-200:]))
    return f"wanted {shown[0][:400]!r}, got {shown[1][:400]!r}"


def _built(text: str) -> Path:
    # most of a build would be the headers and the runtime: each is compiled once
    compiler = _compiler()
    rests_on = digest_of(_environment(compiler), text)
    device = "#include <device.h>" in text
    headers = _headers(compiler, DEVICE / "device.h" if device else _INCLUDE / "cuda_runtime.h")
    objects = [
        _object(compiler, source) for source in (_RUNTIME, *([DEVICE / "device.cpp"] if device else []))
    ]

    def make(out: Path) -> None:
        source = out.with_suffix(".cpp")
        source.write_text(f"#line 1\n{as_host_code(text)}")
        given = [*_OPTIONS, *_linker(), "-include", str(headers.with_suffix("")), *_FOLDERS]
        _compile([compiler, *given, str(source), *map(str, objects), "-o", str(out)], shown=text)

    return kept("host", rests_on, make)


@functools.cache
def _compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None or os.uname().machine != "x86_64":
        pytest.skip("no g++ for x86-64")
    return compiler


@functools.cache
def _linker() -> list[str]:
    """The one that takes a quarter of the other's time, where it is there."""
    return ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


@functools.cache
def _environment(compiler: str) -> str:
    """What every program rests on: compiler, options, headers, runtime."""
    return digest_of(version_of(compiler), " ".join(_OPTIONS), _INCLUDE, _RUNTIME, DEVICE)


@functools.cache
def _headers(compiler: str, header: Path) -> Path:
    """Precompiled, under the name that `-include` looks for: that of a header, and `.gch`."""
    command = [compiler, *_OPTIONS, *_FOLDERS, "-x", "c++-header", str(header), "-o"]
    return kept(f"{header.name}.gch", _environment(compiler), lambda out: _compile([*command, str(out)]))


@functools.cache
def _object(compiler: str, source: Path) -> Path:
    command = [compiler, *_OPTIONS, *_FOLDERS, "-c", str(source), "-o"]
    return kept(f"{source.stem}.o", _environment(compiler), lambda out: _compile([*command, str(out)]))


def _compile(command: list[str], *, shown: str = "") -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostRunError(f"does not compile:\n{done.stderr[:3000]}\n{shown}")
