# SPDX-License-Identifier: Apache-2.0
"""The wire form of `check` and `profile`: what `--format json` prints, and its schema in `docs/schema/`.

Lines and columns are 1-based, columns in code points. Findings of a kernel come best first.
"""

from __future__ import annotations

import msgspec

from warplens.service.profile_report import ProfileReport
from warplens_tools.collect.sanitizer import Fault
from warplens_tools.evidence import LaunchTiming, TimelineEvidence, Unknown
from warplens_tools.finding import Bottleneck, Finding

FORMAT_VERSION = 2
#: Where the checks' pages can be read in a browser.
SITE = "https://github.com/warplens/warplens/blob/main/docs/checks"


def page_url(code: str, slug: str) -> str:
    """Where a check's page can be read; "" for one of another distribution, whose code has a prefix of its own."""
    return f"{SITE}/{slug}.md" if code.startswith("WL") else ""


class Skipped(msgspec.Struct, frozen=True):
    """A file or folder that a search of a folder left out, and why."""

    path: str
    why: str


class ResourceReport(msgspec.Struct, frozen=True):
    """What the worst instantiation takes; a field is null where its tier is absent."""

    arch: str
    registers: int | None = None
    shared_bytes: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    #: Threads per block the occupancy was computed for; null where the launch is not known.
    block_threads: int | None = None
    #: Resident warps over the SM's maximum, 0 to 1, and the resource that limits it.
    occupancy: float | None = None
    occupancy_limiter: str | None = None
    #: Demangled name of the instantiation, and how many there are.
    instantiation: str = ""
    instantiations: int = 0


class KernelReport(msgspec.Struct, frozen=True):
    """One kernel of a file."""

    name: str
    qualified_name: str
    line: int
    end_line: int
    #: Where the name stands, for lenses and hints.
    column: int
    name_line: int
    bottleneck: Bottleneck
    resources: ResourceReport | None
    #: Launch sites in the file that name it, 1-based lines.
    launch_lines: tuple[int, ...] = ()
    #: Launches in other files: "PATH:LINE".
    launched_in: tuple[str, ...] = ()
    #: How long it takes in its own program; null where it was not timed.
    timing: LaunchTiming | None = None
    #: What was counted of it; null where nothing was.
    profile: ProfileReport | None = None


class FileReport(msgspec.Struct, frozen=True):
    """One file's kernels and findings."""

    path: str
    kernels: tuple[KernelReport, ...]
    findings: tuple[Finding, ...]
    #: Tiers that were collected for this file.
    tiers: tuple[str, ...] = ()
    #: What the file's program did over time; null where it was not traced.
    timeline: TimelineEvidence | None = None
    #: Null where compute-sanitizer was not asked for.
    faults: tuple[Fault, ...] | None = None
    #: SHA-256 of the file's bytes as they were read, which the edits are of; "" for a text not from a file.
    digest: str = ""
    #: Architecture that it was judged against, such as sm_90.
    arch: str = ""
    #: Places the parser could not read: what such a report lacks may be there all the same.
    syntax_errors: int = 0


class Report(msgspec.Struct, frozen=True):
    """The answer of `check` and `profile`."""

    version: int
    tool: str
    files: tuple[FileReport, ...]
    unknown: tuple[Unknown, ...]
    #: What the search of folders left out.
    skipped: tuple[Skipped, ...] = ()
