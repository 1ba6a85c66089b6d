# SPDX-License-Identifier: Apache-2.0
"""The tables of CUDA's own mathematical functions in a unit's PTX: 2/pi to as many bits as the reduction of large
angles needs, for `sinf` and `sin` and their like. nvcc puts them beside the kernels as device variables, which could be
written; one that holds what the library's holds, is the unit's own and is read alone carries nothing from launch to
launch."""

from __future__ import annotations

import re

from warplens_tools.toolchain.ptx_flow import COMMENT, instruction_of

#: The first 1152 bits of 2/pi behind the point, in hexadecimal; the lowest word comes first in memory.
_TWO_OVER_PI = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
)
#: By the names that nvcc gives them, how many bytes of it: for floats and for doubles.
_TABLES = {"__cudart_i2opi_f": 24, "__cudart_i2opi_d": 144}
_FUNCTION = re.compile(r"\.(?:entry|func)\b")
#: What a place in a table is worked out by.
_PLACES = ("mov.", "add.", "sub.")


def tables_in(ptx: str) -> dict[str, int]:
    """The library's tables that a unit has and only reads, by name, with their bytes."""
    text = COMMENT.sub(" ", ptx)
    return {name: many for name, many in _TABLES.items() if _is_the_librarys(text, name, many)}


def _is_the_librarys(text: str, name: str, many: int) -> bool:
    declaration = rf"^[ \t]*\.global\s+\.align\s+\d+\s+\.b8\s+{name}\[{many}\]\s*=\s*\{{([\d,\s]+)\}};"
    found = re.findall(declaration, text, re.MULTILINE)
    if len(found) != 1 or [int(byte) for byte in found[0].split(",")] != _bytes_of(many):
        return False
    # where another variable begins with its address, between the functions, is no instruction
    head, *bodies = _FUNCTION.split(re.sub(declaration, "", text, flags=re.MULTILINE))
    return not _mentions(head, name) and all(_reads(body, name) for body in bodies)


def _bytes_of(many: int) -> list[int]:
    return list(bytes.fromhex(_TWO_OVER_PI[: 2 * many])[::-1])


def _reads(body: str, name: str) -> bool:
    """Whether a function does nothing but load with a variable's address, and with what is worked out of it."""
    statements = [statement + ";" for statement in body.split(";")]
    places, more = {name}, True
    while more:
        more = False
        for statement in statements:
            if not (held := [place for place in places if _mentions(statement, place)]):
                continue
            if (found := instruction_of(statement)) is None:
                return False
            operands, said = found[1], ",".join(found[1])
            if any(len(_mentions(statement, place)) != len(_mentions(said, place)) for place in held):
                return False
            if found[0].startswith("ld."):
                if any(_mentions(operands[0], place) for place in held):
                    return False
            elif not found[0].startswith(_PLACES) or re.fullmatch(r"%\w+", operands[0]) is None:
                return False
            elif operands[0] not in places:
                places.add(operands[0])
                more = True
    return True


def _mentions(text: str, word: str) -> list[str]:
    return re.findall(rf"(?<![\w$%]){re.escape(word)}(?![\w$])", text)
