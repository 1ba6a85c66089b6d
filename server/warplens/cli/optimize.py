# SPDX-License-Identifier: Apache-2.0
"""`warplens optimize`: a faster version of a kernel with its proof, or what was tried."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warplens.agent.policies import PolicyName
from warplens.agent.result import ModelUse, OptimizeResult, Proof
from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN, EXIT_FAILED
from warplens.cli.streams import answering, console, write_json
from warplens.measure.torch_task.task import TorchOptions
from warplens.present.proof import conditions_words, expected_words, factor, proof_words
from warplens.service import exchange
from warplens.service.applying import apply_result
from warplens.service.edited import prove_edited
from warplens.service.embedded import optimize_script
from warplens.service.model import Choice, ConsentError, chosen, give_consent, require_consent
from warplens.service.optimize import OptimizeOptions, optimize_path
from warplens.service.pooled import opener, search_opener
from warplens.service.service import Service
from warplens.service.torch_search import begin_solution, is_task_file, optimize_task
from warplens.settings import Loaded
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task

Switch = Parameter(negative="")


def optimize(
    file: Path | None = None,
    /,
    *,
    kernel: str = "",
    budget: int | None = None,
    seconds: float | None = None,
    apply: Annotated[bool, Switch] = False,
    resume: Annotated[bool, Switch] = False,
    control: Annotated[bool, Switch] = False,
    search: PolicyName = "mcts",
    seed: int = 0,
    arch: str = "",
    edited: Path | None = None,
    ask: Path | None = None,
    tell: Path | None = None,
    cards: int | None = None,
    cluster: str = "",
    host_edits: Annotated[bool | None, Parameter(negative="--no-host-edits")] = None,
    lower_precision: Annotated[bool | None, Parameter(negative="--no-lower-precision")] = None,
    idioms: Annotated[bool | None, Parameter(negative="--no-idioms")] = None,
    provider: str = "",
    model: str = "",
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
    python: str = "",
    objective: Literal["time", "energy", "lexicographic"] | None = None,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """Search for a faster version of a kernel, and prove it right and faster on this machine's GPU.

    The program that the file belongs to is built and run. Exits with 0 also when nothing faster was found, with 2
    where nothing could be measured.

    Parameters
    ----------
    file
        The file that holds the kernel; a Python script with CUDA in a string is one. A PyTorch task (`Model`,
        `get_inputs`, `get_init_inputs`) is one too: a model writes its `ModelNew`, which --apply puts beside it as
        NAME_new.py, where the next search begins.
    kernel
        The kernel's name, plain or qualified; the hottest by total time if left out.
    budget
        Candidates to judge at most; the setting if left out.
    seconds
        Seconds to search at most; the setting if left out.
    apply
        Write the proven version over the file. Nothing is written if the file changed meanwhile.
    resume
        Go on with the last run on the same text, program and card: no verdict is paid for twice.
    control
        Run a random-search baseline on the same budget, for comparison.
    search
        How: mcts (a tree), greedy (always on the best so far), or random. All else is the same.
    seed
        Seed of the search.
    arch
        Architecture to compile for, such as sm_90; the card's own if left out.
    edited
        Judge this version of the file instead of searching for one.
    ask
        Write the next candidates into this folder instead of judging them here; `warplens evaluate` judges them where
        the card is. The first call begins the search; later ones need no file.
    tell
        Read the verdicts in such a folder. With the last ones comes the result.
    cards
        Judge on so many cards at once, two or three processes each; 0 for all of the first one's kind. One, with two
        processes, is the default on 8 cores and more, from 24 candidates on: some are compiled while one is
        measured.
    cluster
        Judge on the cards of the Ray cluster at this address; local starts one on this machine.
    host_edits
        Judge edits of host code too, from outside the program. They run host code that you did not write;
        the setting if left out.
    lower_precision
        Let a kernel win whose results are less precise, as half precision, bfloat16 or TF32 leave them;
        the setting if left out.
    idioms
        Try implementations of Warplens' own of whole computations that it recognises, such as a matrix product;
        the setting if left out.
    provider
        Who answers as a language model in the search: none, openai (any OpenAI-compatible endpoint), or
        files:FOLDER for prompts out and answers in; the setting if left out.
    model
        The model, as its vendor names it; the setting if left out.
    yes
        Agree to what is sent to that model's endpoint, unasked.
    python
        For a PyTorch task: the Python that has PyTorch; the one that runs Warplens if left out.
    objective
        What is to be less: time; the whole program's energy, among versions that are faster; or its energy among
        versions as fast as the fastest, within 1 %. The setting if left out.
    format
        Text for people, or one JSON object.
    """
    if cards is not None and cards < 0:
        raise InputError("--cards takes a number of cards, or 0 for all")
    options = OptimizeOptions(
        kernel=kernel,
        candidates=budget,
        seconds=seconds,
        arch=arch,
        host_edits=host_edits,
        lower_precision=lower_precision,
        idioms=idioms,
        objective=objective,
        seed=seed,
        resume=resume,
        control=control,
        search=search,
        model=Choice(provider, model),
    )
    service, task = Service(Path.cwd()), command_task()
    if file is not None and edited is None:
        settle_consent(service.settings_for(file.absolute()), options.model, yes=yes)
    judge = search_opener(cards, cluster, budget) if edited is None else opener(cards, cluster)
    if ask is not None or tell is not None:
        return _by_files(service, file, options, ask, tell, task, apply=apply, json=format == "json")
    if file is None:
        raise InputError("FILE is missing", remedy="see `warplens optimize --help`")
    if edited is not None:
        result = prove_edited(service, file, edited, options, task=task, judge=judge)
    elif is_task_file(file):
        result = optimize_task(service, file, options, TorchOptions(python), task=task)
        if apply and result.proof is not None:
            begin_solution(file)
    else:
        found = optimize_script if file.suffix == ".py" else optimize_path
        result = found(service, file, options, task=task, judge=judge)
    return _ended(result, apply=apply, json=format == "json")


def _by_files(
    service: Service,
    file: Path | None,
    options: OptimizeOptions,
    asks: Path | None,
    tells: Path | None,
    task: Task,
    *,
    apply: bool,
    json: bool,
) -> int:
    """A search whose candidates are judged elsewhere. Asking reads what is there, too."""
    folder = asks or tells or Path()
    if asks is not None and tells not in (None, asks):
        raise InputError("--ask and --tell name two folders", remedy="they are of one search, so name one")
    go_on = exchange.ask if asks is not None else exchange.tell
    standing = go_on(service, exchange.file_of(folder, file), folder, options, task=task)
    if standing.result is not None:
        return _ended(standing.result, apply=apply, json=json)
    with answering():
        if json:
            write_json(standing)
        else:
            words = f"{len(standing.waiting)} to measure in {folder}"
            console().print(Text(f"{words}; where the card is: warplens evaluate {folder}"))
    return EXIT_CLEAN


def _ended(result: OptimizeResult, *, apply: bool, json: bool) -> int:
    with answering():
        if json:
            write_json(result)
        else:
            print_result(console(), result)
    if apply and result.proof is not None:
        apply_result(result)
        sys.stderr.write(f"warplens: written to {result.path}\n")
    return EXIT_FAILED if result.outcome == "unproven" else EXIT_CLEAN


def settle_consent(loaded: Loaded, choice: Choice, *, yes: bool) -> None:
    """Say what would be sent to whom, the first time, and go on where the user agrees.

    Raises:
        ConsentError: nobody is there to ask.
        InputError: the user does not.
    """
    try:
        require_consent(chosen(loaded, choice))
    except ConsentError as error:
        words = error.destination.words()
        if yes:
            sys.stderr.write(f"warplens: {words}\n")
        elif not sys.stdin.isatty():
            raise
        elif not _agrees(words):
            raise InputError("nothing was sent, as you did not agree", remedy=error.remedy) from None
        give_consent(error.destination)


def _agrees(words: str) -> bool:
    sys.stderr.write(f"{words}\nAgree, for this and later searches? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_result(terminal: Console, result: OptimizeResult) -> None:
    """The diff and its proof, or the offers, and the table of what was tried."""
    terminal.print(Text(result.reason, style="bold"))
    if result.remedy:
        terminal.print(Text(f"  → {result.remedy}"))
    if result.diff:
        terminal.print(Text(result.diff))
    if result.proof is not None:
        for line in proof_lines(result, result.proof):
            terminal.print(Text(line))
    for offer in result.offers:
        terminal.print(Text(f"unproven: {offer.title} ({offer.kernel}). {expected_words(offer)}"))
        terminal.print(Text(offer.diff, style="dim"))
    if result.tried:
        terminal.print(_tried_table(result))
    for line in _account(result):
        terminal.print(Text(line))
    for unknown in result.unknown:
        terminal.print(Text(f"not known: {unknown.what}: {unknown.why}"))


def _account(result: OptimizeResult) -> Iterator[str]:
    """What the search spent, on whom, against what chance found, and where all of it can be seen."""
    if result.spent is not None:
        spent = result.spent
        resumed = f", {spent.resumed} of them from an earlier run" if spent.resumed else ""
        yield f"{spent.candidates} candidates{resumed} in {spent.seconds:.1f} s; stopped by {spent.stopped}"
    if result.model is not None:
        yield from model_lines(result.model)
    if result.run is not None:
        yield f"run {result.run}: warplens history show {result.run} [--page FILE.html] [--report FILE.md]"
    if result.control is not None:
        best = factor(result.control.speedup) if result.control.speedup is not None else "nothing faster"
        yield f"random-search baseline, {result.control.tried} candidates: {best}"


def model_lines(use: ModelUse) -> list[str]:
    """What the model did and cost, a line each."""
    money = f", ${use.dollars:.2f}" if use.dollars else ""
    who = f"{use.model} ({use.provider})" if use.model else use.provider
    lines = [f"model {who}: {use.proposals} proposals, {use.tokens:,} tokens{money}"]
    if use.troubles:
        counted = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in use.troubles.items())
        lines.append(f"model, replies that could not be used: {counted}")
    return [*lines, *([f"model, asked no more: {use.stopped}"] if use.stopped else [])]


def proof_lines(result: OptimizeResult, proof: Proof) -> list[str]:
    """The proof, a line each: times, the program's gain, what changed, under which conditions."""
    words = proof_words(result, proof)
    changes = [f"{metric}: {before} before, {after} after" for metric, before, after in words.changes]
    conditions = conditions_words(result)
    return [*words.outside, *words.timings, *words.facts, *changes, *([conditions] if conditions else [])]


def _tried_table(result: OptimizeResult) -> Table:
    table = Table("", "step", "on", "verdict", "speedup", box=None, pad_edge=False)
    for row in result.tried:
        speedup = f"{row.speedup.median:.3f}" if row.speedup is not None else ""
        verdict = row.state.replace("_", " ") + (f": {row.reason}" if row.reason and not speedup else "")
        table.add_row(row.id, Text(row.title), row.parent, Text(verdict), speedup)
    return table
