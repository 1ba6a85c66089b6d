# SPDX-License-Identifier: Apache-2.0
"""How to make a kernel run: the user's own program, built and started as the user does it."""

from __future__ import annotations

import msgspec


class Workload(msgspec.Struct, frozen=True):
    """A program with `main` that launches the kernel. Paths are absolute.

    The build never writes inside the user's tree: commands run with the build folder as working directory, and in
    them `{source}` is the unit (or its edited twin), `{output}` where the program shall lie, `{arch}` e.g. sm_90,
    `{root}` a copy of the project with the edited file in place, `{folder}` the build folder.
    """

    #: The file that holds the kernel (the unit that is compiled for it may differ, for headers).
    source: str
    #: The translation unit that is compiled.
    unit: str
    #: Shell-split build command; empty means nvcc with `flags`.
    build: tuple[str, ...] = ()
    #: Compile flags of the unit, without -o, -c and the source itself.
    flags: tuple[str, ...] = ()
    #: Start command, which may be another program that loads what was built; empty means the built program itself.
    #: See `build.start_command` for what it may name.
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    #: Put before every run, e.g. ("srun", "-n1").
    wrapper: tuple[str, ...] = ()
    #: Working directory of a run; empty means the source's folder.
    directory: str = ""
    environment: dict[str, str] = {}
    #: Which launch of the kernel's heaviest shape is measured, from 1; 0 leaves the choice to the judge.
    launch: int = 0
    #: Whether candidates are measured at every distinct launch shape, and may be slower at none.
    every_shape: bool = False
    #: Seconds one run may take.
    time_limit: float = 60.0
    #: The project that `{root}` in the build command is a copy of.
    root: str = ""
    #: The compilation database that counts; "" where it is searched for from the unit upward.
    compile_commands: str = ""
    #: The unit is a program that was generated to launch the source's kernels: the launches that the source itself
    #: writes are not the program's.
    generated: bool = False
