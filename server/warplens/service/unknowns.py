# SPDX-License-Identifier: Apache-2.0
"""What a check cannot establish, and what would establish it."""

from __future__ import annotations

from pathlib import Path

from warplens_tools.arch.load import present_gpus
from warplens_tools.evidence import Unknown


def not_run(path: Path, tier: str) -> Unknown:
    """A tier that takes a run of the user's program, which a check of a saved file does not start."""
    return Unknown(
        f"{tier} tier of {path.name}",
        "saving a file does not run its program",
        f"run it when it suits: warplens profile {path.name}",
    )


def not_included(header: Path) -> Unknown:
    """What a header is not known of that no unit includes."""
    return Unknown(
        f"binary tier of {header.name}",
        "no .cu file of the workspace includes it",
        "check a unit that includes it, or list one in compile_commands.json",
    )


def machine_unknowns() -> list[Unknown]:
    """What a machine without a GPU cannot know of any kernel."""
    if present_gpus():
        return []
    return [
        Unknown(
            "how long kernels take, and what their counters read",
            "there is no CUDA GPU in this machine",
            "check on a machine with one, or import a report: warplens profile FILE --import REPORT.ncu-rep",
        )
    ]
