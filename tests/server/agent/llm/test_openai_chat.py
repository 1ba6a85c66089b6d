# SPDX-License-Identifier: Apache-2.0
"""The OpenAI-compatible provider against a local server over real HTTP: good replies, and every fault within bounds."""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("openai")

from tests.server.agent.llm import endpoint
from tests.server.agent.llm.endpoint import Say, Status, serving

from warplens.agent.llm import openai_chat
from warplens.agent.llm.openai_chat import OpenAIChat
from warplens.agent.llm.provider import Message, ProviderError, Question, Reply, Usage
from warplens.agent.llm.secret import Secret, public
from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task

KEY = "sk-do-not-tell-0123456789"


def question(**fields: Any) -> Question:
    given: dict[str, Any] = {
        "role": "planner",
        "messages": (Message("system", "be brief"), Message("user", "why is it slow?")),
        "temperature": 0.8,
        "reply_tokens": 500,
        "seconds": 10.0,
    }
    return Question(**(given | fields))


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "FIRST_WAIT", 0.01)


def ask(script: endpoint.Script, *, retries: int = 2, **fields: Any) -> tuple[Reply, endpoint.Endpoint]:
    with serving(script) as server:
        provider = OpenAIChat("m", base_url=server.url, key=Secret(KEY), retries=retries)
        return provider.ask(question(**fields), UNATTENDED), server


def failure(
    script: endpoint.Script, *, seconds: float = 60.0, retries: int = 1
) -> tuple[ProviderError, float]:
    before = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        ask(script, seconds=seconds, retries=retries)
    return caught.value, time.monotonic() - before


def test_a_reply_is_put_together_from_its_pieces_with_its_tokens() -> None:
    reply, server = ask([Say("a warp reads 32 lines", usage=(321, 45))])
    assert reply == Reply("a warp reads 32 lines", "stop", Usage(321, 45))
    (request,), (headers,) = server.requests, server.headers
    assert request["model"] == "m" and request["stream"] is True and request["temperature"] == 0.8
    assert request["messages"][1] == {"role": "user", "content": "why is it slow?"}
    assert request["max_tokens"] == 500
    assert headers["authorization" if "authorization" in headers else "Authorization"] == f"Bearer {KEY}"


def test_a_schema_is_asked_for_where_a_role_has_one() -> None:
    _, server = ask(["{}"], schema={"type": "object"})
    assert server.requests[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        (Say("half a sen", finish="length"), "length"),
        (Say("", refusal="I cannot help with that"), "refusal"),
        (Say("par", finish="content_filter"), "refusal"),
        (Say("broken off", finish=None), "length"),
    ],
)
def test_how_a_reply_ended_is_kept(said: Say, finish: str) -> None:
    reply, _ = ask([said])
    assert reply.finish == finish and reply.text == (said.text or said.refusal)


@pytest.mark.parametrize("usage", [None, (0, 0), (-7, 3)])
def test_tokens_are_estimated_from_above_where_the_endpoint_does_not_count_them(
    usage: tuple[int, int] | None,
) -> None:
    reply, _ = ask([Say("x" * 30, usage=usage)])
    assert reply.usage.estimated and reply.usage.output_tokens == 10 and reply.usage.input_tokens > 5


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("stream_options", Status(400, "Unknown parameter: stream_options", "stream_options")),
        ("temperature", Status(400, "Unsupported value: 'temperature' does not support 0.8")),
        ("max_tokens", Status(400, "Use 'max_completion_tokens' instead of max_tokens", "max_tokens")),
        ("response_format", Status(422, "we do not know this")),
    ],
)
def test_an_option_that_the_endpoint_does_not_take_is_left_out_from_then_on(
    option: str, said: Status
) -> None:
    def script(request: dict[str, Any]) -> endpoint.Answer:
        return said if option in request else "fine"

    with serving(script) as server:
        provider = OpenAIChat("m", base_url=server.url)
        asked = question(schema={"type": "object"})
        assert provider.ask(asked, UNATTENDED).text == "fine"
        assert provider.ask(asked, UNATTENDED).text == "fine"
    assert [option in request for request in server.requests] == [True, False, False]
    assert ("max_completion_tokens" in server.requests[-1]) == (option == "max_tokens")


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (Status(429, headers={"retry-after": "0"}), "limited"),
        (Status(500), "failing"),
        (Status(503), "failing"),
        (endpoint.reset, "unreachable"),
    ],
)
def test_a_passing_failure_is_got_past_and_counted(first: endpoint.Answer, kind: str) -> None:
    reply, server = ask([first, first, "there"])
    assert reply.text == "there" and reply.survived == (kind, kind)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fault", "kind", "requests"),
    [
        (Status(401, f"bad key {KEY}"), "denied", 1),
        (Status(403), "denied", 1),
        (Status(404, "no such model"), "rejected", 1),
        (Status(400, "context too long"), "rejected", 5),
        (Status(429), "limited", 2),
        (Status(500), "failing", 2),
        (endpoint.garbage, "garbled", 1),
        (endpoint.not_a_chunk, "garbled", 1),
        (endpoint.endless_event, "endless", 1),
    ],
)
def test_a_lasting_failure_is_named(fault: endpoint.Answer, kind: str, requests: int) -> None:
    with serving([fault]) as server:
        provider = OpenAIChat("m", base_url=server.url, key=Secret(KEY), retries=1)
        with pytest.raises(ProviderError) as caught:
            provider.ask(question(schema={}), UNATTENDED)
    assert caught.value.kind == kind
    assert len(server.requests) == requests
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("fault", [endpoint.hang, endpoint.drip, endpoint.drip_headers])
def test_whatever_takes_its_time_ends_with_the_questions_seconds(fault: endpoint.Fault) -> None:
    error, seconds = failure([fault], seconds=0.6)
    assert error.kind == "late" and seconds < 30.0
    assert error.usage.input_tokens > 0


