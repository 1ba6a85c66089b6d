# SPDX-License-Identifier: Apache-2.0
"""A CUDA toolkit whose programs run on the host: a folder of links to the real one, with our ptxas, runtime, CUPTI and
driver in their places.

    python -m tests.host_card.toolkit [FOLDER]

builds it (some ten seconds, once for a state of the sources), and prints the environment that uses it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import filelock
from tests.host_card import generate
from tests.kept import digest_of

from warplens_tools.collect.cache import cache_folder
from warplens_tools.errors import MissingToolError, ToolFailedError
from warplens_tools.toolchain.locate import resolve_toolchain

HERE = Path(__file__).parent
#: -O1, as nothing that takes time is done here: kernels are compiled for themselves (`attach.py`).
_FLAGS = (
    "-std=c++17",
    "-O1",
    "-march=native",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-pthread",
)
#: Ours, whatever the real toolkit has under these names.
_OURS = ("libcudart", "libcupti", "libcuda.", "stubs")


def real_toolkit() -> Path:
    """The folder of the toolkit that is installed.

    Raises:
        MissingToolError: there is none, or it is no folder of `bin`, `lib` and `include`.
    """
    nvcc = resolve_toolchain().require("nvcc")
    root = Path(nvcc.root or Path(nvcc.path).resolve().parents[1]).resolve()
    if (root / "host_card").is_dir():
        root = Path((root / "host_card" / "real").read_text().strip())
    if not (root / "bin" / "ptxas").is_file():
        raise MissingToolError(f"{root} is no CUDA toolkit with bin/ptxas", remedy="set CUDA_HOME")
    return root


def toolkit() -> Path:
    """The folder, built if it is not there yet for this state of the sources.

    Raises:
        MissingToolError: no real toolkit.
        ToolFailedError: the compiler rejected a part.
    """
    real = real_toolkit()
    own = [HERE / f"{name}.py" for name in ("toolkit", "generate", "attach")]
    sources = [*own, *sorted((HERE / "ptx").glob("*.py")), *sorted((HERE / "cpp").rglob("*.*"))]
    folder = cache_folder() / "host_card" / digest_of(str(real), *sources)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_suffix(".lock")):
        if not (folder / "host_card" / "real").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            _link(real, folder)
            _compile(real, folder)
            _wrap(real, folder)
            (folder / "host_card" / "real").write_text(f"{real}\n")
    return folder


def environment(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables with which builds and programs use the host card."""
    folder = toolkit()
    libraries = [str(folder / "lib"), *base.get("LD_LIBRARY_PATH", "").split(":")]
    return {
        **base,
        "CUDA_HOME": str(folder),
        "PATH": f"{folder / 'bin'}:{base.get('PATH', '')}",
        "WARPLENS_DRIVER": str(folder / "lib" / "libcuda.so.1"),
        "LD_LIBRARY_PATH": ":".join(dict.fromkeys(part for part in libraries if part)),
    }


def _link(real: Path, folder: Path) -> None:
    for name in ("bin", "lib", "host_card"):
        (folder / name).mkdir(parents=True)
    for path in (real / "bin").iterdir():
        (folder / "bin" / path.name).symlink_to(path)
    # nvcc looks for everything else beside itself
    for name in ("nvcc", "nvcc.profile"):
        (folder / "bin" / name).unlink()
        shutil.copy2(real / "bin" / name, folder / "bin" / name)
    libraries = real / "lib64" if (real / "lib64").is_dir() else real / "lib"
    for path in libraries.iterdir():
        if not path.name.startswith(_OURS):
            (folder / "lib" / path.name).symlink_to(path)
    (folder / "lib64").symlink_to("lib")
    for name in ("include", "nvvm"):
        (folder / name).symlink_to(real / name)
    target = folder / "targets" / f"{os.uname().machine}-linux"
    target.mkdir(parents=True)
    for name in ("include", "lib"):
        (target / name).symlink_to(folder / name)


def _compile(real: Path, folder: Path) -> None:
    work, lib, cpp = folder / "host_card", folder / "lib", HERE / "cpp"
    include = real / "include"
    (work / "calls_generated.inc").write_text(generate.wrappers(include))
    (work / "refusals_generated.cpp").write_text(generate.refusals(include))
    given = [*_FLAGS, "-w", f"-I{include}", f"-I{work}", f"-I{cpp / 'driver'}", f"-I{cpp}"]
    hidden = [*given, "-fvisibility=hidden"]
    # most of a part would be the headers: they are compiled once, under the name that `-include` looks for
    card = work / "card.h"
    _run("g++", *hidden, "-x", "c++-header", cpp / "driver" / "card.h", "-o", card.with_suffix(".h.gch"))
    # but for the calls that are refused, which are declared as what they are not
    refusals = work / "refusals.o"
    _run("g++", *hidden, "-c", work / "refusals_generated.cpp", "-o", refusals)
    driver = sorted((cpp / "driver").glob("*.cpp"))
    _library(lib / "libcuda.so.1", *hidden, "-include", card, *driver, refusals, "-ldl")
    (lib / "stubs").mkdir()
    for name in ("libcuda.so", "stubs/libcuda.so"):
        (lib / name).symlink_to(lib / "libcuda.so.1")
    cupti = lib / "libcupti.so.13"
    _library(cupti, *hidden, "-include", card, cpp / "cupti.cpp", lib / "libcuda.so.1")
    (lib / "libcupti.so").symlink_to(cupti)
    objects = []
    for source in sorted((cpp / "runtime").glob("*.cpp")):
        objects.append(work / f"{source.stem}.o")
        _run("g++", *given, "-c", source, "-o", objects[-1])
    _run("ar", "rcs", lib / "libcudart_static.a", *objects)
    _library(lib / "libcudart.so.13", *objects, "-ldl")
    (lib / "libcudart.so").symlink_to(lib / "libcudart.so.13")


def _library(out: Path, *given: str | Path) -> None:
    _run("g++", *given, "-shared", f"-Wl,-soname,{out.name}", "-o", out)


def _wrap(real: Path, folder: Path) -> None:
    """ptxas and fatbinary, with what the former needs beside it."""
    own = folder / "host_card"
    copied = own / "tests" / "host_card"
    shutil.copytree(HERE / "ptx", copied / "ptx", ignore=shutil.ignore_patterns("__pycache__"))
    (own / "tests" / "__init__.py").write_text("")
    (copied / "__init__.py").write_text("")
    (copied / "cpp").mkdir()
    for path in (HERE / "cpp").glob("device*.h"):
        shutil.copy2(path, copied / "cpp")
    shutil.copy2(HERE / "attach.py", own)
    # one that a fenced-in build may read
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    _script(
        folder / "bin" / "ptxas",
        f'exec "{python}" -I -S "{own / "attach.py"}" "{real / "bin" / "ptxas"}" "$@"',
    )
    _script(folder / "bin" / "fatbinary", f'exec "{real / "bin" / "fatbinary"}" --compress=false "$@"')


def _script(path: Path, line: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolFailedError(
            f"the host card cannot be built: {done.stderr[:1500]}", status=done.returncode, output=done.stderr
        )


def main() -> int:
    """Build it and say how it is used."""
    found = environment()
    for name in ("CUDA_HOME", "PATH", "WARPLENS_DRIVER", "LD_LIBRARY_PATH"):
        sys.stdout.write(f'export {name}="{found[name]}"\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
