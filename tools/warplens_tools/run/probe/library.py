# SPDX-License-Identifier: Apache-2.0
"""Builds the probe's library and its own kernels, once per source text, compiler and CUPTI."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import platformdirs

from warplens_tools.errors import ToolFailedError
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Toolchain, tool_environment, tool_version

SOURCES = Path(__file__).parent
#: What products are added to is not left to the compiler: the judge's arithmetic is the same on every machine.
FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-pthread")
#: The C++ library inside is the probe's own and stays its own: in a program without one, as Python's, the symbols
#: it exported would be mixed with those that the driver and CUPTI bring along.
_EXPORTS = "{ global: InitializeInjection; local: *; };\n"
_LINK = ("-shared", "-pthread", "-static-libstdc++", "-static-libgcc", "-Wl,--version-script=exports")
#: Seconds one compiler call may take.
_TIME_LIMIT = 300.0


def cache_folder() -> Path:
    """Where built probes are kept: `WARPLENS_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("WARPLENS_CACHE")
    return Path(chosen or platformdirs.user_cache_dir("warplens", appauthor=False)) / "probe"


def probe_library(toolchain: Toolchain, *, task: Task = UNATTENDED) -> Path:
    """The injection library, built if it is not there yet (some seconds).

    Raises:
        MissingToolError: no C++ compiler, CUDA headers or CUPTI.
        ToolFailedError: the compiler rejected it; `output` says why.
        CancelledError: as named.
    """
    compiler = toolchain.require("host_compiler").path
    cupti = Path(toolchain.require("cupti_library").path).resolve()
    includes = [toolchain.require(name).path for name in ("cuda_headers", "cupti_headers")]
    sources = sorted(SOURCES.glob("*.cpp"))
    key = _key(
        [*sources, *SOURCES.glob("*.h")],
        compiler,
        str(cupti),
        *includes,
        *FLAGS,
        *_LINK,
        _EXPORTS,
        tool_version(toolchain.require("cupti_headers")),
    )

    def build(folder: Path) -> None:
        options = [*FLAGS, *(f"-I{path}" for path in includes)]
        objects = _compile_all(compiler, options, sources, folder, task)
        # libcuda comes with the driver and need not be here; an empty one of its name records the need
        _compile(
            [compiler, "-shared", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so", "-x", "c++", os.devnull],
            folder,
            task,
        )
        (folder / "exports").write_text(_EXPORTS)
        link = [*_LINK, *objects, str(cupti)]
        needs = [f"-Wl,-rpath,{cupti.parent}", "-L.", "-Wl,--no-as-needed", "-lcuda"]
        _compile([compiler, *link, *needs, "-o", "probe.so"], folder, task)

    return _cached(key, "probe.so", build)


def helper_kernels(toolchain: Toolchain, arch: str, *, task: Task = UNATTENDED) -> Path:
    """The probe's own kernels as a cubin for `arch`, e.g. "sm_90".

    Raises:
        as `probe_library`, with nvcc.
    """
    nvcc = toolchain.require("nvcc")
    source = SOURCES / "kernels.cu"

    def build(folder: Path) -> None:
        _compile([nvcc.path, "-cubin", f"-arch={arch}", "-o", "kernels.cubin", str(source)], folder, task)

    return _cached(_key([source], nvcc.path, tool_version(nvcc), arch), "kernels.cubin", build)


def _key(files: Sequence[Path], *words: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for word in words:
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:24]


def _cached(key: str, name: str, build: Callable[[Path], None]) -> Path:
    kept = cache_folder() / key / name
    if kept.is_file():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    # many judges that begin at once would all build the same, each more slowly than one alone
    building = filelock.FileLock(kept.with_name(f"{name}.lock"))
    with building, tempfile.TemporaryDirectory(prefix="warplens-build-") as folder:
        if kept.is_file():
            return kept
        build(Path(folder))
        arriving = kept.with_name(f"{name}.{os.getpid()}")
        shutil.copyfile(Path(folder) / name, arriving)
        arriving.replace(kept)
    return kept


def _compile_all(
    compiler: str, options: Sequence[str], sources: Sequence[Path], folder: Path, task: Task
) -> list[str]:
    def one(source: Path) -> str:
        name = f"{source.stem}.o"
        _compile([compiler, *options, "-c", str(source), "-o", name], folder, task)
        return name

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, sources))


def _compile(command: Sequence[str], folder: Path, task: Task) -> None:
    done = run(command, cwd=folder, env=tool_environment(folder), timeout=_TIME_LIMIT, task=task)
    if done.status != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise ToolFailedError(
            f"the probe cannot be built: {first.strip()}",
            remedy="install a C++17 compiler and matching CUDA and CUPTI headers (`warplens doctor` names them)",
            status=done.status,
            output=done.stderr,
        )
