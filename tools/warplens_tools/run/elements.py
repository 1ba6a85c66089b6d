# SPDX-License-Identifier: Apache-2.0
"""What the memory behind a kernel's pointer parameters holds, from its demangled signature or its source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from warplens_tools.cuda.model import Parameter
from warplens_tools.cuda.values.layouts import Record
from warplens_tools.run.probe.job import Element, JobField, JobParameter

#: Of structures with more fields than that none is named: what they hold is then told by its contents.
_MOST_FIELDS = 160

_NOISE = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|struct)\b|(?:\b\w+)?::|\s+")
#: CUDA's own type names without their vector width (float4 is four floats in a row).
_ELEMENTS: dict[str, Element] = {
    **dict.fromkeys(("double", "cuDoubleComplex", "complex<double>"), "f64"),
    **dict.fromkeys(("float", "cuFloatComplex", "cuComplex", "complex<float>", "tfloat32_t"), "f32"),
    **dict.fromkeys(("half", "__half", "half2", "__half2", "__half_raw", "half_t", "Half"), "f16"),
    **dict.fromkeys(
        ("nv_bfloat16", "__nv_bfloat16", "nv_bfloat162", "__nv_bfloat162", "bfloat16_t", "BFloat16"), "bf16"
    ),
}
#: Those that are two numbers, though no digit at their end says so.
_PAIRS = frozenset({
    "cuDoubleComplex", "cuFloatComplex", "cuComplex", "complex<double>", "complex<float>", "half2", "__half2",
    "nv_bfloat162", "__nv_bfloat162",
})  # fmt: skip
_VECTOR = re.compile(r"(?<=[a-z])([1-4])(?:_16a|_32a)?$")
_SIZES: dict[Element, int] = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}
_INTEGER = re.compile(
    r"(?:u?int(?:8|16|32|64)?_t|size_t|bool|(?:un)?signed|(?:un)?signed(?:char|short|int|long|longlong)"
    r"|u?(?:char|short|int|long|longlong)|unsignedlonglong(?:int)?|longlongint)"
)


def element_of(type_text: str) -> Element:
    """The element type of a pointed-to type: "f32" for "float4", "other" for a structure."""
    name = _NOISE.sub("", type_text)
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    base = _VECTOR.sub("", name)
    if base in ("double", "float"):
        return _ELEMENTS[base]
    return "integer" if _INTEGER.fullmatch(base) else "other"


def integer_width(type_text: str) -> int:
    """Bytes of one integer of a type ("int4" is four of 4 bytes); 0 for other types."""
    name = _VECTOR.sub("", _NOISE.sub("", type_text))
    if not _INTEGER.fullmatch(name):
        return 0
    fixed = re.search(r"int(8|16|32|64)_t", name)
    if fixed:
        return int(fixed[1]) // 8
    for word, width in (("longlong", 8), ("size_t", 8), ("long", 8), ("short", 2), ("char", 1), ("bool", 1)):
        if word in name:
            return width
    return 4


def whole_bytes(type_text: str) -> int:
    """Bytes of a vector type, whose numbers belong together; 0 for all others."""
    name, element = _NOISE.sub("", type_text), element_of(type_text)
    vector = _VECTOR.search(name)
    count = 2 if name in _PAIRS else int(vector[1]) if vector and name not in _ELEMENTS else 1
    return count * (_SIZES.get(element, 0) or integer_width(type_text)) if count > 1 else 0


def pointed_to(index: int, text: str, records: Mapping[str, Record]) -> JobParameter:
    """What lies where elements of a type do; a structure of floats of one kind and nothing else is such floats."""
    # a structure of the source's may have any name
    record, element = _record(text, records), element_of(text)
    if record is None and element != "other":
        width = integer_width(text) if element == "integer" else 0
        return JobParameter(index, element, width=width, whole=whole_bytes(text))
    fields = fields_of(record, records) if record is not None else ()
    if record is None or not fields:
        return JobParameter(index, "other")
    kinds = {field.element for field in fields} if not any(field.pointer for field in fields) else set()
    kind: Element = next(iter(kinds)) if len(kinds) == 1 else "other"
    if kind in _SIZES and len(fields) * _SIZES[kind] == record.size:
        return JobParameter(index, kind, whole=record.size)
    return JobParameter(index, "other", size=record.size, fields=fields, whole=record.size)


def probed_parameters(
    demangled: str,
    source: Sequence[Parameter] = (),
    records: Mapping[str, Record] | None = None,
    scratch: Collection[int] = (),
    most: Mapping[int, int] | None = None,
    together: Mapping[int, int] | None = None,
) -> tuple[JobParameter, ...]:
    """The parameters that the probe varies: pointers by what they lead to, and numbers and structures passed by value.

    `records` are the structures that the source defines, by name. Of all other structures the probe is told nothing.
    What a launch leaves behind those of `scratch` only its own blocks read. `most` are the largest integers by value
    that the kernel's own arrays have room for, by parameter, and `together` the bytes of records that the kernel stores
    as so many single numbers.
    """
    by_value = (_by_value(index, text, records or {}) for index, text in enumerate(_types(demangled, source)))
    pointers = pointer_parameters(demangled, source, records or {})
    return (
        *(
            msgspec.structs.replace(
                p, scratch=p.index in scratch, whole=p.whole or _together(p, (together or {}).get(p.index, 0))
            )
            for p in pointers
        ),
        *(
            msgspec.structs.replace(found, most=(most or {}).get(found.index, 0))
            for found in by_value
            if found is not None
        ),
    )


def _together(parameter: JobParameter, size: int) -> int:
    """Bytes of records of single numbers; 0 where what a pointer leads to is no such number."""
    each = parameter.width or _SIZES.get(parameter.element, 0)
    plain = not parameter.fields and not parameter.table and not parameter.constant
    return size if plain and each and size > each and size % each == 0 else 0


#: Whether a name is asked for as a truth, or compared with null.
_ASKED = re.compile(
    r"!\s*(\w+)\b(?!\s*[\[(.])|\b(\w+)\s*\?|\b(\w+)\s*[!=]=\s*(?:nullptr|NULL)\b|\b(?:if|while)\s*\(\s*(\w+)\s*(?:\)|&&|\|\|)"
    r"|(?:&&|\|\|)\s*(\w+)\s*(?:\)|&&|\|\|)|\b(?:nullptr|NULL)\s*[!=]=\s*(\w+)\b(?!\s*[\[(.])"
)


def optional_names(text: str) -> frozenset[str]:
    """Names that a text asks for whether they are null, as far as that is plain."""
    return frozenset(name for found in _ASKED.findall(text) for name in found if name)


def with_optional(
    probed: Sequence[JobParameter],
    source: Sequence[Parameter],
    optional: Collection[str],
    asked: Collection[int] = (),
) -> tuple[JobParameter, ...]:
    """The parameters, with pointers marked that may be null as the source says, or that are `asked` in the code."""
    names = {index: p.name for index, p in enumerate(source)}
    return tuple(
        msgspec.structs.replace(
            p, optional=not p.scalar and (names.get(p.index, "") in optional or p.index in asked)
        )
        for p in probed
    )


def _by_value(index: int, text: str, records: Mapping[str, Record]) -> JobParameter | None:
    name = _NOISE.sub("", text)
    if name in _ELEMENTS and name not in _PAIRS:
        return JobParameter(index, element_of(name), scalar=True)
    if (whole := whole_bytes(text)) and not {"*", "&"} & set(text):
        width = integer_width(text)
        each = width or _SIZES[element_of(text)]
        fields = tuple(JobField(at, element_of(text), width) for at in range(0, whole, each))
        return JobParameter(index, "other", scalar=True, size=whole, fields=fields)
    if _INTEGER.fullmatch(name):
        return JobParameter(index, "integer", scalar=True, width=integer_width(name))
    record = None if "*" in text or "&" in text else _record(text, records)
    fields = fields_of(record, records) if record is not None else ()
    if record is None or not fields:
        return None
    return JobParameter(index, "other", scalar=True, size=record.size, fields=fields)


def _record(text: str, records: Mapping[str, Record]) -> Record | None:
    """The structure of a type such as "ns::Particle const"."""
    name = re.sub(r"\b(?:const|volatile|struct|class|__restrict__|__restrict|restrict)\b|[*\s]", "", text)
    return records.get(re.sub(r"^.*::", "", name))


def fields_of(record: Record, records: Mapping[str, Record]) -> tuple[JobField, ...]:
    """The numbers and pointers in a structure and in those within it; () where they are too many."""
    found = []
    for field in _fields(record, 0, records):
        found.append(field)
        if len(found) > _MOST_FIELDS:
            return ()
    return tuple(found)


def _fields(record: Record, start: int, records: Mapping[str, Record]) -> Iterator[JobField]:
    for member in record.members:
        at, element, width = start + member.offset, element_of(member.type), integer_width(member.type)
        if member.pointer:
            yield JobField(at, element, width, pointer=True)
            continue
        inner = records.get(member.type.rsplit("::", 1)[-1])
        if inner is not None:
            for offset in range(0, member.size, inner.size):
                yield from _fields(inner, at + offset, records)
            continue
        size = width or _SIZES.get(element, 0)
        for offset in range(0, member.size if size else 0, size or 1):
            yield JobField(at + offset, element, width)


def _types(demangled: str, source: Sequence[Parameter]) -> list[str]:
    types = signature_types(demangled)
    return [f"{p.type}" for p in source] if types is None else types


def pointer_parameters(
    demangled: str, source: Sequence[Parameter] = (), records: Mapping[str, Record] | None = None
) -> tuple[JobParameter, ...]:
    """The pointer parameters of a kernel. The demangled signature counts, the source where it has none."""
    found = []
    for index, text in enumerate(_types(demangled, source)):
        bare = re.sub(r"\s*(?:const|__restrict__|__restrict|restrict|volatile)\s*$", "", text.strip())
        if not bare.endswith("*"):
            continue
        pointed = bare[:-1]
        stars = pointed.count("*")
        constant = re.search(r"\bconst\b", pointed) is not None
        # one level of pointers is followed, as in a table of rows
        if stars:
            held = pointed.partition("*")[0]
            element: Element = "other" if stars > 1 else element_of(held)
            # what may not be written is what the entries lead to, not the entries
            constant = re.search(r"\bconst\b", held) is not None
            width = integer_width(held) if element == "integer" else 0
            found.append(JobParameter(index, element, constant=constant, table=stars == 1, width=width))
        else:
            what = pointed_to(index, pointed, records or {})
            found.append(msgspec.structs.replace(what, constant=constant))
    return tuple(found)


def stands_in(other: str, launched: str) -> tuple[tuple[int, Element], ...] | None:
    """Whether a kernel may be launched with another one's arguments, by their demangled names: the pointers whose
    memory has to hold its floats first, with the floats that lie there. None where it may not.

    Whole numbers of any bits are some; floats are brought to a smaller type, and nothing needs more memory than there
    is.
    """
    theirs, own = signature_types(other), signature_types(launched)
    if theirs is None or own is None or len(theirs) != len(own):
        return None
    wanted = {p.index: p for p in pointer_parameters(other)}
    there = {p.index: p for p in pointer_parameters(launched)}
    converted: list[tuple[int, Element]] = []
    for index, (their, mine) in enumerate(zip(theirs, own, strict=True)):
        if their == mine:
            continue
        one, two = wanted.get(index), there.get(index)
        if one is None or two is None or one.table or two.table or one.whole or two.whole:
            return None
        bytes_of = [_SIZES.get(p.element, p.width) for p in (one, two)]
        if not bytes_of[0] or bytes_of[0] > bytes_of[1] or (one.element in _SIZES) > (two.element in _SIZES):
            return None
        if one.element in _SIZES and one.element != two.element:
            converted.append((index, two.element))
    return tuple(converted)


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
