# SPDX-License-Identifier: Apache-2.0
"""Data read into a type, from any thread; nothing else calls msgspec for it.

At a type's first use msgspec works out how its fields are read, and those of all types below it, and it shows the
result to other threads before it is whole: one that reads the same type meanwhile ends the process (segmentation
fault; msgspec 0.20). So the first use of each type happens here under one lock, and whoever needs it waits.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

#: One for all types, since two types may share one below them.
_lock = threading.Lock()
_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


@overload
def from_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def from_json(data: bytes | str, kind: Any) -> Any: ...
def from_json(data: bytes | str, kind: Any) -> Any:
    """A value of type `kind`.

    Raises:
        msgspec.DecodeError: `data` is not JSON.
        msgspec.ValidationError: it is not a `kind`.
    """
    return _of_json(kind).decode(data)


@overload
def from_msgpack(data: bytes, kind: type[T]) -> T: ...
@overload
def from_msgpack(data: bytes, kind: Any) -> Any: ...
def from_msgpack(data: bytes, kind: Any) -> Any:
    """A value of type `kind`.

    Raises:
        msgspec.DecodeError: `data` is not MessagePack.
        msgspec.ValidationError: it is not a `kind`.
    """
    decoder = _msgpack.get(kind)
    if decoder is None:
        with _lock:
            decoder = _msgpack[kind] = msgspec.msgpack.Decoder(kind)
    return decoder.decode(data)


def from_toml(data: bytes | str, kind: type[T]) -> T:
    """A value of type `kind`.

    Raises:
        msgspec.DecodeError: `data` is not TOML.
        msgspec.ValidationError: it is not a `kind`.
    """
    _of_json(kind)
    return msgspec.toml.decode(data, type=kind)


def from_builtins(value: Any, kind: type[T], *, strict: bool = True) -> T:
    """Dictionaries, lists, strings and numbers as a value of type `kind`; not `strict`, "3" is a number too.

    Raises:
        msgspec.ValidationError: `value` is not a `kind`.
    """
    _of_json(kind)
    return msgspec.convert(value, kind, strict=strict)


def _of_json(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _json.get(kind)
    if decoder is None:
        with _lock:
            decoder = _json[kind] = msgspec.json.Decoder(kind)
    return decoder
