# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compiled import compiled_once


@pytest.fixture(autouse=True, scope="package")
def _compiled_once() -> Iterator[None]:
    """Most tests here judge edits of the same few programs."""
    with compiled_once():
        yield
