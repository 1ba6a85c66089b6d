# SPDX-License-Identifier: Apache-2.0
"""Compile flags for units that include CUTLASS or CuTe and whose build is not known."""

from __future__ import annotations

import os
from pathlib import Path

from warplens_cutlass.corpus import home
from warplens_cutlass.fetch import VERSION
from warplens_tools.cuda.model import SourceModel

_HEADER = "cute/tensor.hpp"


def cutlass_flags(unit: Path, model: SourceModel) -> tuple[str, ...]:
    """Flags with which a CUTLASS unit compiles; () where it includes none, or no headers are found.

    The headers are those of the checkout the unit lies in, of `CUTLASS_PATH`, or those that
    `warplens setup cutlass` brought. `-DNDEBUG` takes out assertions, whose calls would serialise wgmma
    (ptxas C7510).
    """
    if not any(include.target.startswith(("cute/", "cutlass/")) for include in model.includes):
        return ()
    root = headers_for(unit)
    if root is None:
        return ()
    folders = [root / "include", root / "tools" / "util" / "include", root / "examples" / "common"]
    options = ("-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG")
    return (*options, *(f"-I{folder}" for folder in folders if folder.is_dir()))


def headers_for(unit: Path) -> Path | None:
    """The tree of CUTLASS that a unit is compiled with; None where there is none."""
    named = os.environ.get("CUTLASS_PATH", "")
    candidates = [*unit.parents, *([Path(named)] if named else []), home() / "cutlass" / VERSION]
    return next((c for c in candidates if (c / "include" / _HEADER).is_file()), None)
