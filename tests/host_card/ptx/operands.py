# SPDX-License-Identifier: Apache-2.0
"""Operands of PTX as C++ expressions: registers, numbers, special registers, names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.host_card.ptx.parse import SIZES, PtxError, Targets

#: C++ types; the bits of half and bfloat16 are integers.
C_TYPES = {
    **{
        f"{kind}{bits}": f"{'s' if kind == 's' else 'u'}{bits}"
        for kind in "bus"
        for bits in (8, 16, 32, 64, 128)
    },
    "f16": "u16",
    "bf16": "u16",
    "f16x2": "u32",
    "bf16x2": "u32",
    "tf32": "u32",
    "f32": "float",
    "f64": "double",
    "pred": "bool",
}
_AXES = "xyz"
_SPECIAL = {
    **{f"%tid.{a}": f"t->tid[{i}]" for i, a in enumerate(_AXES)},
    **{f"%ntid.{a}": f"t->block->ntid[{i}]" for i, a in enumerate(_AXES)},
    **{f"%ctaid.{a}": f"t->block->ctaid[{i}]" for i, a in enumerate(_AXES)},
    **{f"%nctaid.{a}": f"t->block->nctaid[{i}]" for i, a in enumerate(_AXES)},
    # clusters of one block
    **{f"%cluster_ctaid.{a}": "0u" for a in _AXES},
    **{f"%cluster_nctaid.{a}": "1u" for a in _AXES},
    **{f"%clusterid.{a}": f"t->block->ctaid[{i}]" for i, a in enumerate(_AXES)},
    **{f"%nclusterid.{a}": f"t->block->nctaid[{i}]" for i, a in enumerate(_AXES)},
    "%cluster_ctarank": "0u",
    "%cluster_nctarank": "1u",
    "%is_explicit_cluster": "false",
    "%laneid": "t->lane",
    "%warpid": "t->warp",
    "%nwarpid": "32u",
    "%smid": "0u",
    "%nsmid": "1u",
    "%gridid": "1ull",
    "%lanemask_eq": "(1u << t->lane)",
    "%lanemask_lt": "((1u << t->lane) - 1)",
    "%lanemask_le": "((2u << t->lane) - 1)",
    "%lanemask_gt": "~((2u << t->lane) - 1)",
    "%lanemask_ge": "~((1u << t->lane) - 1)",
    "%clock": "static_cast<u32>(card_services->clock())",
    "%clock_hi": "static_cast<u32>(card_services->clock() >> 32)",
    "%clock64": "card_services->clock()",
    "%globaltimer": "card_services->clock()",
    "%globaltimer_lo": "static_cast<u32>(card_services->clock())",
    "%globaltimer_hi": "static_cast<u32>(card_services->clock() >> 32)",
    "%dynamic_smem_size": "t->block->dynamic_bytes",
    "%total_smem_size": "t->block->shared_bytes",
    # cooperative_groups asks these for the grid's workspace
    "%envreg1": "static_cast<u32>(t->block->grid >> 32)",
    "%envreg2": "static_cast<u32>(t->block->grid)",
    "WARP_SZ": "32u",
}
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")


def named(word: str) -> str:
    """A PTX name as one of C++."""
    return "v_" + word.lstrip("%").replace("$", "_S").replace(".", "_D")


def converted(expression: str, have: str, want: str) -> str:
    """An expression of one C++ type, or its bits, as another."""
    if have == want:
        return expression
    floats = {"float": "f32", "double": "f64"}
    if have in floats:
        bits = f"bits({expression})"
        return bits if want in ("u32", "u64") and (want == "u32") == (have == "float") else f"({want}){bits}"
    if want in floats:
        unsigned = "u32" if want == "float" else "u64"
        return f"{floats[want]}({converted(expression, have, unsigned)})"
    return f"({want})({expression})"


@dataclass
class Names:
    """What names mean at a place of a function."""

    #: Registers' C++ types, innermost scope last.
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    #: Addresses (u64) of variables and functions, as expressions.
    addresses: dict[str, str] = field(default_factory=dict)
    #: Tables of jumps, and prototypes.
    targets: dict[str, Targets] = field(default_factory=dict)

    def type_of(self, register: str) -> str | None:
        """A register's C++ type."""
        for scope in reversed(self.scopes):
            if register in scope:
                return scope[register]
        return None

    def read(self, operand: str, kind: str) -> str:
        """An operand as an expression of a PTX type.

        Raises:
            PtxError: it is not known.
        """
        want = C_TYPES[kind]
        negated = operand.startswith("!")
        word = operand.lstrip("!").strip()
        have = self.type_of(word)
        if have is not None:
            value = converted(named(word), have, want)
        elif word in _SPECIAL:
            value = converted(_SPECIAL[word], "u64" if "clock()" in _SPECIAL[word] else "u32", want)
        else:
            value = self._constant(word, want)
        return f"!({value})" if negated else value

    def _constant(self, word: str, want: str) -> str:
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", word):
            return (
                converted(f"0x{word[2:]}u", "u32", "float") if want == "float" else f"({want})0x{word[2:]}u"
            )
        if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", word):
            return converted(f"0x{word[2:]}ull", "u64", want if want == "double" else "u64")
        if _NUMBER.match(word):
            return self._number(word, want)
        return converted(self.address(word), "u64", want)

    def _number(self, word: str, want: str) -> str:
        digits = word.rstrip("U")
        value = int(digits, 0) if not re.fullmatch(r"-?0[0-7]+", digits) else int(digits, 8)
        if want in ("float", "double"):
            unsigned = "u32" if want == "float" else "u64"
            return converted(f"({unsigned}){value}", unsigned, want)
        if want == "bool":
            return "true" if value else "false"
        return f"({want}){value & (1 << 64) - 1:#x}ull"

    def address(self, word: str) -> str:
        """Where `name`, `name+8`, `%rd1` or `%rd1+-8` is, as a u64."""
        base, plus, offset = word.partition("+")
        base = base.strip()
        if base in self.addresses:
            found = self.addresses[base]
        elif (have := self.type_of(base)) is not None:
            found = converted(named(base), have, "u64")
        elif _NUMBER.match(base):
            found = self._number(base, "u64")
        else:
            raise PtxError(f"the name {base} is not known")
        return f"({found} + (s64)({offset}))" if plus else found

    def write(self, target: str, kind: str, value: str) -> str:
        """The statement that gives a register a value, which is of a PTX type.

        Raises:
            PtxError: it is no register.
        """
        if target == "_":
            return f"(void)({value});"
        have = self.type_of(target)
        if have is None:
            raise PtxError(f"{target} is no register")
        # a narrow number is widened by its own sign
        return f"{named(target)} = {converted(value, C_TYPES[kind], have)};"


def size_of(kind: str) -> int:
    """Bytes of a PTX type.

    Raises:
        PtxError: it is not known.
    """
    if kind not in SIZES:
        raise PtxError(f"the type {kind} is not known")
    return SIZES[kind]
