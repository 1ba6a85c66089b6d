# SPDX-License-Identifier: Apache-2.0
"""Grids as launches spell them, where their extents are known only to the run."""

from __future__ import annotations

import re

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.kernel import KernelView

#: A grid that is a count of things, or a product of two, and no quotient: `b`, `batch * heads`, `dim3(b, h)`; names of
#: blocks and grids tell nothing.
_NAME = r"(?!\w*(?:grid|block|Grid|Block|GRID|BLOCK|dim|Dim|sm|SM))[A-Za-z_][\w.]*(?:->\w+)?"
PER_ITEM = re.compile(rf"(?:dim3\s*\(\s*)?{_NAME}(?:\s*[*,]\s*{_NAME})?\s*\)?")
#: A grid of threads for a count of things: `(n + 255) / 256`, `(b * m - 1) / kThreads + 1`, `ceil_div(n, 256)`.
_COUNT = r"([A-Za-z_][\w.]*(?:\s*\*\s*[A-Za-z_][\w.]*)?)"
PER_THREAD = re.compile(
    rf"(?:dim3\s*\(\s*)?(?:(?:1\s*\+\s*)?\(\s*{_COUNT}\s*[-+][\s\w+-]*\)\s*/\s*\w+(?:\s*\+\s*1)?"
    rf"|\w*(?:div|Div|DIV|ceil|CEIL|BLOCKS|blocks)\w*\s*\(\s*{_COUNT}\s*,\s*\w+\s*\))\s*\)?"
)


#: A grid of blocks for each SM: the card's number of them, times a number.
_SMS = (
    r"(?:[\w.]+(?:\.|->))?(?:multiProcessorCount|\w*(?i:multi_?processors?|sm_?count|num_?sms?)\w*|n_?sms?)"
)
PER_SM = re.compile(rf"(?:dim3\s*\(\s*)?(?:(\d+)\s*\*\s*)?{_SMS}(?:\s*\*\s*(\d+))?\s*\)?")


def blocks_per_sm(view: KernelView, site: LaunchSite) -> int | None:
    """How many blocks a launch has for each SM, where its grid is that many times the card's number of them."""
    for text in (site.grid.strip(), first_extent(view, site)):
        found = PER_SM.fullmatch(text)
        if found is not None:
            return int(found[1] or 1) * int(found[2] or 1)
    return None


def is_quotient(view: KernelView, site: LaunchSite) -> bool:
    """Whether a grid's name was set to a count of blocks: `gr = (n + 255) / 256`, `dim3 g(ceil(n / 16.0), h)`."""
    if site.path:
        return False
    return any(
        re.search(r"/|div|ceil", _set_to(view, site, name), re.IGNORECASE)
        for name in re.findall(r"[A-Za-z_]\w*", site.grid)
    )


def _set_to(view: KernelView, site: LaunchSite, name: str) -> str:
    """What a name was last set to before a launch of the file, up to the semicolon; "" where nothing is seen."""
    code = view.tree.masked.source[: view.text.offset(site.span.line, site.span.column)]
    said = re.findall(rf"\b{name}(?:\.[xyz])?\s*(?:=(?!=)|\(|\{{)([^;]*)", code)
    return said[-1] if said else ""


def first_extent(view: KernelView, site: LaunchSite) -> str:
    """The grid's first extent as it was worked out: `(n + 255) / 256` of `dim3 grid(blocks, 16)` and `blocks`."""
    text = site.grid.strip()
    for _ in range(2):
        if site.path or not re.fullmatch(r"[A-Za-z_]\w*", text):
            break
        text = _set_to(view, site, text).strip()
        if text.count(")") > text.count("("):  # dim3 grid(blocks, 16);
            text, *others = map(str.strip, split_arguments(text.removesuffix(")")))
            if not all(re.fullmatch(r"[\dA-Z_]+", other) for other in others):
                return ""  # a grid of two axes
    return text
