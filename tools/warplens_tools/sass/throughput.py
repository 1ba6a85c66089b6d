# SPDX-License-Identifier: Apache-2.0
"""Cycles each pipe of an SM needs for one warp's pass through a kernel, from SASS and per-SM rates.

The model is the throughput bound of the roofline at instruction level: a warp instruction on a pipe of
rate r lanes per cycle per SM occupies it 32 / r cycles; the busiest pipe bounds the kernel. It knows
nothing of latency, caches or overlap, so it gives lower bounds on time and is used only for ratios.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.arch.gpu import Gpu
from warplens_tools.evidence import Instruction
from warplens_tools.sass.pipes import Pipe, access_bytes, flops, pipe_of, space_of


def pipe_cycles(instructions: Sequence[Instruction], weights: Sequence[float], gpu: Gpu) -> dict[str, float]:
    """Cycles per warp by pipe, plus "issue". Weights are relative executions; see `attribution.weights`."""
    cycles: dict[str, float] = {"issue": 0.0}
    for instruction, weight in zip(instructions, weights, strict=True):
        pipe = pipe_of(instruction)
        cycles["issue"] += weight / gpu.limits.schedulers
        cycles[pipe] = cycles.get(pipe, 0.0) + weight * instruction_cycles(instruction, pipe, gpu)
    return cycles


def instruction_cycles(instruction: Instruction, pipe: Pipe, gpu: Gpu) -> float:
    """Cycles one warp instruction occupies its pipe on one SM, conflict-free and coalesced."""
    warp = gpu.limits.warp_size
    rates = gpu.rates
    if pipe == "lsu":
        if space_of(instruction) == "constant":
            return 0.0
        return max(warp / rates.load_store, warp * access_bytes(instruction) / rates.l1_bytes)
    if pipe == "tensor":
        rate = _tensor_rate(instruction, gpu)
        return flops(instruction) / 2.0 * warp / rate if rate else 0.0
    lanes = {
        "fp64": rates.fp64_fma,
        "fp32": rates.fp32_fma,
        "fp16": rates.fp16_fma / 2.0,
        "int": rates.int32,
        "alu": rates.alu,
        "sfu": rates.sfu,
    }.get(pipe)
    return warp / lanes if lanes else 0.0


def _tensor_rate(instruction: Instruction, gpu: Gpu) -> float | None:
    table = gpu.rates.tensor_fma
    for name, marks in _TENSOR_TYPES.items():
        if name in table and marks & set(instruction.modifiers):
            return table[name]
    default = {"DMMA": "fp64", "IMMA": "int8", "IGMMA": "int8", "QMMA": "fp8", "QGMMA": "fp8"}
    return table.get(default.get(instruction.opcode, "fp16"))


_TENSOR_TYPES = {
    "bf16": {"BF16", "BF16_V2"},
    "tf32": {"TF32"},
    "fp8": {"E4M3", "E5M2"},
    "int8": {"S8", "U8"},
}
