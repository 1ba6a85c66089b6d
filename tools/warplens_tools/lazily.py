# SPDX-License-Identifier: Apache-2.0
"""`cached_property` without a lock, as Python has it from 3.12 on.

Up to 3.11 `functools.cached_property` holds one lock for all objects of a class while it computes: work in the
background that stands aside at a checkpoint within a property then keeps the very thread waiting for which it does.
Two threads that ask one object at once compute twice, to the same end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

if sys.version_info >= (3, 12):
    from functools import cached_property
else:
    T = TypeVar("T")
    _MISSING: Any = object()

    class cached_property(Generic[T]):  # noqa: N801 - it stands for the library's
        """A property that is computed once for an object, and kept in its `__dict__`."""

        def __init__(self, function: Callable[[Any], T]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None) -> T: ...
        def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[T] | T:
            if instance is None:
                return self
            kept = instance.__dict__
            value: T = kept.get(self._name, _MISSING)
            if value is _MISSING:
                value = kept[self._name] = self._function(instance)
            return value


__all__ = ["cached_property"]
