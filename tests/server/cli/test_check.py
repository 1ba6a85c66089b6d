# SPDX-License-Identifier: Apache-2.0
"""`warplens check` as users and CI call it: answers on stdout, sentences on stderr, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from warplens.cli.check import FailOn
from warplens.cli.main import run
from warplens.service.baseline import Baseline, mark
from warplens.service.build_messages import build_findings
from warplens_tools.evidence import CompilerMessage
from warplens_tools.finding import SEVERITIES
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "first"
KERNEL = "__global__ void scale(float *x, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
KERNEL += "    if (i < n) x[i] = x[i] * 2.0f;\n}\n"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON answer of one command line."""
    status = run(["check", "--format", "json", *arguments])
    out = capsys.readouterr().out
    report: dict[str, Any] = json.loads(out)
    return status, report


def schema() -> dict[str, Any]:
    """The published schema."""
    text: dict[str, Any] = json.loads((ROOT / "docs" / "schema" / "report.json").read_text())
    return text


@pytest.mark.compiler
def test_the_first_examples_each_show_their_cause_first(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = answer(capsys, str(EXAMPLES), "--tier", "binary", "--arch", "sm_90")
    assert status == 0
    jsonschema.validate(report, schema())
    first = {Path(f["path"]).name: f["findings"][0]["slug"] for f in report["files"]}
    assert first == {
        "filter_bank.cu": "register-spills",
        "lennard_jones.cu": "double-in-float-kernel",
        "nearest.cu": "local-memory-array",
        "normalize_rows.cu": "aliasing-reload",
        "transpose.cu": "shared-bank-conflicts",
    }
    kernels = {k["qualified_name"]: k for f in report["files"] for k in f["kernels"]}
    assert kernels["dsp::filter_bank"]["resources"]["spill_store_bytes"] > 0
    assert {k["bottleneck"]["class"] for k in kernels.values()} <= {"memory", "compute"}
    assert all(f["evidence"] for file in report["files"] for f in file["findings"])


def test_the_source_tier_answers_without_a_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = answer(capsys, str(EXAMPLES), "--tier", "source")
    assert status == 0
    jsonschema.validate(report, schema())
    assert all(f["tiers"] == ["source"] for f in report["files"])
    assert all(k["resources"] is None for f in report["files"] for k in f["kernels"])


@pytest.mark.compiler
def test_instantiations_of_a_template_are_merged_and_the_worst_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "template <int N> __global__ void sum(float *out, const float *in)\n{\n    float s = 0;\n"
        "#pragma unroll\n    for (int i = 0; i < N; ++i) s += in[i * 32 + threadIdx.x] * in[i];\n"
        "    out[threadIdx.x] = s;\n}\n"
        "void f(float *o, const float *i) { sum<2><<<1, 32>>>(o, i); sum<16><<<1, 32>>>(o, i); }\n"
    )
    _, report = answer(capsys, str(source), "--tier", "binary")
    (kernel,) = report["files"][0]["kernels"]
    assert kernel["resources"]["instantiations"] == 2
    assert "sum<16>" in kernel["resources"]["instantiation"]


@pytest.mark.parametrize(
    ("content", "kernels", "status"),
    [
        (b"", 0, 0),
        (b"int f() { return 1; }\n", 0, 0),
        (KERNEL.encode(), 1, 0),
        (KERNEL.replace("\n", "\r\n").encode(), 1, 0),
        (b"\xff\xfe" + KERNEL.encode("utf-16-le"), 1, 0),
        (b"\xef\xbb\xbf" + KERNEL.encode(), 1, 0),
    ],
    ids=["empty", "no kernel", "never launched", "CRLF", "UTF-16", "byte-order mark"],
)
def test_unusual_files_are_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, kernels: int, status: int
) -> None:
    source = tmp_path / "k.cu"
    source.write_bytes(content)
    got, report = answer(capsys, str(source), "--tier", "source")
    assert got == status
    assert len(report["files"][0]["kernels"]) == kernels


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("\n__global__ void k(float *x) { x[0] = 1 }\n", 2, "expected"),
        ('#include "nowhere.h"\n' + KERNEL, 1, "nowhere.h"),
    ],
    ids=["syntax error", "missing include"],
)
def test_what_does_not_compile_is_said_on_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, says: str
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(text)
    status, report = answer(capsys, str(source))
    finding = report["files"][0]["findings"][0]
    assert status == 1
    assert (finding["code"], finding["span"]["line"]) == ("WL901", line)
    assert says in finding["message"]
    assert "binary tier" in report["unknown"][0]["what"]


@pytest.mark.compiler
def test_a_debug_build_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text(KERNEL)
    entry = {"directory": str(tmp_path), "file": "k.cu", "command": "nvcc -G -arch=sm_75 -c k.cu -o k.o"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    _, report = answer(capsys, str(tmp_path / "k.cu"), "--arch", "sm_90")
    said = [f["message"] for f in report["files"][0]["findings"]]
    assert any("-G" in m for m in said)
    assert any("sm_75" in m for m in said)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.cu"], "does not exist"),
        (["--arch", "sm_42", str(EXAMPLES)], "sm_42"),
        (["--arch", "hopper", str(EXAMPLES)], "hopper"),
    ],
)
def test_what_cannot_run_exits_with_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(["check", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert "Traceback" not in said.err


@pytest.mark.thorough
def test_no_compiler_matters_only_where_its_tier_was_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNEL)
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "WARPLENS_HOME": str(tmp_path / "home")}
    environment["PYTHONPATH"] = ":".join(str(ROOT / f) for f in ("server", "tools", "cutlass_index"))

    def warplens(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "warplens", "check", str(source), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    plain = warplens("--format", "json")
    asked = warplens("--tier", "binary")
    assert plain.returncode == 0
    report = json.loads(plain.stdout)
    assert "setup toolchain" in report["unknown"][0]["remedy"]
    assert asked.returncode == 2
    assert asked.stderr.startswith("warplens: ")


def test_fail_on_decides_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "__global__ void k(float *out)\n{\n    __shared__ float t[32][32];\n"
        "    t[threadIdx.y][threadIdx.x] = out[threadIdx.x];\n    __syncthreads();\n"
        "    out[threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}\n"
        "void f(float *o) { k<<<1, dim3(32, 32)>>>(o); }\n"
    )
    for level, status in (("error", 0), ("warning", 1), ("hint", 1), ("never", 0)):
        assert answer(capsys, str(source), "--tier", "source", "--fail-on", level)[0] == status


