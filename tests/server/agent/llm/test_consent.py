# SPDX-License-Identifier: Apache-2.0
"""Consent is asked once an address, kept outside the workspace; the editor's models behind the same interface."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from warplens.agent.llm.consent import FILE, Destination, agree, agreed
from warplens.agent.llm.editor import EditorAnswer, EditorModel
from warplens.agent.llm.provider import Message, ProviderError, Question
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task

HERE = Destination("openai", "https://a.example/v1", "A_KEY")


def test_consent_is_for_one_address_and_one_key(tmp_path: Path) -> None:
    assert not agreed(tmp_path, HERE)
    agree(tmp_path / "new", HERE)
    agree(tmp_path / "new", HERE)
    assert agreed(tmp_path / "new", HERE)
    for other in (
        Destination("openai", "https://b.example/v1", "A_KEY"),
        Destination("openai", "https://a.example/v1", "AWS_SECRET_ACCESS_KEY"),
        Destination("editor"),
    ):
        assert not agreed(tmp_path / "new", other)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"a": 1}'])
def test_a_damaged_list_agrees_to_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert not agreed(tmp_path, HERE)
    agree(tmp_path, HERE)
    assert agreed(tmp_path, HERE)


def test_where_nothing_can_be_kept_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        agree(tmp_path / "file", HERE)


def test_the_words_name_who_what_and_the_key() -> None:
    words = HERE.words()
    for part in ("https://a.example/v1", "$A_KEY", "source of the file", "no other file"):
        assert part in words
    assert "editor" in Destination("editor").words() and "$" not in Destination("editor").words()


def question(seconds: float = 5.0) -> Question:
    return Question("coder", (Message("user", "code it"),), 0.1, 40, seconds)


def answered(answer: EditorAnswer | Exception, after: float = 0.0) -> EditorModel:
    def ask(model: str, asked: Question) -> Future[EditorAnswer]:
        assert model == "m" and asked.messages
        future: Future[EditorAnswer] = Future()

        def work() -> None:
            time.sleep(after)
            if not future.set_running_or_notify_cancel():
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        threading.Thread(target=work, daemon=True).start()
        return future

    return EditorModel(ask, "m")


def test_the_editors_answer_is_a_reply() -> None:
    reply = answered(EditorAnswer("done", input_tokens=7, output_tokens=2), 0.1).ask(question(), UNATTENDED)
    assert (reply.text, reply.finish, reply.usage.input_tokens, reply.usage.estimated) == (
        "done",
        "stop",
        7,
        False,
    )
    for uncounted in (None, 0, -5):
        usage = (
            answered(EditorAnswer("done", input_tokens=uncounted, output_tokens=2))
            .ask(question(), UNATTENDED)
            .usage
        )
        assert usage.estimated and usage.input_tokens > 0 and usage.output_tokens > 0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (EditorAnswer(error="NoPermissions", message="the user said no"), "denied"),
        (EditorAnswer(error="NotFound"), "rejected"),
        (EditorAnswer(error="Blocked"), "limited"),
        (EditorAnswer(error="Weather"), "failing"),
        (ConnectionError("gone"), "failing"),
    ],
)
def test_the_editors_errors_are_named(answer: EditorAnswer | Exception, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        answered(answer).ask(question(), UNATTENDED)
    assert caught.value.kind == kind


def test_an_editor_that_hangs_or_never_ends_is_bounded() -> None:
    with pytest.raises(ProviderError) as caught:
        answered(EditorAnswer("late"), 5.0).ask(question(0.2), UNATTENDED)
    assert caught.value.kind == "late"
    assert answered(EditorAnswer("x" * 10_000)).ask(question(), UNATTENDED).finish == "length"


def test_cancelling_stops_waiting_for_the_editor() -> None:
    token = CancelToken()
    threading.Timer(0.2, token.cancel).start()
    with pytest.raises(CancelledError):
        answered(EditorAnswer("late"), 5.0).ask(question(30), Task(token=token))
