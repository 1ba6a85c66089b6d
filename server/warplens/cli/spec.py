# SPDX-License-Identifier: Apache-2.0
"""`warplens spec`: a first launch spec for kernels without a program."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warplens.cli.main import EXIT_CLEAN
from warplens.cli.streams import answering, write
from warplens.service.embedded import first_specs_in_script
from warplens.service.patch import patch_of, patch_root
from warplens.service.service import Service
from warplens.service.specs import first_specs
from warplens.service.writing import replace_file


def spec(
    file: Path,
    /,
    *,
    kernel: str = "",
    diff: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write a first launch spec above kernels that have none: sizes, arguments, grid and block.

    It is inferred from the kernels' parameters and what host code of the file does; what cannot be told is a guess
    to be corrected. `warplens optimize` then runs the kernels without a program of yours. A spec that is there is
    never changed.

    Parameters
    ----------
    file
        The file that holds the kernels; a Python script with CUDA in a string is one.
    kernel
        The kernel, plain or qualified; all that have no spec if left out.
    diff
        Print the edit as a patch instead of writing it.
    """
    path = Path(os.path.abspath(file))  # noqa: PTH100
    loaded = Service(Path.cwd()).settings_for(path)
    if path.suffix == ".py":
        before, edits, kernels = first_specs_in_script(path, kernel)
    else:
        before, edits, kernels = first_specs(path, loaded, kernel)
    after = before.apply(edits)
    if diff:
        with answering():
            write(patch_of(path, before.data, after, patch_root([path], Path.cwd())))
        return EXIT_CLEAN
    replace_file(path, before.data, after)
    sys.stdout.write(f"wrote a launch spec for {', '.join(kernels)} in {file}\n")
    return EXIT_CLEAN
