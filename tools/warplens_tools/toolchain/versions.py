# SPDX-License-Identifier: Apache-2.0
"""Asks tools, headers and libraries of the CUDA toolkit for their versions."""

from __future__ import annotations

import functools
import mmap
import re
import subprocess
from pathlib import Path


def path_version(kind: str, path: Path) -> str:
    """The version of the tool at `path`; "" where it does not say. Cached by path and time.

    Headers give their `CUDART_VERSION` or `CUPTI_API_VERSION` as "13.0", a library the number in its name,
    cicc the release compiled into it, and everything else what it answers to `--version`.

    Args:
        kind: the tool's name as in `warplens_tools.toolchain.locate`.
    """
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        return ""
    return _version(kind, path, stamp)


@functools.lru_cache(maxsize=64)
def _version(kind: str, path: Path, _stamp: int) -> str:
    if kind == "cuda_headers":
        return _define_version(path / "cuda_runtime_api.h", "CUDART_VERSION", 1000)
    if kind == "cupti_headers":
        return _cupti_header_version(path)
    if kind == "cicc":
        return _embedded_version(path)
    if kind == "cupti_library":
        return _library_version(path)
    return _asked_version(path)


def _define_version(header: Path, macro: str, scale: int) -> str:
    try:
        text = header.read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(rf"#define\s+{macro}\s+(\d+)", text)
    if match is None:
        return ""
    number = int(match[1])
    return f"{number // scale}.{number % scale // 10}"


def _cupti_header_version(folder: Path) -> str:
    for header in ("cupti_version.h", "cupti.h"):
        try:
            text = (folder / header).read_text(errors="replace")
        except OSError:
            continue
        match = re.search(r"#define\s+CUPTI_API_VERSION\s+(\d+)", text)
        if match:
            # 130001 is CUPTI of CUDA 13.0, second release; before CUDA 13 a plain counter (e.g. 26).
            number = int(match[1])
            return f"{number // 10000}.{number // 100 % 100}" if number >= 10000 else f"API {number}"
    return ""


def _embedded_version(path: Path) -> str:
    """The release that cicc writes into every PTX header, read from the file itself (it has no --version)."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(b"Cuda compilation tools, release ")
        text = data[at : at + 80].decode("ascii", errors="replace") if at >= 0 else ""
    match = re.search(r"V([\d.]+)", text)
    return match[1] if match else ""


def _library_version(path: Path) -> str:
    match = re.search(r"\.so\.([\d.]+)$", str(path.resolve()))
    return match[1] if match else ""


def _asked_version(path: Path) -> str:
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = asked.stdout + asked.stderr
    match = re.search(r", V(\d[\d.]*)", text) or re.search(r"[Vv]ersion (\d[\d.]*)", text)
    match = match or re.search(r"\b(\d+\.\d+(?:\.\d+)*)\b", text)
    return match[1].rstrip(".") if match else ""
