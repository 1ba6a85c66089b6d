# SPDX-License-Identifier: Apache-2.0
"""The thesaurus: what the parts and examples of CUTLASS do, in words of the field; read from `concepts.toml`.

A build puts it into the index, so that a search need not read it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("concepts.toml")


class Concept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. Symbols and files are looked up in the corpus at hand; what it lacks is passed over."""

    #: What it does, after "it …": "loads matrix fragments with ldmatrix".
    does: str
    #: Further words and phrases that people use for it.
    words: str
    #: Names of definitions that provide it, the one to use first.
    symbols: tuple[str, ...] = ()
    #: Parts of paths of files that show it, the best first.
    files: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    concept: tuple[Concept, ...]


def read_concepts() -> tuple[Concept, ...]:
    """All entries, in the order of the file."""
    return msgspec.toml.decode(FILE.read_bytes(), type=_File).concept


def edition() -> str:
    """What the index remembers of the file, to see that it changed: a digest of its text."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()[:16]
