# SPDX-License-Identifier: Apache-2.0
"""What other files say of a file's kernels: who launches them and how, and what its headers define.

A header's kernels are launched by the units that include it; a unit's kernels by its headers, by other units that
declare them, and through its own functions, whose callers may stand in other units too. Two units with a `main`
each are two programs and tell nothing of one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from warplens_tools.cuda.launch_sites import find_launches
from warplens_tools.cuda.model import LaunchSite, SourceModel
from warplens_tools.cuda.project import Joined, Project
from warplens_tools.cuda.syntax.directives import read_directives
from warplens_tools.cuda.syntax.functions import functions_of, plain_name
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_apart
from warplens_tools.cuda.values.constants import Constants, constants_of
from warplens_tools.cuda.values.integer_names import TYPEDEF, built_in
from warplens_tools.text import SourceText, Span

#: Units that a header is read through, and units that are read for their calls, at most.
MAX_UNITS = 6
_NOWHERE = Span(0, 0, 0, 0)
_CONSTANT = re.compile(
    r"^(?:(?:static|inline)\s+)*(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?"
    r"(?:unsigned|int|long|short|size_t|u?int\d+_t|auto)(?:\s+int)?\s+(\w+)\s*=\s*([^;,{}\"]+);",
    re.MULTILINE,
)
_ALIAS = re.compile(
    r"\btypedef\s+((?:\w+\s+)*?[\w:]+)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*((?:\w+\s+)*[\w:]+)\s*;"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_MAIN = re.compile(r"\bmain\s*\([^;{}]*\)\s*\{")


class Surroundings(msgspec.Struct, frozen=True):
    """What was found in other files; applied to any text of the file, also one that is being typed."""

    launches: tuple[LaunchSite, ...] = ()
    #: The file's own launches without their places, and what they come to where other files tell more.
    resolved: tuple[tuple[LaunchSite, LaunchSite], ...] = ()
    #: False where a limit left files out.
    complete: bool = True

    def of(self, model: SourceModel) -> SourceModel:
        """The model with what the other files say of its launches."""
        if not self.launches and not self.resolved:
            return model
        known = dict(self.resolved)
        return msgspec.structs.replace(
            model,
            launches=tuple(_filled(site, known.get(_key(site))) for site in model.launches),
            elsewhere=self.launches,
        )


def defines_around(path: Path, unit: Path, project: Project) -> dict[str, str]:
    """Macros and integer constants of the project's headers that `path` is compiled with in `unit`, by name.

    The key of a function-like macro has its parameters, as on a command line: "UP(a, b)"; that of a name for a built-in
    type is "typedef NAME", which is no macro's. What the headers define in several ways is left out, and so are
    constants that the file declares anew.
    """
    real = project.with_file(path)
    if real is None:
        return {}
    headers = [h for h in project.headers_of(unit) if project.with_file(h) != real]
    texts = [project.code(_real(project, h)) for h in headers]
    if project.with_file(unit) != real:
        texts.append(project.code(_real(project, unit)))
    own = project.text(real).text
    words = set(_WORD.findall(own))
    found = ((n, b) for n, b in _defined(texts).items() if b is not None)
    types = {f"{TYPEDEF}{n}": kind for n, kind in _types(texts, words).items()}
    return types | {n: b for n, b in found if n not in words or not _declares(own, n)}


def _types(texts: Iterable[str], words: set[str]) -> dict[str, str]:
    """Those of the words that headers name built-in types by, with these."""
    known: dict[str, set[str]] = {}
    for text in texts:
        for old, name, alias, kind in _ALIAS.findall(text):
            known.setdefault(name or alias, set()).add(" ".join((old or kind).split()))
    return built_in(known, sorted(words & known.keys()))


def _real(project: Project, path: Path) -> Path:
    return project.with_file(path) or path


def _defined(texts: Iterable[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}

    def take(name: str, body: str) -> None:
        found[name] = body if found.get(name, body) == body else None

    for text in texts:
        directives = read_directives(text, {})
        guards = {m.name for m in directives.macros if not m.body}
        for macro in directives.macros:
            if macro.name not in guards and macro.name not in directives.undefined:
                listed = "" if macro.parameters is None else f"({', '.join(macro.parameters)})"
                take(macro.name + listed, macro.body)
        for constant in _CONSTANT.finditer(text):
            take(constant[1], f"({constant[2].strip()})")
    return found


def _declares(text: str, name: str) -> bool:
    """Whether a text gives a constant's name a meaning of its own; macros have theirs wherever they stand."""
    if "(" in name:
        return False
    found = re.finditer(rf"([\w>&*]+)\s+[&*]?{name}\s*(?:=(?!=)|[;,)\[{{])", text)
    # `rows * N)` multiplies: an operator alone is no type.
    return any(re.search(r"\w", m[1]) and m[1] not in ("return", "case", "else") for m in found)


