# SPDX-License-Identifier: Apache-2.0
"""The files that belong together: who includes whom, who names what, and a unit with its own headers as one text.

The include graph is textual (conditions are not evaluated) and has only the candidates as nodes. A target is
looked for beside the including file, then in the include folders; where neither has it, by its path's end, if
only one candidate ends so. Unreadable files and symlink loops are passed over.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.errors import InputError
from warplens_tools.lazily import cached_property
from warplens_tools.text import SourceText

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*', re.MULTILINE)
_GUARD = re.compile(r"\s*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\r?\n\s*#[ \t]*define[ \t]+(\w+)[ \t]*(?=\r?\n)")
_ONCE = re.compile(r"\s*#[ \t]*pragma[ \t]+once[^\n]*")
_LAST_ENDIF = re.compile(r"#[ \t]*endif[^\n]*\s*\Z")
#: Headers of the languages, of the system and of the toolkit: no need to look for them among the user's files.
_SYSTEM = re.compile(
    r"[^.]*$|c?(?:std\w+|math|float|limits|assert|string|ctype|errno|time|signal|complex|fenv|inttypes|locale)\.h$"
    r"|(?:unistd|getopt|fcntl|pthread|dirent|omp|mpi|mma|texture_\w+|vector_\w+|device_\w+|math_\w+|sm_\d+\w*)\.h$"
    r"|(?:cuda|curand|cublas|cufft|cusparse|cusolver|cudnn|nv|nccl)\w*\.hp?p?$"
    r"|(?:sys|thrust|cub|cuda|nvtx3|cooperative_groups|boost|GL|crt)/|cooperative_groups\w*\.h$"
)
#: Suffixes of files that nvcc compiles as CUDA on their own, and of those that a host compiler takes.
UNIT_SUFFIXES = frozenset({".cu"})
HOST_SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c++", ".C", ".c"})
#: Files looked at, and bytes of each, at most.
MAX_FILES = 5_000
MAX_BYTES = 1_000_000
#: Code points of one unit with its headers, at most: beyond it headers are left out.
MAX_JOINED = 1_500_000


class Joined:
    """One text made of several files, and where each part of it comes from."""

    def __init__(self) -> None:
        self.size = 0
        self.whole = True
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._places: list[tuple[Path, int]] = []

    def add(self, path: Path, start: int, text: str) -> None:
        """Append `text`, which stands in `path` from offset `start` on."""
        self._starts.append(self.size)
        self._places.append((path, start))
        self._parts.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self._parts)

    @property
    def files(self) -> frozenset[Path]:
        """The files it is made of."""
        return frozenset(path for path, _ in self._places)

    def place(self, offset: int) -> tuple[Path, int]:
        """The file that an offset stands in, and the offset there."""
        index = bisect.bisect_right(self._starts, offset) - 1
        path, start = self._places[index]
        return path, start + offset - self._starts[index]


class Project:
    """Files that may include one another and launch one another's kernels; each is read once, when first needed.

    Beyond `MAX_FILES` candidates the rest is ignored; `complete` is then false. Safe to use from several threads.
    """

    def __init__(
        self, candidates: Iterable[Path] | Callable[[], Iterable[Path]], include_dirs: Sequence[Path] = ()
    ) -> None:
        """`candidates` may be a function, which is asked when somebody needs to know them all."""
        self._candidates = candidates
        self._include_dirs = include_dirs
        self._lock = threading.RLock()
        #: By their real path, the name they go by.
        self._own: dict[Path, Path] = {}
        self._texts: dict[Path, SourceText] = {}
        self._unguarded: dict[Path, str] = {}
        self._codes: dict[Path, str] = {}
        self._includes: dict[Path, list[tuple[int, int, Path]]] = {}

    @property
    def complete(self) -> bool:
        """Whether all candidates belong to the project."""
        return len(self._listed) < MAX_FILES

    @cached_property
    def _listed(self) -> dict[Path, Path]:
        found: dict[Path, Path] = {}
        folders: dict[Path, Path | None] = {}
        for path in self._candidates() if callable(self._candidates) else self._candidates:
            if len(found) >= MAX_FILES:
                break
            real = _real_file(path, folders)
            if real is not None:
                found.setdefault(real, path)
        return found

    @property
    def _files(self) -> dict[Path, Path]:
        return {**self._own, **self._listed}

    def with_file(self, path: Path) -> Path | None:
        """The real path of a file, which from now on belongs to the project; None where it is not there."""
        real = real_path(path)
        if real is not None and real not in self._own:
            with self._lock:
                self._own = {**self._own, real: path}
                if real not in self._listed:
                    self.__dict__.pop("_included_by", None)
        return real

    def name_of(self, real: Path) -> Path:
        """The name that a file of the project goes by."""
        return self._own.get(real) or self._listed.get(real, real)

    def text(self, real: Path) -> SourceText:
        """A file's text; empty where it cannot be read."""
        if real not in self._texts:
            self._texts[real] = _read(real)
        return self._texts[real]

    def code(self, real: Path) -> str:
        """As `text`, in ASCII and without comments."""
        if real not in self._codes:
            self._codes[real] = without_comments(to_ascii(self.text(real).text))
        return self._codes[real]

    def includes(self, real: Path) -> list[tuple[int, int, Path]]:
        """The include lines that lead to files of the project: offsets of the line, and the file."""
        if real not in self._includes:
            text, folder = self.text(real).text, str(real.parent)
            found = (
                (m, self._find(m[1] or m[2], folder, quoted=m[1] is not None))
                for m in _INCLUDE.finditer(text)
            )
            self._includes[real] = [(*m.span(), target) for m, target in found if target is not None]
        return self._includes[real]

    def units_including(self, header: Path) -> tuple[Path, ...]:
        """The units of the project that include `header`, directly or not; fewest steps first."""
        wanted = self.with_file(header)
        if wanted is None:
            return ()
        steps = {wanted: 0}
        queue = deque([wanted])
        while queue:
            current = queue.popleft()
            for includer in sorted(self._included_by.get(current, ())):
                if includer not in steps:
                    steps[includer] = steps[current] + 1
                    queue.append(includer)
        units = [real for real in steps if real.suffix in UNIT_SUFFIXES and real != wanted]
        return tuple(self.name_of(real) for real in sorted(units, key=lambda real: (steps[real], real)))

    def headers_of(self, unit: Path) -> tuple[Path, ...]:
        """The files of the project that `unit` includes, directly or not, in the order that they are read."""
        start = self.with_file(unit)
        found: dict[Path, None] = {}
        waiting = [] if start is None else [start]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found[current] = None
                waiting += [target for _, _, target in reversed(self.includes(current))]
        return tuple(self.name_of(real) for real in found if real != start)

    def naming(self, names: Iterable[str]) -> Iterator[Path]:
        """The project's units, CUDA's and the host's, whose text holds one of the names; real paths, sorted."""
        wanted = "|".join(re.escape(name) for name in sorted(set(names)))
        if not wanted:
            return
        pattern = re.compile(rf"\b(?:{wanted})\b")
        for real in sorted(self._files):
            if real.suffix in UNIT_SUFFIXES | HOST_SUFFIXES and pattern.search(self.text(real).text):
                yield real

    def joined(
        self, unit: Path, *, without: frozenset[Path] = frozenset(), after: Joined | None = None
    ) -> Joined:
        """`unit` with the project's headers in place of the lines that include them, each once.

        `without` are left out; with `after` the text is added to what is there, which is not read again.
        """
        made = after or Joined()
        real = self.with_file(unit)
        if real is not None:
            self._join(real, made, set(without | made.files))
        return made

    def _join(self, real: Path, made: Joined, seen: set[Path]) -> None:
        seen.add(real)
        if real not in self._unguarded:
            self._unguarded[real] = without_guard(self.text(real).text)
        text, at = self._unguarded[real], 0
        if made.size + len(text) > MAX_JOINED:
            made.whole = False
            return
        for start, end, target in self.includes(real):
            if target in seen:
                continue
            made.add(real, at, text[at:start])
            self._join(target, made, seen)
            at = end
        made.add(real, at, text[at:] + "\n")

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for real in self._files:
            found.setdefault(real.name, []).append(real)
        return found

    @cached_property
    def _included_by(self) -> dict[Path, set[Path]]:
        graph: dict[Path, set[Path]] = {}
        for real in self._files:
            for _, _, target in self.includes(real):
                graph.setdefault(target, set()).add(real)
        return graph

    def _find(self, target: str, beside: str, *, quoted: bool) -> Path | None:
        """The user's file that an include line of a file in the folder `beside` leads to: the nearest, else the only
        candidate whose path ends so."""
        # most lead to none of the user's: one look each, before what goes through all folders of a name
        name = os.path.join(beside, target)  # noqa: PTH118
        found = real_path(Path(name)) if os.path.isfile(name) else None  # noqa: PTH113
        if found is not None:
            return found
        for folder in self._include_dirs:
            name = os.path.join(folder, target)  # noqa: PTH118
            real = real_path(Path(name)) if os.path.exists(name) else None  # noqa: PTH110
            if real is not None and real in self._files:
                return real
        if not quoted and _SYSTEM.match(target):
            return None
        name = target.replace("\\", "/").rsplit("/", 1)[-1]
        ends = [p for p in self._by_name.get(name, ()) if p.as_posix().endswith("/" + target.lstrip("./"))]
        return ends[0] if len(ends) == 1 else None


