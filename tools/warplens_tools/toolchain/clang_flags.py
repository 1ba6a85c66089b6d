# SPDX-License-Identifier: Apache-2.0
"""Turns a clang CUDA command into nvcc's words, and names what has no counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: clang option to nvcc words; () means it needs none.
_EXACT: dict[str, tuple[str, ...]] = {
    "-ffast-math": ("--use_fast_math",),
    "-fcuda-flush-denormals-to-zero": ("-ftz=true",),
    "-fgpu-flush-denormals-to-zero": ("-ftz=true",),
    "-fno-cuda-flush-denormals-to-zero": ("-ftz=false",),
    "-fgpu-rdc": ("-rdc=true",),
    "-fcuda-rdc": ("-rdc=true",),
    "-fno-gpu-rdc": ("-rdc=false",),
    "-ffp-contract=off": ("-fmad=false",),
    "-ffp-contract=fast": (),
    "-ffp-contract=on": (),
    "-c": (),
}
_WITH_VALUE = ("-I", "-isystem", "-include", "-D", "-U")
_IGNORED_WITH_VALUE = ("-o", "-x", "-MF", "-MT", "-MQ", "-resource-dir", "-isysroot", "-arch")
_IGNORED_PREFIXES = (
    "-W",
    "-M",
    "--cuda-path",
    "-fcolor",
    "-fdiagnostics",
    "-l",
    "-L",
    "-g",
    "-pthread",
    "-fPIC",
)


def is_clang(words: Sequence[str]) -> bool:
    """Whether the first word is a clang driver."""
    return bool(words) and Path(words[0]).name.startswith("clang")


def convert_clang(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nvcc's words, clang's words that could not be converted), for a command that starts with clang."""
    converted: list[str] = []
    unconverted: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        arch = next(
            (word[len(p) :] for p in ("--cuda-gpu-arch=", "--offload-arch=") if word.startswith(p)), ""
        )
        if arch:
            converted.append(f"-arch={arch}")
        elif word in _EXACT:
            converted += _EXACT[word]
        elif word in _WITH_VALUE:
            converted += [word, next(rest, "")]
        elif word in _IGNORED_WITH_VALUE:
            next(rest, "")
        elif word.startswith(("-I", "-D", "-U", "-std=", "-O")):
            converted.append(word)
        elif word.startswith("-") and not word.startswith(_IGNORED_PREFIXES):
            unconverted.append(word)
    return tuple(converted), tuple(unconverted)
