# SPDX-License-Identifier: Apache-2.0
"""What a launch can tell itself from another by: special registers and the device's own calls, read from PTX.

Everything that inline assembly may name is PTX, so that a unit's PTX says all of it: kernel by kernel, each with the
functions that it calls, or whose addresses it may take from a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from warplens_tools.toolchain.symbols import unit_free_name

#: Special registers that follow from the launch and the thread alone (PTX ISA 9.0, section 10). All others differ
#: from launch to launch, or from card to card: %gridid, %clock, %globaltimer, %smid, %warpid, %envreg, %pm.
_OF_THE_LAUNCH = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyz])?"
    r"|%(?:laneid|lanemask_(?:eq|le|lt|ge|gt)|cluster_ctarank|cluster_nctarank|is_explicit_cluster)"
    r"|%(?:total_smem_size|aggr_smem_size|dynamic_smem_size|reserved_smem_offset_(?:begin|end|cap|[01]))"
)
#: How the names of the others begin.
_SPECIAL = re.compile(
    r"%(?:clock|globaltimer|gridid|n?smid|n?warpid|envreg|pm\d|current_graph_exec|clusterid|cluster_|lanemask|nclusterid)"
)
#: A register of a family, `%r<12>`: its name and its number.
_NUMBERED = re.compile(r"(%[A-Za-z_$][\w$]*?)(0|[1-9]\d*)")
_NAME = re.compile(r"%[A-Za-z_][\w$]*(?:\.[xyz]\b)?")
#: `.reg .b32 %r<12>;` and `.reg .pred p, q;`, which inline assembly declares too.
_DECLARED = re.compile(r"\.reg\s+(?:\.v[248]\s+)?\.\w+\s+([^;]*);")
_ONE = re.compile(r"(%?[A-Za-z_$%][\w$]*)(<\d+>)?")
_EXTERNAL = re.compile(r"\.extern\s+\.func\s*(?:\([^)]*\)\s*)?([\w$]+)")
#: A string may hold what looks like a comment, and a comment what looks like a string.
_IGNORED = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_BRACE = re.compile(r"[{};]")
#: The name in the head of a kernel or a function; its results stand before it, in brackets.
_HEAD = re.compile(r"\.(entry|func)\b\s*(?:\.noreturn\s*)?(?:\([^)]*\)\s*)?([\w$]+)")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
#: What the device's own functions keep beyond a launch.
_KEPT = {
    "vprintf": "printf, which writes the device's print buffer",
    "malloc": "the device's heap (malloc)",
    "free": "the device's heap (free)",
    "__assertfail": "assert, which stops the device",
}


class _Reads(msgspec.Struct, frozen=True):
    """What one kernel, with all that it calls, names of both kinds."""

    registers: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()

    def joined(self, other: _Reads) -> _Reads:
        return _Reads(self.registers | other.registers, self.calls | other.calls)


def reads_new_state(baseline: str, candidate: str) -> str:
    """What a kernel of the candidate's PTX reads, or keeps, from launch to launch and the baseline's does not.

    A kernel whose name the baseline lacks is compared with those that the candidate lacks: another instantiation.

    Returns:
        It in words, e.g. "the special register %gridid"; "" if there is nothing.
    """
    old, new = _Unit(baseline).kernels(), _Unit(candidate).kernels()
    vanished = _Reads()
    for name in old.keys() - new.keys():
        vanished = vanished.joined(old[name])
    for name, reads in sorted(new.items()):
        known = old.get(name, vanished)
        registers = sorted(reads.registers - known.registers)
        if registers:
            return f"the special register {registers[0]}"
        calls = sorted(reads.calls - known.calls)
        if calls:
            return _KEPT.get(calls[0], f"the function {calls[0]} of the device's runtime")
    return ""


class _Unit:
    """A unit's PTX, cut at its outermost braces and semicolons."""

    def __init__(self, ptx: str) -> None:
        text = _IGNORED.sub(lambda found: '""' if found.group().startswith('"') else " ", ptx)
        self._external = set(_EXTERNAL.findall(text))
        self._kernels: list[str] = []
        #: Functions and variables by their names, with what defines them. A name may be declared before.
        self._texts: dict[str, str] = {}
        for piece in _pieces(text):
            if piece.lstrip().startswith(".section"):
                continue  # what debuggers read
            head = _HEAD.search(piece.split("{", 1)[0])
            if head is None:
                for name in _WORD.findall(piece.split("=", 1)[0]):
                    self._texts[name] = self._texts.get(name, "") + piece
                continue
            self._texts[head[2]] = self._texts.get(head[2], "") + piece
            if head[1] == "entry":
                self._kernels.append(head[2])

    def kernels(self) -> dict[str, _Reads]:
        """Of every kernel, by its name without what differs from unit to unit."""
        found: dict[str, _Reads] = {}
        for name in self._kernels:
            free = unit_free_name(name)
            found[free] = found.get(free, _Reads()).joined(self._reads(name))
        return found

    def _reads(self, kernel: str) -> _Reads:
        registers: set[str] = set()
        seen, left = {kernel}, [kernel]
        while left:
            text = self._texts.get(left.pop(), "")
            registers |= _special_registers(text)
            more = {word for word in _WORD.findall(text) if word in self._texts or word in self._external}
            left += more - seen
            seen |= more
        return _Reads(frozenset(registers), frozenset(seen & self._external))


def _pieces(text: str) -> Iterator[str]:
    """The text's outermost statements: each up to its semicolon, or to the end of its body."""
    start = depth = 0
    initialiser = False
    for found in _BRACE.finditer(text):
        if found.group() == "{" and depth == 0:
            initialiser = "=" in text[start : found.start()]
        depth = max(0, depth + {"{": 1, "}": -1}.get(found.group(), 0))
        ends = found.group() == ";" or (found.group() == "}" and not initialiser)
        if depth == 0 and ends:
            yield text[start : found.end()]
            start, initialiser = found.end(), False
    yield text[start:]


def _special_registers(ptx: str) -> set[str]:
    """All that is named like a register, declared nowhere, and not of the launch alone."""
    names = {"%SP", "%SPL"}
    families: dict[str, int] = {}
    for declaration in _DECLARED.findall(ptx):
        for name, many in _ONE.findall(declaration):
            if many:
                families[name] = max(families.get(name, 0), int(many[1:-1]))
            else:
                names.add(name)
    found = set()
    for match in _NAME.finditer(ptx):
        name = match.group()
        bare = name.split(".")[0]
        family = _NUMBERED.fullmatch(bare)
        declared = (
            bare in names
            or bare in families
            or (family is not None and int(family[2]) < families.get(family[1], 0))
        )
        # a register of a special one's name is none of the compiler's: whoever declares it has a reason
        if not _OF_THE_LAUNCH.fullmatch(name) and (not declared or _SPECIAL.match(bare)):
            found.add(bare)
    return found