def surroundings(model: SourceModel, project: Project, defines: Mapping[str, str]) -> Surroundings:
    """What the project says of the launches of a file's kernels; nothing where the file itself says all."""
    path = project.with_file(Path(model.path))
    if path is None or not model.kernels or not _lacks(model):
        return Surroundings()
    return _Search(model, path, project, defines).found()


def _lacks(model: SourceModel) -> bool:
    """Whether other files could tell of a kernel's launches what the file does not."""
    for kernel in model.kernels:
        sites = model.launches_of(kernel)
        if not sites or any(s.host_function != "main" and _is_open(s) for s in sites):
            return True
    return False


def _is_open(site: LaunchSite) -> bool:
    return None in (*site.grid_value, *site.block_value, site.shared_value)


#: Launches by the file and the place where they stand.
_Sites = dict[tuple[str, Span], list[LaunchSite]]


class _Search:
    """The search for one file's launches."""

    def __init__(self, model: SourceModel, path: Path, project: Project, defines: Mapping[str, str]) -> None:
        self.model, self.path, self.project, self.defines = model, path, project, defines
        self.kernels = frozenset(kernel.name for kernel in model.kernels)
        hosts = (s.host_function.rsplit("::", 1)[-1] for s in model.launches if _is_open(s))
        self.hosts = frozenset(hosts) - {"", "main"}
        self._complete = True
        #: As the file and its headers tell them, and as they are with a unit that calls the file's functions.
        self._sites: _Sites = {}
        self._called: _Sites = {}

    def found(self) -> Surroundings:
        project, own = self.project, self.path
        units = project.units_including(own)
        whole = [project.joined(unit) for unit in units[:MAX_UNITS]] or [project.joined(own)]
        for joined in whole:
            self._read(joined, self._sites)
        for other in self._others(frozenset().union(*(joined.files for joined in whole)), whole[0]):
            self._read(other, self._called)
        self._complete &= len(units) <= MAX_UNITS and project.complete and all(j.whole for j in whole)
        return self._answer()

    def _others(self, known: frozenset[Path], first: Joined) -> Iterator[Joined]:
        """Units beside those that hold the file, which launch its kernels or call its functions."""
        is_program = _MAIN.search(first.text) is not None
        read = 0
        for real in self.project.naming(self.kernels | self.hosts):
            if real in known:
                continue
            alone = self.project.joined(real)
            code = without_comments(to_ascii(alone.text))
            if is_program and _MAIN.search(code):
                continue
            if read == MAX_UNITS:
                self._complete = False
                return
            read += 1
            words = set(_WORD.findall(code))
            if any(not _defines(code, name) for name in self.kernels & words):
                yield alone
            if any(
                re.search(rf"\b{name}\s*[<(]", code) and not _defines(code, name)
                for name in self.hosts & words
            ):
                start = self.project.units_including(self.path)[:1] or (self.path,)
                yield self.project.joined(real, after=self.project.joined(start[0]))

    def _read(self, joined: Joined, sites: _Sites) -> None:
        """Keep the launches of the file's kernels that a text holds."""
        text = joined.text
        if not any(name in text for name in self.kernels):
            return
        tree = parse_apart(SourceText(text, defines=self.defines))
        constants = constants_of(tree)
        defined = frozenset(
            plain_name(tree.text_of(f.name_node)).rsplit("::", 1)[-1] for f in functions_of(tree)
        )
        for site in find_launches(tree, constants, defined | self.kernels):
            if site.kernel_name.rsplit("::", 1)[-1] in self.kernels:
                placed = self._placed(tree, constants, joined, site)
                known = sites.setdefault((placed.path, placed.span), [])
                if placed not in known:
                    known.append(placed)

    def _placed(self, tree: SourceTree, constants: Constants, joined: Joined, site: LaunchSite) -> LaunchSite:
        """The launch where it stands in its own file, with what its arguments come to."""
        at = tree.text.offset(site.span.line, site.span.column)
        path, _ = joined.place(at)
        return msgspec.structs.replace(
            site,
            path="" if path == self.path else str(self.project.name_of(path)),
            span=self._span(tree, joined, site.span),
            grid_span=self._span(tree, joined, site.grid_span),
            block_span=self._span(tree, joined, site.block_span),
            argument_values=tuple(constants.value(argument, at) for argument in site.arguments),
        )

    def _span(self, tree: SourceTree, joined: Joined, span: Span) -> Span:
        start, end = tree.text.offsets(span)
        path, at = joined.place(start)
        return self.project.text(path).span(at, at + end - start)

    def _answer(self) -> Surroundings:
        own = {(s.span, s.kernel_name): s for s in self.model.launches}
        launches: list[LaunchSite] = []
        resolved: dict[LaunchSite, LaunchSite] = {}
        for (path, _), sites in {**self._sites, **self._called}.items():
            if path:
                launches += sites
                continue
            for name in dict.fromkeys(s.kernel_name for s in sites):
                known = own.get((sites[0].span, name)) or own.get((sites[0].span, ""))
                same = [s for s in sites if s.kernel_name == name]
                if known is None or not known.kernel_name:
                    launches += same
                else:
                    before = [resolved[_key(known)]] if _key(known) in resolved else []
                    resolved[_key(known)] = _agreed([*before, *same])
        ordered = sorted(launches, key=lambda s: (s.path, s.span, s.kernel_name))
        return Surroundings(tuple(ordered), tuple(resolved.items()), self._complete)


