# SPDX-License-Identifier: Apache-2.0
"""Whether the order in which threads happen to come may show in what a kernel computes."""

from __future__ import annotations

import re

from warplens_tools.toolchain.ptx_flow import bodies_of
from warplens_tools.toolchain.symbols import unit_free_name

#: Atomic operations, accesses that wait for others' or are waited for, and registers that tell where and when a thread
#: runs: `atom`, `red`, `.volatile`, `.acquire`, `.release`, `.relaxed` and the special registers of the PTX ISA.
_BY_CHANCE = re.compile(
    r"\b(?:atom|red)\.|\.(?:volatile|acquire|release|relaxed|mmio)\b"
    r"|%(?:clock|globaltimer|smid|nsmid|warpid|nwarpid|gridid|dynamic_smem|total_smem)\w*"
)
_CALL = re.compile(r"\bcall\b")


def by_chance(ptx: str, kernel: str) -> bool:
    """Whether a kernel, by its mangled name, has any such instruction; a race has none, and is not seen.

    True as well where the PTX does not hold the kernel. What it calls is looked for in all of the unit.
    """
    wanted = unit_free_name(kernel)
    body = next((text for name, text in bodies_of(ptx) if name == wanted), None)
    if body is None:
        return True
    return bool(_BY_CHANCE.search(ptx if _CALL.search(body) else body))
