# SPDX-License-Identifier: Apache-2.0
"""What a launch can tell itself from another by: special registers and the device's own calls, read from PTX.

Everything that inline assembly may name is PTX, so that a unit's PTX says all of it, function by function or not.
"""

from __future__ import annotations

import re

#: Special registers that follow from the launch and the thread alone (PTX ISA 9.0, section 10). All others differ
#: from launch to launch, or from card to card: %gridid, %clock, %globaltimer, %smid, %warpid, %envreg, %pm.
_OF_THE_LAUNCH = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyz])?"
    r"|%(?:laneid|lanemask_(?:eq|le|lt|ge|gt)|cluster_ctarank|cluster_nctarank|is_explicit_cluster)"
    r"|%(?:total_smem_size|aggr_smem_size|dynamic_smem_size|reserved_smem_offset_(?:begin|end|cap|[01]))"
)
_NAME = re.compile(r"%[A-Za-z_][\w$]*(?:\.[xyz]\b)?")
#: `.reg .b32 %r<12>;` and `.reg .pred p, q;`, which inline assembly declares too.
_DECLARED = re.compile(r"\.reg\s+(?:\.v[248]\s+)?\.\w+\s+([^;]*);")
_ONE = re.compile(r"(%?[A-Za-z_$%][\w$]*)(<\d+>)?")
_EXTERNAL = re.compile(r"\.extern\s+\.func\s*(?:\([^)]*\)\s*)?([\w$]+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
#: What the device's own functions keep beyond a launch.
_KEPT = {
    "vprintf": "printf, which writes the device's print buffer",
    "malloc": "the device's heap (malloc)",
    "free": "the device's heap (free)",
    "__assertfail": "assert, which stops the device",
}


def reads_new_state(baseline: str, candidate: str) -> str:
    """What a candidate's PTX reads, or keeps, from launch to launch and its baseline's does not; "" if nothing.

    The answer names it in words, e.g. "the special register %gridid".
    """
    old, new = _without_comments(baseline), _without_comments(candidate)
    registers = sorted(_special_registers(new) - _special_registers(old))
    if registers:
        return f"the special register {registers[0]}"
    calls = sorted(set(_EXTERNAL.findall(new)) - set(_EXTERNAL.findall(old)))
    return next((_KEPT.get(name, f"the function {name} of the device's runtime") for name in calls), "")


def _without_comments(ptx: str) -> str:
    return _COMMENT.sub(" ", ptx)


def _special_registers(ptx: str) -> set[str]:
    """All that is named like a register, declared nowhere, and not of the launch alone."""
    names = {"%SP", "%SPL"}
    families: set[str] = set()
    for declaration in _DECLARED.findall(ptx):
        for name, many in _ONE.findall(declaration):
            (families if many else names).add(name)
    found = set()
    for match in _NAME.finditer(ptx):
        name = match.group()
        bare = name.split(".")[0]
        declared = bare in names or bare.rstrip("0123456789") in families
        if not declared and not _OF_THE_LAUNCH.fullmatch(name):
            found.add(bare)
    return found
