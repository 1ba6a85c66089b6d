# SPDX-License-Identifier: Apache-2.0
"""`warplens setup cutlass`: brings the CUTLASS sources of the `nvidia-cutlass` wheel into the managed folder."""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from warplens_cutlass.corpus import Corpus, home, register
from warplens_cutlass.index_settings import IndexSettings
from warplens_tools.errors import TimeLimitError, ToolFailedError
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task

if TYPE_CHECKING:
    from warplens_cutlass.store.build import BuildReport

WHEEL = "nvidia-cutlass"
VERSION = "4.2.0.0"
_SOURCE = "cutlass_library/source/"
_KEPT = ("include", "examples", "tools")
_DOWNLOAD_LIMIT = 600.0


def setup_cutlass(
    *,
    version: str = VERSION,
    wheel: Path | None = None,
    settings: IndexSettings | None = None,
    task: Task = UNATTENDED,
) -> BuildReport:
    """Download (once), unpack and index the CUTLASS wheel; `wheel` takes a file instead of the registry.

    Only headers, examples, tools and the licence are kept, and none of the wheel's dependencies come along.

    Raises:
        ToolFailedError: pip could not download it.
        TimeLimitError: the download took more than ten minutes, or another process is at it for as long.
        CancelledError: `task` was stopped; what was there stays.
    """
    from warplens_cutlass.store.build import (
        build,
    )  # brings the parsers: who only names this module waits for none

    corpus = fetch_cutlass(version=version, wheel=wheel, task=task)
    return build(corpus.root_path, name=corpus.name, settings=settings, task=task)


def fetch_cutlass(*, version: str = VERSION, wheel: Path | None = None, task: Task = UNATTENDED) -> Corpus:
    """Bring the sources into the managed folder and register them; see `setup_cutlass`."""
    import filelock  # as the parsers

    target = home() / "cutlass" / version
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(target.with_name(f"{version}.lock"), timeout=_DOWNLOAD_LIMIT)
    try:
        with lock:
            if not (target / "include" / "cutlass" / "version.h").is_file():
                _bring(target, version, wheel, task)
    except filelock.Timeout as error:
        raise TimeLimitError("another process has been fetching CUTLASS for ten minutes") from error
    return register(target)


def _bring(target: Path, version: str, wheel: Path | None, task: Task) -> None:
    """Unpack beside the target, then rename: a half-unpacked tree is never seen."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        archive = wheel or _download(Path(folder), version, task)
        task.say("unpacking CUTLASS", None)
        fresh = Path(folder) / "source"
        _unpack(archive, fresh)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)


def _download(folder: Path, version: str, task: Task) -> Path:
    task.say(f"downloading {WHEEL} {version} (6 MB)", None)
    arguments = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    done = run(
        [*arguments, "--disable-pip-version-check", "--dest", str(folder), f"{WHEEL}=={version}"],
        timeout=_DOWNLOAD_LIMIT,
        task=task,
    )
    found = next(folder.glob("*.whl"), None)
    if done.status != 0 or found is None:
        raise ToolFailedError(
            f"pip could not download {WHEEL} {version}",
            remedy="check the network, or clone CUTLASS and run `warplens index build PATH`",
            status=done.status,
            output=done.stderr,
        )
    return found


def _unpack(archive: Path, fresh: Path) -> None:
    """Only the parts that are read; names in the archive are not trusted to stay inside."""
    try:
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                relative = _kept(info.filename)
                if relative is None or info.is_dir():
                    continue
                path = fresh.joinpath(*relative.parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                with wheel.open(info) as source, path.open("wb") as out:
                    shutil.copyfileobj(source, out)
    except (OSError, zipfile.BadZipFile) as error:
        raise ToolFailedError(f"{archive.name} could not be unpacked: {error}") from error


def _kept(name: str) -> PurePosixPath | None:
    path = PurePosixPath(name)
    if ".." in path.parts or path.is_absolute():
        return None
    if name.startswith(_SOURCE):
        inner = path.relative_to(_SOURCE.rstrip("/"))
        return inner if inner.parts[0] in _KEPT or inner.name.upper().startswith("LICENSE") else None
    return (
        PurePosixPath(path.name) if path.name.upper().startswith("LICENSE") and "dist-info" in name else None
    )
