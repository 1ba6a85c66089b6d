# SPDX-License-Identifier: Apache-2.0
"""How a program is built where a version of it includes CUTLASS and the program itself does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from warplens.measure.build.includes import uses_cutlass
from warplens.service.cutlass_flags import headers_for
from warplens_tools.arch.load import target_architecture
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.errors import InputError
from warplens_tools.run.build import flags_of, include_folders
from warplens_tools.run.workload import Workload

_ASSERT = re.compile(r"\bassert\s*\(")


def finds_library(given: Sequence[str]) -> bool:
    """Whether a unit that is compiled with these options finds CUTLASS's headers."""
    return any((folder / "cute").is_dir() for folder in include_folders(given))


def library_options(root: Path, given: Sequence[str], text: str) -> tuple[str, ...]:
    """Options by which a unit of this text that is compiled with `given` finds CUTLASS's headers, which are in `root`.

    `-DNDEBUG` takes out the headers' assertions, whose calls would serialise wgmma (ptxas C7510); a unit that asserts
    something itself keeps its own, and theirs.
    """
    standard = () if any(word.startswith(("-std", "--std")) for word in given) else ("-std=c++17",)
    asserts = _ASSERT.search(without_comments(to_ascii(text)))
    quiet = () if asserts or "-DNDEBUG" in given else ("-DNDEBUG",)
    return (*standard, "--expt-relaxed-constexpr", *quiet, f"-I{root / 'include'}")


def built_for(workload: Workload, arch: str, card: str, versions: Iterable[str]) -> tuple[Workload, str]:
    """A workload and what to compile for ("" for the card's own), so that these versions of its source compile.

    Args:
        card: architecture of the card, e.g. "sm_90", for which CUTLASS then is compiled as "sm_90a".

    Raises:
        InputError: a version includes CUTLASS, and its headers are not found.
    """
    if not any(uses_cutlass(text) for text in versions):
        return workload, arch
    arch = target_architecture(arch or card, arch_specific=True)
    given = flags_of(workload).arguments
    if workload.build or finds_library(given):
        # a build of the user's own takes no options
        return workload, arch
    root = headers_for(Path(workload.unit))
    if root is None:
        raise InputError(
            "the edited version includes CUTLASS, whose headers are not found",
            remedy="run `warplens setup cutlass`, or set CUTLASS_PATH to a checkout",
        )
    options = library_options(root, given, Path(workload.unit).read_text("utf-8", "replace"))
    return msgspec.structs.replace(workload, flags=(*workload.flags, *options)), arch
