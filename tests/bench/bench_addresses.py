# SPDX-License-Identifier: Apache-2.0
"""How often the addresses read off SASS are right, on kernels whose patterns are known.

    python -m tests.bench.bench_addresses [--arch sm_90 ...] [--json FILE]

A kernel is *wrong* where one of its accesses is said to have another pattern than stands beside it, else
*unknown* where something that stands there was not told, else *right*.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.evidence import CompiledKernel
from warplens_tools.sass.addresses import AddressPattern, address_patterns
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import is_load
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain, tool_version

FOLDER = Path(__file__).parents[1] / "data/addresses"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
Outcome = Literal["right", "unknown", "wrong"]
_EXPECTATION = re.compile(r"//!\s+((?:ld|st|lds|sts)\b.*)$")
_BLOCK = re.compile(r"^//! block ([\dx]+)$")


class Expected(msgspec.Struct, frozen=True):
    """One access of a line. A field that is None is not compared; `unknown` means that nothing can be told."""

    kind: str
    stride: int | None = None
    sectors: tuple[int, int] | None = None
    conflict: float | None = None
    unknown: bool = False


class Result(msgspec.Struct, frozen=True):
    """One kernel for one architecture, and what was not right."""

    kernel: str
    arch: str
    outcome: Outcome
    said: tuple[str, ...] = ()


def expectations(text: str) -> dict[int, tuple[Expected, ...]]:
    """What stands beside the accesses, by 1-based line."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _EXPECTATION.search(line)
        if match:
            found[number] = tuple(_expected(part.split()) for part in match[1].split(";"))
    return found


def _expected(words: list[str]) -> Expected:
    fields = dict(word.split("=") for word in words[1:] if "=" in word)
    sectors = [int(n) for n in re.findall(r"\d+", fields.get("sectors", ""))]
    return Expected(
        kind=words[0],
        stride=int(fields["stride"]) if "stride" in fields else None,
        sectors=(sectors[0], sectors[-1]) if sectors else None,
        conflict=float(fields["conflict"]) if "conflict" in fields else None,
        unknown="unknown" in words,
    )


def block_of(text: str, kernel: Kernel) -> tuple[int, int, int] | None:
    """The block that the line before a kernel fixes."""
    match = _BLOCK.match(text.splitlines()[kernel.span.line - 2])
    if match is None:
        return None
    x, y, z = [*(int(n) for n in match[1].split("x")), 1, 1][:3]
    return x, y, z


def examine(path: Path, arch: str, cache: BinaryCache) -> list[Result]:
    """Every kernel of a file, compiled for one architecture."""
    source = SourceText.read(path)
    model = parse(source, str(path))
    evidence = collect_binary(
        path,
        toolchain=resolve_toolchain(),
        flags=CompileFlags(("-std=c++17",), "this benchmark"),
        arch=arch,
        cache=cache,
    )
    expected = expectations(source.text)
    compiled = {k.qualified_name: k for k in evidence.kernels}
    return [
        _judged(kernel, compiled[kernel.qualified_name], block_of(source.text, kernel), expected)
        for kernel in model.kernels
    ]


def _judged(
    kernel: Kernel,
    compiled: CompiledKernel,
    block: tuple[int, int, int] | None,
    expected: dict[int, tuple[Expected, ...]],
) -> Result:
    patterns = address_patterns(
        compiled, analyse(compiled.instructions), block, load_architecture(compiled.arch).limits
    )
    outcomes: set[Outcome] = set()
    said: list[str] = []
    for line in range(kernel.span.line, kernel.span.end_line + 1):
        for wanted in expected.get(line, ()):
            found = [p for p in patterns if _kind(compiled, p) == wanted.kind and _line(compiled, p) == line]
            for outcome, words in (compare(p, wanted) for p in found):
                outcomes.add(outcome)
                said += [f"line {line} {wanted.kind}: {words}"] if outcome != "right" else []
            if not found:
                outcomes.add("unknown")
                said.append(f"line {line}: no {wanted.kind}")
    order: tuple[Outcome, ...] = ("wrong", "unknown", "right")
    outcome = next(o for o in order if o in outcomes)
    return Result(kernel.name, compiled.arch, outcome, tuple(dict.fromkeys(said)))


def compare(found: AddressPattern, wanted: Expected) -> tuple[Outcome, str]:
    """Whether what was told is what is known, and what was told."""
    told = f"stride {found.stride}, sectors {found.sectors}, conflict {found.conflict} ({found.why or found.form})"
    if wanted.unknown:
        claims = found.sectors is not None or found.conflict is not None
        return ("wrong" if claims else "unknown"), told
    stride_known = wanted.stride is None or found.stride is not None or found.sectors or found.conflict
    pairs = [(wanted.stride, found.stride, bool(stride_known)), (wanted.conflict, found.conflict, False)]
    unknown = False
    for truth, said, must in pairs:
        if truth is not None and truth != said:
            if said is not None or must:
                return "wrong", told
            unknown = True
    if wanted.sectors is not None and found.sectors != wanted.sectors:
        low, high = found.sectors or (0, 33)
        if low > wanted.sectors[0] or high < wanted.sectors[1]:
            return "wrong", told
        unknown = True
    return ("unknown" if unknown else "right"), told


def _kind(compiled: CompiledKernel, pattern: AddressPattern) -> str:
    instruction = compiled.instructions[pattern.index]
    load = is_load(instruction) or instruction.opcode == "ATOMS"
    return ("ld" if load else "st") + ("s" if pattern.space == "shared" else "")


def _line(compiled: CompiledKernel, pattern: AddressPattern) -> int:
    lines = compiled.instructions[pattern.index].lines
    return lines[-1].line if lines else 0


def measure(architectures: tuple[str, ...] = ARCHITECTURES) -> list[Result]:
    """Every kernel of every file for every architecture."""
    with tempfile.TemporaryDirectory() as folder:
        cache = BinaryCache(Path(folder))
        return [
            result
            for arch in architectures
            for path in sorted(FOLDER.glob("*.cu"))
            for result in examine(path, arch, cache)
        ]


def summary(results: list[Result]) -> dict[str, object]:
    """Counts per architecture, and the kernels that are not right."""
    by_arch = {}
    for arch in dict.fromkeys(r.arch for r in results):
        mine = [r for r in results if r.arch == arch]
        counts = {o: sum(r.outcome == o for r in mine) for o in ("right", "unknown", "wrong")}
        share = round(counts["right"] / len(mine), 3)
        by_arch[arch] = {"kernels": len(mine), **counts, "right share": share}
    missed = {f"{r.arch} {r.kernel}": [r.outcome, *r.said] for r in results if r.outcome != "right"}
    return {"architectures": by_arch, "not right": missed}


def main() -> int:
    """Print the counts; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--arch", action="append")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = measure(tuple(arguments.arch or ARCHITECTURES))
    found = summary(results)
    nvcc = tool_version(resolve_toolchain().require("nvcc"))
    report = {"machine": platform.machine(), "nvcc": nvcc, **found}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return int(any(r.outcome == "wrong" for r in results))


if __name__ == "__main__":
    sys.exit(main())
