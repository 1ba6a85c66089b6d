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
from typing import NamedTuple

import filelock
import platformdirs

from warplens_tools.errors import ToolFailedError
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.compile import WITHOUT_SPECIAL_FUNCTIONS
from warplens_tools.toolchain.locate import Toolchain, tool_environment, tool_version

SOURCES = Path(__file__).parent
#: What products are added to is not left to the compiler: the judge's arithmetic is the same on every machine.
_FLAGS = (
    *WITHOUT_SPECIAL_FUNCTIONS,
    "-std=c++17",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
)
#: What looks at every byte of the results; all else mostly waits for the card, and a first run for the compiler.
_HOT = frozenset({"compare", "rounding"})
#: What is compiled as one text: most of the compiler's time goes into the headers that these share.
_TOGETHER = (
    ("oracle", "written", "learn", "moves", "reference", "isolation", "grids", "verify", "again", "poison"),
    ("inputs", "values", "passed", "rooms"),
    ("executables", "graph", "replay"),
    ("memory", "launch", "driver"),
)
#: What most of them include, compiled once for all that are compiled alike; any other compiler reads its text.
_SHARED = (
    *("algorithm", "cmath", "cstdint", "cstring", "functional", "map", "memory", "random", "stdexcept"),
    *("string", "vector", "cuda.h"),
)
#: The C++ library inside is the probe's own and stays its own: in a program without one, as Python's, the symbols
#: it exported would be mixed with those that the driver and CUPTI bring along.
_EXPORTS = "{ global: InitializeInjection; local: *; };\n"
_LINK = ("-shared", "-pthread", "-static-libstdc++", "-static-libgcc", "-Wl,--version-script=exports")
#: What the probe's own kernels include.
_INCLUDED = ("results.cuh", "bounds.h")
#: Seconds one compiler call may take.
_TIME_LIMIT = 300.0


class Unit(NamedTuple):
    """Some of the library's sources as one text."""

    name: str
    text: str

    @property
    def flags(self) -> tuple[str, ...]:
        """How it is compiled."""
        return (*_FLAGS, "-O2") if self.name in _HOT else SHARING


#: How is compiled what shares the headers of `share_headers`.
SHARING = (*_FLAGS, "-O1")


def share_headers(
    command: Sequence[str], header: Path, compile_it: Callable[[Sequence[str]], object]
) -> tuple[str, ...]:
    """Precompile what most sources include, into `header` and a file beside it; the options that use it.

    Args:
        command: a compiler with `SHARING` and the folders of includes.
        compile_it: runs a command.
    """
    lines = (f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in _SHARED)
    header.write_text("".join(lines))
    compile_it([*command, "-x", "c++-header", str(header), "-o", f"{header}.gch"])
    return ("-include", str(header))


def units(sources: Sequence[Path]) -> list[Unit]:
    """What is compiled for these of the library's sources."""
    groups: dict[str, list[Path]] = {}
    for source in sources:
        name = next((group[0] for group in _TOGETHER if source.stem in group), source.stem)
        groups.setdefault(name, []).append(source)
    return [
        Unit(name, "".join(f'#line 1 "{source.name}"\n{source.read_text()}' for source in sorted(group)))
        for name, group in groups.items()
    ]


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
    parts = units(sorted(SOURCES.glob("*.cpp")))
    key = _key(
        [*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")],
        compiler,
        str(cupti),
        *includes,
        *(word for unit in parts for word in (unit.name, *unit.flags)),
        *_LINK,
        *_SHARED,
        _EXPORTS,
        tool_version(toolchain.require("cupti_headers")),
    )

    def build(folder: Path) -> None:
        objects = _compile_all(compiler, [f"-I{path}" for path in (SOURCES, *includes)], parts, folder, task)
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

    sources = [source, *(SOURCES / name for name in _INCLUDED)]
    return _cached(_key(sources, nvcc.path, tool_version(nvcc), arch), "kernels.cubin", build)


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
    compiler: str, includes: Sequence[str], parts: Sequence[Unit], folder: Path, task: Task
) -> list[str]:
    sharing = [compiler, *SHARING, *includes]
    shared = share_headers(sharing, folder / "shared.h", lambda command: _compile(command, folder, task))

    def one(unit: Unit) -> str:
        source, name = folder / f"{unit.name}.cpp", f"{unit.name}.o"
        source.write_text(unit.text)
        with_headers = shared if unit.flags == SHARING else ()
        _compile(
            [compiler, *unit.flags, *includes, *with_headers, "-c", str(source), "-o", name], folder, task
        )
        return name

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, parts))


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
