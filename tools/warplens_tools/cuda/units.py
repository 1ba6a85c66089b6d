# SPDX-License-Identifier: Apache-2.0
"""Which translation units include a header, so that its kernels can be compiled through one of them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
#: Suffixes of files that nvcc compiles as CUDA on their own.
UNIT_SUFFIXES = frozenset({".cu"})
#: Files read at most, and bytes of each: include lines stand at the top.
MAX_FILES = 5_000
MAX_BYTES = 1_000_000


def units_including(
    header: Path, candidates: Iterable[Path], include_dirs: Sequence[Path] = ()
) -> tuple[Path, ...]:
    """The units among `candidates` that include `header`, directly or not; fewest steps first.

    The include graph is textual (conditions are not evaluated) and has only `candidates` and `header` as
    nodes. A target is looked for beside the including file, then in `include_dirs`; where neither has
    it, by its path's end, if only one candidate ends so. Unreadable files and symlink loops are passed
    over; beyond `MAX_FILES` candidates the rest is ignored.
    """
    files = _resolved(candidates)
    wanted = _real(header)
    if wanted is None:
        return ()
    files.setdefault(wanted, header)
    included_by = _included_by(files, include_dirs)
    steps = {wanted: 0}
    queue = deque([wanted])
    while queue:
        current = queue.popleft()
        for includer in sorted(included_by.get(current, ())):
            if includer not in steps:
                steps[includer] = steps[current] + 1
                queue.append(includer)
    units = [real for real in steps if files[real].suffix in UNIT_SUFFIXES and real != wanted]
    return tuple(files[real] for real in sorted(units, key=lambda real: (steps[real], real)))


def _resolved(candidates: Iterable[Path]) -> dict[Path, Path]:
    """Candidates by their real path; the first name of a file that has several is kept."""
    found: dict[Path, Path] = {}
    for path in candidates:
        if len(found) >= MAX_FILES:
            break
        real = _real(path)
        if real is not None:
            found.setdefault(real, path)
    return found


def _real(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a symlink loop, before Python 3.13.
        return None


def _included_by(files: dict[Path, Path], include_dirs: Sequence[Path]) -> dict[Path, set[Path]]:
    by_name: dict[str, list[Path]] = {}
    for real in files:
        by_name.setdefault(real.name, []).append(real)
    graph: dict[Path, set[Path]] = {}
    for real in files:
        for target in _targets(real):
            found = _find(target, real, files, by_name, include_dirs)
            if found is not None:
                graph.setdefault(found, set()).add(real)
    return graph


def _targets(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES)
    except OSError:
        return []
    return [(quoted or angled).decode("utf-8", "replace") for quoted, angled in _INCLUDE.findall(data)]


def _find(
    target: str,
    includer: Path,
    files: dict[Path, Path],
    by_name: dict[str, list[Path]],
    include_dirs: Sequence[Path],
) -> Path | None:
    name = target.replace("\\", "/").rsplit("/", 1)[-1]
    if name not in by_name:
        return None
    for folder in (includer.parent, *include_dirs):
        real = _real(folder / target)
        if real in files:
            return real
    ends = [p for p in by_name[name] if p.as_posix().endswith("/" + target.lstrip("./"))]
    return ends[0] if len(ends) == 1 else None
