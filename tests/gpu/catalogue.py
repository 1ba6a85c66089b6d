# SPDX-License-Identifier: Apache-2.0
"""The programs that the judge is tried on, and what it shall say of each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from warplens.read_settings import load
from warplens.service.workloads import workload_of
from warplens_tools.run.workload import Workload

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
#: Started with another program's cubin, by tests of their own.
BESIDE = {"driver_api"}


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program of `programs.toml`: `programs/NAME.cu`, or a folder with a `warplens.toml` of its own."""

    name: str
    field: str
    #: Verdicts on the program against itself that are right.
    states: tuple[str, ...]
    #: "" for the hottest.
    kernel: str = ""
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    #: In the program's folder: the unit that is compiled, and the file that is edited where it is another.
    unit: str = ""
    source: str = ""
    #: A Python module that its build needs.
    needs: str = ""
    #: Part of the reason for a refusal.
    said: str = ""
    #: What makes it hard to measure in place; "" for an ordinary one.
    hostile: str = ""

    @property
    def title(self) -> str:
        """Its command line, as it were."""
        return " ".join([self.name, *self.arguments, *([f"--kernel {self.kernel}"] if self.kernel else [])])

    def workload(self) -> Workload:
        """How it is built and run."""
        if not self.unit:
            path = str(PROGRAMS / f"{self.name}.cu")
            return Workload(path, path, flags=self.flags, arguments=self.arguments)
        folder = PROGRAMS / self.name
        found = workload_of(
            folder / (self.source or self.unit), folder / self.unit, load(folder, root=folder)
        )
        return msgspec.structs.replace(found, arguments=self.arguments)


class _Catalogue(msgspec.Struct, frozen=True):
    program: tuple[Program, ...]


def catalogue() -> tuple[Program, ...]:
    """Every program with every way it is started."""
    return msgspec.toml.decode((HERE / "programs.toml").read_bytes(), type=_Catalogue).program
