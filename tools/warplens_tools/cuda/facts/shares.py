# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel divides its work by its threads and gives each thread the stretch with its number.

    int each = (n + workers - 1) / workers;      // workers = gridDim.x * blockDim.x
    for (int i = me * each; i < (me + 1) * each; ++i)

Stretches that only lie one lane after another (rows, windows, boxes of an image) have a length of their own.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.facts.lane_names import lane_names, names_from
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_code
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.kernel_tree import kernel_tree

_SIZES = frozenset({"gridDim", "blockDim", "num_threads"})
_QUOTIENT = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)[^;{}]*?/\s*(\([^;{}]*|[\w.:]+)")
_PRODUCT = re.compile(r"([A-Za-z_][\w.]*)(?:\s*[-+]\s*\d+\s*\))?\s*\)?\s*\*\s*([A-Za-z_]\w*)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def deals_shares(tree: SourceTree, kernel: Kernel) -> bool:
    """Whether the kernel, or a function of its file that it may call, multiplies a thread's number by such a share."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return False
    own = expanded.tree.code_of(expanded.function.body)
    code = f"{own}\n{called_code(tree, own)}"
    sizes, lanes = names_from(code, _SIZES), lane_names(code)
    shares = {name for name, by in _QUOTIENT.findall(code) if set(_WORD.findall(by)) & sizes}
    products = [(a.split(".")[0], b.split(".")[0]) for a, b in _PRODUCT.findall(code)]
    return any((a in lanes and b in shares) or (a in shares and b in lanes) for a, b in products)
