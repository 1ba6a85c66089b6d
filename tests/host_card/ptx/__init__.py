# SPDX-License-Identifier: Apache-2.0
"""PTX as C++ that runs on the host, see the PTX ISA (version 9.0)."""

from __future__ import annotations

from tests.host_card.ptx.emit import translate
from tests.host_card.ptx.parse import PtxError

__all__ = ["PtxError", "translate"]
