"""Who else depends on a constant: whether changing it changes only how a kernel is launched and tiled."""

from __future__ import annotations

import re

import msgspec

from warplens_tools.cuda.model import Constant, Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.lexical import matching, to_ascii, without_comments
from warplens_tools.text import SourceText, Span
from warplens_tools.tunable.host_code import (
    Expression,
    HostFunction,
    arguments,
    expression,
    extents,
    host_function,
    names_behind,
)

_DEVICE_FUNCTION = re.compile(r"\b__device__\b[^;{}]*\{")
_GUARD = re.compile(r"^\s*#\s*(?:ifndef|ifdef|endif)\b")


class Site(msgspec.Struct, frozen=True):
    """A launch site with its configuration read out; an entry is None where it could not be."""

    launch: LaunchSite
    host: HostFunction
    #: From the kernel's name to the closing `>>>`, or the whole call of a launch function.
    start: int
    config_end: int
    block: tuple[Expression, ...] | None
    grid: tuple[Expression, ...] | None
    shared: Expression | None
    block_text: str
    #: The grid, block and shared-size arguments as they stand at the launch; empty ones have no text.
    configuration: tuple[Expression, Expression, Expression]
    template_arguments: tuple[Expression, ...]
    #: All names that the configuration depends on.
    names: frozenset[str]


class File(msgspec.Struct, frozen=True):
    """A parsed file with its comment-free code; offsets are code points of the text."""

    text: SourceText
    code: str
    model: SourceModel
    sites: tuple[Site, ...]

    def range(self, span: Span) -> tuple[int, int]:
        """Offsets of a span."""
        return (
            self.text.offset(span.line, span.column),
            self.text.offset(span.end_line, span.end_column),
        )

    def of(self, kernel: Kernel) -> tuple[Site, ...]:
        """Launch sites of a kernel."""
        launches = self.model.launches_of(kernel)
        return tuple(site for site in self.sites if site.launch in launches)

    @property
    def constant_texts(self) -> dict[str, str]:
        """The file's constants by name, as written."""
        return {constant.name: constant.text for constant in self.model.constants}


def read_file(text: SourceText, model: SourceModel) -> File:
    """A file with the configuration of its launch sites."""
    code = without_comments(to_ascii(text.text))
    texts = {constant.name: constant.text for constant in model.constants}
    return File(text, code, model, tuple(_site(text, code, launch, texts) for launch in model.launches))


def other_use(file: File, name: str, kernel: Kernel, definition: tuple[int, int]) -> str:
    """The first use of `name` that a change would reach beyond this kernel and its launches; "" if none.

    Harmless are: the kernel itself and device functions, the configuration of its launches, variables that
    only serve these or divide by the name (the usual count of blocks), other constants with harmless uses,
    static assertions and include guards.
    """
    for found in re.finditer(rf"(?<![\w.])(?:\w+::)*{re.escape(name)}\b", file.code):
        at = found.start()
        if definition[0] <= at < definition[1]:
            continue
        reason = _reason(file, name, kernel, at)
        if reason:
            return f"line {file.text.position(at)[0]} {reason}"
    return ""


def _reason(file: File, name: str, kernel: Kernel, at: int) -> str:
    start, end = file.range(kernel.span)
    if start <= at < end or _in_device_function(file, at) or _harmless_line(file.code, at):
        return ""
    other = next((k for k in file.model.kernels if k != kernel and _inside(file.range(k.span), at)), None)
    if other is not None:
        return f"uses it in kernel {other.name}"
    mine = file.of(kernel)
    for site in file.sites:
        if site.start <= at < site.config_end:
            return "" if site in mine else f"launches {site.launch.kernel_name} with it"
    constant = _defining(file, at)
    if constant is not None:
        return other_use(file, constant.name, kernel, file.range(constant.span))
    return _host_reason(file, name, kernel, at)


