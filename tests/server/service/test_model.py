# SPDX-License-Identifier: Apache-2.0
"""The model as settings and command choose it: consent, keys, providers, the whole way to a result."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

pytest.importorskip("openai")

from tests.server.agent.doubles import problem
from tests.server.agent.llm.endpoint import Endpoint, serving
from tests.server.agent.llm.scripted import (
    CODE,
    LINE,
    TextJudge,
    by_role,
    case_of,
    code,
    ideas,
    plan,
    role_of,
)
from tests.server.service.test_optimize import opened

from warplens.agent.llm.consent import agreed
from warplens.agent.llm.files import ANSWER, PROMPT
from warplens.agent.result import OptimizeResult
from warplens.agent.versions import Node, Versions
from warplens.cli.optimize import model_lines, settle_consent
from warplens.measure.judge_settings import Allowed
from warplens.read_settings import load, take_variable
from warplens.service.library_build import built_for, finds_library, library_options
from warplens.service.model import (
    Choice,
    ConsentError,
    FileCase,
    chosen,
    destination_of,
    give_consent,
    open_part,
    require_consent,
)
from warplens.service.optimize import FileInputs, OptimizeOptions, optimize_file
from warplens.service.report import FileReport
from warplens.settings import Loaded
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import InputError
from warplens_tools.finding import Finding
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, Span

KEY = "sk-service-0123456789"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    path = tmp_path / "work" / "scale.cu"
    path.parent.mkdir()
    path.write_text(CODE)
    return path


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    def faster(_: object, number: int) -> str:
        return code(f'{LINE}\n    asm("// speed={1.2 + number / 10:.1f}");')

    with serving(by_role(planner=ideas, coder=faster)) as server:
        yield server


def configured(file: Path, *lines: str) -> Loaded:
    (file.parent / "warplens.toml").write_text("\n".join(["[model]", *lines]) + "\n")
    return load(file, root=file.parent)


def run(file: Path, loaded: Loaded, **options: object) -> OptimizeResult:
    given = FileInputs(
        path=file,
        unit=file,
        loaded=loaded,
        gpu=load_architecture("sm_90"),
        rewrites=(),
        report=lambda: FileReport(str(file), (), ()),
        check=lambda *_: FileReport(str(file), (), ()),
    )
    judge = opened(TextJudge(SourceText(file.read_text())))
    asked = OptimizeOptions(candidates=4, kernel="scale", **options)  # type: ignore[arg-type]
    return optimize_file(given, asked, judge=judge)


def test_without_a_provider_nothing_changes(file: Path, endpoint: Endpoint) -> None:
    loaded = configured(file, f'base-url = "{endpoint.url}"', 'name = "m"')
    result = run(file, loaded)
    assert result.model is None and endpoint.requests == []


def test_nothing_is_sent_before_the_user_agreed(
    file: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_MODEL_KEY", KEY)
    loaded = configured(
        file,
        'provider = "openai"',
        f'base-url = "{endpoint.url}"',
        'name = "m"',
        'key-variable = "MY_MODEL_KEY"',
    )
    with pytest.raises(ConsentError) as caught:
        run(file, loaded)
    assert endpoint.requests == []
    assert endpoint.url in str(caught.value) and "$MY_MODEL_KEY" in str(caught.value)
    give_consent(caught.value.destination)
    result = run(file, loaded)
    assert result.outcome == "faster" and result.model is not None
    assert (result.model.provider, result.model.model, result.model.proposals) == ("openai", "m", 4)
    assert result.model.tokens == sum(s.input_tokens + s.output_tokens for s in result.model.by_role) > 0
    assert {t.origin for t in result.tried} == {"model:planner"}
    planners = [case_of(r) for r in endpoint.requests if role_of(r) == "planner"]
    # what was measured of the original, and what the card could do meanwhile
    assert all("The original is launched" in case and "to or from dram" in case for case in planners)
    # the key went into the header, and is in nothing that is kept or shown, nor in what programs inherit
    assert all(KEY in str(h) for h in endpoint.headers) and KEY not in str(endpoint.requests)
    assert KEY not in msgspec.json.encode(result).decode()
    kept = [p for p in (file.parents[1] / "home").rglob("*") if p.is_file()]
    assert kept and all(KEY.encode() not in p.read_bytes() for p in kept)
    assert KEY not in subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    assert KEY not in " ".join(os.environ.values())


def test_consent_does_not_carry_over_to_another_address(file: Path) -> None:
    here = chosen(configured(file, 'provider = "openai"', 'base-url = "http://a/v1"', 'name = "m"'), Choice())
    destination = destination_of(here)
    assert destination is not None
    give_consent(destination)
    require_consent(here)
    there = msgspec.structs.replace(here, base_url="http://b/v1")
    with pytest.raises(ConsentError):
        require_consent(there)


def test_the_command_chooses_over_the_settings(file: Path) -> None:
    loaded = configured(file, 'provider = "openai"', 'name = "m"', "max-tokens = 5")
    model = chosen(loaded, Choice("files:answers", "other"))
    assert (model.provider, model.name, model.max_tokens) == ("files:answers", "other", 5)
    assert chosen(loaded, Choice("none")).provider == "none"
    with pytest.raises(InputError) as caught:
        chosen(loaded, Choice("gemini"))
    assert "files:FOLDER" in caught.value.remedy


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (('provider = "openai"', 'base-url = "http://a/v1"'), "no model is named"),
        (
            ('provider = "openai"', 'name = "m"', 'key-variable = "NO_SUCH_KEY_HERE"'),
            "no key in $NO_SUCH_KEY_HERE",
        ),
        (('provider = "editor"',), "from the editor alone"),
    ],
)
def test_a_provider_that_cannot_be_used_is_said_before_anything_runs(
    file: Path, lines: tuple[str, ...], said: str
) -> None:
    loaded = configured(file, *lines)
    destination = destination_of(chosen(loaded, Choice()))
    assert destination is not None
    give_consent(destination)
    with pytest.raises(InputError) as caught:
        run(file, loaded)
    assert said in str(caught.value) and caught.value.remedy


def test_answers_come_from_files_without_consent_or_key(file: Path) -> None:
    loaded, folder = configured(file, "reply-seconds = 20.0"), file.parent / "answers"
    stop = threading.Event()

    def somebody() -> None:
        while not stop.is_set():
            for prompt in folder.glob(f"*{PROMPT}"):
                answer = prompt.with_name(prompt.name.replace(PROMPT, ANSWER))
                if not answer.exists():
                    number = len(list(folder.glob(f"*{ANSWER}")))
                    planner = "-planner-" in prompt.name
                    written = code(f'{LINE}\n    asm("// speed={1.2 + number / 10:.1f}");')
                    partial = answer.with_suffix(".tmp")
                    partial.write_text(plan(f"idea {number}") if planner else written)
                    partial.rename(answer)
            time.sleep(0.02)

    thread = threading.Thread(target=somebody, daemon=True)
    thread.start()
    try:
        result = run(file, loaded, model=Choice("files:answers"))
    finally:
        stop.set()
        thread.join()
    assert result.outcome == "faster" and result.model is not None and result.model.proposals == 4
    prompts = sorted(p.name for p in folder.glob(f"*{PROMPT}"))
    assert (
        len(prompts) == 8 and prompts[0].startswith("0001-planner-") and prompts[1].startswith("0002-coder-")
    )
    assert "Write your reply to the .answer.md" in (folder / prompts[0]).read_text()


def test_the_command_line_agrees_only_when_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = configured(file, 'provider = "openai"', 'base-url = "http://a/v1"', 'name = "m"')
    with pytest.raises(ConsentError):
        settle_consent(loaded, Choice(), yes=False)
    settle_consent(loaded, Choice(), yes=True)
    assert "http://a/v1" in capsys.readouterr().err
    settle_consent(loaded, Choice(), yes=False)
    assert capsys.readouterr().err == ""
    destination = destination_of(chosen(loaded, Choice()))
    assert destination is not None and agreed(file.parents[1] / "home", destination)


@pytest.mark.parametrize(("answer", "agrees"), [("y\n", True), ("n\n", False), ("", False), ("\n", False)])
def test_a_person_at_the_terminal_is_asked_once(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    agrees: bool,
) -> None:
    loaded = configured(file, 'base-url = "http://127.0.0.1:9/v1"', 'name = "m"')
    person = SimpleNamespace(isatty=lambda: True, readline=lambda: answer)
    monkeypatch.setattr("sys.stdin", person)
    if agrees:
        settle_consent(loaded, Choice("openai"), yes=False)
        assert "[y/N]" in capsys.readouterr().err
        settle_consent(loaded, Choice("openai"), yes=False)
        assert capsys.readouterr().err == ""
    else:
        with pytest.raises(InputError, match="nothing was sent") as caught:
            settle_consent(loaded, Choice("openai"), yes=False)
        # what would have been sent is said once
        assert "sends to" in capsys.readouterr().err and "sends to" not in str(caught.value)


def test_what_the_model_did_is_told_in_words(file: Path, endpoint: Endpoint) -> None:
    loaded = configured(
        file, 'provider = "openai"', f'base-url = "{endpoint.url}"', 'name = "m"', "input-price = 300.0"
    )
    settle_consent(loaded, Choice(), yes=True)
    use = run(file, loaded).model
    assert use is not None
    (line,) = model_lines(use)
    assert line.startswith("model m (openai): 4 proposals, ") and ", $" in line
    troubled = msgspec.structs.replace(use, troubles={"wrong_anchor": 2}, stopped="the budget is used up")
    assert model_lines(troubled)[1:] == [
        "model, replies that could not be used: 2 wrong anchor",
        "model, asked no more: the budget is used up",
    ]


def test_the_library_is_found_by_options_where_the_build_has_none(tmp_path: Path) -> None:
    (tmp_path / "include" / "cute").mkdir(parents=True)
    options = library_options(tmp_path, ("-O3",), "int main() { return 0; }  // assert(all is well)")
    assert options == ("-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG", f"-I{tmp_path}/include")
    assert finds_library(options) and not finds_library(("-O3",))
    assert "-std=c++17" not in library_options(tmp_path, ("-std=c++20",), "")
    # what the program asserts itself stays
    assert "-DNDEBUG" not in library_options(tmp_path, (), "void f(int n) { assert(n > 0); }")


def test_a_version_with_cutlass_is_built_with_its_headers_or_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text("__global__ void k() {}\n")
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUTLASS_PATH", raising=False)
    workload, version = Workload(str(unit), str(unit)), '#include "cute/tensor.hpp"\n' + unit.read_text()
    assert built_for(workload, "", "sm_90", [unit.read_text()]) == (workload, "")
    with pytest.raises(InputError, match="CUTLASS"):
        built_for(workload, "", "sm_90", [version])
    (tmp_path / "tree" / "include" / "cute").mkdir(parents=True)
    (tmp_path / "tree" / "include" / "cute" / "tensor.hpp").write_text("")
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "tree"))
    built, arch = built_for(workload, "", "sm_90", [version])
    assert arch == "sm_90a" and built.flags[-1] == f"-I{tmp_path}/tree/include"
    own = msgspec.structs.replace(workload, build=("make",))
    assert built_for(own, "sm_90", "sm_90", [version]) == (own, "sm_90a")


def test_the_sdk_is_read_with_the_first_question_alone() -> None:
    told = "import sys, warplens.service.optimize, warplens.cli.optimize; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_key_that_was_taken_is_known_to_a_later_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANOTHER_KEY", KEY)
    assert take_variable("ANOTHER_KEY") == take_variable("ANOTHER_KEY") == KEY


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_was_counted_is_told_of_the_original_once_a_step_from_it_was_judged(
    file: Path, elsewhere: bool
) -> None:
    """Where the card is elsewhere the first questions are asked without it, and must read the same when it is known."""

    def report(code: str) -> FileReport:
        seen = Finding(code, "seen", "scale", Span(1, 1, 1, 2), "information", "high", "", "", ())
        return FileReport(str(file), (), (seen,))

    early, counted = report("WL1"), report("WL2")
    text = SourceText(CODE)
    case = FileCase(
        path=file,
        text=text,
        workload=Workload(str(file), str(file)),
        gpu=load_architecture("sm_90"),
        allowed=Allowed(),
        report=lambda: early,
        check=lambda *_: early,
        round_of=int(elsewhere),
    )
    part = open_part(configured(file, 'provider = "files:answers"'), Choice(), case)
    assert part is not None
    briefing = part.source("scale").briefing
    root = Versions(text, path=str(file), kernel="scale", space=problem(CODE).space("scale")).root

    def told(node: Node) -> list[str]:
        return [finding.code for finding in briefing.findings(node)]

    assert told(root) == ["WL1"]
    part.counted(counted)
    assert told(root) == (["WL1"] if elsewhere else ["WL2"])
    root.children.append(msgspec.structs.replace(root, parent=root))
    assert told(root) == ["WL2"]
    assert told(root.children[0]) == ["WL1"], "counters are the original's alone"
