# SPDX-License-Identifier: Apache-2.0
"""The page of each check: what it sees, on which evidence, and what to do about it. Written in its docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence

import msgspec

from warplens.service import build_messages
from warplens.service.suppression import require_known
from warplens_tools.micro.registry import all_tools


class Page(msgspec.Struct, frozen=True):
    """One check's page, as Markdown."""

    code: str
    slug: str
    title: str
    tiers: tuple[str, ...]
    text: str


@functools.cache
def pages() -> tuple[Page, ...]:
    """Every check's page, in order of the codes."""
    made = [
        Page(t.code, t.slug, t.title, tuple(t.tiers), markdown(f"{t.code}: {t.slug}", t.title, t))
        for t in all_tools()
    ]
    made += [_of_build(name, title, text) for name, title, text in build_messages.PAGES]
    return tuple(sorted(made, key=lambda page: page.code))


def page_title(slug: str) -> str:
    """A check's title; "" where there is no such check."""
    return next((page.title for page in pages() if page.slug == slug), "")


def find_page(name: str) -> Page:
    """The page of a code or slug.

    Raises:
        InputError: there is no such check.
    """
    require_known([name], "explain")
    return next(page for page in pages() if name.lower() in (page.code.lower(), page.slug))


def markdown(heading: str, title: str, thing: object) -> str:
    """A page from the docstring of the module that defines `thing`."""
    module = inspect.getmodule(thing)
    text = inspect.cleandoc((module and module.__doc__) or "")
    _, _, body = text.partition("\n")
    return f"# {heading}\n\n{title}.\n\n{body.strip()}\n"


def _of_build(name: tuple[str, str], title: str, text: Sequence[str]) -> Page:
    body = "\n\n".join(text)
    return Page(*name, title, ("binary",), f"# {name[0]}: {name[1]}\n\n{title}.\n\n{body}\n")
