# SPDX-License-Identifier: Apache-2.0
"""`warplens profile`: everything known of a file's kernels, measured or imported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN, EXIT_FAILED
from warplens.cli.profile_text import print_profile
from warplens.cli.streams import answering, write_json
from warplens.cli.streams import console as terminal
from warplens.service.profile import ProfileOptions, profile_file
from warplens.service.report import Report
from warplens.service.service import Service
from warplens_tools.errors import InputError
from warplens_tools.roofline.svg import roofline_svg


def profile(
    file: Path,
    /,
    *,
    kernel: str = "",
    import_: Annotated[tuple[Path, ...], Parameter(name="--import", negative="")] = (),
    arch: str | None = None,
    tier: Literal["timing", "counters", "timeline"] | None = None,
    svg: Path | None = None,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Show what bounds each kernel, its roofline, stall reasons and hottest lines.

    Parameters
    ----------
    file
        The .cu file; its program is run under Nsight Compute and Nsight Systems unless reports are imported.
    kernel
        One kernel, by plain or qualified name.
    import_
        A report to read instead of running anything: .ncu-rep, text of `ncu --csv`, .nsys-rep, or its .sqlite.
    arch
        Architecture to judge against, such as sm_90.
    tier
        Highest tier to collect by running the program: durations alone, counters too, or a timeline as well
        (all that can be had, if left out).
    svg
        Folder to write each kernel's roofline into, as SVG.
    format
        Text for people, or one JSON object.
    """
    options = ProfileOptions(
        kernel=kernel, reports=import_, arch=arch, tier=tier or "timeline", named=tier is not None
    )
    report = profile_file(Service(Path.cwd()), file, options, task=command_task())
    if svg is not None:
        write_drawings(report, svg)
    with answering():
        if format == "json":
            write_json(report)
        else:
            # A pipe or a file has no width of its own; tables are not to be cut there.
            width = None if sys.stdout.isatty() else 160
            print_profile(terminal(width=width), report)
    return EXIT_FAILED if any(u.failed for u in report.unknown) else EXIT_CLEAN


def write_drawings(report: Report, folder: Path) -> None:
    """One SVG per measured kernel.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in report.files:
            for kernel in file.kernels:
                if kernel.profile is not None and kernel.profile.roofline is not None:
                    name = kernel.qualified_name.replace("::", "-").replace(" ", "-")
                    drawing = roofline_svg(kernel.profile.roofline, title=kernel.qualified_name)
                    (folder / f"{name}.svg").write_text(drawing, "utf-8")
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}") from error
