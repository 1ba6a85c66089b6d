# SPDX-License-Identifier: Apache-2.0
"""Textual macros: expanding them, and taking out of the text those that the grammar cannot read.

Three kinds are taken out and remembered: specifiers (`#define KERNEL extern "C" __global__`), headers
(`#define KERNEL(name) __global__ void name`, whose body follows in the text) and whole kernels
(`DEFINE_SCALE(scale_f, float)`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from warplens_tools.cuda.syntax.directives import Macro
from warplens_tools.cuda.syntax.lexical import matching, split_arguments

#: Specifier macros of well-known headers, as those headers define them for nvcc.
KNOWN_SPECIFIERS: dict[str, str] = {
    "CUTE_HOST_DEVICE": "__forceinline__ __host__ __device__",
    "CUTE_DEVICE": "__forceinline__ __device__",
    "CUTE_HOST": "__forceinline__ __host__",
    "CUTE_HOST_RTC": "__forceinline__ __host__",
    "CUTE_INLINE_CONSTANT": "static constexpr",
    "CUTE_GRID_CONSTANT": "__grid_constant__",
    "CUTE_RESTRICT": "__restrict__",
    "CUTE_UNROLL": "",
    "CUTE_NO_UNROLL": "",
    "CUTLASS_HOST_DEVICE": "__forceinline__ __device__ __host__",
    "CUTLASS_DEVICE": "__forceinline__ __device__",
    "CUTLASS_HOST": "__host__",
    "CUTLASS_GLOBAL": "__global__ static",
    "CUTLASS_GRID_CONSTANT": "__grid_constant__",
    "CUTLASS_CONSTEXPR_IF_CXX17": "constexpr",
    "CUTLASS_LAMBDA_FUNC_INLINE": "",
    "CUTLASS_PRAGMA_UNROLL": "",
    "CUTLASS_PRAGMA_NO_UNROLL": "",
    "CUTLASS_GEMM_LOOP": "",
    "CUTLASS_ATTRIBUTE_UNUSED": "",
    "C10_LAUNCH_BOUNDS_0": "__launch_bounds__(256, 4)",
    "C10_HOST_DEVICE": "__host__ __device__",
    "C10_DEVICE": "__device__",
    "C10_HOST": "__host__",
    "_CCCL_DEVICE": "__device__",
    "_CCCL_HOST_DEVICE": "__host__ __device__",
    "__pipeline_static__": "",
}
#: What CUDA, C++ and PyTorch write like a function call beside a declaration or a loop, and the grammar does not know.
_CALLED_SPECIFIERS = (
    "__cluster_dims__", "__maxnreg__", "__block_size__", "__align__", "alignas", "__builtin_align__",
    "__attribute__", "__declspec", "_Pragma", "C10_LAUNCH_BOUNDS_1", "C10_LAUNCH_BOUNDS_2",
)  # fmt: skip
_PLAIN_SPECIFIERS = ("__restrict", "__grid_constant__", "__nv_pure__", "__extension__", "__device_builtin__")

_SPECIFIER_BODY = re.compile(
    r"(?:\s|\b(?:__global__|__device__|__host__|__forceinline__|__noinline__|__inline__|inline|static|extern"
    r"|__restrict__|__restrict|restrict|const|constexpr|volatile|__constant__|__shared__|__grid_constant__"
    r"|__align__|void)\b|\"C\"|\[\[[^\]]*\]\])*"
)
_CALLED = re.compile(
    r"\b(?:__launch_bounds__|__cluster_dims__|__maxnreg__|__align__|alignas|__attribute__|_Pragma)\s*"
    r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MAX_EXPANSION = 20_000
_MAX_DEPTH = 12

Kind = Literal["specifier", "header", "kernel"]


class MacroUse(msgspec.Struct, frozen=True):
    """One use of a macro that was taken out of the text, with its full expansion."""

    name: str
    kind: Kind
    start: int
    end: int
    expansion: str
    arguments: tuple[str, ...] = ()


class Piece(msgspec.Struct, frozen=True):
    """A stretch of an expanded text, and the offsets of what it stands for."""

    text: str
    start: int
    end: int
    macro: bool


class MacroTable:
    """The macros of a text by name.

    A name that is defined twice with different bodies, or undefined again, is absent.
    """

    def __init__(
        self, macros: tuple[Macro, ...], undefined: frozenset[str], defines: Mapping[str, str]
    ) -> None:
        self.by_name: dict[str, Macro] = {}
        self.ambiguous: set[str] = set(undefined)
        #: What `expand` gave; expressions are asked for again and again.
        self._expanded: dict[str, str | None] = {}
        for macro in macros:
            if _hides_type(macro):
                continue
            other = self.by_name.get(macro.name)
            if other and (other.body, other.parameters) != (macro.body, macro.parameters):
                self.ambiguous.add(macro.name)
            self.by_name[macro.name] = macro
        for name, body in defines.items():
            plain, bracket, listed = name.partition("(")
            parameters = tuple(p.strip() for p in listed.removesuffix(")").split(",")) if bracket else None
            macro = Macro(plain, parameters, body, -1, -1, -1, -1)
            if not _hides_type(macro):
                self.by_name[plain] = macro

    def get(self, name: str) -> Macro | None:
        """The macro of that name; None if there is none, or several."""
        return None if name in self.ambiguous else self.by_name.get(name)

    def expand(self, text: str) -> str | None:
        """`text` with every macro replaced, as the preprocessor does; None where it grows out of bounds.

        A name is not expanded inside its own expansion.
        """
        if text not in self._expanded:
            try:
                self._expanded[text] = _expand(text, self, frozenset())
            except _TooLargeError:
                self._expanded[text] = None
        return self._expanded[text]

    def pieces(self, text: str, keep: frozenset[str]) -> list[Piece] | None:
        """`text` as stretches that stay and uses of macros with their expansions; None if out of bounds.

        The macros named in `keep` stay as they are, outside of expansions.
        """
        pieces: list[Piece] = []
        at = 0
        try:
            for start, end, expansion in _uses(text, self, keep):
                if start > at:
                    pieces.append(Piece(text[at:start], at, start, False))
                pieces.append(Piece(expansion, start, end, True))
                at = end
        except _TooLargeError:
            return None
        return [*pieces, Piece(text[at:], at, len(text), False)]

    def expand_call(self, macro: Macro, arguments: list[str]) -> str | None:
        """The full expansion of one use of `macro`; None where the arguments do not fit."""
        body = _substitute(macro, arguments)
        if body is None:
            return None
        try:
            return _expand(body, self, frozenset({macro.name}))
        except _TooLargeError:
            return None


class _TooLargeError(Exception):
    """A macro expands beyond any sensible size."""


#: Built-in types that headers give other meanings, under conditions that are not evaluated here.
_TYPES = frozenset({"bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double"})


def _hides_type(macro: Macro) -> bool:
    """`#define int long_int`: a built-in type by a name that says nothing of it, which device code can do nothing with;
    `#define float double` says what is meant."""
    return macro.name in _TYPES and macro.parameters is None and not _TYPES.issuperset(macro.body.split())


def _expand(text: str, table: MacroTable, active: frozenset[str], depth: int = 0) -> str:
    if depth > _MAX_DEPTH or len(text) > _MAX_EXPANSION:
        raise _TooLargeError
    parts, at = [], 0
    for start, end, expansion in _uses(text, table, active, depth):
        parts += [text[at:start], expansion]
        at = end
    result = "".join([*parts, text[at:]])
    if len(result) > _MAX_EXPANSION:
        raise _TooLargeError
    return result


def _uses(
    text: str, table: MacroTable, active: frozenset[str], depth: int = 0
) -> Iterator[tuple[int, int, str]]:
    """The uses of macros in `text`, outermost only: start, end, full expansion."""
    at = 0
    for found in _IDENTIFIER.finditer(text):
        macro = table.get(found[0]) if found[0] not in active else None
        if macro is None or found.start() < at or text[found.start() - 1 : found.start()] in ("'", "."):
            continue
        end, body = found.end(), macro.body
        if macro.parameters is not None:
            called = _call_arguments(text, found.end())
            replaced = _substitute(macro, called[0]) if called else None
            if called is None or replaced is None:
                continue
            body, end = replaced, called[1]
        yield found.start(), end, _expand(body, table, active | {macro.name}, depth + 1)
        at = end


def _call_arguments(text: str, at: int) -> tuple[list[str], int] | None:
    """The arguments of a macro call whose name ends at `at`, and where the call ends."""
    while at < len(text) and text[at].isspace():
        at += 1
    if text[at : at + 1] != "(":
        return None
    end = matching(text, at)
    return None if end < 0 else ([a.strip() for a in split_arguments(text[at + 1 : end - 1])], end)


def _substitute(macro: Macro, arguments: list[str]) -> str | None:
    """The body of a function-like macro with its parameters replaced, `#` and `##` applied."""
    parameters = [p for p in macro.parameters or () if p]
    if parameters and parameters[-1].endswith("..."):
        named = parameters[:-1]
        rest = ", ".join(arguments[len(named) :])
        last = parameters[-1].removesuffix("...") or "__VA_ARGS__"
        values = dict(zip([*named, last], [*arguments[: len(named)], rest], strict=False))
        if len(arguments) < len(named):
            return None
    else:
        if len(arguments) != len(parameters) and (arguments or len(parameters) > 1):
            return None
        values = dict(zip(parameters, arguments or [""], strict=False))
    body = re.sub(r"#\s*(?=[A-Za-z_])(?<!##)", "#", macro.body)
    body = re.sub(r"\s*##\s*", "\x01", body)
    replaced = _IDENTIFIER.sub(lambda m: values.get(m[0], m[0]), body)
    return replaced.replace("\x01", "")


def specifier_names(table: MacroTable) -> dict[str, Kind]:
    """The macros of the text to take out where they are used, by kind."""
    kinds: dict[str, Kind] = {}
    for name in table.by_name:
        macro = table.get(name)
        if macro is None or macro.name_start < 0:
            continue
        body = table.expand(macro.body) if macro.parameters is None else macro.body
        if body is None:
            continue
        body = _expand_specifiers(body)
        if _SPECIFIER_BODY.fullmatch(_CALLED.sub(" ", body)):
            kinds[name] = "specifier"
        elif "__global__" in body and "<<<" not in body:
            kinds[name] = "kernel" if _is_whole(body) else "header"
    return kinds


def _expand_specifiers(body: str) -> str:
    return _IDENTIFIER.sub(lambda m: KNOWN_SPECIFIERS.get(m[0], m[0]), body)


def _is_whole(body: str) -> bool:
    """Whether a macro body holds the kernel's own braces."""
    start = body.find("{", body.find("__global__"))
    return start >= 0 and matching(body, start) > 0


