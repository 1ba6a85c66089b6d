# SPDX-License-Identifier: Apache-2.0
"""A service whose findings are marks in the text, so that tests say what is found, where and how slowly.

`// source: WORDS` is a finding of the source tier, `// binary: WORDS` one of the binary tier; a line with
`// refute` takes back the source finding on it once the binary tier has run. `// sleep: S` makes the
compiler take S seconds, `// waits for: NAME` until there is such a file beside the text's, `// judge: S` a
candidate's run that long, each in a real process that a cancel must kill. `// raise` breaks the source tier,
`// break` the binary tier, as an error in Warplens itself would.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from warplens.lsp.judging import Search
from warplens.lsp.proposals import Offer, unproven
from warplens.lsp.serve import serve
from warplens.service.check import Checked
from warplens.service.report import FileReport, KernelReport, ResourceReport, page_url
from warplens.service.service import CheckOptions, Service
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.evidence import Observation, Tier, Unknown
from warplens_tools.finding import Bottleneck, Finding, Fix
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText, Span, TextEdit

_MARK = re.compile(r"// (source|binary): (\w+)")
_KERNEL = re.compile(r"__global__ void (\w+)")
_LAUNCH = re.compile(r"(\w+)<<<")
_SLEEP = re.compile(r"// sleep: ([\d.]+)")
_GATE = re.compile(r"// waits for: (\w+)")
_JUDGE = re.compile(r"// judge: ([\d.]+)")


_WAIT = """import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


class SampleService(Service):
    """See the module."""

    def check_text(self, path: Path, text: str | SourceText) -> FileReport:
        source = SourceText(text) if isinstance(text, str) else text
        if "// raise" in source.text:
            raise RuntimeError("a fault in the service")
        return _report(path, source, ("source",))

    def syntax_errors(self, path: Path, text: str | SourceText) -> int:  # noqa: ARG002
        return _errors(text if isinstance(text, str) else text.text)

    def stages(
        self,
        path: Path,
        options: CheckOptions,
        *,
        text: SourceText | None = None,
        early: bool = True,
        task: Task = UNATTENDED,
    ) -> Iterator[Checked]:
        text = text or SourceText.read(path)
        source = Checked(_report(path, text, ("source",)))
        if early:
            yield source.before_the_end()
        settings = self.settings_for(path).settings
        if settings.architecture == "sm_1":
            raise InputError("sm_1 is not an architecture Warplens knows", remedy="set warplens.architecture")
        if "source" in (options.tier, settings.tier):
            yield source
            return
        task.say("compiling", 0.5)
        match = _SLEEP.search(text.text)
        if match:
            run([sys.executable, "-c", f"import time; time.sleep({match[1]})"], task=task)
        if match := _GATE.search(text.text):
            run([sys.executable, "-c", _WAIT, str(path.with_name(match[1]))], task=task)
        if "// break" in text.text:
            raise FileNotFoundError("what was cached has gone")
        if "// does not compile" in text.text:
            yield source.lacking(Unknown(f"binary tier of {path.name}", "it does not compile"))
            return
        yield Checked(_report(path, text, ("source", "binary")))


def _report(path: Path, text: SourceText, tiers: tuple[Tier, ...]) -> FileReport:
    kernels = tuple(_kernels(text, "binary" in tiers))
    errors = _errors(text.text)
    findings = tuple(_findings(text, kernels, tiers)) if not errors else ()
    return FileReport(str(path), kernels, findings, tiers, arch="sm_90", syntax_errors=errors)


def _errors(text: str) -> int:
    return abs(text.count("(") - text.count(")"))


def _kernels(text: SourceText, binary: bool) -> Iterator[KernelReport]:
    for number in range(1, text.line_count + 1):
        match = _KERNEL.search(text.line_text(number))
        if match:
            end = number
            while end < text.line_count and not text.line_text(end).startswith("}"):
                end += 1
            yield KernelReport(
                name=match[1],
                qualified_name=match[1],
                line=number,
                end_line=end,
                column=match.start(1) + 1,
                name_line=number,
                bottleneck=Bottleneck(
                    bound="memory" if binary else "unknown",
                    confidence="medium",
                    reason="every load is used once" if binary else "not compiled yet",
                ),
                resources=ResourceReport("sm_90", registers=40, occupancy=0.5, occupancy_limiter="registers")
                if binary
                else None,
                launch_lines=tuple(
                    line
                    for line in range(1, text.line_count + 1)
                    if (found := _LAUNCH.search(text.line_text(line))) and found[1] == match[1]
                ),
            )


