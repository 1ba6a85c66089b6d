# SPDX-License-Identifier: Apache-2.0
"""Small programs of a folder that tests check one by one, disassembled by one call for a dozen of them: nvdisasm takes
a third of a second to start, whatever it is asked, and next to nothing for a small kernel after that."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import filelock
import msgspec
from tests.kept import digest_of
from tests.merged_cubin import merged, own_name
from tests.services import service_for

from warplens.service.check import BinaryTier
from warplens_tools.arch.load import load_gpu
from warplens_tools.collect import binary
from warplens_tools.collect.cache import cache_folder
from warplens_tools.errors import WarplensError
from warplens_tools.evidence import Instruction
from warplens_tools.text import SourceText
from warplens_tools.toolchain.cubin import Cubin, read_cubin
from warplens_tools.toolchain.disassemble import disassemble

#: Files of a folder whose kernels are disassembled by one call: as many as whoever asks for one may wait for.
TOGETHER = 12

Code = Mapping[str, tuple[Instruction, ...]]


class Wanted(msgspec.Struct, frozen=True):
    """Functions of one cubin, by mangled name."""

    path: Path
    cubin: Cubin
    names: tuple[str, ...]


def checked_soon(folder: Path, *paths: Path, arch: str, quick: frozenset[Path] = frozenset()) -> None:
    """Has `service_for(folder, ...)` find what nvcc and nvdisasm say of these files and of some beside them, whose turn
    comes as well; one process does that, others wait for it. Where the tools are missing, or reject a file, nothing is
    found, and whoever checks it is told why.

    What `make test` asks for, `quick`, is done apart from what it leaves.
    """
    for files in dict.fromkeys(_block(path, quick) for path in paths):
        lock = cache_folder() / "tests" / f"{digest_of(*map(str, files), arch)}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock):
            _collect([_tier(folder, file, arch) for file in files])


@functools.cache
def _block(path: Path, quick: frozenset[Path]) -> tuple[Path, ...]:
    """The file and those of its folder that are disassembled with it."""
    beside = sorted(file for file in path.parent.glob("*.cu") if (file in quick) == (path in quick))
    start = beside.index(path) // TOGETHER * TOGETHER
    return tuple(beside[start : start + TOGETHER])


def _tier(folder: Path, path: Path, arch: str) -> BinaryTier:
    service = service_for(folder, path)
    loaded = service.settings_for(path)
    file = service.opened(path, SourceText.read(path), path, loaded, load_gpu(arch))
    return service.binary_tier(file, path, loaded, arch)


def _collect(tiers: Sequence[BinaryTier]) -> None:
    """As checks would: each compiled by itself, and what none disassembled before together."""
    asked: list[Wanted] = []
    found: dict[Path, Code] = {}

    def noted(_: str, path: Path, cubin: Cubin, names: Sequence[str], **__: Any) -> Code:
        plain = [name for name in names if name in cubin.functions() and not cubin.annotated(name)]
        asked.append(Wanted(path, cubin, tuple(plain)))
        return {}

    def told(nvdisasm: str, path: Path, cubin: Cubin, names: Sequence[str], **given: Any) -> Code:
        known = found.get(path, {})
        rest = [name for name in names if name not in known]
        return {**known, **disassemble(nvdisasm, path, cubin, rest, **given)}

    _each(tiers, noted)
    asked = [wanted for wanted in asked if wanted.names]
    # a unit may ask for an architecture of its own kind, as sm_90a
    for flags in {wanted.cubin.flags for wanted in asked}:
        alike = [wanted for wanted in asked if wanted.cubin.flags == flags]
        code = together(tiers[0].toolchain.require("nvdisasm").path, alike)
        found.update(zip((wanted.path for wanted in alike), code, strict=True))
    if found:
        _each(tiers, told)


def _each(tiers: Sequence[BinaryTier], stands_in: Callable[..., Code]) -> None:
    with mock.patch.object(binary, "disassemble", stands_in):
        for tier in tiers:
            try:
                binary.collect_binary(
                    tier.unit, toolchain=tier.toolchain, flags=tier.flags, arch=tier.arch, cache=tier.cache
                )
            except WarplensError:
                continue


def together(nvdisasm: str, wanted: Sequence[Wanted]) -> list[Code]:
    """What `disassemble` says of each cubin's functions.

    Raises:
        as `disassemble` and `merged`.
    """
    functions = [(one.cubin, name) for one in wanted for name in one.names]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "merged.cubin"
        path.write_bytes(merged(functions))
        code = disassemble(nvdisasm, path, read_cubin(path), [own_name(n) for n in range(len(functions))])
    numbers = iter(range(len(functions)))
    return [{name: _under(name, code, next(numbers)) for name in one.names} for one in wanted]


def _under(name: str, code: Code, number: int) -> tuple[Instruction, ...]:
    """The function of this number, by its name."""
    own = own_name(number)
    return tuple(
        msgspec.structs.replace(i, operands=tuple(o.replace(own, name) for o in i.operands))
        for i in code[own]
    )
