# SPDX-License-Identifier: Apache-2.0
"""Plain data of the index: what is read from a corpus, and what a search answers."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "function",
    "kernel",
    "struct",
    "class",
    "union",
    "alias",
    "concept",
    "macro",
    "enum",
    "enumerator",
    "variable",
    "atom",
    "traits",
    "example",
    "section",
    "file",
]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]

#: What part of a corpus a file belongs to.
Role = Literal["header", "example", "tool", "test", "documentation", "source"]


class Atom(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the name and the body of an MMA or copy operation say."""

    operation: Literal["mma", "copy"]
    #: "sm90"; "" where neither name nor namespace says it.
    arch: str = ""
    #: (M, N, K) of one instruction; empty for a copy.
    shape: tuple[int, ...] = ()
    #: Element types in the order of the name: D, A, B, C (or accumulator, A, B).
    types: tuple[str, ...] = ()
    #: Where A and B come from: "SS", "RS", "TS"; or a layout pair such as "TN".
    operands: str = ""
    #: A modifier that the name carries: "sparse", "multicast", "transposed", "zfill", …
    features: tuple[str, ...] = ()


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing a file defines (or declares). Lines are 1-based and inclusive."""

    name: str
    #: With namespaces and classes: "cute::SM90::GMMA::MMA_64x8x16_F16F16F16_SS".
    qualified_name: str
    kind: Kind
    line: int
    end_line: int
    #: First byte of the definition in its file.
    offset: int
    #: The text before the body on one line, clipped.
    signature: str
    doc: str = ""
    #: "template <class TS, class TD = TS>" without the keyword; "" for none.
    template_parameters: str = ""
    #: Arguments of a specialisation, "" for a primary template.
    specialisation: str = ""
    #: Preprocessor conditions around it or in its body that speak of an architecture.
    guards: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    atom: Atom | None = None
    #: PTX operations in its body: "cp.async.cg.shared.global".
    ptx: tuple[str, ...] = ()
    #: Identifiers in its body, most telling first; input of the full-text index only.
    mentions: tuple[str, ...] = ()
    #: Comments and messages in its body; input of the full-text index only.
    remarks: str = ""
    declaration_only: bool = False
    #: It is a member of a class.
    member: bool = False


class Section(msgspec.Struct, frozen=True):
    """One heading of a Markdown file with the text below it."""

    title: str
    line: int
    end_line: int
    text: str


class FileFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is read from one file."""

    path: str
    role: Role
    bytes: int
    #: Bytes inside ERROR nodes after masking; 0 for files that are not parsed.
    error_bytes: int = 0
    #: "cuda", "cpp" or "" (not parsed).
    grammar: str = ""
    title: str = ""
    brief: str = ""
    arch: tuple[str, ...] = ()
    definitions: tuple[Definition, ...] = ()
    sections: tuple[Section, ...] = ()
    #: Each identifier of the file's code: (name, occurrences, 1-based line of the first).
    mentions: tuple[tuple[str, int, int], ...] = ()
    #: What it includes, as written.
    includes: tuple[str, ...] = ()
    #: Comments and messages below the brief; input of the full-text index only.
    remarks: str = ""
    #: Directory names of example lists (`examples/README.md`): (directory, one-line title).
    listed: tuple[tuple[str, str], ...] = ()


class Skipped(msgspec.Struct, frozen=True):
    """A file or folder that was not read, and why."""

    path: str
    reason: str


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer. `path` is relative to the corpus root; lines are 1-based and inclusive."""

    path: str
    symbol: str
    kind: Kind
    line: int
    end_line: int
    score: float
    why: str
    snippet: str
    #: Name of the corpus; "" in an answer from a single corpus.
    corpus: str = ""


class CorpusRoot(msgspec.Struct, frozen=True):
    """Where the paths of results start."""

    name: str
    version: str
    root: str


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `search` returns, and the wire form of `warplens search --format json`."""

    results: tuple[Result, ...]
    #: The corpus root when there is exactly one; all are in `corpora`.
    root: str = ""
    corpora: tuple[CorpusRoot, ...] = ()
    #: What a code query recognised, in words: "loads a fragment with ldmatrix (line 12)".
    recognised: tuple[str, ...] = ()


class Usage(msgspec.Struct, frozen=True):
    """A file that mentions a symbol."""

    path: str
    line: int
    count: int
    role: Role


class SymbolCard(msgspec.Struct, frozen=True):
    """What a hover shows of one definition."""

    name: str
    qualified_name: str
    kind: Kind
    path: str
    line: int
    end_line: int
    signature: str
    doc: str
    template_parameters: str
    guards: tuple[str, ...]
    arch: tuple[str, ...]
    atom: Atom | None
    ptx: tuple[str, ...]
    usages: tuple[Usage, ...]
    #: How many files mention it.
    used_in: int
    #: How many definitions share the name.
    overloads: int
    corpus: CorpusRoot
