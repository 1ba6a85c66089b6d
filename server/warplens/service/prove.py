# SPDX-License-Identifier: Apache-2.0
"""One edit of a file, judged without a search."""

from __future__ import annotations

import os

from warplens.agent.edits import text_hash
from warplens.agent.prove import prove
from warplens.agent.result import OptimizeResult
from warplens.measure.build.includes import uses_cutlass
from warplens.measure.verdict import Candidate
from warplens.service.library_build import built_for
from warplens.service.optimize import (
    FileInputs,
    OpenJudge,
    OptimizeOptions,
    allowed_by,
    kernels_of,
    open_judge,
    shown_name,
)
from warplens.service.specs import expecting
from warplens.service.workloads import require_main, workload_of
from warplens.store.database import data_folder, open_store
from warplens_tools.cuda.parse import parse
from warplens_tools.finding import Fix
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText


def prove_fix(
    inputs: FileInputs,
    kernel: str,
    fix: Fix,
    *,
    task: Task = UNATTENDED,
    judge: OpenJudge = open_judge,
) -> OptimizeResult:
    """Judge one edit, confirm it if it is faster.

    Raises:
        MissingToolError: there is no GPU, driver, compiler or CUPTI.
        As `optimize_file` otherwise.
    """
    text = inputs.text()
    model = parse(text, str(inputs.path))
    (name,) = kernels_of(model, kernel, inputs.path)[:1]
    require_main(inputs.path, inputs.unit, inputs.loaded, kernel)
    after = text.apply(list(fix.edits))
    codes = [f.code for f in inputs.report().findings if f.kernel == name and fix in f.fixes]
    candidate = Candidate(
        id="c1",
        path=str(inputs.path),
        kernel=name,
        edits=fix.edits,
        parent="baseline",
        origin=f"rewrite:{fix.rewrite}",
        title=fix.title,
        text_hash=text_hash(after),
        answers=tuple(dict.fromkeys(codes)),
    )
    return prove_one(
        inputs,
        text,
        candidate,
        OptimizeOptions(),
        caveat=fix.caveat,
        task=task,
        judge=judge,
    )


def prove_one(
    inputs: FileInputs,
    text: SourceText,
    candidate: Candidate,
    options: OptimizeOptions,
    *,
    caveat: str = "",
    task: Task = UNATTENDED,
    judge: OpenJudge = open_judge,
) -> OptimizeResult:
    """Judge one candidate, an edit of `text`, and confirm it if it is faster. Raises as `prove_fix`."""
    workload = workload_of(inputs.path, inputs.unit, inputs.loaded, candidate.kernel)
    versions = () if uses_cutlass(text.text) else (text.apply(list(candidate.edits)).text,)
    workload, target = built_for(workload, options.arch, inputs.gpu.arch, versions)
    allowed = allowed_by(options, inputs.loaded)
    arch = target or inputs.gpu.arch
    workload = expecting(workload, inputs.path, inputs.loaded, candidate.kernel, arch, task=task)
    with (
        open_store(data_folder(os.environ)) as store,
        judge(workload, candidate.kernel, target, allowed) as session,
    ):
        return prove(
            text,
            candidate,
            session,
            store,
            name=shown_name(inputs),
            caveat=caveat,
            limits=inputs.gpu.limits,
            task=task,
        )
