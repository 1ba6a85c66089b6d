# SPDX-License-Identifier: Apache-2.0
"""The editor's models: asked through the client after the user agreed, with every failure an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from tests.server.lsp.client import Client
from tests.server.lsp.test_proposals import _command, _opened
from tests.server.lsp.test_session import KERNEL

from warplens.lsp import protocol

MODELS = {"accepts": [protocol.MODEL]}
TEXT = KERNEL + "// ask the model\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))


async def _optimized(client: Client, folder: Path, options: dict[str, Any]) -> str:
    uri = await _opened(client, folder, TEXT, options=options)
    await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"})
    return client.shown[-1]


async def test_the_user_is_asked_once_and_then_the_model_is(client: Client, folder: Path) -> None:
    asked: list[Any] = []
    said: list[str] = []

    def agree(params: types.ShowMessageRequestParams) -> str:
        said.append(params.message)
        return "Agree"

    def answer(params: Any) -> Any:
        asked.append(params)
        return {"text": "tile it", "inputTokens": 9, "outputTokens": 2}

    client.answer_request, client.answer_model = agree, answer
    assert await _optimized(client, folder, MODELS) == "the model says: tile it (9)"
    assert len(said) == 1 and "source of the file" in said[0]
    (question,) = asked
    assert question["model"] == "m" and question["replyTokens"] == 100 and question["temperature"] == 0.8
    assert question["messages"] == [{"role": "system", "text": "plan"}, {"role": "user", "text": "go"}]
    uri = next(iter(client.published))
    await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"})
    assert len(said) == 1 and len(asked) == 2


async def test_nothing_is_asked_where_the_user_does_not_agree(client: Client, folder: Path) -> None:
    asked: list[Any] = []
    client.answer_request, client.answer_model = lambda _: "Not now", asked.append
    said = await _optimized(client, folder, MODELS)
    # which the question has told in full
    assert "nothing was sent" in said and "source of the file" not in said
    assert asked == []


async def test_a_client_without_models_is_not_asked(client: Client, folder: Path) -> None:
    client.answer_request = lambda _: "Agree"
    assert await _optimized(client, folder, {}) == "there is no model to ask"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": "NoPermissions", "message": "the user said no"}, "denied: "),
        ({"error": "Blocked"}, "limited: "),
        ({"text": 3}, "failing: "),
        (None, "failing: "),
        ([1, 2], "failing: "),
    ],
)
async def test_whatever_the_client_answers_is_named(
    client: Client, folder: Path, answer: Any, said: str
) -> None:
    client.answer_request, client.answer_model = lambda _: "Agree", lambda _: answer
    assert (await _optimized(client, folder, MODELS)).startswith(said)


async def test_a_client_that_does_not_answer_is_left_waiting_and_told_so(
    client: Client, folder: Path
) -> None:
    ended: list[str] = []

    async def never(_: Any) -> Any:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    client.answer_request, client.answer_model = lambda _: "Agree", never
    assert (await _optimized(client, folder, MODELS)).startswith("late: ")
    await client.until(lambda: ended == ["cancelled"])
