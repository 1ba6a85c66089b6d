# SPDX-License-Identifier: Apache-2.0
"""How far a build of a candidate, or its program, may reach, and what this kernel can hold it to."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import WarplensError
from warplens_tools.evidence import Unknown
from warplens_tools.process.run import run
from warplens_tools.run import sandbox

#: Where every system keeps programs, libraries and their settings; of /etc only what names libraries and tools.
_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store")
_SYSTEM = (
    *_FOLDERS,
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu", "/etc/localtime"),
)
#: What a CUDA program reads besides, none of it the user's own; no other process's folder in /proc.
_RUNNING = (
    *("/proc/self", "/proc/driver", "/proc/devices", "/proc/modules", "/proc/version", "/proc/filesystems"),
    *("/proc/sys", "/proc/loadavg", "/proc/uptime", "/proc/vmstat", "/sys", "/etc/passwd", "/etc/group"),
    *("/etc/nsswitch.conf", "/etc/hostname", "/etc/nvidia", "/etc/OpenCL"),
)
_GIB = 1 << 30


class Limits(msgspec.Struct, frozen=True):
    """What one process of a build, or of a program, may use."""

    #: A compiler that takes longer than a time limit on the clock is stopped by that; this is for what evades it.
    cpu_seconds: int = 600
    #: Address space: the largest CUTLASS units take cicc some 8 GiB. None for what runs CUDA, which reserves
    #: more than there is.
    memory_bytes: int | None = 32 * _GIB
    #: One file: device code with line tables stays below a tenth of it.
    file_bytes: int = 2 * _GIB
    #: Processes and threads of this user, where the system counts them (for root it does not).
    processes: int = 16384


class Confinement(msgspec.Struct, frozen=True):
    """Where a build may write and what it may read, files or whole folders; `read` None means everything.

    A `program` may use GPUs, and leaves nothing to its next run but files. What it prints goes to new files
    `stdout` and `stderr` in the first folder of `write`; the errors of the command are one line, the time on the
    monotonic clock (ns) at which the program itself began.
    """

    write: tuple[str, ...]
    read: tuple[str, ...] | None = None
    limits: Limits = Limits()
    program: bool = False


class Abilities(msgspec.Struct, frozen=True):
    """What this kernel can close to a process."""

    files: bool
    network: bool
    signals: bool = False

    def unknown_of_programs(self) -> tuple[Unknown, ...]:
        """What candidates' programs are not held to here, by name."""
        found = []
        if not self.network:
            found.append(
                Unknown("a program without network", "this system lets no process give up its sockets")
            )
        if not self.files:
            why = "this kernel has no Landlock: it could read and change the user's files"
            found.append(Unknown("a program that stays in its folder", why, "Linux 5.13 or later"))
        elif not self.signals:
            why = "this kernel's Landlock is older than version 6: it could signal the user's processes"
            found.append(Unknown("a program that disturbs no other", why, "Linux 6.12 or later"))
        return tuple(found)

    def unknown(self) -> tuple[Unknown, ...]:
        """What candidates' builds are not held to here, by name."""
        found = []
        if not self.network:
            found.append(
                Unknown("builds without network", "this system lets no process give up its sockets (seccomp)")
            )
        if not self.files:
            found.append(
                Unknown("builds in their own folder", "this kernel has no Landlock", "Linux 5.13 or later")
            )
        return tuple(found)


def confined(command: Sequence[str | Path], confinement: Confinement) -> tuple[str, ...]:
    """The command with the sandbox in front."""
    limits, program = confinement.limits, confinement.program
    own = _RUNNING if program else (sys.prefix,)
    bounds = {
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_AS": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NPROC": limits.processes,
        "RLIMIT_CORE": 0,
    }
    read = () if confinement.read is None else (*_SYSTEM, *own, *confinement.read)
    options = [
        *(("write", path) for path in (*confinement.write, *(_devices() if program else ()))),
        *(("limit", f"{name}={most}") for name, most in bounds.items() if most is not None),
        *([("program", "")] if program else []),
        *(("read", path) for path in read),
    ]
    script = str(Path(sandbox.__file__).absolute())
    words = (word for option in options for word in option)
    return (sys.executable, "-I", "-S", script, *words, "--", *map(str, command))


def _devices() -> list[str]:
    """The device files of GPUs, and where libcuda names its threads; it gives up where it may not.

    Processes that a program starts have folders of their own in /proc. Root, to whom the system's settings
    there belong, gets that of the program alone.
    """
    found = [str(path) for name in ("nvidia*", "dxg", "nvhost*", "nvmap") for path in Path("/dev").glob(name)]
    return [*found, "/proc" if os.getuid() else "/proc/self"]


def readable(tools: Iterable[str | Path], files: Iterable[str | Path]) -> tuple[str, ...]:
    """What a compilation reads beside the system: its tools' installations and the files its baseline was built from.

    Hundreds are headers of the system, each of which would cost every build that is held to them a call.
    """
    found: dict[str, None] = {}
    for tool in tools:
        # `bin/nvcc` belongs to the folder above `bin`, as do its headers and the compilers it calls
        for path in (Path(tool).absolute(), Path(tool).resolve()):
            found[str(path.parents[1] if path.is_file() and len(path.parents) > 2 else path)] = None
    for file in files:
        found |= {str(Path(file).absolute()): None, str(Path(file).resolve()): None}
    found.pop("/", None)
    system = tuple(f"{folder}/" for folder in _FOLDERS)
    return tuple(path for path in found if not path.startswith(system))


@functools.cache
def abilities() -> Abilities:
    """What the kernel here can close, tried once in a process of its own."""
    try:
        done = run(
            [sys.executable, "-I", "-S", str(Path(sandbox.__file__).absolute()), "--abilities"], timeout=60
        )
        return from_json(done.stdout, Abilities)
    except (WarplensError, msgspec.MsgspecError):
        return Abilities(files=False, network=False)
