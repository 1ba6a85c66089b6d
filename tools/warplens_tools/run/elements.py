# SPDX-License-Identifier: Apache-2.0
"""What the memory behind a kernel's pointer parameters holds, from its demangled signature or its source."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.cuda.model import Parameter
from warplens_tools.run.probe.job import Element, JobParameter

_NOISE = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|struct|std)\b|::|\s+")
#: CUDA's own type names without their vector width (float4 is four floats in a row).
_ELEMENTS: dict[str, Element] = {
    **dict.fromkeys(("double", "cuDoubleComplex"), "f64"),
    **dict.fromkeys(("float", "cuFloatComplex", "cuComplex"), "f32"),
    **dict.fromkeys(("half", "__half", "half2", "__half2", "__half_raw"), "f16"),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16", "nv_bfloat162", "__nv_bfloat162"), "bf16"),
}
_INTEGER = re.compile(
    r"(?:u?int(?:8|16|32|64)?_t|size_t|bool|(?:un)?signed|(?:un)?signed(?:char|short|int|long|longlong)"
    r"|u?(?:char|short|int|long|longlong)|unsignedlonglong(?:int)?|longlongint)"
)


def element_of(type_text: str) -> Element:
    """The element type of a pointed-to type: "f32" for "float4", "other" for a structure."""
    name = _NOISE.sub("", type_text)
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    base = re.sub(r"(?<=[a-z])[1-4](?:_16a|_32a)?$", "", name)
    if base in ("double", "float"):
        return _ELEMENTS[base]
    return "integer" if _INTEGER.fullmatch(base) else "other"


def integer_width(type_text: str) -> int:
    """Bytes of one integer of a type ("int4" is four of 4 bytes); 0 for other types."""
    name = re.sub(r"(?<=[a-z])[1-4](?:_16a|_32a)?$", "", _NOISE.sub("", type_text))
    if not _INTEGER.fullmatch(name):
        return 0
    fixed = re.search(r"int(8|16|32|64)_t", name)
    if fixed:
        return int(fixed[1]) // 8
    for word, width in (("longlong", 8), ("size_t", 8), ("long", 8), ("short", 2), ("char", 1), ("bool", 1)):
        if word in name:
            return width
    return 4


def probed_parameters(demangled: str, source: Sequence[Parameter] = ()) -> tuple[JobParameter, ...]:
    """The parameters that the probe varies: pointers by what they lead to, and floats passed by value."""
    scalars = tuple(
        JobParameter(index, element, scalar=True)
        for index, text in enumerate(_types(demangled, source))
        if (element := _scalar(text)) in ("f32", "f64")
    )
    return (*pointer_parameters(demangled, source), *scalars)


def _scalar(text: str) -> Element:
    name = _NOISE.sub("", text)
    return element_of(name) if name in ("float", "double") else "other"


def _types(demangled: str, source: Sequence[Parameter]) -> list[str]:
    types = signature_types(demangled)
    return [f"{p.type}" for p in source] if types is None else types


def pointer_parameters(demangled: str, source: Sequence[Parameter] = ()) -> tuple[JobParameter, ...]:
    """The pointer parameters of a kernel. The demangled signature counts, the source where it has none."""
    found = []
    for index, text in enumerate(_types(demangled, source)):
        bare = re.sub(r"\s*(?:const|__restrict__|__restrict|restrict|volatile)\s*$", "", text.strip())
        if not bare.endswith("*"):
            continue
        pointed = bare[:-1]
        stars = pointed.count("*")
        # one level of pointers is followed, as in a table of rows
        element: Element = "other" if stars > 1 else element_of(pointed.replace("*", ""))
        constant = re.search(r"\bconst\b", pointed) is not None
        width = integer_width(pointed) if element == "integer" and not stars else 0
        found.append(JobParameter(index, element, constant=constant, table=stars == 1, width=width))
    return tuple(found)


def signature_types(demangled: str) -> list[str] | None:
    """The parameter types of a demangled function; None for a name without a signature (extern "C")."""
    if not demangled.endswith(")"):
        return None
    depth = 0
    for start in range(len(demangled) - 1, -1, -1):
        depth += (demangled[start] == ")") - (demangled[start] == "(")
        if depth == 0:
            return _split(demangled[start + 1 : -1])
    return None


def _split(parameters: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in parameters:
        depth += (char in "(<[{") - (char in ")>]}")
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [part.strip() for part in parts if part.strip() not in ("", "void")]
