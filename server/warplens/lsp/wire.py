# SPDX-License-Identifier: Apache-2.0
"""What the protocol says of bad input, over pygls: frames that are wrong are skipped to the next header, requests
that cannot be served are answered with the protocol's error codes, and what cannot be mended ends the session.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException

log = logging.getLogger(__name__)

#: Bytes one message may have; a header that asks for more is taken as wrong.
MOST_BYTES = 256 * 1024 * 1024
#: Bytes without a header after which there is no hope of another.
MOST_GARBAGE = 16 * 1024 * 1024

_HEADER = re.compile(rb"content-length[ \t]*:[ \t]*(\d+)[ \t]*\r?\n", re.IGNORECASE)
_END = re.compile(rb"\r?\n\r?\n")
#: Bytes of header fields after the length.
_MOST_FIELDS = 4096


class Fault(msgspec.Struct, frozen=True):
    """A stretch of input that is no message, and why."""

    reason: str


class LostError(Exception):
    """There is no finding back to the messages."""


class Frames:
    """Bytes to messages. No valid JSON contains a header, so one that stands inside a body means a wrong length."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[Any | Fault]:
        """The JSON values, and faults, that are complete with `data`.

        Raises:
            LostError: too much came without a header.
        """
        self._buffer += data
        while (found := self._next()) is not None:
            yield found[0]

    def _next(self) -> tuple[Any | Fault] | None:
        header = _HEADER.search(self._buffer)
        if header is None:
            if len(self._buffer) > MOST_GARBAGE:
                raise LostError(f"{MOST_GARBAGE} bytes came without a message")
            return None
        if self._buffer[: header.start()].strip() and not self._is_field(header.start()):
            return self._skip(header.start(), "bytes between two messages")
        self._skipping = False
        end = _END.search(self._buffer, header.end() - 2 if header[0].endswith(b"\r\n") else header.end() - 1)
        if end is None:
            if len(self._buffer) - header.end() > _MOST_FIELDS:
                return self._drop(header.end(), "a header without an end")
            return None
        length = int(header[1][:20])
        if not 0 < length <= MOST_BYTES:
            return self._drop(end.end(), f"a message of {length} bytes")
        return self._body(end.end(), length)

    def _body(self, start: int, length: int) -> tuple[Any | Fault] | None:
        following = _HEADER.search(self._buffer, start)
        whole = start + length
        if following is not None and following.start() < whole:
            return self._read(start, following.start())
        if len(self._buffer) < whole:
            return None
        message = _value(self._buffer[start:whole])
        if message is not None:
            del self._buffer[:whole]
            return message
        # too short a length: the rest of the message is what comes before the next header
        return self._read(start, following.start() if following is not None else len(self._buffer))

    def _read(self, start: int, end: int) -> tuple[Any | Fault]:
        message = _value(self._buffer[start:end])
        del self._buffer[:end]
        self._skipping = message is None
        return message if message is not None else (Fault("a body that is not JSON"),)

    def _is_field(self, end: int) -> bool:
        """Whether what stands before a length is other header fields."""
        return all(b":" in line for line in self._buffer[:end].split(b"\n") if line.strip())

    def _skip(self, end: int, reason: str) -> tuple[Any | Fault] | None:
        silent, self._skipping = self._skipping, False
        del self._buffer[:end]
        return self._next() if silent else (Fault(reason),)

    def _drop(self, end: int, reason: str) -> tuple[Any | Fault]:
        del self._buffer[:end]
        self._skipping = True
        return (Fault(reason),)


def _value(body: bytearray) -> tuple[Any] | None:
    """The JSON value that a body begins with, if all that follows it is part of a header."""
    try:
        text = body.decode("utf-8")
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    rest = text.lstrip()[end:].strip()
    return (value,) if not rest or "content-length:".startswith(rest.lower()) else None


class Speaker(Protocol):
    """What is needed of pygls' protocol."""

    def structure_message(self, data: Any) -> Any:
        """The typed message."""

    def handle_message(self, message: Any) -> None:
        """Serve it."""

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None: ...


