# SPDX-License-Identifier: Apache-2.0
"""The suite's programs as data."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

_HERE = Path(__file__).parent


class Program(msgspec.Struct, frozen=True):
    """One program of the suite; see `suite.toml`."""

    name: str
    kernel: str
    area: str
    roof: str
    small: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The program as its user wrote it."""
        return _HERE / "programs" / f"{self.name}.cu"

    @property
    def expert(self) -> Path:
        """The same program as somebody wrote it who knows the card; there may be none yet."""
        return _HERE / "experts" / f"{self.name}.cu"


def programs() -> tuple[Program, ...]:
    """All of them, by name."""
    entries = tomllib.loads((_HERE / "suite.toml").read_text(encoding="utf-8"))
    return tuple(msgspec.convert({"name": name} | entry, Program) for name, entry in sorted(entries.items()))
