# SPDX-License-Identifier: Apache-2.0
"""The rows that one file's facts become. Pure; runs in the processes that parse."""

from __future__ import annotations

import math
import re

import msgspec

from warplens_cutlass.extract.architecture import GENERATIONS
from warplens_cutlass.model import Definition, FileFacts, Skipped
from warplens_cutlass.words import normal_name, split, text_words, unique_words

_BODY_WORDS = 120
_FILE_BODY_WORDS = 700
_REMARKS = 60
_FILE_REMARKS = 300
_GENERATION_OF = {arch: name for name, arch in GENERATIONS.items()} | {
    "sm103": "blackwell", "sm120": "blackwell geforc", "sm86": "ampere",
}  # fmt: skip


class SymbolRow(msgspec.Struct, frozen=True, array_like=True):
    """One row of `symbols`, with its words; `words` is None for what only the name index holds."""

    name: str
    norm: str
    qualified_name: str
    kind: str
    line: int
    end_line: int
    offset: int
    signature: str
    doc: str
    template_parameters: str
    specialisation: str
    guards: str
    arch: str
    atom: str
    member: bool
    declaration_only: bool
    ptx: tuple[str, ...]
    words: tuple[str, str, str, str, str, str] | None


class SectionRow(msgspec.Struct, frozen=True, array_like=True):
    """One row of `sections`, with its words."""

    title: str
    line: int
    end_line: int
    words: tuple[str, str, str]


class FileRows(msgspec.Struct, frozen=True, array_like=True):
    """All rows of one file."""

    path: str
    role: str
    bytes: int
    error_bytes: int
    grammar: str
    title: str
    brief: str
    arch: str
    words: tuple[str, str, str, str, str, str]
    #: Index into `symbols` of what the file is for; -1 where it defines nothing.
    main_symbol: int
    symbols: tuple[SymbolRow, ...]
    sections: tuple[SectionRow, ...]
    mentions: tuple[tuple[str, int, int], ...]
    listed: tuple[tuple[str, str], ...]
    includes: tuple[str, ...]


class WorkResult(msgspec.Struct, frozen=True, array_like=True):
    """What reading a batch of files gave."""

    files: tuple[FileRows, ...]
    skipped: tuple[Skipped, ...]


def rows_of(facts: FileFacts) -> FileRows:
    """The rows of one file."""
    path = _path_words(facts.path)
    arch = _arch_words(facts.arch)
    own = [d for d in facts.definitions if not d.member]
    return FileRows(
        path=facts.path,
        role=facts.role,
        bytes=facts.bytes,
        error_bytes=facts.error_bytes,
        grammar=facts.grammar,
        title=facts.title,
        brief=facts.brief[:2000],
        arch=" ".join(facts.arch),
        words=(
            f"{path} {arch}".strip(),
            " ".join(text_words(facts.title)),
            " ".join(text_words(facts.brief)),
            " ".join(unique_words((d.name for d in own), 400)),
            _prose(facts.remarks, _FILE_REMARKS),
            " ".join(unique_words((m[0] for m in sorted(facts.mentions, key=_by_count)), _FILE_BODY_WORDS)),
        ),
        main_symbol=main_definition(facts),
        symbols=tuple(_symbol(d, path) for d in facts.definitions),
        sections=tuple(
            SectionRow(
                s.title,
                s.line,
                s.end_line,
                (" ".join(text_words(s.title)), path, " ".join(text_words(s.text))),
            )
            for s in facts.sections
        ),
        mentions=facts.mentions,
        listed=facts.listed,
        includes=facts.includes,
    )


_MAIN_KINDS = {
    "kernel": 2.5,
    "class": 1.0,
    "struct": 0.9,
    "function": 0.6,
    "alias": 0.3,
    "atom": 0.5,
    "concept": 0.5,
}
#: Scaffolding of examples and tests.
_SCAFFOLD = re.compile(
    r"^(?:main|Options|Result|TestbedRunner|Testbed\w*|run|initialize\w*|verify|\w*Args|\w*_args_from_options|IsF\w+)$"
)
_PRODUCT = re.compile(
    r"^(?:Gemm|GemmKernel|Kernel|Operation|DeviceGemm|Conv\w*|ImplicitGemm|\w*Gemm\d?|\w*Mma|\w*Kernel)$"
)