def find_uses(code: str, table: MacroTable) -> list[MacroUse]:
    """Every use in `code` (directives and comments blanked) of a macro to take out."""
    kinds = specifier_names(table)
    known = {
        **dict.fromkeys((*KNOWN_SPECIFIERS, *_PLAIN_SPECIFIERS, *_CALLED_SPECIFIERS), "specifier"),
        **kinds,
    }
    begins = {name[:4] for name in known}
    begins = {begin for begin in begins if begin in code}
    present = [name for name in known if name[:4] in begins and name in code]
    # The name comes first in the pattern, which lets the search skip to where it stands.
    patterns = [rf"{name}(?<!\w{name})\b" for name in map(re.escape, present)]
    found_uses = sorted((m for p in patterns for m in re.finditer(p, code)), key=re.Match.start)
    uses, at = [], 0
    for found in found_uses:
        if found.start() < at:
            continue
        use = _use(code, found, table, kinds.get(found[0], "specifier"))
        if use:
            uses.append(use)
            at = use.end
    return uses


def _use(code: str, found: re.Match[str], table: MacroTable, kind: Kind) -> MacroUse | None:
    name, start, end = found[0], found.start(), found.end()
    macro = table.get(name)
    if macro is not None and macro.parameters is not None:
        called = _call_arguments(code, end)
        expansion = table.expand_call(macro, called[0]) if called else None
        if called is None or expansion is None:
            return None
        return MacroUse(name, kind, start, called[1], expansion, tuple(called[0]))
    if macro is not None:
        return MacroUse(name, kind, start, end, table.expand(macro.body) or "")
    if name in _CALLED_SPECIFIERS:
        called = _call_arguments(code, end)
        return MacroUse(name, kind, start, called[1], _called_expansion(name, called[0])) if called else None
    return MacroUse(name, kind, start, end, KNOWN_SPECIFIERS.get(name, name))


def _called_expansion(name: str, arguments: list[str]) -> str:
    if name.startswith("C10_LAUNCH_BOUNDS"):
        return f"__launch_bounds__({', '.join(arguments)})"
    return f"{name}({', '.join(arguments)})"
