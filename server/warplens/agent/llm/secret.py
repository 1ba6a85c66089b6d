# SPDX-License-Identifier: Apache-2.0
"""A key that shows itself to nobody by accident."""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import urlsplit, urlunsplit


def public(address: str) -> str:
    """An address without what may be a key in it: the user and password before its host, and its query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "an address that is none"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Secret:
    """A text that no log, report, journal or traceback holds: printing, formatting and pickling hide or refuse it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for the header that it goes into."""
        return self._text

    def hidden_in(self, words: str) -> str:
        """`words` without it: an endpoint may repeat the key that it refuses."""
        return words.replace(self._text, "(key)") if self._text else words

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down")
