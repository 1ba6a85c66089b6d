# SPDX-License-Identifier: Apache-2.0
"""How the parts of a rewrite say that it does not apply."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import msgspec

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.errors import InputError
from warplens_tools.rewrite.base import Apply, Refused, RewriteResult, Target
from warplens_tools.rewrite.common.normal_forms import plainly, with_members_named
from warplens_tools.rewrite.common.normal_strides import an_output_each
from warplens_tools.rewrite.common.texts import between
from warplens_tools.rewrite.common.typed_autos import typed_autos
from warplens_tools.text import SourceText


def refusing(
    edit: Callable[[SourceText, SourceModel, Kernel, Target], RewriteResult], *, singly: bool = True
) -> Apply:
    """`edit` with what it raises as `Refused` given back as a refusal.

    A kernel that it refuses as it stands is tried once more with its loops and pointers in their normal form, and with
    an output for each thread where threads stride over them, unless `singly` is false.
    """

    @functools.wraps(edit)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        return _typed(functools.partial(_tried, edit, singly), text, model, kernel, target)

    return apply


def _typed(
    edit: Apply, text: SourceText, model: SourceModel, kernel: Kernel, target: Target
) -> RewriteResult:
    """What an edit makes of a kernel whose variables by `auto` have their types written, where those are known."""
    typed = typed_autos(text, kernel)
    again = parse(typed.text, model.path) if typed is not None else model
    mine = again.same(kernel, model)
    if typed is None or mine is None or mine.broken:
        return edit(text, model, kernel, target)
    result = edit(typed.text, again, mine, target)
    if not result.edits:
        return result
    after = typed.restored(typed.text.apply(list(result.edits)))
    return msgspec.structs.replace(result, edits=between(text, after))


def _tried(
    edit: Apply, singly: bool, text: SourceText, model: SourceModel, kernel: Kernel, target: Target
) -> RewriteResult:
    """The edit of a kernel as it stands, or in the first other form that it does not refuse."""
    try:
        return edit(text, model, kernel, target)
    except Refused as why:
        refused = RewriteResult(refused=str(why))
    except RecursionError:
        # thousands of brackets, as code that was generated has
        return RewriteResult(refused="the kernel nests deeper than it could be read")
    except InputError:
        refused = RewriteResult(refused="what would change stands within what else would")
    if target.lines:
        return refused
    for other in _other_forms(text, model, kernel, singly=singly):
        again = parse(other, model.path)
        mine = again.same(kernel, model)
        if mine is None or mine.broken:
            continue
        try:
            result = edit(other, again, mine, target)
        except (Refused, RecursionError, InputError):
            continue
        if result.edits:
            after = other.apply(list(result.edits))
            return msgspec.structs.replace(result, edits=between(text, after))
    return refused


def _other_forms(
    text: SourceText, model: SourceModel, kernel: Kernel, *, singly: bool
) -> Iterator[SourceText]:
    """The file with the kernel in its normal form, and with an output for each of its threads, where that differs; then
    the same with the members of its structures in variables.
    """
    plain = plainly(text, model.path, kernel)
    yield from _forms(text, plain, model, kernel, singly=singly)
    named = with_members_named(text, model.path, kernel)
    if named is not None:
        yield from _forms(text, named, model, kernel, singly=singly)


def _forms(
    text: SourceText, other: SourceText | None, model: SourceModel, kernel: Kernel, *, singly: bool
) -> Iterator[SourceText]:
    if other is not None:
        yield other
    if not singly:
        return
    now = other or text
    again = parse(now, model.path) if other is not None else model
    mine = again.same(kernel, model)
    single = an_output_each(now, again, mine) if mine is not None and not mine.broken else None
    if single is not None:
        yield single


def expanded_kernel(file: SourceTree, kernel: Kernel) -> KernelTree:
    """The kernel's own tree, with macros expanded.

    Raises:
        Refused: the kernel's text is not what is compiled.
    """
    expanded = kernel_tree(file, kernel)
    if expanded is None or kernel.macro or kernel.broken:
        raise Refused("the kernel is written by a macro, or has a syntax error")
    return expanded
