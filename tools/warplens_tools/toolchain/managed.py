# SPDX-License-Identifier: Apache-2.0
"""What Warplens installs for itself, with consent: NVIDIA's compiler wheels, in a folder of their own.

The wheels cannot share an environment with torch (its own nvvm and runtime wheels have other versions, and
nvcc breaks on the mix), so they are unpacked with `pip install --target` into `WARPLENS_HOME`, all of one
pinned version. pip's own configuration (index, proxy, certificates) is respected. A bundle is unpacked
beside the old one, tried, and then put in place by replacing one symbolic link; a file lock keeps two
processes from doing it twice.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import msgspec

from warplens_tools.errors import InputError, MissingToolError, ToolFailedError
from warplens_tools.home import warplens_home
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task

#: NVIDIA's metapackage that pins every compiler wheel to one release.
CUDA_VERSION = "13.4.3"
#: Tools, as `warplens_tools.toolchain.locate` names them, that wheels carry.
WHEEL_TOOLS = (
    *("nvcc", "ptxas", "cicc", "cuda_headers"),
    *("nvdisasm", "cuobjdump", "cupti_headers", "cupti_library"),
)
_COMPILER_PARTS = ("nvcc", "nvvm", "crt", "cudart", "cccl")
#: Download in megabytes by part of the metapackage (sizes of the Linux x86-64 wheels of 13.4.92).
_PART_MEGABYTES = {
    "nvcc": 47.7,
    "nvvm": 72.6,
    "crt": 0.2,
    "cudart": 2.5,
    "cccl": 3.9,
    "cuobjdump": 0.4,
    "nvdisasm": 5.2,
    "cupti": 13.1,
}
_PROBES = {
    "nvcc": "bin/nvcc",
    "nvvm": "nvvm/bin/cicc",
    "nvdisasm": "bin/nvdisasm",
    "cuobjdump": "bin/cuobjdump",
}
_INSTALL_SECONDS = 1800.0


class Bundle(msgspec.Struct, frozen=True):
    """Packages that are installed together into one folder under `warplens_home()`."""

    #: Folder name, e.g. "toolchain".
    name: str
    #: pip requirements, every one pinned.
    requirements: tuple[str, ...]
    #: What has to be downloaded, for the question of consent.
    megabytes: float
    #: Files, relative to the folder, that must be there afterwards.
    expected: tuple[str, ...]
    dependencies: bool = True


def bundle_folder(name: str) -> Path | None:
    """The installed bundle's folder, or None where it was not installed."""
    folder = warplens_home() / name / "current"
    return folder.resolve() if folder.is_dir() else None


def managed_toolkit() -> Path | None:
    """The toolkit folder of the managed environment, or None where it was not made."""
    folder = bundle_folder("toolchain")
    found = sorted(folder.glob("nvidia/cu*")) if folder else []
    return found[-1] if found else None


def toolchain_bundle(missing: Iterable[str] | None = None) -> Bundle:
    """What to install so that the tools named in `missing` are there; None means all of them.

    Where nvcc is missing its whole family comes, of one version. Where only disassemblers or CUPTI are,
    only they come (19 MB instead of 145): they read what an older compiler wrote. What is already installed
    stays part of the bundle.
    """
    wanted = _parts(missing)
    toolkit = managed_toolkit()
    if toolkit is not None:
        wanted |= {part for part, probe in _PROBES.items() if (toolkit / probe).exists()}
        wanted |= {"cupti"} if (toolkit / "include/cupti.h").exists() else set()
    if wanted & set(_COMPILER_PARTS):
        wanted |= set(_COMPILER_PARTS)
    parts = tuple(part for part in _PART_MEGABYTES if part in wanted)
    major = CUDA_VERSION.split(".", 1)[0]
    return Bundle(
        name="toolchain",
        requirements=(f"cuda-toolkit[{','.join(parts)}]=={CUDA_VERSION}",),
        megabytes=round(sum(_PART_MEGABYTES[part] for part in parts), 1),
        expected=tuple(f"nvidia/cu{major}/{probe}" for part, probe in _PROBES.items() if part in parts),
    )


def _parts(missing: Iterable[str] | None) -> set[str]:
    if missing is None:
        return set(_PART_MEGABYTES)
    names = set(missing)
    parts = {"nvdisasm", "cuobjdump"} & names
    parts |= {"cupti"} if names & {"cupti_headers", "cupti_library"} else set()
    parts |= set(_COMPILER_PARTS) if names & {"nvcc", "ptxas", "cicc", "cuda_headers"} else set()
    return parts


