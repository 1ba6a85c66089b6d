# SPDX-License-Identifier: Apache-2.0
"""Whether a candidate's host side is the baseline's but for sizes; decided on what the host compiler is given."""

from __future__ import annotations

import contextlib
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from warplens.measure.build.host_tokens import (
    Declaration,
    HostTokens,
    Replacement,
    declarations,
    same_start,
)
from warplens.measure.build.kinds import declarators, kind_of, names_of
from warplens.measure.build.local_names import only_local
from warplens.measure.build.passed_sizes import passed_sizes
from warplens.measure.build.sizes import Passed, Span, sizes_in, why_no_size
from warplens_tools.errors import WarplensError

_SYSTEM = ("/usr/", "/opt/", "/nix/store/", "/gnu/store/")
_DIGITS = re.compile(r"\d+")
#: Tokens of a declaration that a refusal shows.
_SHOWN = 24
#: Kinds of declarations that hold a value and make nothing run.
_VALUES = ("constant", "shadow")


class HostSide(msgspec.Struct, frozen=True):
    """A unit's host side, taken apart."""

    host: HostTokens
    declarations: tuple[Declaration, ...]

    def of_user(self, system: Sequence[str]) -> list[Declaration]:
        """What is not declared in headers of the system, the toolkit or CUTLASS."""
        found, line = [], 0
        at, files = self.host.at, self.host.files
        for one in self.declarations:
            while line + 1 < len(at) and at[line + 1] <= one.start:
                line += 1
            if not files[line].startswith((*_SYSTEM, *system)):
                found.append(one)
        return found


class _Host(msgspec.Struct, frozen=True):
    """A host declaration with its sizes apart."""

    declaration: Declaration
    #: Its other tokens, each with its index in the declaration; "" in the place of sizes.
    kept: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, ...], ...]


class _Meant(msgspec.Struct, frozen=True):
    """What host code may say for sizes: shared constants by name, and functions' parameters."""

    constants: set[str]
    passed: Passed


#: A declaration, and what kind it is (`kind_of`).
_Kind = tuple[Declaration, str]


def take_apart(host: HostTokens, like: HostSide | None = None) -> HostSide:
    """The declarations of a host side; those that it begins with as `like` does are not parsed again."""
    known: tuple[Declaration, ...] = ()
    if like is not None:
        same = same_start(host.tokens, like.host.tokens)
        # the last one may go on otherwise
        known = like.declarations[: max(bisect_left(like.declarations, same, key=lambda d: d.start) - 2, 0)]
    if not known:
        return HostSide(host, tuple(declarations(host.tokens)))
    last = known[-1]
    return HostSide(host, (*known[:-1], *declarations(host.tokens, last.start, last.scope)))


