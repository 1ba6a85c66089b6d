# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.standard import lean_headers


@pytest.fixture(autouse=True, scope="package")
def _lean_headers() -> Iterator[None]:
    """The causes are in kernels."""
    with lean_headers():
        yield
