# SPDX-License-Identifier: Apache-2.0
"""Bad input: frames are found again, requests are answered with the protocol's codes, and every end is an end."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE
from tests.processes import named
from tests.server.lsp.fuzz import KERNEL, Peer, frame, run

from warplens.lsp import wire
from warplens.lsp.wire import Fault, Frames, LostError

ONE, TWO = {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 2}
FIRST, SECOND = json.dumps(ONE), json.dumps(TWO)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = Peer(tmp_path)
    yield peer
    peer.close()


def _messages(data: bytes, chunk: int = 1 << 16) -> list[Any]:
    frames = Frames()
    return [m for at in range(0, len(data), chunk) for m in frames.feed(data[at : at + chunk])]


@given(st.lists(st.dictionaries(st.text(max_size=9), st.text(max_size=30), max_size=3)), st.integers(1, 60))
@pytest.mark.thorough
def test_messages_arrive_however_they_are_cut(values: list[dict[str, str]], chunk: int) -> None:
    data = b"".join(frame(json.dumps(value, ensure_ascii=False)) for value in values)
    assert _messages(data, chunk) == values


@pytest.mark.parametrize(
    "first",
    [
        frame(FIRST, header="content-length"),
        frame(FIRST).replace(b"\r\n", b"\n"),
        b"Content-Type: application/json\r\n" + frame(FIRST),
        frame(FIRST).replace(b"\r\n\r\n", b"\r\nContent-Type: x\r\n\r\n"),
        frame(FIRST, length=len(FIRST) - 5),
        frame(FIRST, length=len(FIRST) + 5),
        frame(FIRST, length=len(FIRST) + 5000),
    ],
    ids=["lower case", "line feeds", "type first", "type last", "five short", "five long", "very long"],
)
def test_a_frame_that_is_a_little_wrong_is_read(first: bytes) -> None:
    assert _messages(first + frame(SECOND)) == [ONE, TWO]


@pytest.mark.parametrize(
    "first",
    [
        b"Content-Length: 1000000000000\r\n\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 7\r\n\r\n",
        b"no header at all\r\n\r\n",
        b"Content-Length: many\r\n\r\n" + FIRST.encode(),
        frame(b"\xff\xfe"),
        frame(FIRST[:-1]),
        frame(FIRST)[:-4],
    ],
)
def test_a_frame_that_cannot_be_read_is_skipped(first: bytes) -> None:
    *faults, last = _messages(first + frame(SECOND))
    assert last == TWO and len(faults) <= 1 and all(isinstance(fault, Fault) for fault in faults)


def test_endless_garbage_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_GARBAGE", 1000)
    with pytest.raises(LostError):
        _messages(b"x" * 2000, 100)


def test_what_comes_at_the_wrong_time_is_refused(peer: Peer) -> None:
    def code(method: str, params: Any = None) -> int:
        return int((peer.ask(method, params).get("error") or {}).get("code", 0))

    hover = {"textDocument": {"uri": "file:///k.cu"}, "position": {"line": 0, "character": 0}}
    assert code("textDocument/hover", hover) == -32002
    assert code("initialize", {"capabilities": 5}) == -32602
    peer.begin()
    assert code("initialize", {"processId": None, "rootUri": None, "capabilities": {}}) == -32600
    assert code("textDocument/hover") == -32602
    assert code("textDocument/hover", {"position": "x"}) == -32602
    assert code("no/such/method") == -32601
    assert code("workspace/executeCommand", {"command": "none"}) == -32602
    assert (
        code("codeLens/resolve", {"range": {"start": hover["position"], "end": hover["position"]}}) == -32602
    )
    assert code("textDocument/hover", hover) == 0
    peer.send(frame(json.dumps({"jsonrpc": "1.0", "id": 77, "method": "textDocument/hover"})))
    assert peer.answer(77)["error"]["code"] == -32600
    peer.send(frame("[]"))
    assert peer.answer(None)["error"]["code"] == -32600
    assert code("shutdown") == 0
    assert code("textDocument/hover", hover) == -32600
    peer.notify("exit", None)
    assert peer.process.wait(PATIENCE) == 0
    assert peer.errors.stat().st_size < 2000


def test_an_older_version_of_a_document_is_not_taken(peer: Peer) -> None:
    peer.begin()
    uri = "untitled:old"
    peer.notify(
        "textDocument/didOpen",
        {"textDocument": {"uri": uri, "languageId": "cuda-cpp", "version": 5, "text": KERNEL}},
    )
    peer.notify(
        "textDocument/didChange",
        {"textDocument": {"uri": uri, "version": 4}, "contentChanges": [{"text": "int none;\n"}]},
    )
    lenses = peer.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert lenses["result"]


@pytest.mark.parametrize("way", ["exit", "end of input", "SIGTERM", "shutdown", "SIGKILL"])
@pytest.mark.compiler
@pytest.mark.sampled(2)
def test_every_end_takes_the_compiler_and_its_folder_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("WARPLENS_CACHE", str(cache))
    peer = Peer(tmp_path)
    peer.begin()
    # an nvcc that takes long, and its own children with it
    text = _slow()
    path = tmp_path / "slow.cu"
    path.write_text(text)
    item = {"uri": path.as_uri(), "languageId": "cuda-cpp", "version": 1, "text": text}
    peer.notify("textDocument/didOpen", {"textDocument": item})
    server = psutil.Process(peer.process.pid)
    deadline = time.monotonic() + PATIENCE
    while not named("nvcc", server.children(recursive=True)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    below = server.children(recursive=True)
    started = time.monotonic()
    _end(peer, way)
    status = peer.process.wait(PATIENCE)
    # two seconds are the promise on an idle machine; the compiler would take minutes
    assert time.monotonic() - started < 30
    expected = {"shutdown": 0, "SIGTERM": 143, "SIGKILL": -9}
    assert status == expected.get(way, 1)
    peer.close()
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive
    if way != "SIGKILL":
        assert not list((cache / "binary" / "work").glob("*"))
    assert peer.errors.stat().st_size < 5000


def _slow() -> str:
    return (
        "template <int N> struct Chain { static __device__ float run(float x)"
        " { return Chain<N - 1>::run(x * 1.5f + N) + Chain<N - 2>::run(x - N); } };\n"
        "template <> struct Chain<0> { static __device__ float run(float x) { return x; } };\n"
        "template <> struct Chain<1> { static __device__ float run(float x) { return x + 1.f; } };\n"
        "__global__ void slow(float* a) { a[threadIdx.x] = Chain<26>::run(a[threadIdx.x]); }\n"
    )


def _end(peer: Peer, way: str) -> None:
    assert peer.process.stdin is not None
    if way == "exit":
        peer.notify("exit", None)
    elif way == "end of input":
        peer.process.stdin.close()
    elif way == "shutdown":
        peer.ask("shutdown")
        peer.notify("exit", None)
    else:
        peer.process.send_signal(getattr(signal, way))


@pytest.mark.thorough
def test_a_misbehaving_client_is_answered_to_the_end(tmp_path: Path) -> None:
    result = run(tmp_path, messages=800, seed=3)
    assert result["exit_status"] == 0
    assert result["most_resident_mb"] < 200
    assert "-32603" not in result["answers_by_error_code"]
