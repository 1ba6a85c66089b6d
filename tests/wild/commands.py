# SPDX-License-Identifier: Apache-2.0
"""How fetched units are compiled: python -m tests.wild.commands FOLDER [--with DIR ...] [--torch DIR].

FOLDER is as for `tests.wild.gather`. Each repository gets a `compile_commands.json`, with which its files are
checked as those of a user who has one: every `#include` is followed, and the folder of the repository that makes it
resolve is an include folder, the nearest to the unit where there are several. `--with` names folders of other
libraries' headers, `--torch` the site-packages that PyTorch is installed in. Nothing of the repositories is run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([\"<][^\">\n]+)[\">]", re.MULTILINE)
_SUFFIXES = {".h", ".hpp", ".hh", ".cuh", ".cu", ".inl", ".inc", ".ipp", ".tpp", ".hxx", ".cu_inl"}
#: As torch.utils.cpp_extension passes them.
_TORCH_FLAGS = (
    "-DTORCH_EXTENSION_NAME=extension",
    "-DTORCH_API_INCLUDE_EXTENSION_H",
    *("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"),
    *("-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"),
)
_TORCH = re.compile(r"(torch|ATen|c10|THC)/")


class Headers:
    """The files of one repository, and which of its folders make an include resolve."""

    def __init__(self, root: Path, others: Sequence[Path]) -> None:
        self.root = root
        self.others = others
        self._named: dict[str, list[Path]] = defaultdict(list)
        self._includes: dict[Path, list[str]] = {}
        for path in sorted(root.rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file():
                self._named[path.name].append(path)

    def of(self, unit: Path) -> tuple[list[Path], set[str]]:
        """Include folders of `unit`, in the order they are met, and all that is included by name."""
        folders: list[Path] = []
        names: set[str] = set()
        waiting, seen = [unit], {unit}
        while waiting:
            path = waiting.pop(0)
            for written in self._named_by(path):
                name = written[1:]
                names.add(name)
                beside = [path.parent] if written[0] == '"' else []
                found = self._found(path, [*beside, *folders], name, folders, unit)
                if found is not None and found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return folders, names

    def _named_by(self, path: Path) -> list[str]:
        if path not in self._includes:
            self._includes[path] = _INCLUDE.findall(path.read_text(errors="replace"))
        return self._includes[path]

    def _found(
        self, path: Path, places: list[Path], name: str, folders: list[Path], unit: Path
    ) -> Path | None:
        for folder in places:
            if (folder / name).is_file():
                return Path(os.path.normpath(folder / name))
        if any((other / name).is_file() for other in self.others):
            return None
        end = "/" + re.sub(r"^(\.\.?/)+", "", name)
        # A wrapper of the same name as what it wraps is not what it asks for.
        named = self._named.get(Path(name).name, ())
        candidates = [c for c in named if str(c).endswith(end) and c != path]
        if not candidates:
            return None
        best = max(candidates, key=lambda c: (len(os.path.commonpath([c, unit])), -len(c.parts)))
        folder = Path(str(best)[: -len(end)])
        if not name.startswith("."):
            folders.append(folder)
        return best


def command(
    unit: Path, headers: Headers, further: Sequence[Path], torch: Path | None, flags: Sequence[str]
) -> list[str]:
    """nvcc's words for `unit`."""
    folders, names = headers.of(unit)
    torches = torch is not None and any(_TORCH.match(name) for name in names)
    words = ["nvcc", "-std=c++20" if torches else "-std=c++17"]
    words += ["--expt-relaxed-constexpr", "--expt-extended-lambda", *flags]
    words += [f"-I{folder}" for folder in folders]
    if torches and torch is not None:
        words += [*_TORCH_FLAGS, "-isystem", str(torch / "torch/include")]
        words += ["-isystem", str(torch / "torch/include/torch/csrc/api/include")]
    for folder in further:
        words += ["-isystem", str(folder)]
    return [*words, "-c", str(unit), "-o", "/dev/null"]


def toolkit() -> list[Path]:
    """Where the compilers look by themselves, as far as names there are met in repositories: `cuda.h` and the like."""
    own = [folder / "include" for folder in sorted(Path("/usr/local").glob("cuda*"))]
    return [*own, *(folder / "cccl" for folder in own), Path("/usr/include")]


def written(root: Path, further: Sequence[Path], torch: Path | None, flags: Sequence[str] = ()) -> int:
    """Write the repository's database; how many units it has."""
    known = [*further, *([torch / "torch/include"] if torch else []), *toolkit()]
    headers = Headers(root, known)
    units = sorted(root.rglob("*.cu"))
    entries = [
        {"file": str(u), "directory": str(root), "arguments": command(u, headers, further, torch, flags)}
        for u in units
    ]
    (root / "compile_commands.json").write_text(json.dumps(entries, indent=1))
    return len(units)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--with", dest="further", type=Path, nargs="*", default=[])
    parser.add_argument("--torch", type=Path)
    parser.add_argument("--flag", nargs="*", default=[], help="owner+repository:FLAG, as its build passes it")
    given = parser.parse_args()
    for root in sorted(p.resolve() for p in given.folder.iterdir() if p.is_dir()):
        own = [flag for name, flag in (word.split(":", 1) for word in given.flag) if name == root.name]
        units = written(root, [p.resolve() for p in given.further], given.torch, own)
        print(f"{root.name}: {units} units")  # noqa: T201


if __name__ == "__main__":
    main()
