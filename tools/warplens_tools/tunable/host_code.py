"""Reads launch configurations out of host code: what a block, grid or shared-size expression comes to.

Works on code whose comments and strings are blanked (`without_comments(to_ascii(text))`), so offsets are
code points of the text itself. What is not plain (a variable assigned twice, a call) is None, never
guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.cuda.syntax.lexical import matching, split_arguments

NAME = re.compile(r"(?<![\w.])(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_WORDS = (
    r"static|const|constexpr|unsigned|signed|long|short|int|auto|dim3|uint|"
    r"(?:std::)?size_t|(?:std::)?u?int(?:16|32|64)_t"
)
_DECLARATION = re.compile(rf"(?<![\w:.])((?:(?:{_WORDS})\s+)+)(?=[A-Za-z_])")
_DECLARATOR = re.compile(r"\s*(\w+)\s*(=|\(|\{|$)")
_DIM3 = re.compile(r"(?:dim3\s*)?([({])")


class Expression(msgspec.Struct, frozen=True):
    """A stretch of code without surrounding blanks."""

    start: int
    end: int
    text: str


class Variable(msgspec.Struct, frozen=True):
    """A local variable with its initialiser; `extents` where it is a dim3 (or a scalar's one value)."""

    name: str
    type: str
    start: int
    extents: tuple[Expression, ...]
    #: It is assigned, incremented or passed by address after its declaration.
    changes: bool

    @property
    def is_dim3(self) -> bool:
        """Whether it holds up to three extents."""
        return "dim3" in self.type.split()


class HostFunction(msgspec.Struct, frozen=True):
    """The function around a launch, with the variables that configuration may be spelled with."""

    start: int
    end: int
    variables: dict[str, Variable]


def expression(code: str, start: int, end: int) -> Expression:
    """The expression in a stretch of code, without surrounding blanks."""
    text = code[start:end]
    left = len(text) - len(text.lstrip())
    return Expression(start + left, start + left + len(text.strip()), text.strip())


def arguments(code: str, start: int, end: int) -> tuple[Expression, ...]:
    """The top-level comma-separated parts of a stretch of code."""
    parts, at = [], start
    for part in split_arguments(code[start:end]):
        parts.append(expression(code, at, at + len(part)))
        at += len(part) + 1
    return tuple(parts)


def host_function(code: str, offset: int) -> HostFunction:
    """The outermost function body around `offset`; the whole text where there is none."""
    start, end = 0, len(code)
    opened: list[int] = []
    for found in re.finditer(r"[{}]", code[:offset]):
        if found[0] == "{":
            opened.append(found.start())
        elif opened:
            opened.pop()
    for brace in opened:
        if re.search(r"\)\s*(?:const|noexcept|try)?\s*\Z", code[:brace]):
            start, end = brace, max(matching(code, brace), offset)
            break
    return HostFunction(start, end, _variables(code, start, end))


def extents(code: str, config: Expression, host: HostFunction) -> tuple[Expression, ...] | None:
    """Up to three extent expressions of a grid or block argument, outermost dimension x first."""
    opened = _DIM3.match(config.text)
    if opened and matching(code, config.start + opened.start(1)) == config.end:
        if opened[1] == "(" and opened.start(1) == 0:
            return extents(code, expression(code, config.start + 1, config.end - 1), host)
        return arguments(code, config.start + opened.end(), config.end - 1)
    variable = host.variables.get(config.text)
    if variable is None or not variable.is_dim3:
        return (config,)
    return None if variable.changes else variable.extents


def leaf(value: Expression, host: HostFunction) -> Expression:
    """What a plain variable was initialised with, through further variables; else the expression itself."""
    for _ in range(8):
        variable = host.variables.get(value.text)
        if variable is None or variable.changes or variable.is_dim3 or len(variable.extents) != 1:
            break
        value = variable.extents[0]
    return value


def names_behind(value: Expression, host: HostFunction, constants: Mapping[str, str]) -> set[str]:
    """All names an expression depends on, through initialisers of variables and texts of file constants."""
    seen: set[str] = set()
    waiting = [value.text]
    while waiting:
        for found in NAME.finditer(waiting.pop()):
            name = found[0].rsplit("::", 1)[-1]
            if name not in seen:
                seen.add(name)
                variable = host.variables.get(name)
                waiting += [part.text for part in variable.extents] if variable is not None else []
                waiting += [constants[name]] if name in constants else []
    return seen


def _variables(code: str, start: int, end: int) -> dict[str, Variable]:
    found: dict[str, Variable] = {}
    twice: set[str] = set()
    for variable in _declared(code, start, end):
        twice |= {variable.name} & found.keys()
        found[variable.name] = variable
    # Two variables of one name in nested scopes: which one is meant is not worked out.
    return {name: variable for name, variable in found.items() if name not in twice}


def _declared(code: str, start: int, end: int) -> Iterator[Variable]:
    for declaration in _DECLARATION.finditer(code, start, end):
        stop = _statement_end(code, declaration.end(), end)
        for part in arguments(code, declaration.end(), stop):
            variable = _variable(code, declaration[1], part, (start, end))
            if variable is not None:
                yield variable


def _statement_end(code: str, at: int, end: int) -> int:
    while at < end and code[at] not in ";)}":
        at = max(matching(code, at), at + 1) if code[at] in "({[" else at + 1
    return at


def _variable(code: str, type_text: str, part: Expression, scope: tuple[int, int]) -> Variable | None:
    declarator = _DECLARATOR.match(part.text)
    if declarator is None or declarator[2] == "":
        return None
    name, opens = declarator[1], part.start + declarator.start(2)
    if declarator[2] == "=":
        value = expression(code, opens + 1, part.end)
        opened = _DIM3.match(value.text) if "dim3" in type_text or value.text.startswith("dim3") else None
        parts = (
            arguments(code, value.start + opened.end(), value.end - 1)
            if opened and matching(code, value.start + opened.start(1)) == value.end
            else (value,)
        )
        type_text = f"{type_text} dim3" if value.text.startswith("dim3") else type_text
    else:
        parts = arguments(code, opens + 1, part.end - 1)
    if not parts:
        return None
    return Variable(name, type_text, part.start, parts, _changes(code, name, part, scope))


def _changes(code: str, name: str, declared: Expression, scope: tuple[int, int]) -> bool:
    word = re.escape(name)
    change = re.compile(
        rf"(?<![\w.]){word}\s*(?:\.[xyz]\s*)?(?:=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)"
        rf"|(?:\+\+|--)\s*{word}\b|[(,=]\s*&\s*{word}\b|>>\s*{word}\b"
    )
    before = change.search(code, scope[0], declared.start)
    return bool(before or change.search(code, declared.end, scope[1]))
