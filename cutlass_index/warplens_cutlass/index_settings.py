# SPDX-License-Identifier: Apache-2.0
"""Limits of what is read, and the weights of the ranking.

`docs/index.md` explains the formula; `tests/index/ablate.py` shows what each weight is worth.
"""

from __future__ import annotations

import msgspec


class RankingWeights(msgspec.Struct, frozen=True):
    """What evidence counts beside evidence. Scores are relative to 1: every word found in the best field."""

    #: What a concept that covers the whole question adds to what it names.
    concept: float = 1.0
    #: What each further place in a concept's lists keeps of the place before.
    concept_place: float = 0.85
    #: What a definition gains, per share above 0.6, from holding the question's weight in its telling fields.
    full_coverage: float = 1.0
    #: Times ln(1 + files that include its file), added as a share.
    included: float = 0.06
    #: What a file gains, and loses, by a name of which the question says all, or nothing.
    file_focus: float = 0.6
    #: What a definition keeps for each sign that another is meant: a member, a declaration, a detail, a test.
    aside: float = 0.7
    #: What each further result from one file, or of one name, keeps.
    crowding: float = 0.3
    #: A definition whose name is the query.
    name: float = 1.6


class IndexSettings(msgspec.Struct, frozen=True):
    """Limits of what is read, and the ranking."""

    ranking: RankingWeights = msgspec.field(default_factory=RankingWeights)
    #: Files above this size are skipped; the largest header of CUTLASS 4.2 has 2.9 MB.
    max_file_bytes: int = 8_000_000
    max_depth: int = 40
    max_files: int = 50_000
    #: Processes that parse during a build; 0 means one per core, at most four.
    processes: int = 0
    #: Fewer changed files than this are read in the calling process.
    parallel_from: int = 24
    #: Folders that hold no source of their own.
    skipped_folders: tuple[str, ...] = (
        ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", "build", "_build", "CMakeFiles",
        ".cache", ".tox", "dist",
    )  # fmt: skip
    #: Files that name everything and explain nothing.
    skipped_files: tuple[str, ...] = ("CHANGELOG.md",)
    snippet_lines: int = 8
    #: Seconds to wait for another process that builds the same index.
    lock_timeout: float = 120.0
