# SPDX-License-Identifier: Apache-2.0
"""`warplens explain`: the page of one check, or the list of all."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from warplens.cli.main import EXIT_CLEAN
from warplens.cli.streams import console, write_json
from warplens.service.pages import Page, find_page, pages
from warplens.service.report import page_url


def explain(
    *names: str, format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text"
) -> int:
    """Show what a check sees, on which evidence, and what to do about it; all checks without a name.

    Parameters
    ----------
    names
        Codes or names, such as WL108 or register-spills.
    format
        Text for people, or one JSON array.
    """
    found = tuple(find_page(name) for name in names)
    if format == "json":
        write_json(found or pages())
    elif not found:
        for page in pages():
            sys.stdout.write(f"{page.code}  {page.slug:<28}  {page.title}\n")
    for page in found if format == "text" else ():
        _show(page)
    return EXIT_CLEAN


def _show(page: Page) -> None:
    if not sys.stdout.isatty():
        sys.stdout.write(f"{page.text}\n{page_url(page.code, page.slug)}\n")
        return
    from rich.markdown import Markdown

    terminal = console()
    terminal.print(Markdown(page.text), soft_wrap=False)
    terminal.print(page_url(page.code, page.slug), style="dim", markup=False)
