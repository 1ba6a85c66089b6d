# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _listening() -> Iterator[None]:
    """Tests started by nohup, or in the background of a script, ignore signals, and so would what they start."""
    deaf = [n for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_IGN]
    for number in deaf:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in deaf:
        signal.signal(number, signal.SIG_IGN)