def test_retries_share_the_questions_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "FIRST_WAIT", 60.0)
    error, seconds = failure([Status(500)], seconds=0.6, retries=9)
    assert error.kind == "late" and error.survived == ("failing",) and seconds < 30.0


def test_endless_words_are_cut_at_the_bound() -> None:
    reply, _ = ask([endpoint.endless_words])
    assert reply.finish == "length" and len(reply.text) < 500 * 3 * 2 + 300


@pytest.mark.parametrize("fault", [endpoint.broken, endpoint.page])
def test_half_a_stream_is_no_whole_reply(fault: endpoint.Fault) -> None:
    try:
        reply, _ = ask([fault])
    except ProviderError as error:
        assert error.kind in ("garbled", "unreachable", "failing")
    else:
        assert reply.finish == "length"


def test_nobody_there_is_said_so() -> None:
    provider = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", retries=1)
    with pytest.raises(ProviderError) as caught:
        provider.ask(question(), UNATTENDED)
    assert caught.value.kind == "unreachable" and caught.value.survived == ("unreachable",)


@pytest.mark.parametrize("fault", [endpoint.hang, endpoint.drip])
def test_cancelling_ends_it_at_once(fault: endpoint.Fault) -> None:
    token = CancelToken()
    with serving([fault]) as server:
        provider = OpenAIChat("m", base_url=server.url)
        threading.Timer(0.4, token.cancel).start()
        before = time.monotonic()
        with pytest.raises(CancelledError):
            provider.ask(question(seconds=600.0), Task(token=token))
    assert time.monotonic() - before < 30.0


INTERRUPTED = """
import signal, sys
from warplens.agent.llm.openai_chat import OpenAIChat
from warplens.agent.llm.provider import Message, Question
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import Task

token = CancelToken()
def stop(*_):
    token.cancel()
    if sys.argv[2] == "raises":
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, stop)
question = Question("coder", (Message("user", "x"),), 0.1, 100, 600.0)
try:
    OpenAIChat("m", base_url=sys.argv[1]).ask(question, Task(token=token))
except BaseException as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("handler", "ends"), [("raises", "KeyboardInterrupt"), ("sets", "CancelledError")])
def test_an_interrupt_says_nothing_of_what_it_broke_off(handler: str, ends: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with (
        serving([endpoint.hang]) as server,
        subprocess.Popen(
            [*command, server.url, handler], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as asking,
    ):
        while not server.requests and asking.poll() is None:
            time.sleep(0.05)
        asking.send_signal(signal.SIGINT)
        out, said = asking.communicate(timeout=60)
    assert (out.strip(), said) == (ends, "") and server.requests


def test_the_key_is_in_no_log_and_nowhere_but_in_its_header(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-other")
    caplog.set_level(logging.DEBUG)
    reply, server = ask(["hello"])
    assert KEY not in caplog.text and KEY not in repr(reply)
    assert KEY not in str(server.requests)
    assert "org-other" not in str(server.headers)
    secret = Secret(KEY)
    shown: list[Callable[[], object]] = [
        lambda: repr(secret),
        lambda: f"{secret}",
        lambda: vars(OpenAIChat("m", key=secret)),
    ]
    assert all(KEY not in str(show()) for show in shown)
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://me:pass-word@host:8443/v1?api-key=sk-query", "https://host:8443/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://[bad", "an address that is none"),
        ("localhost:8000/v1", "localhost:8000/v1"),
    ],
)
def test_an_address_is_named_without_what_may_be_a_key_in_it(address: str, shown: str) -> None:
    assert public(address) == shown == OpenAIChat("m", base_url=address).address


def test_a_password_in_the_address_is_in_no_message() -> None:
    with serving([Status(500)]) as server:
        address = server.url.replace("//", "//me:pass-word@")
        with pytest.raises(ProviderError) as caught:
            OpenAIChat("m", base_url=address, retries=0).ask(question(), UNATTENDED)
    assert "pass-word" not in "".join(traceback.format_exception(caught.value))
    assert "answered 500" in str(caught.value) and len(server.requests) == 1
