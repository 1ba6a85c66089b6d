# SPDX-License-Identifier: Apache-2.0
"""The search with a model alone, by files on both sides: prompts and answers here, candidates and verdicts on a card.

    python -m tests.suite.study begin FOLDER NAME ... [--feedback guidance] [--budget 20] [--batch 7]
    python -m tests.suite.study drive FOLDER      # writes prompts and candidates as answers come
    python -m tests.suite.study drive FOLDER --once     # one pass; says which prompts want an answer
    python -m tests.suite.study evaluate FOLDER [--also FOLDER ...] [--at-once 4]     # where the card is
    python -m tests.suite.study confirm FOLDER [--also FOLDER ...]    # asks for the fastest so far to be measured again
    python -m tests.suite.study report FOLDER [--also FOLDER ...] [--beside SUITE.json ...] [--out FILE]
    python -m tests.suite.study join STUDY.json --beside SUITE.json ...     # into a report that is there

FOLDER/prompts holds the prompts of all programs and takes the answers, each under the name of its prompt with
`.answer.md` for `.prompt.md`. No rewrite, parameter or template takes part, so whatever is gained is the model's.
A turn on the card takes all that a batch holds: with a budget of 20 and a batch of 7 there are three. The first one's
prompts need no card, but a toolchain (`warplens setup toolchain`), without which findings are of the source alone; with
`--feedback metrics` they wait for the original's counters, which the first `evaluate` reads.
`evaluate` wants no more of FOLDER than `asks`: what it answered lies in `asks/*/answers`.
`--beside` names results of `tests.suite.search`: they give the experts' speedups, and what the search does without a
model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from tests.suite.between import between
from tests.suite.catalogue import programs
from tests.suite.search import LEAST_GAIN

from warplens.agent.llm.files import ANSWER, PROMPT
from warplens.agent.llm.provider import estimated_tokens
from warplens.measure.exchange import BASELINE, Exchange, confirmed_as
from warplens.measure.verdict import Verdict
from warplens.service.exchange import Standing, ask, file_of
from warplens.service.model import Choice
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens_tools.errors import WarplensError
from warplens_tools.text import SourceText, unified_diff

#: Steps that are not the model's.
OTHERS = ("rewrites", "parameters", "templates")
#: Seconds of one search, and between two looks for answers.
FOREVER, PAUSE = 1e6, 3.0


def begin(folder: Path, given: argparse.Namespace) -> None:
    """Lay each program in a project of its own, with what the model is told in its settings."""
    known = {program.name: program for program in programs()}
    (folder / "prompts").mkdir(parents=True, exist_ok=True)
    plan = {"kernels": {}, "budget": given.budget, "batch": given.batch, "feedback": given.feedback}
    for name in given.names:
        project = folder / name
        project.mkdir()
        shutil.copy(known[name].path, project / f"{name}.cu")
        settings = f'architecture = "sm_90"\n[model]\nfeedback = "{given.feedback}"\nmax-tokens = 100000000\n'
        (project / "warplens.toml").write_text(settings)
        plan["kernels"][name] = known[name].kernel
    (folder / "study.json").write_text(json.dumps(plan, indent=1) + "\n")


def step(folder: Path, name: str, plan: dict[str, Any]) -> Standing:
    """Take one program's search as far as answers and verdicts lead."""
    file, exchanged = folder / name / f"{name}.cu", folder / "asks" / name
    options = OptimizeOptions(
        kernel=plan["kernels"][name],
        candidates=plan["budget"],
        seconds=FOREVER,
        batch=plan["batch"],
        model=Choice(f"files:{(folder / 'prompts').absolute()}"),
        without=OTHERS,
    )
    return ask(Service(file.parent), file_of(exchanged, file), exchanged, options)


