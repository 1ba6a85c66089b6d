# SPDX-License-Identifier: Apache-2.0
"""Tokens of prompts by role in a search with a model, with and without the bound on a prompt.

The suite's programs are searched with a scripted model and a judge that draws verdicts, so that the tree, its failures
and its repairs are as in a search, and no card is needed. Tokens are estimated as the budget estimates them. Replies
are scripted, so theirs say nothing and are left out.

python -m tests.bench.model_tokens --json docs/benchmarks/model_tokens.json
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from tests.server.agent.bench import timed
from tests.server.agent.doubles import ComputedJudge
from tests.server.agent.snippets import LIMITS

from warplens.agent.actions import KernelSpace
from warplens.agent.llm.asking import Asker, Bounds
from warplens.agent.llm.cases import Briefing
from warplens.agent.llm.provider import ROLES, Question, Reply, Role, Usage
from warplens.agent.llm.source import ModelSource
from warplens.agent.llm.spending import Allowance, Ledger
from warplens.agent.problem import Problem
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.measure.verdict import Candidate, Verdict
from warplens.service.service import Service
from warplens.settings import Model
from warplens.store.database import open_store
from warplens_tools.cuda.parse import parse
from warplens_tools.process.task import Task
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "suite" / "programs"
#: What a compiler says of one mistake, with its context: the longest reason a prompt repeats.
_MISTAKE = "error: identifier is undefined\n" + "  note: in instantiation of a template\n" * 40
_UNBOUNDED = 10**7


class ScriptedModel:
    """Plans on one line of the kernel, and writes a new statement below it each time."""

    name, model = "scripted", "scripted"

    def __init__(self, line: str) -> None:
        self._line = line
        self.prompts: dict[Role, list[int]] = {role: [] for role in ROLES}

    def ask(self, question: Question, task: Task) -> Reply:
        del task
        self.prompts[question.role].append(question.tokens)
        number = sum(map(len, self.prompts.values()))
        text = f'<anchor id="A1">\n{self._line}\n    (void){number};\n</anchor>'
        if question.role == "planner":
            # a version may have the line twice, as a dispatch keeps the kernel as it was
            shown = re.search(
                rf"^ *(\d+) \| {re.escape(self._line)}$", question.messages[1].text, re.MULTILINE
            )
            lines = dict.fromkeys(("first_line", "last_line"), int(shown[1]) if shown else 0)
            texts = dict.fromkeys(("first_text", "last_text"), self._line)
            anchor = {"id": "A1", **lines, **texts, "change": "below it"}
            plan = {"title": f"idea {number}", "idea": "as the title says", "anchors": [anchor], "gain": 1.2}
            text = json.dumps(plan)
        return Reply(text, "stop", Usage(question.tokens, 0))


class DrawnJudge(ComputedJudge):
    """One candidate in five does not build, one in ten is wrong; the others' times are drawn."""

    def _verdict(self, candidate: Candidate) -> Verdict:
        draw = random.Random(candidate.text_hash)
        fate = draw.random()
        if fate < 0.2:
            return Verdict(candidate.id, "not_built", _MISTAKE)
        if fate < 0.3:
            return Verdict(candidate.id, "wrong", "element 17 of x is 3.5 instead of 7.0")
        return timed(candidate.id, draw.uniform(0.8, 1.5))


def only_line(text: SourceText, kernel: str, path: str) -> str:
    """A line of the kernel's body that stands once in the file and ends a statement."""
    found = parse(text, path).kernel(kernel)
    assert found is not None
    lines = [text.line_text(n) for n in range(found.body.line + 1, found.body.end_line)]
    every = [line.strip() for line in text.text.splitlines()]
    ends = [line for line in lines if line.strip().endswith(";") and every.count(line.strip()) == 1]
    return next(line for line in ends if not line.strip().startswith(("for", "if", "return")))


def searched(path: Path, prompt_tokens: int, candidates: int) -> tuple[dict[Role, list[int]], int]:
    """Tokens of each role's prompts in one search of a program's first kernel, and the proposals that came of them."""
    text = SourceText.read(path)
    kernel = parse(text, str(path)).kernels[0].qualified_name
    model, service = ScriptedModel(only_line(text, kernel, str(path))), Service(path.parent)
    bounds = Bounds(prompt_tokens, Model().reply_tokens)
    asker = Asker(model, Ledger(Allowance(10**12, 1e9)), bounds)
    source = ModelSource(
        asker,
        Briefing(
            str(path),
            kernel,
            arch="sm_90",
            findings=lambda version: service.check_text(path, version.text).findings,
        ),
    )

    def space(name: str) -> KernelSpace:
        return KernelSpace(text, path=str(path), kernel=name, limits=LIMITS, further=(source,))

    judge = DrawnJudge(text)
    problem = Problem(
        text=text,
        path=str(path),
        name=path.name,
        space=lambda _: space(kernel),
        workload="bench",
        budget=Budget(candidates=candidates, seconds=600, batch=4),
    )
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder)) as store:
        optimize(problem, judge, store)
    return model.prompts, source.made


def measured(paths: list[Path], bound: int, candidates: int) -> dict[str, Any]:
    """Prompts of all programs by role."""
    found: dict[Role, list[int]] = {role: [] for role in ROLES}
    proposals = 0
    for path in paths:
        prompts, made = searched(path, bound, candidates)
        proposals += made
        for role, tokens in prompts.items():
            found[role] += tokens
    return {"proposals": proposals} | {role: summed(tokens, proposals) for role, tokens in found.items()}


def summed(tokens: list[int], proposals: int) -> dict[str, float]:
    """What a table shows of many prompts."""
    if not tokens:
        return {"prompts": 0}
    spread = round(sum(tokens) / proposals) if proposals else 0
    return {"prompts": len(tokens), "mean": round(mean(tokens)), "most": max(tokens), "a_proposal": spread}


def below_others(path: Path, folder: Path) -> Path:
    """The program in a long file: below all others of the suite, in a comment."""
    others = "\n".join(
        other.read_text().replace("*/", "") for other in sorted(PROGRAMS.glob("*.cu")) if other != path
    )
    long = folder / path.name
    long.write_text(f"/*\n{others}\n*/\n{path.read_text()}")
    return long


def rows(paths: list[Path], bounds: list[int], candidates: int) -> Iterator[dict[str, Any]]:
    """One for each bound."""
    for bound in bounds:
        by_role = measured(paths, bound, candidates)
        yield {"bound": bound if bound < _UNBOUNDED else None, "roles": by_role}
        sys.stderr.write(f"{bound}: {by_role}\n")


def lines_of(paths: list[Path]) -> int:
    """Lines of a file, on average."""
    return round(mean(path.read_text().count("\n") for path in paths))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--programs", type=int, default=5)
    parser.add_argument(
        "--long", type=int, default=1, help="programs of these in a long file, which takes minutes"
    )
    chosen = parser.parse_args()
    paths = sorted(PROGRAMS.glob("*.cu"), key=lambda p: -p.stat().st_size)[: chosen.programs]
    bounds = [_UNBOUNDED, Model().prompt_tokens, 4_000]
    with tempfile.TemporaryDirectory() as folder:
        long = [below_others(path, Path(folder)) for path in paths[: chosen.long]]
        result = {
            "programs": [path.stem for path in paths],
            "candidates": chosen.candidates,
            "tokens": "estimated, three characters each",
            "lines": {"as they are": lines_of(paths), "below all others": lines_of(long)},
            "as they are": list(rows(paths, bounds, chosen.candidates)),
            "below all others": list(rows(long, bounds, chosen.candidates)),
        }
    chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
