# SPDX-License-Identifier: Apache-2.0
"""Launches that follow one another with the same grid, of which the second reads, element by element, what the first
has stored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.facts.atomics import atomics
from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.syntax.around import exclude_each_other
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.forms import Form

#: What the host does with results, or puts in their place, before the next launch.
_COPIES = re.compile(r"\b(?:cuda|hip)Mem(?:cpy|set)\w*\s*\(|\breturn\b")


_NAME = re.compile(r"[A-Za-z_]\w*")
#: A call whose arguments hold no call; launches have none of its form.
_CALL = re.compile(r"([A-Za-z_][\w:]*)\s*(?:<[^<>;(]*>)?\s*\(([^();]*)\)")
#: What has brackets and changes no array.
_KEEPS = frozenset(
    {"if", "while", "for", "switch", "sizeof", "swap", "printf", "cudaMalloc", "cudaFree", "assert"}
)


class HandedOn(msgspec.Struct, frozen=True):
    """Arrays that one launch stores and a later one reads at the same threads."""

    before: LaunchSite
    after: LaunchSite
    #: As the launches pass them.
    arrays: tuple[str, ...]


def handed_on(tree: SourceTree, model: SourceModel, kernel: Kernel) -> tuple[HandedOn, ...]:
    """Where launches of the kernel in its file read what a launch before them in the same function stored."""
    found = (pair for site in model.launches_of(kernel) for pair in _pairs(tree, model, kernel, site))
    return tuple(found)


def _pairs(tree: SourceTree, model: SourceModel, kernel: Kernel, site: LaunchSite) -> Iterator[HandedOn]:
    before = [s for s in model.launches if _comes_before(s, site)]
    before = [s for s in before if not exclude_each_other(tree, s.span, site.span)]
    every = accesses(tree, kernel)
    reads = _passed(kernel, site, _own(every, stored=False)) if before else []
    if not reads:
        return
    needs = set(_passed(kernel, site, [a.name for a in every if a.space == "global" and a.reads]))
    # Whether a launch between makes what this one needs, so that it cannot come earlier; arrays that those between
    # read, whose maker cannot come later.
    late, used = False, set[str]()
    for other in reversed(before):
        maker = model.kernel(other.kernel_name.rsplit("::", 1)[-1])
        if maker is None or maker.name == kernel.name:
            continue
        made = accesses(tree, maker)
        changed = [*(a.name for a in made if a.writes), *(a.name for a in atomics(tree, maker))]
        stored = _passed(maker, other, _own(made, stored=True))
        shared = tuple(a for a in reads if a in stored and not (late and a in used))
        between = _between(tree, other, site)
        apart = _COPIES.search(between) or _asks_a_library(model, between, site)
        if shared and _is_alike(other, site) and not apart:
            yield HandedOn(other, site, shared)
        late = late or bool(needs.intersection(_passed(maker, other, changed)))
        used.update(_passed(maker, other, [a.name for a in made if a.reads]))
        reads = [a for a in reads if a not in stored]


def _comes_before(other: LaunchSite, site: LaunchSite) -> bool:
    """Whether a launch stands before another in one function, and is passed something of what that is."""
    here = bool(site.host_function) and other.host_function == site.host_function
    return here and other.span < site.span and not set(site.arguments).isdisjoint(other.arguments)


def _between(tree: SourceTree, first: LaunchSite, second: LaunchSite) -> str:
    """What stands between two launches, without comments."""
    start, end = first.span, second.span
    at = tree.text.offset(start.end_line, start.end_column), tree.text.offset(end.line, end.column)
    return tree.masked.source[slice(*at)]


def _asks_a_library(model: SourceModel, between: str, site: LaunchSite) -> bool:
    """Whether a call is handed an array that the second launch is given: a scan or a sort goes over all of it, and
    stands between the two."""
    passed = {a.strip() for a in site.arguments if _NAME.fullmatch(a.strip())}
    launched = {s.kernel_name.rsplit("::", 1)[-1] for s in model.launches}
    return any(
        name.rsplit("::", 1)[-1] not in launched | _KEEPS and passed & set(_NAME.findall(given))
        for name, given in _CALL.findall(between)
    )


def _is_alike(a: LaunchSite, b: LaunchSite) -> bool:
    """Whether both have the same threads, in the same loops."""
    return (a.grid, a.block, a.loop_depth) == (b.grid, b.block, b.loop_depth)


def _passed(kernel: Kernel, site: LaunchSite, names: Sequence[str]) -> list[str]:
    """What a launch passes for parameters of these names."""
    given = dict(zip((p.name for p in kernel.parameters), site.arguments, strict=False))
    return [" ".join(given[name].split()) for name in names if name in given]


def _own(every: Sequence[ArrayAccess], *, stored: bool) -> list[str]:
    """Arrays of global memory of which each thread stores, or only reads, one element beside its neighbours'."""
    found: dict[str, Form | None] = {}
    for a in every:
        if a.space != "global" or (stored and not a.writes):
            continue
        growth = a.index.growth("threadIdx.x") if a.index is not None else None
        beside = growth is not None and growth.value == 1 and not a.loops and not a.atomic
        is_own = beside and a.writes == stored and found.get(a.name, a.index) == a.index
        found[a.name] = a.index if is_own else None
    return [name for name, index in found.items() if index is not None and not index.constant]
