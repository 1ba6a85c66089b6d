"""Corpora: folders of CUDA/C++ code that are indexed, each with its version, and the files in them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import filelock
import msgspec
import platformdirs

from warplens_cutlass.extract.file import DOCUMENT_SUFFIXES, SOURCE_SUFFIXES
from warplens_cutlass.model import Skipped
from warplens_cutlass.settings import IndexSettings
from warplens_tools.errors import InputError

_VERSION = re.compile(r"#define\s+CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)")


class Corpus(msgspec.Struct, frozen=True):
    """A folder that is indexed under a name."""

    name: str
    root: str
    #: "4.2.0" of a CUTLASS tree; "" where the folder does not say.
    version: str = ""

    @property
    def root_path(self) -> Path:
        """The folder, as a path."""
        return Path(self.root)


class FoundFile(msgspec.Struct, frozen=True):
    """A file that is to be indexed; `path` is relative to the root, with forward slashes."""

    path: str
    size: int
    mtime_ns: int


def home() -> Path:
    """The folder that Warplens manages: `WARPLENS_HOME`, or the user's data folder."""
    override = os.environ.get("WARPLENS_HOME")
    return Path(override) if override else Path(platformdirs.user_data_dir("warplens", appauthor=False))


def corpora() -> tuple[Corpus, ...]:
    """The registered corpora, in the order they were added. A damaged list counts as empty."""
    try:
        return tuple(msgspec.json.decode(_registry().read_bytes(), type=list[Corpus]))
    except (OSError, msgspec.DecodeError):
        return ()


def register(root: Path, name: str = "") -> Corpus:
    """Add a folder (or refresh its version); the same folder keeps its name.

    Raises:
        InputError: there is no such folder, or the name belongs to another one.
    """
    folder = _absolute(root)
    if not folder.is_dir():
        raise InputError(f"{root} is not a folder", remedy="give the folder that holds the headers")
    with _registry_lock():
        known = list(corpora())
        old = next((c for c in known if c.root == str(folder)), None)
        chosen = name or (old.name if old else _free_name(folder, known))
        if any(c.name == chosen and c.root != str(folder) for c in known):
            raise InputError(f"the name {chosen!r} belongs to another corpus", remedy="choose another --name")
        corpus = Corpus(chosen, str(folder), version_of(folder))
        _write([*(c for c in known if c.root != str(folder)), corpus] if old is None or old.name != chosen
               else [corpus if c.root == str(folder) else c for c in known])  # fmt: skip
    return corpus


def unregister(corpus: Corpus) -> None:
    """Forget a corpus; its folder stays."""
    with _registry_lock():
        _write([c for c in corpora() if c.name != corpus.name])


def find_corpus(name_or_path: str) -> Corpus:
    """The registered corpus of that name or folder.

    Raises:
        InputError: there is none.
    """
    known = corpora()
    folder = str(_absolute(Path(name_or_path)))
    for corpus in known:
        if name_or_path == corpus.name or folder == corpus.root:
            return corpus
    names = ", ".join(c.name for c in known) or "none"
    raise InputError(
        f"no corpus is called {name_or_path!r} (there are: {names})", remedy="see `warplens index status`"
    )


def index_folder(corpus: Corpus) -> Path:
    """Where the index of a corpus lives; two folders never share one."""
    digest = hashlib.sha256(corpus.root.encode()).hexdigest()[:12]
    return home() / "index" / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', corpus.name)}-{digest}"


def version_of(root: Path) -> str:
    """The CUTLASS version that `version.h` states, "" where there is none."""
    for place in ("include/cutlass/version.h", "cutlass/version.h"):
        try:
            found = dict(_VERSION.findall((root / place).read_text(errors="replace")))
        except OSError:
            continue
        if "MAJOR" in found:
            return ".".join(found.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))
    return ""


def walk(root: Path, settings: IndexSettings, skipped: list[Skipped]) -> Iterator[FoundFile]:
    """Files to index below `root`, sorted by folder. What is left out with cause joins `skipped`.

    Linked folders are followed once; a link back into a folder already seen is a loop and is skipped.
    """
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[Path, str, int]] = [(root, "", 0)]
    count = 0
    while stack:
        folder, prefix, depth = stack.pop()
        entries = _entries(folder, prefix, seen, skipped)
        for entry in entries:
            relative = prefix + entry.name
            if _is_folder(entry):
                if entry.name in settings.skipped_folders:
                    continue
                if depth >= settings.max_depth:
                    skipped.append(Skipped(relative, f"deeper than {settings.max_depth} folders"))
                else:
                    stack.append((Path(entry.path), relative + "/", depth + 1))
                continue
            found = _file(entry, relative, settings, skipped)
            if found is not None:
                count += 1
                if count > settings.max_files:
                    skipped.append(Skipped(relative, f"more than {settings.max_files} files"))
                    return
                yield found


def _entries(
    folder: Path, prefix: str, seen: set[tuple[int, int]], skipped: list[Skipped]
) -> list[os.DirEntry[str]]:
    try:
        state = folder.stat()
        if (state.st_dev, state.st_ino) in seen:
            skipped.append(Skipped(prefix.rstrip("/"), "a link to a folder already read"))
            return []
        seen.add((state.st_dev, state.st_ino))
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda e: e.name)
    except OSError as error:
        skipped.append(Skipped(prefix.rstrip("/") or ".", f"unreadable folder: {error.strerror}"))
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _file(
    entry: os.DirEntry[str], relative: str, settings: IndexSettings, skipped: list[Skipped]
) -> FoundFile | None:
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 - a Path per entry triples the walk
    if suffix not in SOURCE_SUFFIXES and suffix not in DOCUMENT_SUFFIXES:
        return None
    if entry.name in settings.skipped_files:
        return None
    try:
        if not entry.is_file():
            skipped.append(Skipped(relative, "not a regular file"))
            return None
        state = entry.stat()
    except OSError as error:
        skipped.append(Skipped(relative, f"unreadable: {error.strerror}"))
        return None
    if state.st_size > settings.max_file_bytes:
        limit = settings.max_file_bytes // 1_000_000
        skipped.append(Skipped(relative, f"larger than {limit} MB"))
        return None
    return FoundFile(relative, state.st_size, state.st_mtime_ns)


def _absolute(path: Path) -> Path:
    return Path(os.path.realpath(path.expanduser()))


def _free_name(folder: Path, known: list[Corpus]) -> str:
    base = "cutlass" if version_of(folder) else folder.name or "corpus"
    taken = {c.name for c in known}
    candidates = [base, f"{base}-{version_of(folder)}" if version_of(folder) else base]
    candidates += [f"{base}-{n}" for n in range(2, len(known) + 3)]
    return next(c for c in candidates if c not in taken)


def _registry() -> Path:
    return home() / "corpora.json"


def _registry_lock() -> filelock.FileLock:
    home().mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(home() / "corpora.lock", timeout=30)


def _write(known: list[Corpus]) -> None:
    path = _registry()
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(known)))
    temporary.replace(path)
