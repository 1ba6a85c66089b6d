# SPDX-License-Identifier: Apache-2.0
"""C that a module brings along, compiled when it is loaded: stands for inline CUDA where there is no card."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch


def compiled(code: str) -> Any:
    """The library of some C."""
    folder = Path(tempfile.mkdtemp())
    (folder / "code.c").write_text("#include <math.h>\n" + code)
    library = folder / "code.so"
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", folder / "code.c", "-o", library, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def at(*tensors: torch.Tensor) -> list[ctypes.c_void_p]:
    """Where contiguous tensors lie."""
    assert all(t.is_contiguous() for t in tensors)
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]
