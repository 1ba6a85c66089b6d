# SPDX-License-Identifier: Apache-2.0
"""Finds the programs and libraries of the CUDA toolkit, each by itself, and says why it chose them.

A toolkit may have nvcc and no nvdisasm; then nvcc comes from the toolkit and nvdisasm from the managed
environment. The order for every tool: an explicit setting, `CUDA_HOME` and `CUDA_PATH`, `PATH`,
`/usr/local/cuda*` (newest first), a conda environment, the managed environment
(`warplens_tools.toolchain.managed`). ptxas, cicc and the CUDA headers belong to the nvcc that calls them.
Linux only.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import MissingToolError
from warplens_tools.toolchain.managed import managed_toolkit
from warplens_tools.toolchain.versions import path_version

ToolName = Literal[
    "nvcc",
    "ptxas",
    "cicc",
    "cuda_headers",
    "host_compiler",
    "nvdisasm",
    "cuobjdump",
    "cupti_headers",
    "cupti_library",
    "ncu",
    "nsys",
    "compute-sanitizer",
]
TOOLS: tuple[ToolName, ...] = get_args(ToolName)

#: Where NVIDIA's installers put toolkits, and the Nsight products.
LOCAL = Path("/usr/local")
NSIGHT = Path("/opt/nvidia")
SETUP_REMEDY = "run `warplens setup toolchain`, or install the CUDA toolkit and set CUDA_HOME"
_REMEDIES: dict[ToolName, str] = {
    "host_compiler": "install a C++ compiler, e.g. `apt install g++`",
    "ncu": "install Nsight Compute (part of the CUDA toolkit); no Python package carries it",
    "nsys": "install Nsight Systems (part of the CUDA toolkit); no Python package carries it",
    "compute-sanitizer": "install the CUDA toolkit's compute-sanitizer; no Python package carries it",
}
#: Where each tool lies under a toolkit's folder: the toolkit's own layout, the wheels', Debian's.
_PLACES: dict[ToolName, tuple[str, ...]] = {
    "nvcc": ("bin/nvcc",),
    "ptxas": ("bin/ptxas",),
    "cicc": ("nvvm/bin/cicc", "bin/cicc"),
    "cuda_headers": (
        "include/cuda_runtime_api.h",
        "targets/x86_64-linux/include/cuda_runtime_api.h",
        "targets/sbsa-linux/include/cuda_runtime_api.h",
    ),
    "nvdisasm": ("bin/nvdisasm",),
    "cuobjdump": ("bin/cuobjdump",),
    "cupti_headers": (
        "extras/CUPTI/include/cupti.h",
        "include/cupti.h",
        "targets/x86_64-linux/include/cupti.h",
        "targets/sbsa-linux/include/cupti.h",
    ),
    "cupti_library": tuple(
        f"{folder}/libcupti.so{suffix}"
        for suffix in ("", ".13", ".12")
        for folder in ("extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib")
    ),
    "ncu": ("bin/ncu",),
    "nsys": ("bin/nsys",),
    "compute-sanitizer": ("bin/compute-sanitizer", "compute-sanitizer/compute-sanitizer"),
}
_ENVIRONMENT = ("CUDA_HOME", "CUDA_PATH", "PATH", "CONDA_PREFIX", "NVCC_CCBIN", "WARPLENS_HOME", "HOME")


class Tool(msgspec.Struct, frozen=True):
    """One tool that was found. For headers `path` is the include folder, for a library the file."""

    name: ToolName
    path: str
    #: Why this one, e.g. "CUDA_HOME", "PATH", "/usr/local/cuda-13.0", "managed environment".
    origin: str
    #: The toolkit folder it belongs to; "" where it belongs to none.
    root: str = ""


class Missing(msgspec.Struct, frozen=True):
    """One tool that was not found: what was looked at, and how to get it."""

    name: ToolName
    why: str
    remedy: str


class ToolchainSettings(msgspec.Struct, frozen=True):
    """Explicit choices; a path that does not exist is reported, never silently replaced."""

    #: Toolkit folder to prefer over everything found.
    cuda_home: str = ""
    #: Path by tool name, e.g. {"nvdisasm": "/opt/cuda/bin/nvdisasm"}.
    tools: dict[ToolName, str] = {}


class Toolchain(msgspec.Struct, frozen=True):
    """Every tool, found or missing."""

    tools: dict[ToolName, Tool]
    missing: dict[ToolName, Missing]

    def find(self, name: ToolName) -> Tool | None:
        """The tool, or None where it is missing."""
        return self.tools.get(name)

    def require(self, name: ToolName) -> Tool:
        """The tool.

        Raises:
            MissingToolError: it was not found; says what was looked at and how to get it.
        """
        tool = self.tools.get(name)
        if tool is None:
            gone = self.missing[name]
            raise MissingToolError(gone.why, remedy=gone.remedy)
        return tool


class _Root(msgspec.Struct, frozen=True):
    folder: Path
    origin: str
    #: Folder of nvcc, where it is not `folder`/bin.
    nvcc: Path | None = None
    cicc: Path | None = None


def resolve_toolchain(settings: ToolchainSettings | None = None) -> Toolchain:
    """Find every tool. Cached per process while settings, environment and managed environment stay."""
    managed = managed_toolkit()
    key = tuple(os.environ.get(name, "") for name in _ENVIRONMENT)
    return _resolve(msgspec.json.encode(settings or ToolchainSettings()), key, managed)


@functools.lru_cache(maxsize=16)
def _resolve(settings_json: bytes, _key: tuple[str, ...], managed: Path | None) -> Toolchain:
    settings = from_json(settings_json, ToolchainSettings)
    roots = _without_mixed(list(_roots(settings, os.environ, managed)))
    tools: dict[ToolName, Tool] = {}
    missing: dict[ToolName, Missing] = {}
    for name in TOOLS:
        found = _locate(name, settings, roots, tools)
        if isinstance(found, Tool):
            tools[name] = found
        else:
            missing[name] = found
    return Toolchain(tools=tools, missing=missing)


def forget_toolchain() -> None:
    """Look again at the next `resolve_toolchain`, as after an installation."""
    _resolve.cache_clear()


def _roots(settings: ToolchainSettings, env: Mapping[str, str], managed: Path | None) -> Iterator[_Root]:
    """Toolkit folders in order of preference, each once."""
    seen: set[Path] = set()
    for root in _all_roots(settings, env, managed):
        real = root.folder.resolve()
        if root.folder.is_dir() and real not in seen:
            seen.add(real)
            yield root


def _all_roots(settings: ToolchainSettings, env: Mapping[str, str], managed: Path | None) -> Iterator[_Root]:
    if settings.cuda_home:
        yield _Root(Path(settings.cuda_home), "setting cuda_home")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if env.get(name):
            yield _Root(Path(env[name]), name)
    on_path = shutil.which("nvcc")
    if on_path:
        root = _root_of_nvcc(Path(on_path), "PATH")
        if root is not None:
            yield root
    local = LOCAL
    yield _Root(local / "cuda", str(local / "cuda"))
    for folder in sorted(local.glob("cuda-*"), key=_version_key, reverse=True):
        yield _Root(folder, str(folder))
    if env.get("CONDA_PREFIX"):
        yield _Root(Path(env["CONDA_PREFIX"]), "conda environment")
    if managed is not None:
        yield _Root(managed, "managed environment")


def _version_key(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", folder.name))


def _root_of_nvcc(path: Path, origin: str) -> _Root | None:
    """The toolkit behind an `nvcc`, which may be a wrapper script: asked from nvcc itself."""
    real = path.resolve()
    if _is_elf(real) and (real.parent.parent / "nvvm/bin/cicc").exists():
        return _Root(real.parent.parent, origin)
    try:
        # --dryrun prints nvcc's own idea of its folders and starts nothing.
        asked = subprocess.run(
            [path, "--dryrun", "-cubin", "x.cu"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(re.findall(r"^#\$ (\w+)=(.*)$", asked.stderr, re.MULTILINE))
    if "_HERE_" not in said:
        return None
    here = Path(said["_HERE_"])
    cicc = Path(said["CICC_PATH"]) / "cicc" if said.get("CICC_PATH") else None
    top = Path(said.get("TOP") or here.parent).resolve()
    return _Root(top, f"{origin} ({path})", nvcc=here / "nvcc", cicc=cicc)


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _locate(
    name: ToolName, settings: ToolchainSettings, roots: list[_Root], found: Mapping[ToolName, Tool]
) -> Tool | Missing:
    if name in settings.tools:
        path = Path(settings.tools[name]).expanduser()
        if path.exists():
            return Tool(name, str(path), f"setting {name}")
        return Missing(name, f"{path}, set for {name}, does not exist", "correct the setting")
    if name == "host_compiler":
        return _host_compiler()
    if name in ("ptxas", "cicc", "cuda_headers") and "nvcc" in found:
        # nvcc starts its own ptxas and cicc and reads its own headers, whatever else is installed.
        roots = _of_root(found["nvcc"], roots) or roots
    if name == "cupti_library" and "cupti_headers" in found:
        roots = [*_of_root(found["cupti_headers"], roots), *roots]
    for root in roots:
        path_in = _in_root(name, root)
        if path_in is not None:
            return Tool(name, str(path_in), root.origin, str(root.folder))
    return _elsewhere(name) or _missing(name, roots)


def _of_root(tool: Tool, roots: list[_Root]) -> list[_Root]:
    return [root for root in roots if str(root.folder) == tool.root]


def _without_mixed(roots: list[_Root]) -> list[_Root]:
    """The roots without toolkits whose parts are of different releases, where a whole one comes later.

    So the remedy for a mixed installation, `warplens setup toolchain`, takes effect. What a setting or a
    variable names is kept.
    """
    compilers = [root for root in roots if _in_root("nvcc", root)]
    whole = [root for root in compilers if not _mixed(root)] if len(compilers) > 1 else []
    if not whole:
        return roots
    chosen = ("setting", "CUDA_")
    dropped = [root for root in compilers if root not in whole and not root.origin.startswith(chosen)]
    return [root for root in roots if root not in dropped]


@functools.lru_cache(maxsize=32)
def _mixed(root: _Root) -> bool:
    names: tuple[ToolName, ...] = ("nvcc", "cicc", "cuda_headers")
    paths = {name: _in_root(name, root) for name in names}
    found = {release(path_version(name, path)) for name, path in paths.items() if path is not None}
    return len(found - {None}) > 1


def _in_root(name: ToolName, root: _Root) -> Path | None:
    if name == "nvcc":
        nvcc = root.nvcc or root.folder / "bin/nvcc"
        complete = _in_root("cicc", root) is not None
        return nvcc if nvcc.exists() and complete else None
    if name == "cicc" and root.cicc is not None:
        return root.cicc if root.cicc.exists() else None
    if name == "ptxas" and root.nvcc is not None:
        return root.nvcc.parent / "ptxas" if (root.nvcc.parent / "ptxas").exists() else None
    path = next((root.folder / place for place in _PLACES[name] if (root.folder / place).exists()), None)
    if path is None and name == "cuda_headers" and Path("/usr/include/cuda_runtime_api.h").exists():
        return Path("/usr/include") if root.folder.is_relative_to("/usr/lib") else None
    return path.parent if path is not None and name.endswith("_headers") else path


def _elsewhere(name: ToolName) -> Tool | None:
    """On PATH by itself, or in the Nsight products' own folders."""
    if name.startswith(("cuda_", "cupti_", "nvcc", "ptxas", "cicc")):
        return None
    on_path = shutil.which(name)
    if on_path:
        return Tool(name, on_path, "PATH")
    products = {"ncu": "nsight-compute/*/ncu", "nsys": "nsight-systems/*/bin/nsys"}
    found = sorted(NSIGHT.glob(products[name])) if name in products else []
    return Tool(name, str(found[-1]), str(NSIGHT)) if found else None