def _findings(
    text: SourceText, kernels: tuple[KernelReport, ...], tiers: tuple[Tier, ...]
) -> Iterator[Finding]:
    for number in range(1, text.line_count + 1):
        line = text.line_text(number)
        match = _MARK.search(line)
        if match is None or match[1] not in tiers or ("binary" in tiers and "// refute" in line):
            continue
        kernel = next((k.qualified_name for k in kernels if k.line <= number <= k.end_line), "")
        tier: Tier = "source" if match[1] == "source" else "binary"
        column = match.start() + 1
        yield Finding(
            code="WL901" if tier == "source" else "WL902",
            slug=f"sample-{tier}",
            kernel=kernel,
            span=Span(number, column, number, len(line) + 1),
            severity="warning",
            confidence="high",
            message=match[2],
            guidance="remove the mark",
            gain=None,
            evidence=(Observation(tier, "sample 1.0", "marks", 1.0, "", 0.0, "this test"),),
            fixes=(
                Fix(
                    "Remove the mark",
                    "remove-mark",
                    (TextEdit(Span(number, column, number, len(line) + 1), ""),),
                    "",
                    "unproven",
                ),
            ),
            page=page_url("WL901", f"sample-{tier}"),
        )


def _no_gpu() -> MissingToolError:
    return MissingToolError("there is no CUDA GPU in this machine", remedy="run it where there is one")


class SampleJudging:
    """Finds `a[0] = 1` and makes it 2, after a search in a real process; without that, nothing is faster."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def optimize(self, path: Path, search: Search, *, task: Task) -> Offer:
        text = SourceText.read(path)
        if "// no GPU" in text.text:
            report = self.service.check_file(path, CheckOptions(tier="source"))
            fixes = [fix for finding in report.files[0].findings for fix in finding.fixes]
            if not fixes:
                return Offer(
                    search.kernel, f"{search.kernel}: no finding asks for an edit", "unproven", (), ""
                )
            return unproven(search.kernel, fixes[0], _no_gpu())
        if "// ask the model" in text.text:
            return _asked(search, task)
        task.say("judging 1 of 2", 0.5)
        match = _JUDGE.search(text.text)
        seconds = match[1] if match else "0"
        run([sys.executable, "-c", f"import time; time.sleep({seconds})"], task=task)
        at = text.text.find("a[0] = 1")
        if at < 0:
            return Offer(search.kernel, "nothing faster was found for scale", "same", (), "")
        edit = TextEdit(text.span(at + 7, at + 8), "2")
        return Offer(search.kernel, "scale: 1.42× faster", "faster", (edit,), "**Proof.** 1.42× in 20 rounds")

    def prove(self, path: Path, kernel: str, fix: Fix, *, task: Task) -> Offer:
        if "// no GPU" in SourceText.read(path).text:
            raise _no_gpu()
        offer = self.optimize(path, Search(kernel), task=task)
        return Offer(kernel, f"{fix.title}: slower", "slower", fix.edits, offer.proof)

    def remember(self, path: Path, kernel: str, rewrite: str, code: str) -> None:
        from warplens.service.applying import remember_fix

        remember_fix(path, kernel, rewrite, code)


def _asked(search: Search, task: Task) -> Offer:
    """What a model of the client's says, once the user agreed to send it something."""
    from warplens.agent.llm.editor import EditorModel
    from warplens.agent.llm.provider import Message, ProviderError, Question
    from warplens.service.model import require_consent
    from warplens.settings import Model

    require_consent(Model(provider="editor"))
    if search.ask_editor is None:
        return Offer(search.kernel, "there is no model to ask", "same", (), "")
    question = Question("planner", (Message("system", "plan"), Message("user", "go")), 0.8, 100, 3.0)
    try:
        reply = EditorModel(search.ask_editor, "m").ask(question, task)
    except ProviderError as error:
        return Offer(search.kernel, f"{error.kind}: {error}", "same", (), "")
    return Offer(search.kernel, f"the model says: {reply.text} ({reply.usage.input_tokens})", "same", (), "")


def main() -> None:
    """Serve one client until it ends the session."""
    serve(SampleService, SampleJudging)


if __name__ == "__main__":
    main()
