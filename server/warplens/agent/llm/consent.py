# SPDX-License-Identifier: Apache-2.0
"""What would leave the machine, and to whom: said once for each address, and sent only where the user agreed.

The consent is kept with Warplens' own data, not in the workspace: a project's settings file can name an address, but
cannot agree for the user.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import InputError

#: In the folder of Warplens' own data.
FILE = "agreed.json"


class Destination(msgspec.Struct, frozen=True):
    """Who gets what is sent. Another address, or another key for it, is another destination."""

    #: "openai" or "editor".
    provider: str
    #: Base URL of an endpoint; "" for the editor's models.
    address: str = ""
    #: Name of the environment variable whose value goes along as the key; "" where there is none.
    key_variable: str = ""

    def words(self) -> str:
        """What is sent and to whom, for the user to agree to."""
        where = (
            f"the endpoint {self.address}"
            if self.provider == "openai"
            else "the language models that your editor offers, and through them their vendor"
        )
        key = f" The value of ${self.key_variable} goes along as the key." if self.key_variable else ""
        return (
            f"Optimizing with a model sends to {where}: the source of the file being optimized and changed versions "
            "of it, the findings about it, compiler and judge messages, the GPU's name and limits, how the kernel is "
            "launched and what was measured and counted of it, and excerpts of CUTLASS. "
            f"Nothing else is sent: no other file of yours.{key}"
        )


def agreed(folder: Path, destination: Destination) -> bool:
    """Whether the user agreed to it before. A damaged list counts as empty."""
    return destination in _read(folder)


def agree(folder: Path, destination: Destination) -> None:
    """Remember that the user agreed.

    Raises:
        InputError: the folder cannot be written.
    """
    known = [d for d in _read(folder) if d != destination]
    path = folder / FILE
    partial = path.with_suffix(f".{os.getpid()}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(msgspec.json.encode([*known, destination]))
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _read(folder: Path) -> list[Destination]:
    try:
        return from_json((folder / FILE).read_bytes(), list[Destination])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return []