def main_definition(facts: FileFacts) -> int:
    """Index of the definition that a file is about: by its kind, its size and its likeness to the file's name."""
    stem_words = set(split(facts.path.rsplit("/", 1)[-1].split(".", 1)[0]))

    def worth(d: Definition) -> float:
        words = set(split(d.name))
        value = _MAIN_KINDS[d.kind] + 1.5 * len(words & stem_words) / max(len(words), 1)
        value += math.log1p(d.end_line - d.line) / 3
        if d.kind == "alias" and facts.role == "example" and _PRODUCT.match(d.name):
            value += 1.6
        return (
            value
            - (2.0 if _SCAFFOLD.match(d.name) else 0.0)
            - (1.0 if "::detail::" in d.qualified_name else 0.0)
        )

    fit = [
        (worth(d), -i)
        for i, d in enumerate(facts.definitions)
        if d.kind in _MAIN_KINDS and not d.member and not d.declaration_only
    ]
    if fit:
        return -max(fit)[1]
    return 0 if facts.definitions else -1


def _by_count(mention: tuple[str, int, int]) -> int:
    return -mention[1]


def _symbol(definition: Definition, path: str) -> SymbolRow:
    d = definition
    return SymbolRow(
        name=d.name,
        norm=normal_name(d.name),
        qualified_name=d.qualified_name,
        kind=d.kind,
        line=d.line,
        end_line=d.end_line,
        offset=d.offset,
        signature=d.signature,
        doc=d.doc,
        template_parameters=d.template_parameters,
        specialisation=d.specialisation,
        guards="\n".join(d.guards),
        arch=" ".join(d.arch),
        atom=msgspec.json.encode(d.atom).decode() if d.atom else "",
        member=d.member,
        declaration_only=d.declaration_only,
        ptx=d.ptx,
        words=_words(d, path) if _worth_words(d) else None,
    )


def _worth_words(d: Definition) -> bool:
    """Small undocumented members and bare operators are found by name and through their class."""
    if d.name.startswith(("operator", "~")) or d.kind == "enumerator":
        return bool(d.doc) and not d.name.startswith("~")
    if not d.member:
        return True
    constructor = d.qualified_name.split("::")[-2:-1] == [d.name]
    return not constructor and not d.declaration_only and (bool(d.doc) or d.end_line - d.line >= 6)


def _words(d: Definition, path: str) -> tuple[str, str, str, str, str, str]:
    scope = d.qualified_name.rsplit("::", 1)[0] if "::" in d.qualified_name else ""
    features = " ".join((*d.atom.types, *d.atom.features, d.atom.operation)) if d.atom else ""
    limit = 24 if d.kind in ("atom", "traits") else _BODY_WORDS
    return (
        " ".join((*split(d.name), *_shape(d))),
        f"{path} {' '.join(split(scope))} {_arch_words(d.arch)}".strip(),
        " ".join(
            unique_words((d.template_parameters, d.signature, d.specialisation), 60) if limit > 24 else ()
        ),
        " ".join(text_words(d.doc)) + " " + features,
        _prose(d.remarks, _REMARKS),
        " ".join((*unique_words(d.mentions, limit), *unique_words(d.ptx, 30))),
    )


def _prose(text: str, limit: int) -> str:
    """The words of a text, each once."""
    return " ".join(list(dict.fromkeys(text_words(text)))[:limit])


def _shape(d: Definition) -> tuple[str, ...]:
    return ("x".join(map(str, d.atom.shape)),) if d.atom and d.atom.shape else ()


def _path_words(path: str) -> str:
    return " ".join(dict.fromkeys(w for part in path.rsplit(".", 1)[0].split("/") for w in split(part)))


def _arch_words(arch: tuple[str, ...]) -> str:
    return " ".join(dict.fromkeys(w for a in arch for w in (a, _GENERATION_OF.get(a, "")) if w))
