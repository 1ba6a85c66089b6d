# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    found = resolve_toolchain()
    for gone in (found.missing.get("nvcc"), found.missing.get("host_compiler")):
        if gone is not None:
            pytest.skip(gone.why)
    return found