class HostGate:
    """Compares candidates with one baseline."""

    def __init__(
        self, baseline: HostSide, moved: Callable[[], HostSide | None], system: Sequence[str] = ()
    ) -> None:
        """`moved` gives the baseline one line further down, which tells line numbers from other numbers."""
        self.side = baseline
        self._moved = moved
        # candidates are compared at once, and the line numbers are looked for when the first one needs them
        self._counting = threading.Lock()
        self._counted: frozenset[int] | None = None
        self._user: list[_Kind] = [(one, kind_of(one)) for one in baseline.of_user(system)]

    def why_not(self, candidate: HostSide) -> str:
        """Why the candidate's host side is another; "" if it is the baseline's but for sizes and what is inert."""
        known, given = self._unlike(candidate)
        everything = [*self._user, *given]
        tainted = _tainted(_changed(known, given), everything)
        meant = self._meant(known, given)
        before, after = _hosts(known, meant), _hosts(given, meant)
        return self._hosts_differ(before, after) or self._meaning_differs(tainted, meant, after)

    def count_lines(self) -> None:
        """Tell line numbers from other numbers now, rather than when the first candidate needs it."""
        with contextlib.suppress(WarplensError):
            _ = self._numbered

    def put_back(self, candidate: HostSide) -> tuple[Replacement, ...]:
        """What makes an allowed candidate's host side say the baseline's sizes, lines, constants and shadows."""
        known, given = self._unlike(candidate)
        meant = self._meant(known, given)
        found = [
            replacement
            for one, other in zip(_hosts(known, meant), _hosts(given, meant), strict=False)
            for replacement in self._sizes_back(one, other)
        ]
        return (*found, *_constants_back(known, given))

    def _meant(self, known: Sequence[_Kind], given: Sequence[_Kind]) -> _Meant:
        """What stands for sizes on both sides."""
        constants = _constants([*self._user, *given])
        gone = {one.start for one, _ in known}
        sides = self._user, [*((one, kind) for one, kind in self._user if one.start not in gone), *given]
        old, new = (passed_sizes((one for one, kind in side if kind == "host"), constants) for side in sides)
        passed = {name: places & new.get(name, frozenset()) for name, places in old.items()}
        return _Meant(constants, passed)

    def _unlike(self, candidate: HostSide) -> tuple[list[_Kind], list[_Kind]]:
        """The declarations of both that are between what they begin and end with alike."""
        old, new = self.side.declarations, candidate.declarations
        most = min(len(old), len(new))
        head = next((i for i in range(most) if not _same(old[i], new[i])), most)
        most -= head
        tail = next((i for i in range(most) if not _same(old[-1 - i], new[-1 - i])), most)
        known, given = old[head : len(old) - tail], new[head : len(new) - tail]
        return [(one, kind_of(one)) for one in known], [(one, kind_of(one)) for one in given]

    def _hosts_differ(self, before: Sequence[_Host], after: Sequence[_Host]) -> str:
        for one, other in zip(before, after, strict=False):
            why = self._differ(one, other)
            if why:
                return why
        if len(after) > len(before):
            return f"the edit adds host code: {_shown(after[len(before)].declaration.tokens)}"
        if len(before) > len(after):
            return f"the edit removes host code: {_shown(before[len(after)].declaration.tokens)}"
        return ""

    def _differ(self, one: _Host, other: _Host) -> str:
        if not self._alike(one, other):
            return self._difference(one, other)
        for size, given_size in zip(one.sizes, other.sizes, strict=True):
            why = why_no_size(given_size, size) if size != given_size else ""
            if why:
                said = " ".join(given_size)
                return f"the edit changes a launch configuration or a size to more than sizes: {said} ({why})"
        return ""

    def _sizes_back(self, one: _Host, other: _Host) -> Iterator[Replacement]:
        if not self._alike(one, other):
            return
        sizes = zip(one.sizes, other.sizes, strict=True)
        for (token, _), (given, index) in zip(one.kept, other.kept, strict=True):
            at = other.declaration.start + index
            if not token:
                size, said = next(sizes)
                if size != said:
                    yield Replacement(at, at + len(said), size)
            elif token != given:
                yield Replacement(at, at + 1, (token,))

    def _alike(self, one: _Host, other: _Host) -> bool:
        """Whether two host declarations differ in sizes and line numbers alone."""
        if one.declaration.scope != other.declaration.scope or len(one.kept) != len(other.kept):
            return False
        pairs = zip(one.kept, other.kept, strict=True)
        start = one.declaration.start
        return all(
            token == given or self._is_line(start + index, token, given)
            for (token, index), (given, _) in pairs
        )

    def _is_line(self, place: int, token: str, given: str) -> bool:
        """Whether a token says a line number, which an edit above it moves."""
        if _DIGITS.sub("#", token) != _DIGITS.sub("#", given):
            return False
        return place in self._numbered

    @property
    def _numbered(self) -> frozenset[int]:
        """Where the baseline says line numbers."""
        with self._counting:
            if self._counted is None:
                self._counted = self._line_numbers()
            return self._counted

    def _line_numbers(self) -> frozenset[int]:
        moved = self._moved()
        tokens = moved.host.tokens if moved is not None else []
        if len(tokens) != len(self.side.host.tokens):
            return frozenset()
        pairs = enumerate(zip(tokens, self.side.host.tokens, strict=True))
        return frozenset(index for index, (new, old) in pairs if new != old)

    def _difference(self, one: _Host, other: _Host) -> str:
        pairs = enumerate(zip(one.kept, other.kept, strict=False))
        start = one.declaration.start
        at = next(
            (
                number
                for number, ((token, index), (given, _)) in pairs
                if token != given and not self._is_line(start + index, token, given)
            ),
            min(len(one.kept), len(other.kept)),
        )
        begin = max(at - 6, 0)
        old, new = ([token for token, _ in side.kept[begin:]] for side in (one, other))
        return f"the edit changes host code: {_shown(old)} becomes {_shown(new)}"

    def _meaning_differs(
        self,
        tainted: dict[str, str],
        meant: _Meant,
        after: Iterable[_Host],
    ) -> str:
        """A name in host code that the edit gives another meaning."""
        if not tainted:
            return ""
        hosts = [
            _apart(one, meant)
            for one, kind in self._user
            if kind == "host" and tainted.keys() & set(one.tokens)
        ]
        for host in (*hosts, *after):
            words = [token for token, _ in host.kept]
            own: dict[str, bool] = {}
            for index, word in enumerate(words):
                if word in tainted and (not index or words[index - 1] not in (".", "->")):
                    if own.setdefault(word, only_local(host.declaration.tokens, word)):
                        continue
                    return f"the edit changes {tainted[word]}, which host code uses"
        return ""


def _same(one: Declaration, other: Declaration) -> bool:
    return one.tokens == other.tokens and one.scope == other.scope