def _host_compiler() -> Tool | Missing:
    chosen = os.environ.get("NVCC_CCBIN", "")
    for name in filter(None, (chosen, "g++", "c++", "clang++")):
        path = shutil.which(name)
        if path:
            return Tool("host_compiler", path, "NVCC_CCBIN" if name == chosen else "PATH")
    return Missing(
        "host_compiler",
        "no C++ compiler was found (g++, c++ or clang++ on PATH); nvcc needs one even for device code",
        _REMEDIES["host_compiler"],
    )


def _missing(name: ToolName, roots: list[_Root]) -> Missing:
    looked = ", ".join(dict.fromkeys(str(root.folder) for root in roots)) or "no CUDA toolkit folder"
    label = name.replace("_", " ")
    return Missing(
        name, f"{label} was not found (looked at PATH and {looked})", _REMEDIES.get(name, SETUP_REMEDY)
    )


def tool_version(tool: Tool) -> str:
    """The tool's version, e.g. "13.0.88" for nvcc, "13.0" for headers; "" where it does not say. Cached."""
    return path_version(tool.name, Path(tool.path))


def release(version: str) -> tuple[int, int] | None:
    """(major, minor) of a version; None where there is none."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def tool_environment(workdir: Path) -> dict[str, str]:
    """The environment compilers run in: what changes what they build, English messages, our TMPDIR."""
    kept = {name: os.environ[name] for name in COMPILER_VARIABLES if name in os.environ}
    return {**kept, "TMPDIR": str(workdir), "LC_ALL": "C.UTF-8"}


#: Variables that may change what nvcc or the host compiler does; the rest of the environment is withheld.
COMPILER_VARIABLES = (
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
)
