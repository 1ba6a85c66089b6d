# SPDX-License-Identifier: Apache-2.0
"""All facts of one file; of Markdown its sections, and the one-line titles of an example list."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from warplens_cutlass.extract.architecture import architectures
from warplens_cutlass.extract.atoms import with_atom
from warplens_cutlass.extract.body import file_mentions, includes_of, remarks_of
from warplens_cutlass.extract.comments import brief
from warplens_cutlass.extract.declarations import definitions
from warplens_cutlass.extract.parse import parse, too_deep
from warplens_cutlass.model import Definition, FileFacts, Role, Section, Skipped

SOURCE_SUFFIXES = frozenset((".cu", ".cuh", ".h", ".hpp", ".hxx", ".hh", ".inl", ".cpp", ".cc", ".cxx", ".c"))
DOCUMENT_SUFFIXES = frozenset((".md",))


#: The licence that most files begin with, as block or line comments.
_LICENCE_HEAD = re.compile(rb"\A\s*(?:/\*.*?\*/|(?://[^\n]*\n)+)", re.S)


def role_of(path: str) -> Role:
    """What part of a corpus a relative path belongs to, from its folders and suffix."""
    parts = path.lower().split("/")
    if path.endswith(".md"):
        return "documentation"
    if any(p in ("test", "tests", "unittest", "unit_test") for p in parts[:-1]):
        return "test"
    if any(p.startswith(("example", "tutorial", "sample")) for p in parts[:-1]):
        return "example"
    if any(p in ("tools", "tool", "benchmark", "benchmarks", "profiler") for p in parts[:-1]):
        return "tool"
    return "header" if path.endswith((".h", ".hpp", ".cuh", ".inl", ".hxx", ".hh")) else "source"


def extract_file(path: str, data: bytes) -> FileFacts | Skipped:
    """Read one file's bytes; `path` is relative to the corpus root, with forward slashes."""
    if b"\0" in data[:65536]:
        return Skipped(path, "binary file")
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"   " + data[3:]
    if path.endswith(".md"):
        return _document(path, data)
    if too_deep(data):
        return Skipped(path, "brackets nested too deeply")
    parsed = parse(data)
    text = brief(data)
    own_arch = architectures(path + " " + text[:300])
    return FileFacts(
        path=path,
        role=role_of(path),
        bytes=len(data),
        error_bytes=parsed.error_bytes,
        grammar=parsed.grammar,
        title=_title(text),
        brief=text,
        arch=own_arch,
        definitions=tuple(_finish(d, own_arch) for d in definitions(parsed)),
        mentions=file_mentions(data),
        includes=includes_of(data),
        remarks=remarks_of(_LICENCE_HEAD.sub(b"", data, count=1)),
    )


def _document(path: str, data: bytes) -> FileFacts:
    text = data.decode("utf-8", "replace")
    parts = sections(text)
    return FileFacts(
        path=path,
        role="documentation",
        bytes=len(data),
        title=parts[0].title if parts else "",
        brief=parts[0].text[:600] if parts else "",
        arch=architectures(path + " " + (parts[0].title if parts else "")),
        sections=tuple(parts),
        listed=tuple(example_list(text)) if re.search(r"(?:^|/)examples?/README\.md$", path) else (),
    )


def _title(text: str) -> str:
    """The first sentence of a brief."""
    first = re.split(r"\n\s*\n|(?<=[.!?])\s", text.strip(), maxsplit=1)[0]
    return " ".join(first.split())[:200]


def _finish(definition: Definition, file_arch: tuple[str, ...]) -> Definition:
    made = with_atom(definition)
    own = architectures(f"{made.qualified_name} {made.specialisation[:200]} {' '.join(made.guards)}")
    if made.atom and made.atom.arch:
        own = (made.atom.arch,)
    return msgspec.structs.replace(made, arch=own or file_arch)


_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_LISTED = re.compile(r"^\s*[*-]\s*\[([^\]]+)\]\(([^)]+)\)\s*(.*)$")
_SECTION_LIMIT = 4000
#: Histories of changes name everything and explain nothing.
_SKIPPED = re.compile(r"changelog|copyright|licen[cs]e|contributors", re.I)


def sections(text: str) -> list[Section]:
    """The headings of a file, each with the text up to the next."""
    lines = text.splitlines()
    heads: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        match = None if fenced else _HEADING.match(line)
        if match:
            heads.append((number, match[2]))
    ends = [n - 1 for n, _ in heads[1:]] + [len(lines)]
    return [
        Section(title, line, max(end, line), "\n".join(lines[line:end]).strip()[:_SECTION_LIMIT])
        for (line, title), end in zip(heads, ends, strict=True)
        if not _SKIPPED.search(title)
    ]


def example_list(text: str) -> Iterator[tuple[str, str]]:
    """(directory, title) of the entries of an `examples/README.md`."""
    directory, words = "", ""
    for line in [*text.splitlines(), "* [end](end)"]:
        match = _LISTED.match(line)
        if match:
            if directory and words:
                yield directory, " ".join(words.split())
            directory, words = match[2].strip("./ "), match[3]
        elif directory:
            words += " " + line.strip() if not line.startswith("#") else ""