def _apart(one: Declaration, meant: _Meant) -> _Host:
    kept: list[tuple[str, int]] = []
    sizes: list[tuple[str, ...]] = []
    at = 0
    spans: list[Span] = sizes_in(one.tokens, meant.constants, meant.passed)
    for start, end in spans:
        kept += [(one.tokens[index], index) for index in range(at, start)]
        kept.append(("", start))
        sizes.append(one.tokens[start:end])
        at = end
    kept += [(one.tokens[index], index) for index in range(at, len(one.tokens))]
    return _Host(one, tuple(kept), tuple(sizes))


def _constants(everything: Iterable[_Kind]) -> set[str]:
    return {name for one, kind in everything if kind == "constant" for name in names_of(one, kind)}


def _hosts(all_of: Iterable[_Kind], meant: _Meant) -> list[_Host]:
    return [_apart(one, meant) for one, kind in all_of if kind == "host"]


def _constants_back(known: Sequence[_Kind], given: Sequence[_Kind]) -> Iterator[Replacement]:
    """Constants and shadows of device variables as they were; those that are gone before what follows them.

    One declaration may hold several, and a candidate may join, part or drop them: what is the candidate's own stays
    behind what it is declared with.
    """
    before, after = _values_changed(known, given), _values_changed(given, known)
    named = {(one.scope, name): one for one, kind in before for name in names_of(one, kind)}
    placed: set[int] = set()
    for one, kind in after:
        shared = {o.start: o for name in names_of(one, kind) if (o := named.get((one.scope, name)))}
        if not shared:
            continue
        words = [word for start in sorted(shared.keys() - placed) for word in shared[start].tokens]
        for single in declarators(one.tokens):
            if not any(
                (one.scope, name) in named for name in names_of(Declaration(one.scope, tuple(single)), kind)
            ):
                words += single
        placed |= shared.keys()
        yield Replacement(one.start, one.start + len(one.tokens), tuple(words))
    for one, _ in before:
        follows = next((other for other, _ in given if other.scope == one.scope), None)
        if one.start not in placed and follows is not None:
            yield Replacement(follows.start, follows.start, one.tokens)


def _values_changed(side: Sequence[_Kind], other: Sequence[_Kind]) -> list[_Kind]:
    """Constants and shadows of one side that the other does not declare in the same words."""
    same = Counter((one.scope, one.tokens) for one, kind in other if kind in _VALUES)
    found = []
    for one, kind in side:
        if kind not in _VALUES:
            continue
        if same[one.scope, one.tokens] > 0:
            same[one.scope, one.tokens] -= 1
        else:
            found.append((one, kind))
    return found


def _changed(
    old: Sequence[tuple[Declaration, str]], new: Sequence[tuple[Declaration, str]]
) -> list[tuple[Declaration, str]]:
    """The declarations without effect that one side has and the other has not."""
    count = [Counter((one.scope, one.tokens) for one, _ in side) for side in (old, new)]
    gone, added = count[0] - count[1], count[1] - count[0]
    kept = [*((pair, gone) for pair in old), *((pair, added) for pair in new)]
    return [(one, kind) for (one, kind), which in kept if kind != "host" and which[(one.scope, one.tokens)]]


def _tainted(
    changed: Sequence[tuple[Declaration, str]], everything: Sequence[tuple[Declaration, str]]
) -> dict[str, str]:
    """Names whose meaning the edit changes, each with the name that it does so by; kernels are judged, not these."""
    names = {name: name for one, kind in changed if kind != "kernel" for name in names_of(one, kind)}
    kernels = {name for one, kind in everything if kind == "kernel" for name in names_of(one, kind)}
    kernels |= _launched(everything)
    names = {name: by for name, by in names.items() if name not in kernels}
    grown = True
    while grown:
        grown = False
        for one, kind in everything:
            if kind in ("host", "kernel", "pragma"):
                continue
            by = next((names[word] for word in one.tokens if word in names), "")
            fresh = names_of(one, kind) - names.keys() - kernels if by else set()
            names |= dict.fromkeys(fresh, by)
            grown |= bool(fresh)
    return names


def _launched(everything: Sequence[tuple[Declaration, str]]) -> set[str]:
    """Plain kernels, which the host compiler knows by prototypes: what is launched."""
    found = set()
    for one, kind in everything:
        if kind != "host":
            continue
        words = one.tokens
        for index in range(len(words) - 4):
            if words[index : index + 5] == ("(", "void", ")", "0", ":"):
                after = words[index + 5 : index + 13]
                end = next((i for i, word in enumerate(after) if word in ("(", "<")), len(after))
                found |= set(after[:end])
    return found


def _shown(tokens: Sequence[str]) -> str:
    said = " ".join(token or "…" for token in tokens[:_SHOWN])
    return f"`{said}{' …' if len(tokens) > _SHOWN else ''}`"
