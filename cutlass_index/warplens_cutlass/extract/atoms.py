# SPDX-License-Identifier: Apache-2.0
"""What the names of MMA and copy operations say: architecture, shape, types, operands."""

from __future__ import annotations

import re

import msgspec

from warplens_cutlass.model import Atom, Definition

_ARCH = re.compile(r"SM(\d{2,3})(?![0-9])")
_SHAPE = re.compile(r"(?:^|_)(\d+)x(\d+)x(\d+)(?=_|$)")
_TYPES = re.compile(r"(?<=_)((?:(?:TF|BF|F|S|U|B|C|E\dM|MXF8F6F4|MXF4NVF4|MXF4)\d*)+)(?=_|$)")
_TYPE = re.compile(r"TF32|BF16|E\dM\d|[FSUBC]\d+")
_OPERANDS = re.compile(r"_(SS|RS|TS|TN|NT|NN|TT|R|S)(?:_|$)")
_COPY = re.compile(
    r"^SM\d+\w*_(?:CP_ASYNC|U\d+x\d+_(?:LDSM|STSM)|LDSM|STSM|TMA|BULK|TMEM|Shuffle|U\d+x\d+)|^(?:SM\d+_)?TMA_|^SM\d+_\w*COPY"
    r"|^UniversalCopy$|^AutoVectorizingCopy|^DefaultCopy$|^SM\d+_\w*(?:LOAD|STORE|PREFETCH|REDUCE)",
)
_MMA = re.compile(
    r"^SM\d+_(?:\w+_)?\d+x\d+x\d+_|^MMA_\d+x\d+x\d+_|^(?:SM\d+_)?[GU]?MMA_\w*\d+x|^SM100_MMA_|^SM120_|^SM61_DP|^UniversalFMA$"
)
_TRAITS = re.compile(r"^(?:MMA|Copy)_Traits$")
_FEATURES = {
    "sparse": re.compile(r"SPARSE", re.I),
    "multicast": re.compile(r"MULTICAST"),
    "transposed": re.compile(r"LDSM_T$|STSM_T$|LDSM_T\b|_T$"),
    "zero fill": re.compile(r"ZFILL"),
    "im2col": re.compile(r"IM2COL", re.I),
    "gather": re.compile(r"GATHER", re.I),
    "block scaled": re.compile(r"BLOCKSCALED|_VS\b|MXF|SCALE_VECTOR"),
    "2 SM": re.compile(r"2SM|2x1SM"),
    "scaled": re.compile(r"_SCALED"),
    "reduce": re.compile(r"REDUCE"),
    "prefetch": re.compile(r"PREFETCH"),
    "saturate": re.compile(r"SATURATE|_SATFINITE"),
}


def with_atom(definition: Definition) -> Definition:
    """The definition with its kind set to atom or traits, where it is one, and what the name says."""
    if definition.kind not in ("struct", "class", "alias") or definition.member:
        return definition
    if _TRAITS.match(definition.name):
        atom = parse_atom(definition.specialisation, definition.qualified_name)
        return msgspec.structs.replace(definition, kind="traits", atom=atom)
    atom = parse_atom(definition.name, definition.qualified_name)
    return msgspec.structs.replace(definition, kind="atom", atom=atom) if atom else definition


def parse_atom(name: str, qualified_name: str = "") -> Atom | None:
    """What an operation's name says; None for a name that is not one.

    >>> atom = parse_atom("SM80_16x8x16_F32F16F16F32_TN")
    >>> atom.shape, atom.types, atom.operands, atom.arch
    ((16, 8, 16), ('f32', 'f16', 'f16', 'f32'), 'TN', 'sm80')
    """
    bare = name.strip("<> ").split("<", 1)[0].split("::")[-1].strip()
    is_mma, is_copy = bool(_MMA.match(bare)), bool(_COPY.match(bare))
    if not is_mma and not is_copy:
        return None
    arch = _ARCH.search(bare) or _ARCH.search(qualified_name) or _ARCH.search(name)
    shape = _SHAPE.search(bare)
    types = _TYPES.search(bare)
    operands = _OPERANDS.search(bare)
    return Atom(
        operation="copy" if is_copy and not shape else "mma",
        arch=f"sm{arch[1]}" if arch else "",
        shape=tuple(int(n) for n in shape.groups()) if shape else (),
        types=tuple(t.lower() for t in _TYPE.findall(types[1])) if types else (),
        operands=operands[1] if operands else "",
        features=tuple(label for label, pattern in _FEATURES.items() if pattern.search(bare)),
    )
