# SPDX-License-Identifier: Apache-2.0
"""Reads a PTX module as nvcc writes it: variables, functions, and each function's statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Bytes of a type.
SIZES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64, 128)},
    "f16": 2,
    "bf16": 2,
    "f16x2": 4,
    "bf16x2": 4,
    "f32": 4,
    "f64": 8,
    "tf32": 4,
    "pred": 1,
}


class PtxError(Exception):
    """PTX that is not read or translated; the message names the instruction."""


@dataclass
class Variable:
    """`.global .align 4 .u32 name[3] = {1, 2}`; `values` are its elements as written."""

    space: str
    type: str
    name: str
    count: int
    align: int
    values: list[str] = field(default_factory=list)
    extern: bool = False

    @property
    def bytes(self) -> int:
        """Its size."""
        return SIZES[self.type] * self.count


@dataclass
class Instruction:
    """`@%p1 op.modifiers operands`; of a call the operands are its groups."""

    op: str
    modifiers: list[str]
    operands: list[str]
    guard: str = ""
    negated: bool = False

    def __str__(self) -> str:
        return ".".join([self.op, *self.modifiers])


@dataclass
class Label:
    """A place to jump to."""

    name: str


@dataclass
class Scope:
    """`{` or `}`."""

    opens: bool


@dataclass
class Registers:
    """`.reg .b32 %r<5>` (names %r0 … %r4) or single names."""

    type: str
    names: list[str]


@dataclass
class Declared:
    """A variable of a function: local, shared, or a call's parameter."""

    variable: Variable


@dataclass
class Targets:
    """`name: .branchtargets …` or `name: .callprototype …` with the numbers of results and parameters."""

    name: str
    labels: list[str]
    results: int = 0
    parameters: int = 0


Statement = Instruction | Label | Scope | Registers | Declared | Targets


@dataclass
class Function:
    """A kernel (`entry`) or device function."""

    name: str
    entry: bool
    results: list[Variable]
    parameters: list[Variable]
    directives: dict[str, list[int]]
    body: list[Statement] | None


@dataclass
class Module:
    """What a PTX text defines."""

    variables: list[Variable]
    functions: list[Function]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_DEBUG_LINES = re.compile(
    r"^[ \t]*\.(?:loc|file)\b[^\n]*$|^[ \t]*\.(?:version|target|address_size)[^\n]*$", re.M
)
_SECTION = re.compile(r"\.section\s+\S+\s*\{.*?\}", re.S)
_HEAD = re.compile(
    r"(?:\.(?:visible|weak|extern|common)\s+)*\.(?P<kind>entry|func)\b(?:\s*\.noreturn|\s*\.attribute\s*\([^)]*\))*\s*"
    r"(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$%.]+)\s*(?:\((?P<parameters>[^)]*)\))?(?P<rest>[^{;]*)"
)
_VARIABLE = re.compile(
    r"(?:\.(?P<link>visible|weak|extern|common)\s+)?\.(?P<space>global|const|shared|local|param)\s+"
    r"(?:\.attribute\s*\([^)]*\)\s*)?(?:\.align\s+(?P<align>\d+)\s+)?(?:\.attribute\s*\([^)]*\)\s*)?"
    r"(?:\.ptr[^%\w]*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?\.(?P<type>\w+)\s+"
    r"(?:\.ptr(?:\s*\.(?:global|const|shared|local))?(?:\s*\.align\s+\d+)?\s+)?"
    r"(?P<name>[\w$%.]+)(?P<extent>(?:\[\d*\])*)\s*(?:=\s*(?P<values>.*))?$",
    re.S,
)
_INSTRUCTION = re.compile(
    r"(?:@(?P<not>!?)(?P<guard>[%\w$]+)\s+)?(?P<op>[a-z][\w.:]*)\s*(?P<operands>.*)$", re.S
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)$", re.S)


def parse(text: str) -> Module:
    """The module.

    Raises:
        PtxError: something that is not known here.
    """
    text = _SECTION.sub("", _COMMENT.sub("", text))
    text = _DEBUG_LINES.sub("", text)
    module = Module([], [])
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] == ";"):
            at += 1
        if at >= len(text):
            return module
        head = _HEAD.match(text, at)
        if head is not None:
            at = _function(module, text, head)
            continue
        end = _end(text, at)
        statement = text[at:end].strip()
        at = end + 1
        if statement.startswith((".pragma", ".alias")):
            continue
        module.variables.append(variable(statement))