def drive(folder: Path, *, once: bool) -> None:
    """Go on with every program whenever answers or verdicts are new; FOLDER/standing.json says where each is."""
    plan = json.loads((folder / "study.json").read_text())
    seen: dict[str, object] = {}
    standing: dict[str, Any] = {}
    while True:
        answers = {p.name for p in (folder / "prompts").glob(f"*{ANSWER}") if p.stat().st_size}
        for name in plan["kernels"]:
            verdicts = len(list((folder / "asks" / name / "answers").glob("*.json")))
            waits = standing.get(name, {}).get("waiting", [])
            now = (verdicts, len(answers.intersection(waits)))
            if seen.get(name) == now:
                continue
            try:
                found = step(folder, name, plan)
                ended = found.result.outcome if found.result is not None else ""
                standing[name] = {"waiting": list(found.waiting), "ended": ended}
            except WarplensError as error:
                standing[name] = {"waiting": [], "ended": f"failed: {error}"}
            seen[name] = (verdicts, 0)
            (folder / "standing.json").write_text(json.dumps(standing, indent=1) + "\n")
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name}: {standing[name]}\n")
        if once:
            for path in unanswered(folder, standing):
                sys.stdout.write(f"{path}\n")
            return
        time.sleep(PAUSE)


def unanswered(folder: Path, standing: dict[str, Any]) -> list[Path]:
    """Prompts that some program's search waits for, the earliest first; not those that nobody wants any more."""
    waits = sorted({name for program in standing.values() for name in program["waiting"]})
    paths = [folder / "prompts" / name for name in waits if name.endswith(ANSWER)]
    return [path.with_name(path.name.replace(ANSWER, PROMPT)) for path in paths if not path.is_file()]


def waiting_in(folders: Sequence[Path]) -> list[Path]:
    """Exchanges with something to measure, those with the fewest verdicts first, the folders in turn."""
    found = [
        (len(list(asks.glob("answers/*.json"))), place, number, asks)
        for number, folder in enumerate(folders)
        for place, asks in enumerate(sorted((folder / "asks").iterdir()))
        if (asks / "exchange.json").is_file() and Exchange(asks).waiting()
    ]
    return [asks for *_, asks in sorted(found)]


def evaluate(folders: Sequence[Path], at_once: int) -> None:
    """Measure what waits, a process for each program, so many at once: builds run while the card is another's."""

    def measured(asks: Path) -> None:
        began = time.monotonic()
        command = [sys.executable, "-m", "warplens", "evaluate", str(asks)]
        subprocess.run(command, env={**os.environ, "WARPLENS_HOME": f"{asks}.home"}, check=False)
        sys.stderr.write(f"{time.monotonic() - began:.1f} s: {asks}\n")

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(measured, waiting_in(folders)))


def confirm(folder: Path) -> None:
    """Ask for the fastest version of each program to be measured again, as a search does at its end: the next one where
    that did not hold, none where one has."""
    for asks in sorted((folder / "asks").iterdir()):
        exchange = Exchange(asks)
        if not exchange.begun or (confirmed(exchange) or 1.0) > 1.0:
            continue
        versions = sorted(verdicts_of(exchange), key=speedup, reverse=True)
        for verdict in versions:
            (name,) = asks.glob(f"asks/judge-{verdict.candidate}-*.json")
            candidate = exchange.candidate(name.stem)
            if verdict.state == "faster" and exchange.answer(confirmed_as(candidate)) is None:
                exchange.ask(confirmed_as(candidate), candidate)
                break


def verdicts_of(exchange: Exchange) -> list[Verdict]:
    """All verdicts of one search, in the order of their asks."""
    names = [path.stem for path in exchange.folder.glob("answers/judge-*.json")]
    names.sort(key=lambda name: int(name.split("-")[1][1:]))
    answers = [exchange.answer(name) for name in names]
    return [a.verdict for a in answers if a is not None and a.verdict is not None]


def confirmed(exchange: Exchange) -> float | None:
    """The winner's speedup when it was measured again; None while nothing was confirmed."""
    answers = [exchange.answer(path.stem) for path in exchange.folder.glob("answers/confirm-*.json")]
    found = [speedup(a.confirmation.verdict) for a in answers if a is not None and a.confirmation is not None]
    return round(max(found), 3) if found else None