@pytest.mark.compiler
def test_fixes_are_written_where_asked_and_the_findings_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("transpose.cu", "lennard_jones.cu", "normalize_rows.cu"):
        (tmp_path / name).write_bytes((EXAMPLES / name).read_bytes())
    _, before = answer(capsys, str(tmp_path), "--arch", "sm_90", "--fix-all")
    assert all(file["findings"] for file in before["files"])
    _, after = answer(capsys, str(tmp_path), "--arch", "sm_90")
    # no edit gives pairs a list of neighbours, whose loop all threads load alike; and the loop that normalises rows now
    # reads along them, one narrow load at a time
    left = [(f["slug"], f["severity"]) for file in after["files"] for f in file["findings"]]
    pairs = [(slug, "information") for slug in ("all-pairs", "missing-cache-reuse", "idle-by-data")]
    assert left == [*pairs, ("one-load-in-flight", "hint")]


@pytest.mark.compiler
def test_a_header_is_checked_through_a_unit_that_includes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scale.cuh").write_text("#pragma once\n" + KERNEL)
    (tmp_path / "use.cu").write_text(
        '#include "scale.cuh"\nvoid f(float *x, int n) { scale<<<n / 256, 256>>>(x, n); }\n'
    )
    monkeypatch.chdir(tmp_path)
    _, report = answer(capsys, "scale.cuh", "--tier", "binary")
    (file,) = report["files"]
    assert file["path"] == "scale.cuh"
    assert file["tiers"] == ["source", "binary"]
    assert file["kernels"][0]["resources"]["registers"] > 0


@pytest.mark.compiler
def test_one_missing_header_is_one_error_where_it_is_included(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fine.cuh").write_text("#pragma once\n" + KERNEL)
    (tmp_path / "deep.cuh").write_text('#pragma once\n#include "nowhere.h"\n')
    (tmp_path / "middle.cuh").write_text('#pragma once\n\n#include "deep.cuh"\n')
    (tmp_path / "a.cu").write_text('#include "fine.cuh"\n#include "middle.cuh"\n')
    (tmp_path / "b.cu").write_text('#include "deep.cuh"\n')
    monkeypatch.chdir(tmp_path)

    def errors(path: str) -> list[tuple[str, int, str]]:
        _, report = answer(capsys, path)
        return [
            (file["path"], finding["span"]["line"], finding["guidance"])
            for file in report["files"]
            for finding in file["findings"]
            if finding["code"] == "WL901"
        ]

    ((path, line, guidance),) = errors(".")
    assert (path, line) == ("deep.cuh", 2)
    assert "`flags`" in guidance
    assert "`compile-commands`" in guidance
    assert [each[:2] for each in errors("a.cu")] == [("a.cu", 2)], "the include that leads there"
    assert errors("fine.cuh") == []


def test_a_baseline_leaves_what_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = KERNEL.replace("2.0f", "2.0")
    (tmp_path / "k.cu").write_text(old)
    monkeypatch.chdir(tmp_path)
    run(["check", "k.cu", "--tier", "source", "--format", "json"])
    (tmp_path / "old.json").write_text(capsys.readouterr().out)
    run(["check", "k.cu", "--tier", "source", "--baseline", "old.json"])
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "0 findings in 1 kernel, and 1 of the baseline that is not shown"
    (tmp_path / "k.cu").write_text(old + old.replace("scale", "again"))
    run(["check", "k.cu", "--tier", "source", "--baseline", "old.json"])
    said = capsys.readouterr().out
    assert "  again (line" in said
    assert "  scale (line" not in said


def test_no_baseline_makes_old_what_does_not_compile() -> None:
    broken = build_findings(
        Path("k.cu"), SourceText("x\n"), [CompilerMessage("error", "expected a ;", path="k.cu", line=1)]
    )
    baseline = Baseline({mark("k.cu", broken[0]): 1})
    assert baseline.new_of("k.cu", broken) == broken


def test_text_in_latin_1_is_shown_as_it_was_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.cu"
    source.write_bytes(KERNEL.replace("2.0f;", "2.0; /* \u00b5s, caf\u00e9 */").encode("latin-1"))
    assert run(["check", str(source), "--tier", "source"]) == 0
    assert "/* \u00b5s, caf\u00e9 */" in capfd.readouterr().out


def test_checks_are_listed_in_order_of_their_codes(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    codes = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert codes == sorted(codes)


def test_a_beginning_selects_all_codes_that_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNEL.replace("2.0f", "2.0"))
    everything = answer(capsys, str(source), "--tier", "source")[1]["files"][0]["findings"]
    codes = {finding["code"] for finding in everything}
    assert codes
    for start in ("WL1", "WL2", "wl9"):
        _, report = answer(capsys, str(source), "--tier", "source", "--select", start)
        begun = {code for code in codes if code.startswith(start.upper())}
        assert {finding["code"] for finding in report["files"][0]["findings"]} == begun


def test_the_words_of_fail_on_are_the_severities() -> None:
    assert get_args(FailOn) == (*SEVERITIES, "never")
