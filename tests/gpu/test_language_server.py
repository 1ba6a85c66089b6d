# SPDX-License-Identifier: Apache-2.0
"""A bare client over stdio has a kernel optimized on the card: progress, cancel, and the edit."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from lsprotocol import types
from tests.server.lsp.client import REAL, Client

from warplens.lsp import protocol

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(280)]


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.end()


async def opened(client: Client, folder: Path, name: str) -> str:
    """A copy of an example, open, with its findings shown."""
    path = folder / name
    shutil.copy(ROOT / "examples" / "optimize" / name, path)
    await client.begin(folder, command=REAL)
    client.open(path.as_uri(), path.read_text())
    await client.until(lambda: client.found(path.as_uri()), 60)
    return path.as_uri()


def request(client: Client, uri: str, budget: int) -> asyncio.Future[object]:
    """*Optimize* with a progress token of the client's own."""
    argument = {"uri": uri, "kernel": "transpose_tiled", "budget": budget, "seconds": 60}
    params = types.ExecuteCommandParams(protocol.OPTIMIZE, [argument], work_done_token="mine")
    return asyncio.wrap_future(client.protocol.send_request(types.WORKSPACE_EXECUTE_COMMAND, params))


async def test_optimize_reports_progress_and_ends_in_a_workspace_edit(client: Client, tmp_path: Path) -> None:
    client.answer_request = lambda _: "Apply"
    uri = await opened(client, tmp_path, "matrix_transpose.cu")
    await asyncio.wait_for(request(client, uri, 12), 200)
    await client.until(lambda: client.applied, 30)
    kinds = [value["kind"] for token, value in client.reports if token == "mine"]
    assert kinds[0] == "begin"
    assert kinds[-1] == "end"
    assert "report" in kinds
    assert "faster" in client.shown[0]
    changes = client.applied[0].changes
    assert changes is not None
    assert any("+ 1" in edit.new_text for edit in changes[uri])


async def test_cancel_ends_everything_that_was_started(client: Client, tmp_path: Path) -> None:
    uri = await opened(client, tmp_path, "matrix_transpose.cu")
    future = request(client, uri, 60)
    server = psutil.Process(client.pid)
    await client.until(
        lambda: [p for p in server.children(recursive=True) if "matrix" in " ".join(p.cmdline())], 90
    )
    client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams("mine"))
    await asyncio.wait_for(future, 15)
    await client.until(lambda: not server.children(recursive=True), 10)
    assert not client.applied
