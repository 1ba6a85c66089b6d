# SPDX-License-Identifier: Apache-2.0
"""A managed folder of each test's own, and a small corpus."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from warplens_cutlass.corpus import Corpus
from warplens_cutlass.store.build import build

MINI = Path(__file__).parents[1] / "data" / "mini_corpus"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The managed folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("WARPLENS_HOME", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the small corpus that a test may change."""
    return Path(shutil.copytree(MINI, tmp_path / "mini"))


@pytest.fixture
def mini(home: Path, folder: Path) -> Iterator[Corpus]:  # noqa: ARG001 - sets the managed folder
    """The small corpus, indexed."""
    yield build(folder, name="mini").corpus