def _defines(code: str, name: str) -> bool:
    """Whether comment-free code gives a function of that name a body."""
    return re.search(rf"\b{name}\s*\([^;{{}}]*\)\s*\{{", code) is not None


def _agreed(sites: list[LaunchSite]) -> LaunchSite:
    """One launch whose values are those that all readings of it agree on."""

    def same(values: Iterable[int | None]) -> int | None:
        found = set(values)
        return found.pop() if len(found) == 1 else None

    first, *rest = sites
    grids, blocks = (
        zip(*(s.grid_value for s in sites), strict=True),
        zip(*(s.block_value for s in sites), strict=True),
    )
    x, y, z = map(same, grids)
    a, b, c = map(same, blocks)
    return msgspec.structs.replace(
        first,
        grid_value=(x, y, z),
        block_value=(a, b, c),
        shared_value=same(s.shared_value for s in sites),
        argument_values=tuple(map(same, zip(*(s.argument_values for s in sites), strict=True))),
        template_arguments=first.template_arguments
        if all(s.template_arguments == first.template_arguments for s in rest)
        else (),
    )


def _key(site: LaunchSite) -> LaunchSite:
    """A launch by what is written there alone."""
    return msgspec.structs.replace(
        site,
        span=_NOWHERE,
        grid_span=_NOWHERE,
        block_span=_NOWHERE,
        argument_values=(),
        grid_value=(None, None, None),
        block_value=(None, None, None),
        shared_value=None,
    )


def _filled(site: LaunchSite, more: LaunchSite | None) -> LaunchSite:
    """The launch with the values of `more` where it has none of its own."""
    if more is None:
        return site

    def either(first: int | None, second: int | None) -> int | None:
        return second if first is None else first

    x, y, z = map(either, site.grid_value, more.grid_value)
    a, b, c = map(either, site.block_value, more.block_value)
    return msgspec.structs.replace(
        site,
        grid_value=(x, y, z),
        block_value=(a, b, c),
        shared_value=either(site.shared_value, more.shared_value),
        argument_values=more.argument_values,
    )
