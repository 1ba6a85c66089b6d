# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compiled import compiled_once


@pytest.fixture(autouse=True, scope="module")
def _compiled_once() -> Iterator[None]:
    """Most tests here judge edits of the same few programs. Not for a package: without an `__init__.py` that is the
    whole session, and tests of other rooms would be told what was compiled here."""
    with compiled_once():
        yield