def install_bundle(bundle: Bundle, *, consent: bool, task: Task = UNATTENDED) -> Path:
    """Install `bundle` unless exactly it is installed already; returns its folder.

    Raises:
        InputError: `consent` is false; the message says what would be downloaded, and how much.
        MissingToolError: there is neither pip nor a way to get it.
        ToolFailedError: pip failed, or an expected file is not there afterwards; nothing was changed.
        CancelledError: cancelled; nothing was changed.
    """
    base = warplens_home() / bundle.name
    stamp = "\n".join(bundle.requirements) + "\n"
    if _installed(base, stamp):
        return (base / "current").resolve()
    what = f"{bundle.name}: {', '.join(bundle.requirements)}, about {bundle.megabytes:g} MB to download"
    if not consent:
        raise InputError(
            f"not installed without consent ({what})", remedy=f"run `warplens setup {bundle.name}`"
        )
    base.mkdir(parents=True, exist_ok=True)
    task.say(f"waiting for another installation of {bundle.name}", None)
    with filelock.FileLock(base / ".lock"):
        if _installed(base, stamp):
            return (base / "current").resolve()
        return _install(bundle, base, stamp, task)


def _installed(base: Path, stamp: str) -> bool:
    marker = base / "current" / "requirements.txt"
    return marker.is_file() and marker.read_text() == stamp


def _install(bundle: Bundle, base: Path, stamp: str, task: Task) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="v-", dir=base))
    try:
        with _pip(folder, task) as pip:
            _run_pip(pip, bundle, folder, task)
        gone = [name for name in bundle.expected if not (folder / name).exists()]
        if gone:
            raise ToolFailedError(f"pip installed {bundle.name} but {gone[0]} is not there")
        (folder / "requirements.txt").write_text(stamp)
        folder.chmod(0o755)
        _put_in_place(base, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    task.say(f"{bundle.name} is installed", 1.0)
    return folder


@contextmanager
def _pip(folder: Path, task: Task) -> Iterator[list[str]]:
    """A command that runs pip: this Python's, else uv's, else one in a throw-away virtual environment."""
    uv = shutil.which("uv")
    if importlib.util.find_spec("pip") is not None:
        yield [sys.executable, "-m", "pip"]
    elif uv:
        yield [uv, "pip"]
    else:
        venv = folder / ".pip"
        made = run([sys.executable, "-m", "venv", venv], task=task)
        if made.status != 0:
            raise MissingToolError(
                "neither pip, uv nor ensurepip is available to install packages with",
                remedy="install pip, e.g. `apt install python3-pip` or `python3-venv`",
            )
        try:
            yield [str(venv / "bin/python"), "-m", "pip"]
        finally:
            shutil.rmtree(venv, ignore_errors=True)


def _run_pip(pip: list[str], bundle: Bundle, folder: Path, task: Task) -> None:
    said = f"installing {bundle.name} ({bundle.megabytes:g} MB to download)"
    task.say(said, 0.0)
    loaded = 0.0

    def on_line(line: str) -> None:
        nonlocal loaded
        match = re.search(r"^\s*(?:Downloading|Using cached|Processing) .*?(?:\(([\d.]+) (k|M)B\))?$", line)
        if match:
            loaded += float(match[1] or 0) / (1000 if match[2] == "k" else 1)
            task.say(said, min(loaded / bundle.megabytes, 0.95))

    extra = [] if bundle.dependencies else ["--no-deps"]
    # --target may not meet a user's `user = true`, and is no environment that could be required.
    env = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    done = run(
        [*pip, "install", *extra, "--target", folder, *bundle.requirements],
        env=env,
        task=task,
        timeout=_INSTALL_SECONDS,
        on_line=on_line,
    )
    if done.status != 0:
        reason = next((x for x in reversed(done.stderr.splitlines()) if "error" in x.lower()), "")
        raise ToolFailedError(
            f"pip could not install {bundle.name}: {reason.removeprefix('ERROR: ') or f'status {done.status}'}",
            remedy="check pip's network and index settings (`pip config list`)",
            status=done.status,
            output=done.stdout + done.stderr,
        )


def _put_in_place(base: Path, folder: Path) -> None:
    link = base / "current"
    fresh = base / f".link-{folder.name}"
    fresh.symlink_to(folder.name)
    fresh.replace(link)
    for old in base.glob("v-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