def _function(module: Module, text: str, head: re.Match[str]) -> int:
    at, body = head.end(), None
    directives = {
        m[1]: [int(n) for n in re.findall(r"\d+", m[2])]
        for m in re.finditer(r"\.(\w+)([\s\d,]*)", head["rest"])
    }
    if text[at : at + 1] == "{":
        end = _closing(text, at)
        body = list(_statements(text[at + 1 : end]))
        at = end
    found = Function(
        head["name"],
        head["kind"] == "entry",
        _parameters(head["results"]),
        _parameters(head["parameters"]),
        directives,
        body,
    )
    module.functions.append(found)
    return at + 1


def _parameters(text: str | None) -> list[Variable]:
    return [variable(part.strip()) for part in (text or "").split(",") if part.strip()]


def variable(statement: str) -> Variable:
    """One declaration, as of a variable or parameter."""
    match = _VARIABLE.match(statement)
    if match is None or match["type"] not in SIZES:
        raise PtxError(f"this declaration is not known: {statement[:120]}")
    count = 1
    for extent in re.findall(r"\[(\d*)\]", match["extent"]):
        count *= int(extent or 0)
    values = (
        _split(match["values"].strip().strip("{}").replace("{", "").replace("}", ""))
        if match["values"]
        else []
    )
    align = int(match["align"] or SIZES[match["type"]])
    return Variable(
        match["space"], match["type"], match["name"], count, align, values, match["link"] == "extern"
    )


def _end(text: str, at: int) -> int:
    """The semicolon that ends a statement at `at`; strings are kept whole."""
    quoted = False
    for i in range(at, len(text)):
        if text[i] == '"':
            quoted = not quoted
        elif text[i] == ";" and not quoted:
            return i
    raise PtxError(f"a statement has no end: {text[at : at + 80]}")


def _closing(text: str, at: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise PtxError("a function has no end")


_LABEL = re.compile(r"([$\w%]+)\s*:(?!:)\s*")


def _statements(text: str) -> Iterator[Statement]:
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] == ";"):
            at += 1
        if at >= len(text):
            return
        if text[at] in "{}":
            yield Scope(text[at] == "{")
            at += 1
            continue
        label = _LABEL.match(text, at)
        if label is not None and not text.startswith((".branchtargets", ".callprototype"), label.end()):
            yield Label(label[1])
            at = label.end()
            continue
        end = _end(text, at)
        found = _statement(text[at:end].strip())
        if found is not None:
            yield found
        at = end + 1


def _statement(text: str) -> Statement | None:
    label = _LABEL.match(text)
    if label is not None:
        return _targets(label[1], text[label.end() :])
    if text.startswith(".reg"):
        match = _REGISTERS.match(text)
        assert match is not None
        return Registers(match[1], list(_register_names(match[2])))
    if text.startswith(".pragma"):
        return None
    if text.startswith("."):
        return Declared(variable(text))
    match = _INSTRUCTION.match(text)
    if match is None:
        raise PtxError(f"this statement is not known: {text[:120]}")
    op, *modifiers = [word for word in match["op"].replace("::", "__").split(".") if word]
    operands = _split(match["operands"])
    return Instruction(op, modifiers, operands, match["guard"] or "", bool(match["not"]))


def _targets(name: str, text: str) -> Targets:
    if text.startswith(".branchtargets"):
        return Targets(name, _split(text.removeprefix(".branchtargets").strip()))
    groups = re.findall(r"\(([^)]*)\)", text)
    counts = [len([p for p in group.split(",") if p.strip()]) for group in groups]
    results = counts[0] if len(counts) == 2 else 0
    return Targets(name, [], results, counts[-1] if counts else 0)


def _register_names(text: str) -> Iterator[str]:
    for word in _split(text):
        family = re.fullmatch(r"(\S+)<(\d+)>", word)
        if family is None:
            yield word
        else:
            yield from (f"{family[1]}{number}" for number in range(int(family[2])))


def _split(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
