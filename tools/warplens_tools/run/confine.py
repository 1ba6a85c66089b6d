"""How far a build of a candidate may reach, and what this kernel can hold it to."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import WarplensError
from warplens_tools.evidence import Unknown
from warplens_tools.run import sandbox
from warplens_tools.run.process import run

#: Where every system keeps programs, libraries and their settings; of /etc only what names libraries and tools.
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu", "/etc/localtime"),
)
_GIB = 1 << 30


class Limits(msgspec.Struct, frozen=True):
    """What one process of a build may use."""

    #: A compiler that takes longer than a time limit on the clock is stopped by that; this is for what evades it.
    cpu_seconds: int = 600
    #: Address space: the largest CUTLASS units take cicc some 8 GiB.
    memory_bytes: int = 32 * _GIB
    #: One file: device code with line tables stays below a tenth of it.
    file_bytes: int = 2 * _GIB
    #: Processes and threads of this user, where the system counts them (for root it does not).
    processes: int = 16384


class Confinement(msgspec.Struct, frozen=True):
    """Where a build may write and what it may read, files or whole folders; `read` None means everything."""

    write: tuple[str, ...]
    read: tuple[str, ...] | None = None
    limits: Limits = Limits()


class Abilities(msgspec.Struct, frozen=True):
    """What this kernel can close to a process."""

    files: bool
    network: bool

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
    limits = confinement.limits
    specification = {
        "read": None if confinement.read is None else [*_SYSTEM, sys.prefix, *confinement.read],
        "write": list(confinement.write),
        "limits": {
            "RLIMIT_CPU": limits.cpu_seconds,
            "RLIMIT_AS": limits.memory_bytes,
            "RLIMIT_FSIZE": limits.file_bytes,
            "RLIMIT_NPROC": limits.processes,
            "RLIMIT_CORE": 0,
        },
    }
    script = str(Path(sandbox.__file__).absolute())
    return (sys.executable, "-I", "-S", script, json.dumps(specification), *map(str, command))


def readable(tools: Iterable[str | Path], files: Iterable[str | Path]) -> tuple[str, ...]:
    """What a compilation reads: its tools' installations and the files its baseline was built from."""
    found: dict[str, None] = {}
    for tool in tools:
        # `bin/nvcc` belongs to the folder above `bin`, as do its headers and the compilers it calls
        for path in (Path(tool).absolute(), Path(tool).resolve()):
            found[str(path.parents[1] if path.is_file() and len(path.parents) > 2 else path)] = None
    for file in files:
        found |= {str(Path(file).absolute()): None, str(Path(file).resolve()): None}
    found.pop("/", None)
    return tuple(found)


@functools.cache
def abilities() -> Abilities:
    """What the kernel here can close, tried once in a process of its own."""
    try:
        done = run(
            [sys.executable, "-I", "-S", str(Path(sandbox.__file__).absolute()), "--abilities"], timeout=60
        )
        return msgspec.json.decode(done.stdout, type=Abilities)
    except (WarplensError, msgspec.MsgspecError):
        return Abilities(files=False, network=False)
