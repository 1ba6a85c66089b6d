# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of every test and of every fixture that outlives one, of this process and of those it waited for.

    SECONDS=seconds.jsonl python -m pytest -p tests.bench.seconds_of_tests tests/server/lsp

One line each: its kind and name, seconds here, seconds of children, seconds on the clock. They hold on a busy machine,
where the clock says more of the others. A forked language server is nobody's child: it does not count.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(os.environ.get("SECONDS", "seconds.jsonl"))


def _now() -> tuple[float, float, float]:
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system, time.monotonic()


def _write(kind: str, name: str, began: tuple[float, float, float]) -> None:
    spent = [round(now - then, 3) for now, then in zip(_now(), began, strict=True)]
    with _FILE.open("a") as file:
        file.write(json.dumps([kind, name, *spent]) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    began = _now()
    done = yield
    _write("test", item.nodeid, began)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    began = _now()
    made = yield
    if fixturedef.scope != "function":
        _write("fixture", f"{fixturedef.baseid}::{fixturedef.argname}", began)
    return made
