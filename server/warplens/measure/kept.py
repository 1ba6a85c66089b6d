# SPDX-License-Identifier: Apache-2.0
"""What one run has learned of a program, kept for the next: the built program, the unit's cubin, its launches.

An entry is found by the unit's text, flags, architecture and compilers, the card and its driver, the probe, how the
program is started, and the content of the files that its command line names; it holds only while every file the unit
was built from, and what was kept itself, has the same content. It lies in the user's cache folder, which nobody else
may write: what is kept is run.

A header that newly shadows another, and files that the program opens by names of its own, are not noticed here: the
launches of a program that then runs otherwise are not found in a visit, and the entry is forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.measure.program.whole import ProgramRun
from warplens_tools.collect.cache import cache_folder, unit_key
from warplens_tools.collect.profile_cache import content_key, named_files
from warplens_tools.decode import from_msgpack
from warplens_tools.errors import InputError
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.run.build import flags_of
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import DEVICE_TEXT
from warplens_tools.toolchain.locate import Toolchain

#: Changes when older entries no longer mean the same.
_FORMAT = "2"
#: Entries kept; the least recently used go first.
KEPT = 16
#: A program larger than this is built again.
_MOST_BYTES = 256 * 1024 * 1024
_PROGRAM, _CUBIN, _PTX, _TEXT, _RECORD = "program", "unit.cubin", "unit.ptx", "unit.cpp1.ii", "record.msgpack"
_FILES = (_PROGRAM, _CUBIN, _PTX, _TEXT)
#: Variables that choose among cards, or change how a program runs on one.
_RUNNING = ("CUDA_", "NVIDIA_", "LD_", "OMP_", "WARPLENS_TEST")


class Known(msgspec.Struct, frozen=True):
    """What is known of a program before anything runs."""

    evidence: BinaryEvidence
    surveyed: tuple[SurveyedShape, ...]
    alone: ProgramRun
    #: Seconds its build took.
    build_seconds: float
    #: SHA-256 of the kept files by name, and of the files the unit was built from by path.
    files: dict[str, str]
    sources: dict[str, str]


class Kept:
    """The entry of one workload on one card; every method answers "no" rather than fail."""

    def __init__(self, key: str) -> None:
        self._home = cache_folder() / "baselines"
        self._entry = self._home / key if key else None

    def take(self, folder: Path) -> tuple[Known, Path, Path] | None:
        """What is known, with copies in `folder` of the program and what its unit was compiled to; None for nothing."""
        if self._entry is None or not _ours(self._home) or not _ours(self._entry):
            return None
        try:
            known = from_msgpack((self._entry / _RECORD).read_bytes(), Known)
            if any(_digest(Path(path)) != digest for path, digest in known.sources.items()):
                return None
            program, cubin, ptx, text = (folder / name for name in _FILES)
            folder.mkdir(parents=True, exist_ok=True)
            for path in (program, cubin, ptx, text):
                shutil.copyfile(self._entry / path.name, path)
                # the copy is hashed, so that nothing can change between the look and the use
                if _digest(path) != known.files[path.name]:
                    return None
            program.chmod(0o700)
            os.utime(self._entry / _RECORD)
        except (OSError, KeyError, msgspec.MsgspecError):
            return None
        evidence = msgspec.structs.replace(known.evidence, cubin_path=str(cubin), ptx_path=str(ptx))
        return msgspec.structs.replace(known, evidence=evidence), program, cubin

    def put(
        self,
        evidence: BinaryEvidence,
        program: Path,
        surveyed: Sequence[SurveyedShape],
        alone: ProgramRun,
        build_seconds: float,
    ) -> None:
        """Keep it; an entry appears whole or not at all."""
        if self._entry is None or program.stat().st_size > _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._home.chmod(0o700)
            # made for its owner alone
            new = Path(tempfile.mkdtemp(dir=self._home, prefix="."))
            shutil.copyfile(program, new / _PROGRAM)
            shutil.copyfile(evidence.cubin_path, new / _CUBIN)
            shutil.copyfile(evidence.ptx_path, new / _PTX)
            texts = sorted(Path(evidence.ptx_path).parent.glob(DEVICE_TEXT))
            (new / _TEXT).write_bytes(b"".join(text.read_bytes() for text in texts))
            known = Known(
                evidence=evidence,
                surveyed=tuple(surveyed),
                alone=alone,
                build_seconds=build_seconds,
                files={name: _digest(new / name) for name in _FILES},
                sources={path: _digest(Path(path)) for path in evidence.dependencies},
            )
            (new / _RECORD).write_bytes(msgspec.msgpack.encode(known))
            for file in new.iterdir():
                file.chmod(0o600)
            self.forget()
            new.replace(self._entry)
            self._sweep()

    def forget(self) -> None:
        """Take it away."""
        if self._entry is not None:
            shutil.rmtree(self._entry, ignore_errors=True)

    def _sweep(self) -> None:
        def used(entry: Path) -> float:
            record = entry / _RECORD
            return record.stat().st_mtime if record.exists() else 0.0

        for old in sorted(self._home.iterdir(), key=used, reverse=True)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


def kept_of(
    workload: Workload, *, text: str, toolchain: Toolchain, arch: str, card: str, probe: Path
) -> Kept:
    """The entry of a workload. `card` names the GPU and its driver, `text` is that of the edited file.

    A build command of the user's own may read and leave anything: its program is built each time.
    """
    if workload.build:
        return Kept("")
    unit = Path(workload.unit)
    try:
        flags = flags_of(workload)
        own = unit_key(
            unit,
            unit.read_bytes(),
            flags=flags.arguments,
            directory=flags.directory,
            arch=arch,
            tools=toolchain,
        )
    except (OSError, InputError):
        return Kept("")
    directory = Path(workload.directory or Path(workload.source).parent)
    words = (*workload.wrapper, *workload.command, *workload.arguments)
    running = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_RUNNING))
    workload_text = msgspec.json.encode(workload).decode()
    parts = [_FORMAT, own, text, workload_text, card, str(probe), *running]
    return Kept(content_key(parts, named_files(words, directory)))


def _ours(path: Path) -> bool:
    """Whether a folder is this user's, and nobody else can write in it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not shared


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
