# SPDX-License-Identifier: Apache-2.0
"""Hand-written SASS, as nvdisasm prints it."""

from __future__ import annotations

from warplens_tools.arch.load import load_architecture
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import CompiledKernel, Instruction, Resources, SourceLine
from warplens_tools.sass.listing import Sass
from warplens_tools.text import SourceText
from warplens_tools.toolchain.disassemble import parse_nvdisasm

GPU = load_architecture("sm_90")


def code(text: str) -> tuple[Instruction, ...]:
    """Instructions of one function, one a line, 16 bytes apart; `.L:` stands for itself."""
    lines, address = [".text.k:"], 0
    for line in text.strip().splitlines():
        if line.strip().endswith(":"):
            lines.append(line.strip())
            continue
        lines.append(f"        /*{address:04x}*/                   {line.strip()} ;")
        address += 16
    return parse_nvdisasm('\t.section\t.text.k,"ax"\n' + "\n".join(lines))["k"]


def placed(instruction: Instruction, *lines: int, path: str = "k.cu") -> Instruction:
    """The instruction with an inline chain of lines of one file, innermost first."""
    chain = tuple(SourceLine(path, line) for line in lines)
    return Instruction(
        instruction.address, instruction.opcode, instruction.modifiers, instruction.operands,
        instruction.predicate, chain, instruction.target,
    )  # fmt: skip


def sass_of(text: str, *lines: int, source: str = "__global__ void k(float *a)\n{\n}\n") -> Sass:
    """The SASS of the one kernel of a source, its instructions on these lines."""
    written = code(text)
    chain = [(line,) for line in lines] + [()] * (len(written) - len(lines))
    instructions = tuple(placed(x, *at) for x, at in zip(written, chain, strict=True))
    (kernel,) = parse(SourceText(source), "k.cu").kernels
    compiled = CompiledKernel("k", "k", "k", "sm_90", Resources(16), instructions)
    return Sass(compiled, kernel, "/elsewhere/k.cu", GPU, (256, 1, 1))
