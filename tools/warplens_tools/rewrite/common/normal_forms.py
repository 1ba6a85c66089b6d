# SPDX-License-Identifier: Apache-2.0
"""A kernel's macros, calls, loops, pointers and windows in the forms that rewrites read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.rewrite.common.normal_addresses import addresses_added
from warplens_tools.rewrite.common.normal_begins import emptied
from warplens_tools.rewrite.common.normal_bounds import clamped
from warplens_tools.rewrite.common.normal_breaks import skipping
from warplens_tools.rewrite.common.normal_calls import written_out
from warplens_tools.rewrite.common.normal_casts import casts_plain
from warplens_tools.rewrite.common.normal_conditions import conditions_apart
from warplens_tools.rewrite.common.normal_counters import declared_by_loops
from warplens_tools.rewrite.common.normal_do_loops import asked_first
from warplens_tools.rewrite.common.normal_ends import counters_alone
from warplens_tools.rewrite.common.normal_guards import limits_named
from warplens_tools.rewrite.common.normal_indices import indices_out
from warplens_tools.rewrite.common.normal_lambdas import lambdas_out
from warplens_tools.rewrite.common.normal_lasts import places_kept
from warplens_tools.rewrite.common.normal_loops import normalised
from warplens_tools.rewrite.common.normal_macros import macros_out
from warplens_tools.rewrite.common.normal_members import members_named
from warplens_tools.rewrite.common.normal_methods import methods_out
from warplens_tools.rewrite.common.normal_multiples import multiples_divided
from warplens_tools.rewrite.common.normal_offsets import begun_at_zero
from warplens_tools.rewrite.common.normal_pointer_loops import pointers_counted
from warplens_tools.rewrite.common.normal_pointers import still
from warplens_tools.rewrite.common.normal_references import named_elements
from warplens_tools.rewrite.common.normal_remainders import remainders_written
from warplens_tools.rewrite.common.normal_trees import trees_apart
from warplens_tools.rewrite.common.normal_unequal import limits_ordered
from warplens_tools.rewrite.common.normal_windows import centred
from warplens_tools.text import SourceText, TextEdit

#: Calls that are written out, and pointers that are set still, one after the other.
_MOST = 12
_Form = Callable[[SourceText, SourceTree, Kernel], tuple[TextEdit, ...]]
#: What follows the loops, in this order.
_FORMS: tuple[_Form, ...] = (
    named_elements,
    addresses_added,
    pointers_counted,
    still,
    counters_alone,
    clamped,
    emptied,
    skipping,
    centred,
    limits_named,
    conditions_apart,
    begun_at_zero,
    multiples_divided,
    remainders_written,
    places_kept,
    trees_apart,
)


#: Forms that are kept: every rewrite asks for those of the same few kernels, and they take longer to make than trees of
#: the texts in between are kept.
_KEPT = 64


class _Made:
    """The forms that were made last, by the text and the kernel that they are of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: OrderedDict[Hashable, SourceText | None] = OrderedDict()

    def get(
        self, name: str, text: SourceText, kernel: Kernel, make: Callable[[], SourceText | None]
    ) -> SourceText | None:
        """What `make` gave the first time."""
        key = (name, text.text, text.encoding, tuple(sorted(text.defines.items())), kernel.span)
        with self._lock:
            if key in self._forms:
                self._forms.move_to_end(key)
                return self._forms[key]
        made = make()
        with self._lock:
            self._forms[key] = made
            while len(self._forms) > _KEPT:
                self._forms.popitem(last=False)
        return made


_MADE = _Made()


def plainly(text: SourceText, path: str, kernel: Kernel) -> SourceText | None:
    """The file with the kernel in those forms; None where nothing changes."""
    return _MADE.get("plain", text, kernel, lambda: _plainly(text, path, kernel))


def with_members_named(text: SourceText, path: str, kernel: Kernel) -> SourceText | None:
    """The file with the kernel in those forms and its structures' members in variables; None where it has none."""
    return _MADE.get("members named", text, kernel, lambda: _with_members_named(text, path, kernel))


def _with_members_named(text: SourceText, path: str, kernel: Kernel) -> SourceText | None:
    asked = _Asked(text, path, kernel)
    plain = plainly(text, path, kernel) or text
    named = _repeated(members_named, plain, asked)
    mine = asked.within(named) if named is not plain else None
    return (plainly(named, path, mine) or named) if mine is not None else None


def _plainly(text: SourceText, path: str, kernel: Kernel) -> SourceText | None:
    asked = _Asked(text, path, kernel)
    now = _repeated(macros_out, text, asked)
    now = _repeated(lambdas_out, now, asked)
    now = _repeated(methods_out, now, asked)
    now = _repeated(written_out, now, asked)
    now = _repeated(indices_out, now, asked)
    now = _repeated(casts_plain, now, asked)
    now = _repeated(limits_ordered, now, asked)
    now = _repeated(asked_first, now, asked)
    mine = asked.within(now)
    if mine is None:
        return None
    for _ in range(2):
        now = normalised(now, parse_tree(now), mine) or now
        mine = asked.within(now)
        if mine is None:
            return None
        edits = declared_by_loops(now, parse_tree(now), mine)
        now = now.apply(list(edits)) if edits else now
        mine = asked.within(now)
        if mine is None:
            return None
    for form in _FORMS:
        now = _repeated(form, now, asked)
    return now if now is not text else None


class _Asked:
    """The kernel that the forms are asked for, in the file as it was."""

    def __init__(self, text: SourceText, path: str, kernel: Kernel) -> None:
        self.model, self.path, self.kernel = parse(text, path), path, kernel

    def within(self, text: SourceText) -> Kernel | None:
        """What it is in a later text; None where it cannot be read there."""
        found = parse(text, self.path).same(self.kernel, self.model)
        return found if found is not None and not found.broken else None


def _repeated(form: _Form, text: SourceText, asked: _Asked) -> SourceText:
    """The text with a form's edits, until there are none."""
    now = text
    for _ in range(_MOST):
        mine = asked.within(now)
        edits = form(now, parse_tree(now), mine) if mine is not None else ()
        if not edits:
            break
        now = now.apply(list(edits))
    return now