class Gate:
    """Lets through what may be served now, and answers the rest.

    `state` goes from "new" through "initialized" to "shut down".
    """

    def __init__(self, speaker: Speaker, failed: Callable[[Exception], None]) -> None:
        self._speaker = speaker
        self._failed = failed
        self.state = "new"

    def take(self, data: Any | Fault) -> None:
        """Serve one JSON value, or answer it."""
        if isinstance(data, Fault):
            log.warning("skipped %s", data.reason)
            self._refuse(None, types.ErrorCodes.ParseError, f"{data.reason}; skipped to the next header")
            return
        if not isinstance(data, dict) or data.get("jsonrpc") != "2.0":
            name = data.get("id") if isinstance(data, dict) else None
            self._refuse(name, types.ErrorCodes.InvalidRequest, "not a JSON-RPC 2.0 message")
            return
        method, name, is_request = data.get("method"), data.get("id"), "id" in data
        if "method" not in data:
            self._serve(data, None)
        elif not isinstance(method, str) or (is_request and not isinstance(name, int | str)):
            self._refuse(
                name, types.ErrorCodes.InvalidRequest, "a method is a string, an id a number or string"
            )
        elif is_request:
            self._request(data, method, name)
        elif method == types.EXIT or self.state == "initialized":
            self._serve({"params": None, **data}, None)

    def _request(self, data: dict[str, Any], method: str, name: int | str | None) -> None:
        why = {
            "new": None
            if method == types.INITIALIZE
            else (types.ErrorCodes.ServerNotInitialized, "`initialize` comes first"),
            "initialized": (types.ErrorCodes.InvalidRequest, "a second `initialize`")
            if method == types.INITIALIZE
            else None,
            "shut down": (types.ErrorCodes.InvalidRequest, "the server was shut down"),
        }[self.state]
        if why is not None:
            self._refuse(name, *why)
            return
        if not self._serve({"params": None, **data}, name):
            return
        if method == types.INITIALIZE:
            self.state = "initialized"
        elif method == types.SHUTDOWN:
            self.state = "shut down"

    def _serve(self, data: dict[str, Any], name: int | str | None) -> bool:
        try:
            message = self._speaker.structure_message(data)
        except (JsonRpcException, TypeError, ValueError, KeyError, RecursionError) as error:
            if name is not None:
                self._refuse(
                    name,
                    types.ErrorCodes.InvalidParams,
                    f"{data.get('method')}: its parameters cannot be read",
                )
            else:
                log.warning("%s: its parameters cannot be read: %s", data.get("method"), error)
            return False
        try:
            self._speaker.handle_message(message)
        except Exception as error:  # noqa: BLE001 - the edge: one message must not stop the server
            self._failed(error)
        return True

    def _refuse(self, name: Any, code: types.ErrorCodes, message: str) -> None:
        answered = name if isinstance(name, int | str) else None
        error = types.ResponseError(code=code.value, message=message)
        self._speaker._send_response(answered, error=error)


class Output:
    """Standard output, for pygls: what comes after the client has gone goes nowhere."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.closed = False

    def write(self, data: bytes) -> None:
        """Write all of it, or nothing more from now on."""
        view = memoryview(data)
        while view and not self.closed:
            try:
                view = view[os.write(self._handle, view) :]
            except BlockingIOError:
                select.select([], [self._handle], [], 1.0)
            except OSError:
                self.closed = True

    def close(self) -> None:
        """Say nothing more."""
        self.closed = True


async def listen(handle: int, gate: Gate, ended: Callable[[], bool]) -> str:
    """Serve what comes over a file descriptor until it ends or `ended`; returns why it was given up, or ""."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        data = b"more"
        while data:
            try:
                data = os.read(handle, 1 << 16)
            except OSError:
                data = b""
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, data)
            except RuntimeError:  # the loop is closed
                return

    # a daemon: it may stand in `read` when all else has ended
    threading.Thread(target=read, name="warplens-input", daemon=True).start()
    frames = Frames()
    while data := await arrived.get():
        try:
            for message in frames.feed(data):
                gate.take(message)
                if ended():
                    return ""
                # what was asked for gets its turn before the next message
                await asyncio.sleep(0)
        except LostError as error:
            sys.stderr.write(f"warplens: {error}; the session ends\n")
            return str(error)
    return ""
