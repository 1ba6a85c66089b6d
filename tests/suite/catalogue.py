# SPDX-License-Identifier: Apache-2.0
"""A suite's programs as data: this one's, or those of another folder of the same form."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec

SUITE = Path(__file__).parent
#: PTX, and intrinsics of several numbers in a word, which C++ does not have.
_NOT_CPP = re.compile(r"\basm\b|\b__v[a-z]+[24]\(")


class Program(msgspec.Struct, frozen=True):
    """One program of a suite; see `suite.toml`."""

    name: str
    kernel: str
    area: str
    roof: str = ""
    small: tuple[str, ...] = ()
    #: Whether what compiles it waits for `make test-gpu`.
    thorough: bool = False
    #: Of the suite.
    folder: str = ""

    @property
    def path(self) -> Path:
        """The program as its user wrote it."""
        return Path(self.folder, "programs", f"{self.name}.cu")

    @property
    def expert(self) -> Path:
        """The same program as somebody wrote it who knows the card; there may be none yet."""
        return Path(self.folder, "experts", f"{self.name}.cu")

    @property
    def has_cpp_expert(self) -> bool:
        """Whether there is an expert's version that runs on the CPU as C++."""
        return self.expert.exists() and not _NOT_CPP.search(self.expert.read_text(encoding="utf-8"))


def programs(folder: Path = SUITE) -> tuple[Program, ...]:
    """All of them, by name."""
    entries = tomllib.loads((folder / "suite.toml").read_text(encoding="utf-8"))
    return tuple(
        msgspec.convert({"name": name, "folder": str(folder.resolve())} | entry, Program)
        for name, entry in sorted(entries.items())
    )
