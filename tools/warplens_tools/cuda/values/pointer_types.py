# SPDX-License-Identifier: Apache-2.0
"""How parameters that lead into arrays are written: rows, accessors of tensors, pitched images, tables of pointers."""

from __future__ import annotations

import re

#: Words of a type that do not change what is pointed to.
QUALIFIERS = frozenset({"const", "volatile", "__restrict__", "restrict"})
#: `float a[N][M]`, `float (*a)[M]`
PLANE = re.compile(
    r"(?P<element>[\w:<>\s]+?)\s*(?:\[[^\]]*\]|\(\s*\*[\s\w]*\))\s*(?P<inner>(?:\[[^\]]+\]\s*)+)"
)
#: `const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits>`, `THCDeviceTensor<float, 4>`
ACCESSOR = re.compile(
    r"(?:const\s+)?(?:\w+::)*(?:(?:Generic)?PackedTensorAccessor(?:32|64)?|(?:THC)?DeviceTensor)\s*<"
    r"(?P<element>[\w\s:]+),\s*(?P<dimensions>[1-8])\s*[,>].*"
)
#: `const PtrStepSz<uchar>`
PITCHED = re.compile(r"(?:const\s+)?(?:\w+::)*PtrStep(?:Sz)?\s*<(?P<element>[\w\s:]+)>")
#: `const float* const* a`
TABLE = re.compile(r"(?:const\s+)?([\w:]+)(?:\s+const)?\s*\*[\s\w]*\*[\s\w]*")
#: One of `[N][M]`.
EXTENT = re.compile(r"\[([^\]]+)\]")
