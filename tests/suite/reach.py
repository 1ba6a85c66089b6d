# SPDX-License-Identifier: Apache-2.0
"""Which rewrites and idioms apply to which program of a suite, and whether what they make is right on the CPU.

    python -m tests.suite.reach [NAME ...] [--depth 2] [--seed 0] [--most 40] [--json FILE]

Depth 1 tries every place of every rewrite and idiom; each further depth tries `--most` draws of chains of that length.
A candidate is *right* if it prints what the program prints (its own check included) in three orders of threads,
within what rounding may do; *not built* if no C++ compiler takes it, *wrong* otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.host_cuda import HostRunError, same_results
from tests.suite.catalogue import Program, programs

from warplens_tools.cuda.parse import parse
from warplens_tools.errors import InputError
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.rewrite.base import EVERYWHERE
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText

#: Sums in another order, and a few more of them: what the programs' own checks allow is about this.
RELATIVE = 2e-3


class Tried(msgspec.Struct, frozen=True):
    """One candidate: the rewrites that made it, in order, and what came of it."""

    program: str
    steps: tuple[str, ...]
    state: str
    said: str = ""


def steps(text: SourceText, program: Program) -> Iterator[tuple[str, SourceText]]:
    """What one rewrite makes of `text`, every place apart, each text once."""
    model = parse(text, str(program.path))
    kernel = model.kernel(program.kernel)
    seen: set[str] = set()
    if kernel is None:
        return
    for rewrite in (*IDIOMS, *REWRITES):
        for target in (EVERYWHERE, *rewrite.sites(kernel)):
            result = rewrite.apply(text, model, kernel, target)
            if not result.edits:
                continue
            try:
                after = text.apply(list(result.edits))
            except InputError as error:
                raise HostRunError(f"{rewrite.slug}: {error}, in\n{text.text}") from error
            if after.text not in seen:
                seen.add(after.text)
                yield rewrite.slug, after


def judged(program: Program, names: tuple[str, ...], after: SourceText) -> Tried:
    """Run one candidate beside its program."""
    try:
        same_results(program.path.read_text(), after.text, *program.small, relative=RELATIVE, absolute=1e-4)
    except HostRunError as error:
        message = str(error)
        state = "not built" if message.startswith("does not compile") else "wrong"
        return Tried(program.name, names, state, message[:600])
    except subprocess.TimeoutExpired:
        return Tried(program.name, names, "wrong", "does not end")
    return Tried(program.name, names, "right")


def chains(
    program: Program, depth: int, most: int, seed: int
) -> Iterator[tuple[tuple[str, ...], SourceText]]:
    """Candidates of one program: all of depth 1, then draws of longer chains."""
    baseline = SourceText(program.path.read_text())
    for slug, after in steps(baseline, program):
        yield (slug,), after
    draw = random.Random(f"{seed}/{program.name}")
    for length in range(2, depth + 1):
        for _ in range(most):
            names, text = list[str](), baseline
            for _ in range(length):
                found = list(steps(text, program))
                if not found:
                    break
                slug, text = draw.choice(found)
                names.append(slug)
            if len(names) == length:
                yield tuple(names), text


def report(line: str) -> None:
    """Say something at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    tried: list[Tried] = []
    for program in programs():
        if given.names and program.name not in given.names:
            continue
        seen: set[str] = set()
        try:
            for names, after in chains(program, given.depth, given.most, given.seed):
                if after.text in seen:
                    continue
                seen.add(after.text)
                tried.append(judged(program, names, after))
                if tried[-1].state != "right":
                    report(f"{program.name}: {' > '.join(names)}: {tried[-1].state}: {tried[-1].said}\n")
        except HostRunError as error:
            tried.append(Tried(program.name, (), "overlapping edits", str(error)[:600]))
            report(f"{program.name}: {error}")
        reached = sorted({t.steps[0] for t in tried if t.program == program.name and t.steps})
        report(f"{program.name}: {', '.join(reached) or 'nothing'}")
    states = Counter(t.state for t in tried)
    report(", ".join(f"{count} {state}" for state, count in states.items()))
    if given.json:
        given.json.write_text(
            json.dumps({"states": states, "tried": msgspec.to_builtins(tried)}, indent=1) + "\n"
        )
    sys.exit(1 if set(states) - {"right"} else 0)


if __name__ == "__main__":
    main()
