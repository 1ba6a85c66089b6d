# SPDX-License-Identifier: Apache-2.0
"""Maps SASS back to the user's lines."""

from __future__ import annotations

import functools
from pathlib import Path

from warplens_tools.cuda.model import Kernel
from warplens_tools.evidence import Instruction

_LIBRARIES = ("cuda_runtime.h", "curand_kernel.h", "cub/cub.cuh", "thrust/version.h", "cuda/std/version")


@functools.lru_cache(maxsize=1024)
def _of_toolkit(path: str) -> bool:
    """Whether a header lies in the toolkit's folder, or that of a library which is installed by itself, or below it."""
    return any((folder / name).is_file() for folder in list(Path(path).parents)[:4] for name in _LIBRARIES)


class LineTable:
    """Where in its file the instructions of one kernel come from. Lines are 1-based."""

    def __init__(self, kernel: Kernel, path: str) -> None:
        self.span = kernel.span
        self._name = Path(path).name
        self._own: dict[str, bool] = {}

    def kernel_line(self, instruction: Instruction) -> int | None:
        """The line of the kernel: the innermost link of the inline chain that lies inside the kernel's definition;
        None where the chain never enters it."""
        return next((n for n in self._chain(instruction) if self.span.contains_line(n)), None)

    def written_line(self, instruction: Instruction) -> int | None:
        """The line on which it is written: the kernel's own, or that of a device function which the kernel calls; None
        where the code is another file's."""
        return next(iter(self._chain(instruction)), None)

    def passes(self, instruction: Instruction, line: int) -> bool:
        """Whether it was written on a line of the file, or inlined through it."""
        return line in self._chain(instruction)

    def is_foreign(self, instruction: Instruction) -> bool:
        """Whether it is written in another file, whatever line of this one it was inlined into."""
        return bool(instruction.lines) and not self._is_own(instruction.lines[0].path)

    def is_toolkit(self, instruction: Instruction) -> bool:
        """Whether it was written in a header of the CUDA toolkit: its layout and loops are not the user's to change."""
        return bool(instruction.lines) and _of_toolkit(instruction.lines[0].path)

    def _chain(self, instruction: Instruction) -> list[int]:
        """The lines of the kernel's file in the inline chain, innermost first."""
        return [place.line for place in instruction.lines if self._is_own(place.path)]

    def _is_own(self, path: str) -> bool:
        known = self._own.get(path)
        if known is None:
            known = self._own[path] = Path(path).name == self._name
        return known
