# SPDX-License-Identifier: Apache-2.0
"""A language client and a workspace folder for every test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.lsp.client import Client


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client whose server is ended with the test."""
    client = Client()
    yield client
    with contextlib.suppress(Exception):
        await client.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace folder with a name that must be escaped in a URI."""
    path = tmp_path / "a folder, 100% µ#1"
    path.mkdir()
    return path
