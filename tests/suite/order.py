# SPDX-License-Identifier: Apache-2.0
"""Which first steps the search would try on the suite's programs, those first that promise most; needs no GPU.

    python -m tests.suite.order [NAME ...] [--architecture sm_90] [--idioms] [--json FILE]

The findings that they answer are those of a check with the compiled program, where there is a compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.suite.catalogue import SUITE, Program, programs

from warplens.agent.actions import KernelSpace
from warplens.service.optimize import causes_of, inputs_of
from warplens.service.service import Service
from warplens_tools.arch.load import load_architecture
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.text import SourceText


def steps(program: Program, service: Service, architecture: str, *, idioms: bool) -> list[dict[str, Any]]:
    """The steps of all rewrites, and idioms where they are wanted, on the program, in order."""
    text, inputs = SourceText.read(program.path), inputs_of(service, program.path, architecture)
    space = KernelSpace(
        text,
        path=str(program.path),
        kernel=program.kernel,
        limits=load_architecture(architecture).limits,
        rewrites=inputs.rewrites,
        idioms=IDIOMS if idioms else (),
        causes=causes_of(inputs.report()),
    )
    found = sorted(space.by_rewrite(text), key=lambda p: -p.move.expected)
    return [
        {
            "expected": round(p.move.expected, 3),
            "step": p.move.changes[0],
            "answers": p.move.answers,
            "illegal": space.illegal(text.apply(list(p.edits))),
        }
        for p in found
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--idioms", action="store_true", help="with idioms")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    service, found = Service(SUITE), dict[str, list[dict[str, Any]]]()
    for program in programs():
        if given.names and program.name not in given.names:
            continue
        found[program.name] = steps(program, service, given.architecture, idioms=given.idioms)
        shown = ", ".join(
            f"{s['step']} {s['expected']}{'!' if s['answers'] else ''}{' illegal' if s['illegal'] else ''}"
            for s in found[program.name]
        )
        sys.stdout.write(f"{program.name}: {shown}\n")
        sys.stdout.flush()
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