def speedup(verdict: Verdict) -> float:
    """As the program leaves the cache; 1 for what is not faster."""
    return verdict.timings[0].speedup.median if verdict.state == "faster" else 1.0


def tried(exchange: Exchange, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Each proposal with its verdict."""
    titles: dict[str, str] = {}
    for path in exchange.folder.glob("asks/judge-*.json"):
        candidate = exchange.candidate(path.stem)
        titles[candidate.id] = f"{candidate.title} ({candidate.origin})"
    return [
        {"title": titles[v.candidate], "state": v.state}
        | ({"speedup": round(v.timings[0].speedup.median, 3)} if v.timings else {"reason": v.reason})
        for v in verdicts
    ]


def diff_of(exchange: Exchange, candidate: str) -> str:
    """A version against the program, so that whoever has the figures can measure it again."""
    (path,) = exchange.folder.glob(f"asks/judge-{candidate}-*.json")
    source = exchange.description().source
    text = SourceText.read(exchange.project / source)
    return unified_diff(text, text.apply(list(exchange.candidate(path.stem).edits)), path=source)


def row(folder: Path, name: str) -> dict[str, Any]:
    """One program's figures."""
    exchange = Exchange(folder / "asks" / name)
    verdicts = verdicts_of(exchange)
    ran = [v for v in verdicts if v.state in ("faster", "same", "slower")]
    # a program without a verdict has no figure
    best = max((speedup(v) for v in verdicts), default=None)
    states = Counter(verdict.state for verdict in verdicts)
    winner = max((v for v in verdicts if v.state == "faster"), key=speedup, default=None)
    return {
        "program": name,
        "judged": len(verdicts),
        "built": len(verdicts) - states["refused"] - states["not_built"],
        "right": len(ran),
        "faster": states["faster"],
        "best": best and round(best, 3),
        "confirmed": confirmed(exchange),
        "waiting": len(exchange.waiting()),
        "diff": diff_of(exchange, winner.candidate) if winner is not None else "",
        "states": dict(states),
        "tried": tried(exchange, verdicts),
    }


def beside(entry: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """One program's figures, with an expert's and those of the search without a model."""
    other = known.get(entry["program"])
    if other is None:
        return entry
    expert = other["expert"]
    share = math.log(entry["best"]) / math.log(expert) if entry["best"] and expert > LEAST_GAIN else None
    without = {name: other.get(name) for name in ("judged", "speedup", "share")}
    return {
        **entry,
        "expert": expert,
        "share": None if share is None else round(share, 3),
        "without_model": without,
    }


def arm(folder: Path, known: dict[str, Any]) -> dict[str, Any]:
    """One study's figures: of each program what was proposed, built, right and faster, the best, and what it was
    confirmed with."""
    plan = json.loads((folder / "study.json").read_text())
    rows = [
        row(folder, name) for name in plan["kernels"] if (folder / "asks" / name / "exchange.json").is_file()
    ]
    rows = [beside(entry, known) for entry in rows]
    prompts = list((folder / "prompts").glob(f"*{PROMPT}"))
    roles = Counter(path.name.split("-")[1] for path in prompts)
    logs = [math.log(entry["best"]) for entry in rows if entry["best"]]
    return {
        "name": folder.name,
        "feedback": plan["feedback"],
        "budget": plan["budget"],
        **{name: sum(entry[name] for entry in rows) for name in ("judged", "built", "right", "faster")},
        "programs_with_a_verdict": len(logs),
        "programs_made_faster": sum(log > 0 for log in logs),
        **means(rows),
        "prompts": dict(roles),
        "tokens_of_a_proposal": tokens_of(prompts, sum(entry["judged"] for entry in rows)),
        "corrections": sum("# Your earlier reply" in path.read_text("utf-8") for path in prompts),
        "rows": rows,
    }


def means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of the best, of what was confirmed, of the experts' and of the search without a model, each over
    the programs that have one; a program on which nothing was found counts as 1."""
    having = {
        "the_best": [entry["best"] for entry in rows if entry["best"]],
        "the_confirmed": [entry["confirmed"] for entry in rows if entry.get("confirmed")],
        "the_experts": [entry["expert"] for entry in rows if entry.get("expert")],
        "the_search_without_a_model": [
            (other["speedup"] or {}).get("median", 1.0)
            for entry in rows
            if (other := entry.get("without_model") or {}).get("judged")
        ],
    }
    return {
        f"geometric_mean_of_{name}": round(geometric_mean(found), 3) if found else None
        for name, found in having.items()
    }


def join(path: Path, others: Sequence[Path]) -> None:
    """Put an expert's figures and those of the search without a model into a report that is there."""
    result, known = json.loads(path.read_text()), known_of(others)
    for one in result["arms"]:
        one["rows"] = [beside(entry, known) for entry in one["rows"]]
        one |= means(one["rows"])
    path.write_text(json.dumps(result, indent=1) + "\n")


def known_of(others: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Rows of results of the search by program: of several searches of one program the one that judged most."""
    rows = [r for other in others for r in json.loads(other.read_text())["rows"] if "expert" in r]
    return {r["program"]: r for r in sorted(rows, key=lambda r: r.get("judged", 0))}


def tokens_of(prompts: Sequence[Path], proposals: int) -> dict[str, dict[str, int]]:
    """Tokens of prompts and of replies by role, estimated as a search's budget is, for each version that was judged."""
    spent: dict[str, Counter[str]] = {}
    for path in prompts:
        answer = path.with_name(path.name.replace(PROMPT, ANSWER))
        role = spent.setdefault(path.name.split("-")[1], Counter())
        role["prompts"] += estimated_tokens(path.read_text("utf-8"))
        role["replies"] += estimated_tokens(answer.read_text("utf-8")) if answer.is_file() else 0
    return {
        role: {what: round(tokens / max(proposals, 1)) for what, tokens in counted.items()}
        for role, counted in sorted(spent.items())
    }


def cards_of(folder: Path) -> set[str]:
    """The cards on which a study's programs were measured."""
    answers = [Exchange(asks).answer(BASELINE) for asks in (folder / "asks").iterdir()]
    return {a.baseline.conditions.gpu for a in answers if a is not None and a.baseline is not None}


def report(folders: Sequence[Path], others: Sequence[Path], out: Path | None, note: str = "") -> None:
    """The studies as JSON, side by side."""
    known = known_of(others)
    arms = [arm(folder, known) for folder in folders]
    pairs = [(a, b) for a, b in itertools.combinations(arms, 2) if a["feedback"] != b["feedback"]]
    result = {
        "command": "python -m tests.suite.study",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": sorted(set().union(*map(cards_of, folders))),
        "note": note,
        "between": [found for pair in pairs if (found := between(*pair)) is not None],
        "arms": arms,
    }
    text = json.dumps(result, indent=1) + "\n"
    if out is not None:
        out.write_text(text)
    sys.stdout.write(text)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["begin", "drive", "evaluate", "confirm", "report", "join"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--feedback", default="guidance", choices=["guidance", "metrics", "nothing"])
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--batch", type=int, default=7)
    parser.add_argument("--also", type=Path, action="append", default=[])
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--beside", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--note", default="", help="kept beside the figures: what they may not be read as")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folders = [folder, *(also.absolute() for also in given.also)]
    if given.what == "begin":
        begin(folder, given)
    elif given.what == "drive":
        drive(folder, once=given.once)
    elif given.what == "evaluate":
        evaluate(folders, given.at_once)
    elif given.what == "confirm":
        for each in folders:
            confirm(each)
    elif given.what == "join":
        join(folder, given.beside)
    else:
        report(folders, given.beside, given.out, given.note)


if __name__ == "__main__":
    main()
