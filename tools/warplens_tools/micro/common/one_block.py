# SPDX-License-Identifier: Apache-2.0
"""Kernels that are written for a single block."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.evidence import Instruction

#: How SASS names what tells a block from another: its index, its rank in a cluster.
_NUMBERS_OF_BLOCKS = re.compile(r"SR_(?:CTAID|CgaCta|CLUSTER)", re.IGNORECASE)
#: A loop that goes on by the threads of the block, as where they share its elements.
_BY_THREADS = re.compile(r"\+=\s*blockDim\.[xyz]\b")


def is_of_one_block(code: Sequence[Instruction], body: str) -> bool:
    """Whether SASS asks for no block's number, and the kernel's text deals the elements out to the threads of a block:
    any other block would do the same work again."""
    asks = any(_NUMBERS_OF_BLOCKS.search(operand) for x in code for operand in x.operands)
    return not asks and _BY_THREADS.search(body) is not None
