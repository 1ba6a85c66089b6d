# SPDX-License-Identifier: Apache-2.0
"""Corpora: folders of CUDA/C++ code that are indexed, each with its version."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import InputError
from warplens_tools.home import warplens_home

if TYPE_CHECKING:
    import filelock

_VERSION = re.compile(r"#define\s+CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d+)")


class NoCorpusError(InputError):
    """Nothing was ever indexed: a caller may offer to bring CUTLASS (`setup_cutlass`)."""


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


def home() -> Path:
    """The folder that Warplens manages; see `warplens_home`."""
    return warplens_home()


def corpora() -> tuple[Corpus, ...]:
    """The registered corpora, in the order they were added. A damaged list counts as empty."""
    try:
        return tuple(from_json(_registry().read_bytes(), list[Corpus]))
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
    import filelock  # a search needs no lock, and starts 30 ms sooner without it

    home().mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(home() / "corpora.lock", timeout=30)


def _write(known: list[Corpus]) -> None:
    path = _registry()
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(known)))
    temporary.replace(path)
