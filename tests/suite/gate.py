# SPDX-License-Identifier: Apache-2.0
"""Which of the search's first steps on the suite may be judged in place: what the host comparison says of each.

    python -m tests.suite.gate [NAME ...] [--most 12] [--built] [--json FILE]

Every idiom and rewrite for the whole kernel, the nearest value of each parameter on either side, and the expert's
version. Needs no GPU: the compiler splits each text into host and device code, and the host sides are compared as the
judge does; `--built` compares their objects, too, as the judge does with a winner.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from tests.suite.catalogue import Program, programs

from warplens.agent.actions import KernelSpace
from warplens.measure.build.allowed import why_not_allowed
from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gates import HostGates
from warplens.measure.build.host_split import HostSplit
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import WarplensError
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.process.task import UNATTENDED
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain


class Asked(msgspec.Struct, frozen=True):
    """One step, and why it may not be judged; "" if it may."""

    program: str
    title: str
    refused: str


def candidates(program: Program, most: int) -> Iterator[tuple[str, SourceText]]:
    """The steps, each text once."""
    text = SourceText.read(program.path)
    limits = load_architecture("sm_90").limits
    space = KernelSpace(
        text, path=str(program.path), kernel=program.kernel, limits=limits, rewrites=REWRITES, idioms=IDIOMS
    )
    seen: set[str] = set()
    parameters: dict[str, int] = {}
    for proposal in space.propose(text):
        after = text.apply(list(proposal.edits))
        name = proposal.move.title.partition(":")[0]
        parameters[name] = parameters.get(name, 0) + 1
        if after.text in seen or parameters[name] > 2 or len(seen) >= most:
            continue
        seen.add(after.text)
        yield proposal.move.title, after
    if program.expert.exists():
        yield "the expert's version", SourceText.read(program.expert)


def asked(program: Program, most: int, built: bool) -> Iterator[Asked]:
    """What is said of each step of one program."""
    path, toolchain = program.path, resolve_toolchain()
    source, flags = SourceText.read(path), flags_of(Workload(str(path), str(path)))
    split = HostSplit(path, path, toolchain=toolchain, flags=flags, arch="sm_90", timeout=120)
    with tempfile.TemporaryDirectory() as folder:
        gates = HostGates(split, source.text, Path(folder), Fence(toolchain, flags, MeasureSettings()))

        def why(numbered: tuple[int, tuple[str, SourceText]]) -> Asked:
            number, (title, after) = numbered
            try:
                compared = gates.why_not_built if built else gates.why_not
                said = why_not_allowed(source, after, program.kernel, str(path)) or compared(
                    after.text, Path(folder) / str(number), UNATTENDED
                )
            except WarplensError as error:
                said = f"does not compile: {str(error)[:200]}"
            return Asked(program.name, title, said)

        with ThreadPoolExecutor(2) as pool:
            yield from pool.map(why, enumerate(candidates(program, most)))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--built", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: list[Asked] = []
    for program in programs():
        if given.names and program.name not in given.names:
            continue
        for one in asked(program, given.most, given.built):
            found.append(one)
            if one.refused:
                sys.stdout.write(f"{one.program}: {one.title}: {one.refused}\n")
                sys.stdout.flush()
    refused = sum(bool(one.refused) for one in found)
    sys.stdout.write(f"{len(found) - refused} of {len(found)} may be judged\n")
    if given.json:
        given.json.write_text(json.dumps(msgspec.to_builtins(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