def _host_reason(file: File, name: str, kernel: Kernel, at: int) -> str:
    """Host code outside a launch: harmless in what only a launch of this kernel reads."""
    mine = file.of(kernel)
    for site in file.sites:
        for variable in site.host.variables.values():
            ends = [part.end for part in variable.extents]
            if not variable.start <= at < max(ends):
                continue
            if at < variable.start + len(variable.name):
                return ""
            if variable.name not in site.names:
                break
            if site not in mine:
                return f"launches {site.launch.kernel_name} with {variable.name}"
            if _divides(file.code, at, name) or _only_configures(file, site, variable.name):
                return ""
    return "uses it in host code"


def _only_configures(file: File, site: Site, variable: str) -> bool:
    """Whether a host variable is read nowhere but in launches and in other variables of the launch."""
    host = site.host
    readers = [v for v in host.variables.values() if v.name in site.names]
    for found in re.finditer(rf"(?<![\w.]){re.escape(variable)}\b", file.code[: host.end]):
        at = found.start()
        if at < host.start or any(s.start <= at < s.config_end for s in file.sites):
            continue
        if not any(v.start <= at < max(part.end for part in v.extents) for v in readers):
            return False
    return True


def _divides(code: str, at: int, name: str) -> bool:
    """Whether the expression around `at` divides by the name, or hands it to a rounding-up division."""
    opening = max(code.rfind(mark, 0, at) for mark in ";{}=")
    closing = min((i for i in (code.find(mark, at) for mark in ";{}") if i >= 0), default=len(code))
    statement = code[opening + 1 : closing]
    word = rf"(?:\w+::)*{re.escape(name)}\b"
    return bool(
        re.search(rf"/\s*(?:\(?\s*(?:float|double)\s*\)?\s*)?\(?\s*{word}", statement)
        or re.search(rf"(?i)\b\w*(?:ceil|div|up)\w*\s*\([^;]*{word}", statement)
    )


def _harmless_line(code: str, at: int) -> bool:
    start = code.rfind("\n", 0, at) + 1
    line = code[start : code.find("\n", at) if "\n" in code[at:] else len(code)]
    return bool(_GUARD.match(line)) or "static_assert" in line


def _in_device_function(file: File, at: int) -> bool:
    functions = _DEVICE_FUNCTION.finditer(file.code, 0, at)
    return any(at < matching(file.code, found.end() - 1) for found in functions)


def _defining(file: File, at: int) -> Constant | None:
    """The file-scope constant whose definition `at` stands in; those of host functions are variables."""
    hosts = [site.host for site in file.sites if site.host.start > 0]
    if any(host.start <= at < host.end for host in hosts):
        return None
    return next((c for c in file.model.constants if _inside(file.range(c.span), at)), None)


def _inside(span: tuple[int, int], at: int) -> bool:
    return span[0] <= at < span[1]


def _site(text: SourceText, code: str, launch: LaunchSite, constants: dict[str, str]) -> Site:
    def read(span: Span) -> Expression:
        start, end = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
        return expression(code, start, end)

    whole, block, grid = read(launch.span), read(launch.block_span), read(launch.grid_span)
    host = host_function(code, whole.start)
    opening, close = code.find("<<<", whole.start, whole.end), code.find(">>>", whole.start, whole.end)
    shared = _third_argument(code, block.end, close)
    configuration = (grid, block, shared or Expression(block.end, block.end, ""))
    names = (names_behind(part, host, constants) for part in configuration)
    return Site(
        launch=launch,
        host=host,
        start=whole.start,
        config_end=close + 3 if close >= 0 else whole.end,
        block=extents(code, block, host),
        grid=extents(code, grid, host),
        shared=shared,
        block_text=block.text,
        configuration=configuration,
        template_arguments=_template_arguments(code, whole.start, opening),
        names=frozenset[str]().union(*names),
    )


def _third_argument(code: str, after_block: int, close: int) -> Expression | None:
    rest = arguments(code, after_block, close) if close >= 0 else ()
    return rest[1] if len(rest) > 1 and rest[1].text else None


def _template_arguments(code: str, start: int, opening: int) -> tuple[Expression, ...]:
    first = code.find("<", start, opening)
    last = code.rfind(">", start, opening)
    return arguments(code, first + 1, last) if 0 <= first < last else ()
