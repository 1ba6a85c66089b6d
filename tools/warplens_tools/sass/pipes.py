# SPDX-License-Identifier: Apache-2.0
"""Which pipe of the SM an instruction is issued to, what it computes, and how many bytes it moves.

Opcode groups follow the instruction-set tables of NVIDIA's "CUDA Binary Utilities" manual (sm_75 to
sm_120); rates per pipe stand in `warplens_tools.arch`.
"""

from __future__ import annotations

import re
from typing import Literal

from warplens_tools.evidence import Instruction

Pipe = Literal["fp64", "fp32", "fp16", "int", "alu", "sfu", "tensor", "lsu", "uniform", "control", "other"]
Space = Literal["global", "shared", "local", "constant", "generic"]

_PIPES: dict[Pipe, frozenset[str]] = {
    "fp64": frozenset({"DADD", "DFMA", "DMUL", "DSETP", "DMNMX"}),
    "fp32": frozenset({"FADD", "FFMA", "FMUL", "FFMA32I", "FADD32I", "FMUL32I", "FFMA2", "FADD2", "FMUL2"}),
    "fp16": frozenset(
        {"HADD2", "HFMA2", "HMUL2", "HADD2_32I", "HFMA2_32I", "HMUL2_32I", "HMNMX2", "HSETP2", "HSET2"}
    ),
    "int": frozenset({"IMAD", "IDP", "IDP4A", "IMUL", "IMAD32I", "IMUL32I"}),
    "alu": frozenset(
        {"IADD3", "IADD", "IADD32I", "IABS", "ISETP", "IMNMX", "VIMNMX", "VIADD", "VIADDMNMX", "LEA", "LOP3"}
        | {"LOP", "LOP32I", "PLOP3", "SHF", "SHL", "SHR", "SEL", "FSEL", "FSETP", "FSET", "FMNMX", "FMNMX3"}
        | {"FCHK", "PRMT", "BMSK", "SGXT", "LOP3.LUT", "ISCADD", "VABSDIFF", "VABSDIFF4", "MOV", "P2R", "R2P"}
        # Packing conversions run at the rate of logic, not of special functions, from sm_80 on.
        | {"F2FP", "I2FP", "F2IP", "I2IP"}
    ),
    "sfu": frozenset({"MUFU", "F2F", "F2I", "I2F", "FRND", "I2I", "POPC", "FLO", "BREV"}),
    "tensor": frozenset(
        {"HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"}
        | {"UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"}
    ),
    "lsu": frozenset(
        {"LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST", "LDSM", "STSM", "LDGSTS", "ATOM", "ATOMG"}
        | {"ATOMS", "RED", "REDG", "REDS", "SHFL", "LDC", "MATCH", "LDTM", "STTM", "STAS", "LDS64"}
    ),
    "control": frozenset(
        {"BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BAR", "NOP"}
        | {"YIELD", "NANOSLEEP", "MEMBAR", "DEPBAR", "LDGDEPBAR", "ERRBAR", "CCTL", "KILL", "BPT", "BMOV"}
        | {
            "WARPGROUP",
            "SYNCS",
            "UCGABAR_ARV",
            "UCGABAR_WAIT",
            "FENCE",
            "ACQBULK",
            "ELECT",
            "VOTE",
            "ARRIVES",
        }
    ),
}
_BY_OPCODE: dict[str, Pipe] = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes}

_SPACES: dict[str, Space] = {
    **dict.fromkeys(("LDG", "STG", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS"), "global"),
    **dict.fromkeys(("LDS", "STS", "ATOMS", "LDSM", "STSM"), "shared"),
    **dict.fromkeys(("LDL", "STL"), "local"),
    **dict.fromkeys(("LD", "ST"), "generic"),
    "LDC": "constant",
}
#: Atomics of global and of shared memory.
GLOBAL_ATOMICS, SHARED_ATOMICS = frozenset({"RED", "REDG", "ATOM", "ATOMG"}), frozenset({"ATOMS"})
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "F16": 2, "64": 8, "128": 16, "256": 32}
_MMA_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_PACKED_MMA_SHAPE = {"1688": (16, 8, 8), "16816": (16, 8, 16), "8816": (8, 8, 16), "16832": (16, 8, 32)}
_PACKED_MMA_SHAPE |= {"8832": (8, 8, 32), "16864": (16, 8, 64), "884": (8, 8, 4), "168128": (16, 8, 128)}


def pipe_of(instruction: Instruction) -> Pipe:
    """The pipe the instruction is issued to; "other" for opcodes this table does not know."""
    known = _BY_OPCODE.get(instruction.opcode)
    if known is not None:
        return known
    if instruction.opcode.startswith(("U", "R2UR", "S2UR")):
        return "uniform"
    return "other"


def space_of(instruction: Instruction) -> Space | None:
    """The memory space it accesses, or None for instructions that access none (LDC counts as constant)."""
    return _SPACES.get(instruction.opcode)


def is_load(instruction: Instruction) -> bool:
    """Whether it reads memory into registers or shared memory."""
    return instruction.opcode in {"LDG", "LDS", "LDL", "LD", "LDSM", "LDGSTS"}


def is_store(instruction: Instruction) -> bool:
    """Whether it writes memory from registers."""
    return instruction.opcode in {"STG", "STS", "STL", "ST", "STSM"}


def access_bytes(instruction: Instruction) -> int:
    """Bytes one thread moves: 4 unless a modifier says otherwise; matrix loads move 4 per matrix."""
    if instruction.opcode in {"LDSM", "STSM"}:
        return 4 * next((int(m) for m in instruction.modifiers if m in {"1", "2", "4"}), 1)
    return next((_WIDTHS[m] for m in instruction.modifiers if m in _WIDTHS), 4)


def flops(instruction: Instruction) -> float:
    """Floating-point operations one thread's share of the instruction performs; a multiply-add is two.

    Matrix instructions are done by 32 threads (wgmma: 128) together; the share is per thread.
    """
    opcode = instruction.opcode
    if opcode in {"FFMA", "DFMA", "FFMA32I"}:
        return 2.0
    if opcode in {"FADD", "FMUL", "DADD", "DMUL", "FADD32I", "FMUL32I", "MUFU"}:
        return 1.0
    if opcode in {"HFMA2", "HFMA2_32I", "FFMA2"}:
        return 4.0
    if opcode in {"HADD2", "HMUL2", "FADD2", "FMUL2"}:
        return 2.0
    if _BY_OPCODE.get(opcode) == "tensor":
        return _matrix_flops(instruction)
    return 0.0


def _matrix_flops(instruction: Instruction) -> float:
    for modifier in instruction.modifiers:
        shape = _MMA_SHAPE.match(modifier)
        m, n, k = (int(v) for v in shape.groups()) if shape else _PACKED_MMA_SHAPE.get(modifier, (0, 0, 0))
        if m:
            return 2.0 * m * n * k / (128 if instruction.opcode.endswith("GMMA") else 32)
    return 0.0


def on_stack(operand: str) -> bool:
    """Whether an address is the stack pointer plus a number."""
    return operand == "[R1]" or operand.startswith("[R1+")
