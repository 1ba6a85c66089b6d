# SPDX-License-Identifier: Apache-2.0
"""Barriers, and what the lanes of a warp do together."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.host_card.ptx.operands import C_TYPES, Names, size_of
from tests.host_card.ptx.parse import Instruction, PtxError


def _parts(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]


def _barrier(i: Instruction, names: Names) -> str:
    if "cluster" in i.modifiers:
        # clusters are of one block
        return ";" if "arrive" in i.modifiers else "card_services->barrier(t, 16, 0, true);"
    if i.modifiers[:1] == ["warp"]:
        return f"meet(t, {names.read(i.operands[0], 'u32')}, 0);"
    if "red" in i.modifiers:
        return _counted(i, names)
    number = names.read(i.operands[0], "u32")
    threads = names.read(i.operands[1], "u32") if len(i.operands) > 1 else "0"
    waits = "false" if "arrive" in i.modifiers else "true"
    return f"card_services->barrier(t, {number}, {threads}, {waits});"


def _counted(i: Instruction, names: Names) -> str:
    operands = i.operands[1:]
    number, vote = names.read(operands[0], "u32"), names.read(operands[-1], "pred")
    threads = names.read(operands[1], "u32") if len(operands) > 2 else "0"
    operation = next(m for m in i.modifiers if m in ("popc", "and", "or"))
    if operation == "popc":
        value = f"card_services->counted(t, {number}, {threads}, {vote})"
        return names.write(i.operands[0], "u32", value)
    if operation == "or":
        return names.write(
            i.operands[0], "pred", f"card_services->counted(t, {number}, {threads}, {vote}) != 0"
        )
    return names.write(
        i.operands[0], "pred", f"card_services->counted(t, {number}, {threads}, !({vote})) == 0"
    )


def _shfl(i: Instruction, names: Names) -> str:
    targets = [t.strip() for t in i.operands[0].split("|")]
    how = next(m for m in i.modifiers if m in ("up", "down", "bfly", "idx"))
    value, by, clamp, mask = (names.read(o, "u32") for o in i.operands[1:5])
    valid = "&valid" if len(targets) > 1 else "nullptr"
    code = names.write(
        targets[0], "u32", f"shuffle(t, Shuffle::{how}, {value}, {by}, {clamp}, {mask}, {valid})"
    )
    if len(targets) == 1:
        return code
    return f"{{ bool valid; {code} {names.write(targets[1], 'pred', 'valid')} }}"


def _vote(i: Instruction, names: Names) -> str:
    mode = next(m for m in i.modifiers if m in ("ballot", "all", "any", "uni"))
    vote, mask = names.read(i.operands[1], "pred"), names.read(i.operands[2], "u32")
    if mode == "ballot":
        return names.write(i.operands[0], "u32", f"ballot(t, {vote}, {mask})")
    return names.write(i.operands[0], "pred", f"vote_{mode}(t, {vote}, {mask})")


def _match(i: Instruction, names: Names) -> str:
    value, mask = names.read(i.operands[1], f"u{i.modifiers[-1][1:]}"), names.read(i.operands[2], "u32")
    if "any" in i.modifiers:
        return names.write(i.operands[0], "u32", f"match_any(t, {value}, {mask})")
    targets = [t.strip() for t in i.operands[0].split("|")]
    code = names.write(targets[0], "u32", f"match_all(t, {value}, {mask}, &same)")
    code += names.write(targets[1], "pred", "same") if len(targets) > 1 else ""
    return f"{{ bool same; {code} }}"


def _redux(i: Instruction, names: Names) -> str:
    kind = i.modifiers[-1]
    join = {
        "add": "a + b",
        "min": "a < b ? a : b",
        "max": "a > b ? a : b",
        "and": "a & b",
        "or": "a | b",
        "xor": "a ^ b",
    }
    operation = next(m for m in i.modifiers if m in join)
    one = C_TYPES[kind]
    if one not in ("u32", "s32"):
        raise PtxError(f"the instruction {i} is not known")
    value, mask = names.read(i.operands[1], kind), names.read(i.operands[2], "u32")
    work = f"[]({one} a, {one} b) {{ return ({one})({join[operation]}); }}"
    return names.write(i.operands[0], kind, f"reduce<{one}>(t, {value}, {mask}, {work})")


def _activemask(i: Instruction, names: Names) -> str:
    return f"{{ static const char place = 0; {names.write(i.operands[0], 'u32', 'card_services->active(t, &place)')} }}"


def _elect(i: Instruction, names: Names) -> str:
    targets = [t.strip() for t in i.operands[0].split("|")]
    mask = names.read(i.operands[1], "u32")
    code = names.write(targets[0], "u32", "(u32)__builtin_ctz(present)")
    code += names.write(targets[1], "pred", "(u32)__builtin_ctz(present) == t->lane")
    return f"{{ const u32 present = meet(t, {mask}, 0)->members; {code} }}"


def _wmma(i: Instruction, names: Names) -> str:
    if "m16n16k16" not in i.modifiers:
        raise PtxError(f"the instruction {i} is not known")
    return {"load": _wmma_load, "store": _wmma_store, "mma": _wmma_mma}[i.modifiers[0]](i, names)


def _memory(i: Instruction, names: Names, operand: str, size: int) -> str:
    address = names.address(operand.strip("[]").strip())
    return (
        f"shared_at(t, (u32)({address}), {size})" if "shared" in i.modifiers else f"at(t, {address}, {size})"
    )


def _stride(i: Instruction, names: Names, at: int) -> str:
    return names.read(i.operands[at], "u32") if len(i.operands) > at else "16u"


def _wmma_load(i: Instruction, names: Names) -> str:
    kind, column = i.modifiers[-1], "true" if "col" in i.modifiers else "false"
    targets = _parts(i.operands[0])
    where, stride = _memory(i, names, i.operands[1], size_of(kind)), _stride(i, names, 2)
    if kind in ("f16", "bf16") and i.modifiers[1] in "ab":
        code = " ".join(names.write(p, "u32", f"words[{n}]") for n, p in enumerate(targets[:8]))
        return f"{{ u32 words[8]; wmma_load_half(t, words, {where}, {stride}, {column}); {code} }}"
    if kind != "f32":
        raise PtxError(f"the instruction {i} is not known")
    code = " ".join(
        names.write(p, "f32", f"load<float>(from + wmma_place<float>(t, {n}, {stride}, {column}))")
        for n, p in enumerate(targets)
    )
    return f"{{ u8* from = {where}; {code} }}"


def _wmma_store(i: Instruction, names: Names) -> str:
    kind, column = i.modifiers[-1], "true" if "col" in i.modifiers else "false"
    if kind != "f32":
        raise PtxError(f"the instruction {i} is not known")
    where, stride = _memory(i, names, i.operands[0], size_of(kind)), _stride(i, names, 2)
    code = " ".join(
        f"store<float>(to + wmma_place<float>(t, {n}, {stride}, {column}), {names.read(p, 'f32')});"
        for n, p in enumerate(_parts(i.operands[1]))
    )
    return f"{{ u8* to = {where}; {code} }}"


def _wmma_mma(i: Instruction, names: Names) -> str:
    kinds = [m for m in i.modifiers if re.fullmatch(r"b?f\d+", m)]
    small = "Brain" if "bf16" in kinds else "Half"
    if kinds not in (["f32", "f32"], ["f32", "bf16", "bf16", "f32"], ["f32", "f16", "f16", "f32"]):
        raise PtxError(f"the instruction {i} is not known")
    d, a, b, c = (_parts(o) for o in i.operands)
    words = [", ".join(names.read(p, "u32") for p in part) for part in (a, b)]
    floats = ", ".join(names.read(p, "f32") for p in c)
    code = " ".join(names.write(p, "f32", f"d[{n}]") for n, p in enumerate(d))
    given = (
        f"const u32 a[] = {{{words[0]}}}, b[] = {{{words[1]}}}; const float c[] = {{{floats}}}; float d[8];"
    )
    return f"{{ {given} wmma_mma<{small}>(t, d, a, b, c); {code} }}"


_KINDS = {"f16": "Half16", "bf16": "Brain16", "tf32": "Tf32"}


def _mma(i: Instruction, names: Names) -> str:
    shape = next((m for m in i.modifiers if m.startswith("m16n8k")), "")
    kinds = [m for m in i.modifiers if m in C_TYPES]
    if not shape or len(kinds) != 4 or kinds[0] != "f32" or kinds[3] != "f32" or kinds[1] not in _KINDS:
        raise PtxError(f"the instruction {i} is not known")
    d, a, b, c = (_parts(o) for o in i.operands)
    words = [", ".join(names.read(p, "u32") for p in part) for part in (a, b)]
    floats = ", ".join(names.read(p, "f32") for p in c)
    code = " ".join(names.write(p, "f32", f"d[{n}]") for n, p in enumerate(d))
    given = (
        f"const u32 a[] = {{{words[0]}}}, b[] = {{{words[1]}}}; const float c[] = {{{floats}}}; float d[4];"
    )
    return f"{{ {given} mma<{_KINDS[kinds[1]]}, {len(a)}>(t, d, a, b, c); {code} }}"


INSTRUCTIONS: dict[str, Callable[[Instruction, Names], str]] = {
    "bar": _barrier,
    "barrier": _barrier,
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "activemask": _activemask,
    "elect": _elect,
    "wmma": _wmma,
    "mma": _mma,
}
