# SPDX-License-Identifier: Apache-2.0
"""The built-in types of CUDA C++: their sizes, and which of them are integers."""

from __future__ import annotations

import functools
import re

import msgspec

#: Bytes of the integer types that are one name.
_NAMED = {
    "bool": 1, "int8_t": 1, "uint8_t": 1, "uchar": 1, "int16_t": 2, "uint16_t": 2, "ushort": 2,
    "int32_t": 4, "uint32_t": 4, "uint": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "ptrdiff_t": 8,
}  # fmt: skip
_UNSIGNED = frozenset({"bool", "uchar", "ushort", "uint", "size_t", "unsigned"})
_WORDS = frozenset({"char", "short", "int", "long", "signed", "unsigned"})
#: Bytes of one element of the vector types, whose names end in their count.
_VECTORS = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "longlong": 8,
    "ulonglong": 8, "float": 4, "double": 8,
}  # fmt: skip
_FLOATS = {
    "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1, "half": 2, "__half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2,
    "half2": 4, "__half2": 4, "__nv_bfloat162": 4, "float": 4, "double": 8,
}  # fmt: skip
#: What headers of the toolkit's libraries, of NPP and of PyTorch call built-in types.
TOOLKIT = {
    **dict.fromkeys(("cuComplex", "cuFloatComplex", "cufftComplex", "Npp32fc", "complex<float>"), "float2"),
    **dict.fromkeys(("cuDoubleComplex", "cufftDoubleComplex", "Npp64fc", "complex<double>"), "double2"),
    **dict.fromkeys(("cufftReal", "Npp32f"), "float"), **dict.fromkeys(("cufftDoubleReal", "Npp64f"), "double"),
    "Npp8u": "unsigned char", "Npp8s": "signed char", "Npp16u": "unsigned short", "Npp16s": "short",
    "Npp32u": "unsigned int", "Npp32s": "int", "Half": "half", "BFloat16": "__nv_bfloat16",
}  # fmt: skip
#: What stands with a type and is no part of it.
_SPECIFIERS = frozenset({
    "const", "volatile", "static", "inline", "constexpr", "register", "extern", "mutable", "__device__",
    "__host__", "__constant__", "__shared__", "__forceinline__",
})  # fmt: skip
_WORD = re.compile(r"[A-Za-z_]\w*")


class Integer(msgspec.Struct, frozen=True):
    """An integer type as device code has it with a 64-bit Linux host (on Windows `long` has 4 bytes)."""

    bytes: int
    signed: bool
    #: How many values it has.
    values: int

    @property
    def is_narrow(self) -> bool:
        """Whether it is promoted to `int`, and storing into it may drop bits of an index."""
        return self.bytes < 4

    def holds(self, value: int) -> bool:
        """Whether the type has that value."""
        least = -(self.values // 2) if self.signed else 0
        return least <= value < least + self.values


@functools.lru_cache(maxsize=1024)
def integer_type(written: str) -> Integer | None:
    """The integer type that is written, whatever specifiers stand with it; None for any other type."""
    plain = written.replace("std::", " ")
    words = [w for w in _WORD.findall(plain) if w not in _SPECIFIERS]
    if not words or not all(c.isalnum() or c.isspace() or c == "_" for c in plain):
        return None
    if len(words) == 1 and words[0] in _NAMED:
        name = words[0]
        signed = name not in _UNSIGNED and not name.startswith("uint")
        return Integer(_NAMED[name], signed, 2 if name == "bool" else 256 ** _NAMED[name])
    if not _WORDS.issuperset(words):
        return None
    size = 1 if "char" in words else 2 if "short" in words else 8 if "long" in words else 4
    return Integer(size, "unsigned" not in words, 256**size)


@functools.lru_cache(maxsize=1024)
def type_bytes(name: str) -> int | None:
    """Bytes of a built-in scalar or vector type; None for any other."""
    name = " ".join(name.split())
    if name in _FLOATS:
        return _FLOATS[name]
    element = _VECTORS.get(name[:-1])
    if element is not None and name[-1] in "1234":
        return element * int(name[-1])
    integer = integer_type(name)
    return integer.bytes if integer is not None else None


def vector_element(name: str) -> tuple[str, int] | None:
    """("float", 4) of "float4"; None for what is no vector type of two to four elements."""
    is_vector = name[:-1] in _VECTORS and name[-1:] in ("2", "3", "4")
    return (name[:-1], int(name[-1])) if is_vector else None
