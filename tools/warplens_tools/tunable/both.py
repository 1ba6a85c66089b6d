# SPDX-License-Identifier: Apache-2.0
"""The same launches in two versions of a file."""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.model import Kernel
from warplens_tools.tunable.source import File, Site


def twin_of(kernel: Kernel, before: File, after: File) -> Kernel | None:
    """What a kernel of one version is in another: by its place among those of its name, or, where an edit adds or takes
    one of them, the first of that name."""
    return after.model.same(kernel, before.model) or after.model.kernel(kernel.qualified_name)


def launches_of_both(before: File, after: File) -> Iterator[tuple[Kernel, Kernel, Site, Site]]:
    """Each kernel in two versions of a file with its launches in both, where there are as many."""
    for kernel in before.model.kernels:
        twin = twin_of(kernel, before, after)
        if twin is None:
            continue
        old, new = before.launches_of(kernel), after.launches_of(twin)
        if len(old) == len(new):
            yield from ((kernel, twin, one, other) for one, other in zip(old, new, strict=True))
