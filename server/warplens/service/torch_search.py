# SPDX-License-Identifier: Apache-2.0
"""`optimize` for a PyTorch task: a first correct kernel, then the same search, with a model as the source of steps."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from warplens.agent.judging import JudgeSession
from warplens.agent.llm.cases import Briefing
from warplens.agent.llm.editor import AskEditor
from warplens.agent.llm.measured import card_words
from warplens.agent.llm.source import ModelSource
from warplens.agent.problem import Problem
from warplens.agent.result import ModelUse, OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.agent.task_space import (
    SOLUTION,
    TaskSpace,
    first_solution,
    is_task,
    python_essence,
    why_no_solution,
)
from warplens.measure.session import Baseline
from warplens.measure.torch_task.judge import TaskJudge
from warplens.measure.torch_task.scan import suspicions
from warplens.measure.torch_task.task import TorchOptions, TorchTask, solution_of
from warplens.service.embedded import embedded
from warplens.service.model import chosen, open_asker, used_of
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens.service.torch_host import device_side
from warplens.store.database import data_folder, open_store
from warplens_tools.arch.load import load_gpu
from warplens_tools.errors import InputError
from warplens_tools.finding import Finding
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText, Span

#: Opens a judge for a task and the text that is edited.
OpenTaskJudge = Callable[[TorchTask, SourceText, str], AbstractContextManager[JudgeSession]]
_NOT_WORD = re.compile(r"\W")


PLAIN = TorchOptions()


def open_task_judge(asked: TorchTask, text: SourceText, python: str) -> AbstractContextManager[JudgeSession]:
    """The judge of this machine's card."""
    return TaskJudge(asked, text, python=python)


def is_task_file(path: Path) -> bool:
    """Whether a file is a PyTorch task."""
    try:
        return path.suffix == ".py" and is_task(path.read_text("utf-8", "replace"))
    except OSError:
        return False


def begin_solution(path: Path) -> None:
    """Write what a search began from beside the task, where nothing is; the proven version is then an edit of it."""
    solution = solution_of(path.absolute())
    with suppress(FileExistsError), solution.open("x", encoding="utf-8", newline="") as file:
        file.write(first_solution(SourceText.read(path)).text)


def optimize_task(
    service: Service,
    path: Path,
    options: OptimizeOptions,
    torch: TorchOptions = PLAIN,
    *,
    task: Task = UNATTENDED,
    judge: OpenTaskJudge = open_task_judge,
    ask_editor: AskEditor | None = None,
) -> OptimizeResult:
    """Search for a `ModelNew`; it begins with the solution that lies beside the task, else with the task's own module.

    Raises:
        InputError: the file is no task, the task cannot tell right from wrong, or no provider is configured.
        MissingToolError: the Python has no PyTorch.
        As `open_asker`, `examine`.
    """
    started = time.monotonic()
    path = path.absolute()
    loaded = service.settings_for(path)
    model = chosen(loaded, options.model)
    if model.provider == "none":
        raise InputError(
            "a PyTorch task is searched with a language model", remedy="name one: --provider, --model"
        )
    solution = solution_of(path)
    text = SourceText.read(solution) if solution.exists() else first_solution(SourceText.read(path))
    gpu = load_gpu(options.arch or loaded.settings.architecture or None)
    configured = loaded.settings.optimize
    lower = configured.lower_precision if options.lower_precision is None else options.lower_precision
    asked = msgspec.structs.replace(torch, lower_precision=lower).asked(path, None)
    asker = open_asker(model, loaded.root, ask_editor)
    measured: list[str] = []

    def told(baseline: Baseline) -> None:
        measured[:] = [
            f"A call of the task's own module takes {baseline.timing.median_ns / 1e3:.4g} us in eager FP32."
        ]

    source = ModelSource(
        asker,
        Briefing(
            path=str(solution),
            kernel=SOLUTION,
            lower_precision=lower,
            arch=gpu.arch,
            card=card_words(gpu),
            measured=lambda: "".join(measured),
            feedback=model.feedback,
            findings=lambda version: findings_of(service, solution, version.text),
            refused=lambda version: (
                why_no_solution(version.text) or "; ".join(suspicions(version.text, path.stem))
            ),
            essence=python_essence,
            opening=not solution.exists(),
        ),
    )
    problem = Problem(
        text=text,
        path=str(solution),
        name=solution.name,
        space=lambda _: TaskSpace(gpu.limits, (source,)),
        workload=msgspec.json.encode(asked).decode() + path.read_text("utf-8", "replace") + options.name,
        search=options.search,
        budget=Budget(
            options.candidates or configured.candidates,
            options.seconds or configured.seconds,
            options.batch or 1,
        ),
        kernel=SOLUTION,
        seed=options.seed,
        resume=options.resume,
        measured=told,
        started=started,
    )
    with open_store(data_folder(os.environ)) as store, judge(asked, text, torch.python) as session:
        result = optimize(problem, session, store, task=task)
    used: ModelUse = used_of(asker, model.provider, (source,))
    return msgspec.structs.replace(result, model=used)


def findings_of(service: Service, path: Path, version: SourceText) -> Sequence[Finding]:
    """What the source of a module's kernels shows, at the lines of the module's file."""
    try:
        strings = embedded(version, path)
    except InputError:
        return ()
    found = []
    for string in strings:
        unit = path.with_name(f"{_NOT_WORD.sub('_', path.stem)}_{string.line}.cu")
        for finding in service.check_text(unit, device_side(string.text)).findings:
            span = finding.span
            moved = string.line - 1
            found.append(
                msgspec.structs.replace(
                    finding,
                    kernel="",
                    message=f"{finding.kernel}: {finding.message}" if finding.kernel else finding.message,
                    span=Span(span.line + moved, span.column, span.end_line + moved, span.end_column),
                    fixes=(),
                )
            )
    return found
