# SPDX-License-Identifier: Apache-2.0
"""What was compiled and disassembled before: a content-addressed cache shared by all processes of a user.

A compiled unit is found by its text, flags, architecture and compilers, and holds only while every file it
was built from has the same content (same size and time are taken as the same; else it is hashed). A header
that newly shadows another on the include path is not noticed. A kernel's SASS is found by its code. Files
appear by renaming, so readers need no lock; what is damaged or half gone counts as not there. The least
recently used go first when the cache outgrows its bound.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import platformdirs

from warplens_tools.decode import from_msgpack
from warplens_tools.errors import InputError
from warplens_tools.evidence import BinaryEvidence, Instruction
from warplens_tools.process.scratch import scratch_folder
from warplens_tools.toolchain.locate import COMPILER_VARIABLES, Toolchain, ToolName

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
#: Changes when an older cache's entries no longer mean the same.
_FORMAT = b"2"
_STORES_PER_SWEEP = 32
_COMPILERS: tuple[ToolName, ...] = ("nvcc", "ptxas", "cicc", "host_compiler")


class _Signature(msgspec.Struct, frozen=True, array_like=True):
    path: str
    mtime_ns: int
    size: int
    digest: str


class _Entry(msgspec.Struct, frozen=True):
    evidence: BinaryEvidence
    dependencies: tuple[_Signature, ...]


def cache_folder() -> Path:
    """`WARPLENS_CACHE`, else the user's cache folder."""
    return Path(os.environ.get("WARPLENS_CACHE") or platformdirs.user_cache_dir("warplens", appauthor=False))


@contextmanager
def work_folder() -> Iterator[Path]:
    """A fresh folder for what is built and run, removed at the end; after a kill, by the next call.

    Raises:
        InputError: the cache's folder cannot be written.
    """
    with _scratch(cache_folder() / "work") as folder:
        yield folder


@contextmanager
def _scratch(base: Path) -> Iterator[Path]:
    try:
        with scratch_folder(base) as folder:
            yield folder
    except OSError as error:
        raise InputError(
            f"the cache folder {base.parent} cannot be written: {error.strerror or error}",
            remedy="set WARPLENS_CACHE to a folder that can",
        ) from error


def unit_key(
    unit: Path, text: bytes, *, flags: Sequence[str], directory: str, arch: str, tools: Toolchain
) -> str:
    """The key of a unit with this text, built this way."""
    digest = hashlib.sha256(_FORMAT)
    for part in (str(unit), directory, arch, *flags, *_compilers(tools), *_variables()):
        digest.update(part.encode("utf-8", errors="surrogateescape") + b"\0")
    digest.update(text)
    return digest.hexdigest()


def _compilers(tools: Toolchain) -> Iterator[str]:
    for tool in map(tools.find, _COMPILERS):
        if tool is not None:
            stamp = Path(tool.path).stat()
            yield f"{tool.path} {stamp.st_mtime_ns} {stamp.st_size}"


def _variables() -> Iterator[str]:
    # PATH finds nothing but the compilers, which the key names by themselves.
    return (
        f"{name}={os.environ.get(name, '')}" for name in COMPILER_VARIABLES if name not in ("PATH", "HOME")
    )


