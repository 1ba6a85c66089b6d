# SPDX-License-Identifier: Apache-2.0
"""The launch geometry that an edited text's rule gives, where no program need be rebuilt and run to know it.

A launch of `(n + block - 1) / block` blocks of a kernel that is given `n` follows from what the program passes: the
probe has that number, and the text has the rule. Asking the rebuilt program takes another compilation and a run on the
card, more than all else that is done for most candidates of a search. A winner's program is asked when it is confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens.measure.build.candidates import Builder
from warplens.measure.verdict import Candidate
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.run.probe.job import Extent
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.text import SourceText
from warplens_tools.tunable.grid_rule import extent_of, grid_rule
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.source import File, Site

#: A number of the run's own that is read from one of its arguments, as the text has it.
_ARGUMENT = re.compile(r"argv\[(\d+)\]")


def by_its_rule(
    candidate: Candidate, builder: Builder, kernel: str, launched: Sequence[SurveyedShape]
) -> Candidate:
    """As `by_rule`, of a builder's text. A generated program launches the kernel whatever the text says."""
    if not candidate.asks_program or builder.workload.generated:
        return candidate
    try:
        after = builder.edited(candidate)
    except InputError:
        return candidate
    return by_rule(candidate, builder.text, after, kernel, launched, builder.workload.arguments)


def by_rule(
    candidate: Candidate,
    before: SourceText,
    after: SourceText,
    kernel: str,
    launched: Sequence[SurveyedShape],
    arguments: Sequence[str],
) -> Candidate:
    """The candidate with a grid by its own rule, where its program would be asked and both texts tell all of it; else
    the candidate.

    Args:
        launched: the kernel's shapes in the program as it is. All have the block that its text tells.
        arguments: the program's: a number that its text has for a run without one of these is not taken for this run's.
    """
    if not candidate.asks_program or not launched:
        return candidate
    old, new = (File(text, parse(text, candidate.path)) for text in (before, after))
    was, now = _told(old, kernel, arguments), _told(new, kernel, arguments)
    if was is None or now is None or {was.block} != {shape.block for shape in launched}:
        return candidate
    if was.shared != now.shared:
        return candidate
    return msgspec.structs.replace(
        candidate,
        grid=None,
        block=now.block,
        dynamic_shared_bytes=None,
        asks_program=False,
        grid_by_rule=True,
    )


class _Told(msgspec.Struct, frozen=True):
    """What a text says of a kernel's launches. The shared size as it is written, with all that it rests on."""

    block: Extent
    shared: tuple[object, ...]


def _told(file: File, name: str, arguments: Sequence[str]) -> _Told | None:
    kernel, rule = file.model.kernel(name), grid_rule(file, name)
    # what the text leaves open of a rule is told from what is launched, which the edit changes
    if kernel is None or rule is None or any("?" in words.split() for words in rule):
        return None
    sites = file.launches_of(kernel)
    if arguments and any(_given(file, site, len(arguments)) for site in sites):
        return None
    blocks = {_block(file, site) for site in sites}
    shared = {_written(file, site) for site in sites}
    block = blocks.pop() if len(blocks) == 1 else None
    return _Told(block, shared.pop()) if block is not None and len(shared) == 1 else None


def _given(file: File, site: Site, arguments: int) -> bool:
    """Whether so many arguments of the program may say how long a block is. A number that is read from an argument
    beyond them is what the text has for a run without: 256 of `argc > 3 ? atoi(argv[3]) : 256`."""
    read = [_ARGUMENT.fullmatch(length) for length in lengths_of(file, site.written[1])]
    return any(one is None or int(one[1]) <= arguments for one in read)


def _block(file: File, site: Site) -> Extent | None:
    extents = [extent_of(file, value) for value in site.block or ()]
    if not 1 <= len(extents) <= 3 or None in extents:
        return None
    x, y, z = (*(extent or 1 for extent in extents), 1, 1)[:3]
    return x, y, z


def _written(file: File, site: Site) -> tuple[object, ...]:
    node = site.written[2]
    return () if node is None else (file.tree.code_of(node), *sorted(file.definitions(node).items()))
