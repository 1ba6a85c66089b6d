# SPDX-License-Identifier: Apache-2.0
"""How often two independent models of an access agree: its index in the source, and its address in SASS.

    python -m tests.bench.bench_address_agreement [--json FILE]

Every global and shared access of the programs in this repository, compiled for sm_90. For a global one the
source's sectors must lie within those that SASS leaves open, for a shared one the conflicts must be equal.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from warplens_tools.arch.load import load_architecture
from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.parse import parse
from warplens_tools.errors import WarplensError
from warplens_tools.evidence import KernelEvidence
from warplens_tools.kernel import KernelView
from warplens_tools.machine.address_evidence import pattern_of
from warplens_tools.text import SourceText
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain

ROOT = Path(__file__).parents[2]
FOLDERS = ("examples/first", "tests/planted", "tests/gpu/programs", "tests/data/micro")
FLAGS = CompileFlags(("-std=c++17",), "this benchmark")


class Compared(msgspec.Struct, frozen=True):
    """One access: what each model tells of it, None where it tells nothing."""

    place: str
    space: str
    source: str | None
    sass: str | None
    agree: bool


def views(path: Path, cache: BinaryCache) -> Iterator[KernelView]:
    """The kernels of a file at the binary tier; none where it does not compile by itself."""
    text = SourceText.read(path)
    model = parse(text, str(path))
    arch = "sm_90a" if model.needs_arch_specific else "sm_90"
    try:
        found = collect_binary(path, toolchain=resolve_toolchain(), flags=FLAGS, arch=arch, cache=cache)
    except WarplensError:
        return
    for kernel in model.kernels:
        compiled = tuple(k for k in found.kernels if k.qualified_name == kernel.qualified_name)
        if compiled:
            evidence = KernelEvidence(compiled=compiled, binary=found)
            yield KernelView(kernel, model, text, load_architecture(arch), evidence)


def compare(view: KernelView) -> Iterator[Compared]:
    """Every access of a kernel."""
    alone = msgspec.structs.replace(view, evidence=KernelEvidence())
    sectors = {w.access.span: w.sectors for w in alone.warp_accesses}
    for access in view.accesses:
        if access.space == "global":
            yield _global(view, access, sectors.get(access.span))
        elif access.space == "shared":
            conflict = view.conflicts.in_source(access)
            yield _shared(view, access, None if conflict is None else conflict.degree)


def _global(view: KernelView, access: ArrayAccess, sectors: int | None) -> Compared:
    pattern = pattern_of(view, access, "global")
    told = None if pattern is None else pattern.sectors
    agree = sectors is not None and told is not None and told[0] <= sectors <= told[1]
    return Compared(_place(view, access), "global", _said(sectors), _said(told), agree)


def _shared(view: KernelView, access: ArrayAccess, degree: float | None) -> Compared:
    pattern = pattern_of(view, access, "shared")
    told = None if pattern is None else pattern.conflict
    return Compared(
        _place(view, access), "shared", _said(degree), _said(told), degree is not None and degree == told
    )


def _place(view: KernelView, access: ArrayAccess) -> str:
    return f"{Path(view.model.path).name}:{access.span.line} {view.text.slice(access.span)}"


def _said(value: object) -> str | None:
    return None if value is None else str(value)


def measure() -> list[Compared]:
    """Every access of every program."""
    with tempfile.TemporaryDirectory() as folder:
        cache = BinaryCache(Path(folder))
        paths = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.cu"))]
        return [found for path in paths for view in views(path, cache) for found in compare(view)]


def main() -> int:
    """Print the counts and every disagreement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure()
    both = [c for c in found if c.source is not None and c.sass is not None]
    report = {
        "accesses": len(found),
        "told by the source alone": sum(c.sass is None and c.source is not None for c in found),
        "told by SASS alone": sum(c.source is None and c.sass is not None for c in found),
        "told by both": len(both),
        "agree": sum(c.agree for c in both),
        "disagree": [f"{c.place}: source {c.source}, SASS {c.sass}" for c in both if not c.agree],
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
