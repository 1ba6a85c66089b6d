# SPDX-License-Identifier: Apache-2.0
"""A local OpenAI-compatible server over real HTTP that answers from a script, well or badly."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

#: Acts on a request instead of answering it in order.
Fault = Callable[[BaseHTTPRequestHandler, threading.Event], None]


class Say(msgspec.Struct, frozen=True):
    """A streamed reply. `finish` as the protocol names it; None breaks the stream off before its end."""

    text: str = ""
    finish: str | None = "stop"
    refusal: str = ""
    usage: tuple[int, int] | None = (100, 20)
    piece: int = 7


class Status(msgspec.Struct, frozen=True):
    """An HTTP error with the vendor's form of body."""

    code: int
    message: str = "no"
    param: str | None = None
    headers: dict[str, str] = {}


Answer = Say | Status | Fault | str
#: A script in order (the last line repeats), or a function of the request.
Script = Sequence[Answer] | Callable[[dict[str, Any]], Answer]


class Endpoint:
    """What the server saw, and where it is."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.closing = threading.Event()
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any], headers: dict[str, str]) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            place = len(self.requests) - 1
        if callable(self.script):
            return self.script(request)
        return self.script[min(place, len(self.script) - 1)]


@contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    endpoint = Endpoint(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            request = json.loads(self.rfile.read(length))
            with contextlib.suppress(ConnectionError):
                self._answer(endpoint.answer(request, dict(self.headers.items())))

        def _answer(self, answer: Answer) -> None:
            if isinstance(answer, str):
                answer = Say(answer)
            if isinstance(answer, Say):
                _stream(self, answer)
            elif isinstance(answer, Status):
                _refuse(self, answer)
            else:
                answer(self, endpoint.closing)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield endpoint
    finally:
        endpoint.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def start(handler: BaseHTTPRequestHandler) -> None:
    """The head of an event stream that ends with the connection."""
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()
    handler.close_connection = True


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }


def _stream(handler: BaseHTTPRequestHandler, say: Say) -> None:
    start(handler)
    for at in range(0, len(say.text), max(say.piece, 1)):
        handler.wfile.write(event(chunk({"content": say.text[at : at + say.piece]})))
    if say.refusal:
        handler.wfile.write(event(chunk({"refusal": say.refusal})))
    if say.finish is None:
        return
    handler.wfile.write(event(chunk({}, say.finish)))
    if say.usage is not None:
        counts = dict(zip(("prompt_tokens", "completion_tokens"), say.usage, strict=True))
        usage = {**counts, "total_tokens": sum(say.usage)}
        handler.wfile.write(event({**chunk({}), "choices": [], "usage": usage}))
    handler.wfile.write(b"data: [DONE]\n\n")


def _refuse(handler: BaseHTTPRequestHandler, status: Status) -> None:
    error = {"message": status.message, "type": "invalid_request_error", "param": status.param, "code": None}
    body = json.dumps({"error": error}).encode()
    handler.send_response(status.code)
    for name, value in {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **status.headers,
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def hang(_: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """Take the request and say nothing."""
    closing.wait(600)


def drip(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """A comment line of the stream, a byte at a time, so that no read ever times out."""
    start(handler)
    handler.wfile.write(b":")
    while not closing.wait(0.02):
        handler.wfile.write(b".")
        handler.wfile.flush()


def drip_headers(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """A header that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not closing.wait(0.02):
        handler.wfile.write(b"a")
        handler.wfile.flush()


def endless_words(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """Well-formed pieces for ever."""
    start(handler)
    piece = event(chunk({"content": "more and more of the same " * 8}))
    while not closing.is_set():
        handler.wfile.write(piece)


def endless_event(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
    """One event that never ends, as fast as it goes."""
    start(handler)
    handler.wfile.write(b"data: {")
    while not closing.is_set():
        handler.wfile.write(b'"a": 1, ' * 8192)


def garbage(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """A stream of something else."""
    start(handler)
    handler.wfile.write(b"data: <html>bad gateway</html>\n\n")


def not_a_chunk(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """JSON of another shape."""
    start(handler)
    handler.wfile.write(event({"choices": [{"delta": 3, "finish_reason": []}]}))
    handler.wfile.write(event({"choices": "all"}))


def page(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """A web page with status 200: a wrong base URL."""
    body = b"<html><body>welcome</body></html>"
    handler.send_response(200)
    handler.send_header("content-type", "text/html")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def broken(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """The connection is lost after the first piece."""
    start(handler)
    handler.wfile.write(event(chunk({"content": "half of"})))
    handler.wfile.write(b'data: {"id"')


def reset(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
    """The connection is closed without an answer."""
    handler.close_connection = True
    handler.connection.close()


def slowly(seconds: float, text: str) -> Fault:
    """A good reply after a while."""

    def act(handler: BaseHTTPRequestHandler, _: threading.Event) -> None:
        time.sleep(seconds)
        _stream(handler, Say(text))

    return act
