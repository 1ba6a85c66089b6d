# SPDX-License-Identifier: Apache-2.0
"""Prompts out, answers in: whoever answers, in time or late, in pieces, or too much."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from warplens.agent.llm.files import ANSWER, PROMPT, Files
from warplens.agent.llm.provider import Message, ProviderError, Question
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task


def question(text: str = "why?", seconds: float = 5.0) -> Question:
    return Question("coder", (Message("system", "be brief"), Message("user", text)), 0.1, 40, seconds)


def answer_when_asked(folder: Path, text: str, *, pieces: int = 1) -> threading.Thread:
    """Somebody who answers the first prompt that has no answer yet."""

    def work() -> None:
        while True:
            waiting = [
                stem
                for p in folder.glob(f"*{PROMPT}")
                if not (stem := p.with_name(p.name.replace(PROMPT, ANSWER))).exists()
            ]
            if waiting:
                break
            time.sleep(0.01)
        size = -(-len(text) // pieces)
        with waiting[0].open("w") as file:
            for at in range(0, len(text), size):
                file.write(text[at : at + size])
                file.flush()
                time.sleep(0.02)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_prompt_goes_out_whole_and_its_answer_comes_in(tmp_path: Path) -> None:
    said: list[str] = []
    answer_when_asked(tmp_path / "new" / "folder", "because")
    reply = Files(tmp_path / "new" / "folder", pause=0.05).ask(question(), Task(lambda m, _: said.append(m)))
    assert (reply.text, reply.finish) == ("because", "stop")
    (prompt,) = (tmp_path / "new" / "folder").glob(f"*{PROMPT}")
    assert prompt.name.startswith("0001-coder-")
    assert "# Your task\n\nbe brief" in prompt.read_text() and "# The case\n\nwhy?" in prompt.read_text()
    assert said and "coder" in said[0]


def test_an_answer_written_in_pieces_is_read_when_it_is_whole(tmp_path: Path) -> None:
    answer_when_asked(tmp_path, "a longer answer in several pieces", pieces=4)
    reply = Files(tmp_path, pause=0.1).ask(question(), UNATTENDED)
    assert reply.text == "a longer answer in several pieces"


def test_the_same_prompt_is_asked_once(tmp_path: Path) -> None:
    answer_when_asked(tmp_path, "once")
    first = Files(tmp_path, pause=0.02).ask(question(), UNATTENDED)
    again = Files(tmp_path, pause=0.02).ask(question(), UNATTENDED)
    assert first.text == again.text == "once"
    assert len(list(tmp_path.glob(f"*{PROMPT}"))) == 1
    answer_when_asked(tmp_path, "other")
    assert Files(tmp_path, pause=0.02).ask(question("how?"), UNATTENDED).text == "other"
    assert sorted(p.name[:4] for p in tmp_path.glob(f"*{PROMPT}")) == ["0001", "0002"]


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(ProviderError) as caught:
        Files(tmp_path, pause=0.02).ask(question(seconds=0.2), UNATTENDED)
    assert caught.value.kind == "late" and "reply-seconds" in caught.value.remedy


def test_waiting_ends_with_the_search(tmp_path: Path) -> None:
    token = CancelToken()
    threading.Timer(0.2, token.cancel).start()
    with pytest.raises(CancelledError):
        Files(tmp_path, pause=0.02).ask(question(seconds=600), Task(token=token))


def test_more_than_a_reply_may_have_is_cut(tmp_path: Path) -> None:
    answer_when_asked(tmp_path, "x" * 100_000)
    reply = Files(tmp_path, pause=0.05).ask(question(), UNATTENDED)
    assert reply.finish == "length" and len(reply.text) == 40 * 3 * 2


@pytest.mark.parametrize("content", [b"\xff\xfe\x00 not text", b"\x00" * 50])
def test_bytes_that_are_no_text_are_a_reply_like_any(tmp_path: Path, content: bytes) -> None:
    files = Files(tmp_path, pause=0.02)
    with pytest.raises(ProviderError):
        files.ask(question(seconds=0.05), UNATTENDED)
    (prompt,) = tmp_path.glob(f"*{PROMPT}")
    prompt.with_name(prompt.name.replace(PROMPT, ANSWER)).write_bytes(content)
    assert files.ask(question(), UNATTENDED).finish == "stop"


def test_a_folder_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        Files(tmp_path / "file" / "below")
    if os.geteuid() == 0:
        return
    tmp_path.chmod(0o500)
    with pytest.raises(InputError):
        Files(tmp_path / "below")