class BinaryCache:
    """The cache in one folder; safe to use from several threads and processes."""

    def __init__(self, folder: Path | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = folder or cache_folder() / "binary"
        self.max_bytes = max_bytes
        self._stores = 0

    @contextmanager
    def workdir(self) -> Iterator[Path]:
        """A fresh folder on the cache's file system, removed at the end; after a kill, by the next call.

        Raises:
            InputError: the cache's folder cannot be written.
        """
        with _scratch(self.folder / "work") as folder:
            yield folder

    def load(self, key: str) -> BinaryEvidence | None:
        """The unit's evidence, without SASS, if it is here and nothing it was built from has changed."""
        path = self.folder / "units" / f"{key}.msgpack"
        try:
            entry = from_msgpack(path.read_bytes(), _Entry)
        except (OSError, msgspec.MsgspecError):
            return None
        artefacts = [p for p in (entry.evidence.cubin_path, entry.evidence.ptx_path) if p]
        if not all(map(_is_current, entry.dependencies)) or not all(Path(p).is_file() for p in artefacts):
            return None
        for used in (path, *map(Path, artefacts)):
            _touch(used)
        return entry.evidence

    def keep(self, evidence: BinaryEvidence) -> BinaryEvidence:
        """Move the cubin and the PTX into the cache; the evidence with their lasting paths."""
        return msgspec.structs.replace(
            evidence,
            cubin_path=self._keep(evidence.cubin_path, "cubin"),
            ptx_path=self._keep(evidence.ptx_path, "ptx"),
        )

    def store(self, key: str, evidence: BinaryEvidence, *, started_ns: int) -> None:
        """Let `load` find this evidence, whose artefacts were kept.

        Args:
            started_ns: `time.time_ns()` before the compiler started: a file changed since then may differ
                from what was compiled, and then the unit is not found again.
        """
        signatures = [_signature(path) for path in evidence.dependencies]
        known = tuple(s for s in signatures if s is not None and s.mtime_ns < started_ns)
        if len(known) == len(signatures):
            self._write(
                self.folder / "units" / f"{key}.msgpack", msgspec.msgpack.encode(_Entry(evidence, known))
            )
        self._sweep_sometimes()

    def load_sass(self, digest: str) -> tuple[Instruction, ...] | None:
        """The instructions, without lines, of the code with this digest."""
        path = self._sass_path(digest)
        try:
            instructions = from_msgpack(path.read_bytes(), tuple[Instruction, ...])
        except (OSError, msgspec.MsgspecError):
            return None
        _touch(path)
        return instructions

    def store_sass(self, digest: str, instructions: Sequence[Instruction]) -> None:
        """Keep the instructions of the code with this digest."""
        self._write(self._sass_path(digest), msgspec.msgpack.encode(list(instructions)))

    def _sass_path(self, digest: str) -> Path:
        return self.folder / "sass" / f"{digest}-{_FORMAT.decode()}.msgpack"

    def _keep(self, path: str, kind: str) -> str:
        """Move an artefact to a name made of its content."""
        if not path:
            return ""
        data = Path(path).read_bytes()
        kept = self.folder / "files" / f"{hashlib.sha256(data).hexdigest()}.{kind}"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            Path(path).replace(kept)
        return str(kept)

    def _write(self, path: Path, data: bytes) -> None:
        """Make the file appear whole, or not at all: a full disk costs only the next look-up."""
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
                file.write(data)
            Path(file.name).replace(path)

    def _sweep_sometimes(self) -> None:
        if self._stores % _STORES_PER_SWEEP == 0:
            self.sweep()
        self._stores += 1

    def sweep(self) -> None:
        """Remove the least recently used files until the cache is within nine tenths of its bound."""
        files = sorted(self._files(), key=lambda file: file[0])
        total = sum(size for _, size, _ in files)
        if total <= self.max_bytes:
            return
        for _, size, path in files:
            if total <= self.max_bytes * 0.9:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        for kind in ("units", "files", "sass"):
            for path in (self.folder / kind).glob("*"):
                with contextlib.suppress(OSError):
                    stat = path.stat()
                    yield stat.st_mtime, stat.st_size, path


def _signature(path: str) -> _Signature | None:
    try:
        stat = os.stat(path)  # noqa: PTH116
        return _Signature(path, stat.st_mtime_ns, stat.st_size, _digest(path))
    except OSError:
        return None


def _is_current(signature: _Signature) -> bool:
    try:
        # os.stat on a string: a CUTLASS unit has some 800 of these.
        stat = os.stat(signature.path)  # noqa: PTH116
        if (stat.st_mtime_ns, stat.st_size) == (signature.mtime_ns, signature.size):
            return True
        return stat.st_size == signature.size and _digest(signature.path) == signature.digest
    except OSError:
        return False


def _digest(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)
