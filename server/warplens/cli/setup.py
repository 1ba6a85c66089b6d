# SPDX-License-Identifier: Apache-2.0
"""`warplens setup`: brings what the machine lacks into Warplens' own folder, with consent."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from warplens.cli.main import EXIT_CLEAN
from warplens_tools.collect.doctor import repair_bundle
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task
from warplens_tools.toolchain.locate import forget_toolchain, resolve_toolchain
from warplens_tools.toolchain.managed import install_bundle

app = App(
    name="setup", help="Bring what this machine lacks into Warplens' own folder.", help_format="markdown"
)

app.command(
    "warplens.cli.index:cutlass",
    name="cutlass",
    help="Download the CUTLASS headers and examples, and index them.",
)


def consented(question: str, yes: bool) -> bool:
    """Whether the user agrees, by `--yes` or at the terminal.

    Raises:
        InputError: nobody is there to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError(
            f"{question} stdin is not a terminal, so nobody can be asked.", remedy="add --yes to agree"
        )
    Console(stderr=True).print(f"{question} [y/N] ", end="", markup=False)
    return input().strip().lower() in ("y", "yes")


@app.command
def toolchain(*, yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False) -> int:
    """Install the compiler and disassembler this machine lacks, from NVIDIA's wheels on PyPI.

    Parameters
    ----------
    yes
        Agree to the download without being asked.
    """
    console = Console(stderr=True, highlight=False)
    bundle = repair_bundle(resolve_toolchain())
    if bundle is None:
        console.print("everything is here already; `warplens doctor` shows where", markup=False)
        return EXIT_CLEAN
    question = (
        f"Warplens will download about {bundle.megabytes:.0f} MB from PyPI (NVIDIA's licence): "
        f"{', '.join(bundle.requirements)}."
    )
    if not consented(question + " Go on?", yes):
        console.print("nothing was installed", markup=False)
        return EXIT_CLEAN
    with console.status("installing") as status:
        task = Task(lambda message, _share: status.update(message))
        folder = install_bundle(bundle, consent=True, task=task)
    forget_toolchain()
    console.print(f"installed in {folder}", markup=False)
    return EXIT_CLEAN