def _read(path: Path) -> SourceText:
    try:
        with path.open("rb") as file:
            return SourceText.decode(file.read(MAX_BYTES))
    except (OSError, InputError):
        return SourceText("")


def _real_file(path: Path, folders: dict[Path, Path | None]) -> Path | None:
    """As `real_path`, of what is no folder; folders are followed once each."""
    folder = path.parent
    if folder not in folders:
        folders[folder] = real_path(folder)
    parent = folders[folder]
    if parent is None:
        return None
    real = parent / path.name
    try:
        mode = real.lstat().st_mode
    except OSError:
        return None
    if not stat.S_ISLNK(mode):
        return None if stat.S_ISDIR(mode) else real
    led = real_path(path)
    return None if led is None or led.is_dir() else led


def real_path(path: Path) -> Path | None:
    """Where a name leads; None where there is nothing, or no end to the links."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a symlink loop, before Python 3.13.
        return None


def without_guard(text: str) -> str:
    """A header's text, as long as before, without the directives that keep it from being read twice.

    Beside them every line of a header would stand under a condition.
    """
    code = without_comments(to_ascii(text), keep_strings=True)
    once = _ONCE.match(code)
    start = once.end() if once else 0
    opened, closed = _GUARD.match(code, start), _LAST_ENDIF.search(code)
    cuts = [once.span()] if once else []
    if opened and closed and opened[1] == opened[2] and opened.end() <= closed.start():
        cuts += [opened.span(), closed.span()]
    for low, high in cuts:
        low += len(code[low:high]) - len(code[low:high].lstrip())
        text = text[:low] + re.sub(r"[^\n]", " ", text[low:high]) + text[high:]
    return text
