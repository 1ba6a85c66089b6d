# SPDX-License-Identifier: Apache-2.0
"""The forms of an answer, what is selected from it, and the commands beside `check`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.server.cli.sarif_schema import SCHEMA

from warplens.cli.config import template
from warplens.cli.main import run
from warplens.read_settings import load
from warplens.settings import Settings

TILE = (
    "__global__ void turn(float *out)\n{\n    __shared__ float t[32][32];\n"
    "    t[threadIdx.y][threadIdx.x] = out[threadIdx.x] * 0.5;\n    __syncthreads();\n"
    "    out[threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}\n"
    "void f(float *o) { turn<<<1, dim3(32, 32)>>>(o); }\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(TILE)
    return tmp_path


def check(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = run(["check", "--tier", "source", *arguments])
    return status, capfd.readouterr().out


def codes(text: str) -> list[str]:
    """The codes of a concise answer."""
    return re.findall(r": (WL\d+) ", text)


def test_concise_is_one_line_a_finding(capfd: pytest.CaptureFixture[str]) -> None:
    status, out = check(capfd, "k.cu", "--format", "concise")
    assert status == 0
    assert out.startswith("k.cu:6:24: warning: WL108 shared-bank-conflicts: ")
    assert len(out.splitlines()) == len(codes(out)) == 2
    _, both = check(capfd, "k.cu", "--format", "concise", "--arch", "sm_80", "--arch", "sm_90")
    assert len(both.splitlines()) == 4 and "[sm_80]" in both and "[sm_90]" in both


def test_sarif_is_valid_and_names_places_rules_and_fixes(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "a b").mkdir()
    (here / "a b" / "µ.cu").write_text(TILE)
    (here / "b.cu").write_bytes(b"\0\0")
    status, out = check(capfd, ".", "--format", "sarif")
    log: dict[str, Any] = json.loads(out)
    jsonschema.Draft7Validator(SCHEMA).validate(log)
    (sarif,) = log["runs"]
    assert (status, sarif["invocations"][0]["executionSuccessful"]) == (2, False)
    rules = [rule["id"] for rule in sarif["tool"]["driver"]["rules"]]
    results = sarif["results"]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in results)
    first = next(r for r in results if r["ruleId"] == "WL108")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/%C2%B5.cu", "uriBaseId": "SRCROOT"}
    assert place["region"]["startLine"] == 6
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"]
    alike = [r["partialFingerprints"]["warplens/v1"] for r in results]
    assert len(set(alike)) == len(alike)


def test_github_reads_annotations(capfd: pytest.CaptureFixture[str]) -> None:
    _, out = check(capfd, "k.cu", "--format", "github")
    first = out.splitlines()[0]
    assert first.startswith("::warning file=k.cu,line=6,endLine=6,col=24,endColumn=")
    assert ",title=WL108 shared-bank-conflicts::" in first
    assert "%0A" in first and "shared-bank-conflicts.md" in first


def test_findings_are_selected_and_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    assert codes(check(capfd, "k.cu", "--format", "concise", "--select", "wl301")[1]) == ["WL301"]
    assert codes(check(capfd, "k.cu", "--format", "concise", "--ignore", "shared-bank-conflicts")[1]) == [
        "WL301"
    ]
    assert codes(check(capfd, "k.cu", "--format", "concise", "--ignore", "WL108,WL301")[1]) == []


def test_old_findings_do_not_count(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "old.json").write_text(check(capfd, "k.cu", "--format", "json")[1])
    arguments = ["k.cu", "--baseline", "old.json", "--fail-on", "hint"]
    status, out = check(capfd, *arguments)
    assert status == 0 and "0 findings in 1 kernel, and 2 of the baseline that are not shown" in out
    (here / "k.cu").write_text("// a line above\n\n" + TILE + TILE.replace("turn", "again"))
    status, out = check(capfd, *arguments, "--format", "concise")
    assert (status, codes(out)) == (1, ["WL108", "WL301"])
    assert all("again" in out or int(line.split(":")[1]) > 10 for line in out.splitlines())


def test_quiet_leaves_the_status(capfd: pytest.CaptureFixture[str]) -> None:
    assert check(capfd, "k.cu", "-q", "--fail-on", "warning") == (1, "")


def test_a_search_respects_gitignore_and_says_so(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / ".gitignore").write_text("build/\n*.gen.cu\n!keep.gen.cu\n")
    for name in ("build/x.cu", "a.gen.cu", "keep.gen.cu", "sub/b.gen.cu", "sub/c.cu"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(TILE)
    _, out = check(capfd)
    names = re.findall(r"^(\S+\.cu)$", out, re.MULTILINE)
    assert names == ["k.cu", "keep.gen.cu", "sub/c.cu"]
    assert "skipped by .gitignore: a.gen.cu, build/, sub/b.gen.cu" in out
    assert "x.cu" in check(capfd, "build")[1], "a folder that was named is searched"
    assert "a.gen.cu" in check(capfd, "a.gen.cu")[1], "a file that was named is read"


def test_every_finding_has_its_page(capfd: pytest.CaptureFixture[str]) -> None:
    _, out = check(capfd, "k.cu", "--format", "json")
    for finding in json.loads(out)["files"][0]["findings"]:
        assert finding["page"].endswith(f"/docs/checks/{finding['slug']}.md")
        assert run(["explain", finding["code"]]) == 0
        page = capfd.readouterr().out
        assert page.startswith(f"# {finding['code']}: {finding['slug']}\n") and finding["page"] in page
    assert run(["explain"]) == 0
    assert "WL901  not-compiled" in capfd.readouterr().out


def test_a_settings_file_to_start_from(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "init"]) == 0
    assert load(here / "k.cu", root=here).settings == Settings()
    # every line that sets something is right when the mark is taken away
    lines = template().splitlines()
    table = [
        x[2:] if re.match(r"# (\[\w+\]|[\w-]+ = )", x) else "" for x in lines[: lines.index("# [[program]]")]
    ]
    values = tomllib.loads("\n".join(table))
    assert {"architecture", "compile-commands", "hints", "optimize"} <= values.keys()
    assert run(["config", "show"]) == 0
    capfd.readouterr()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert (
        "warplens" in script
        and "check" in script
        and "--fail-on" in script.replace("-l fail-on", "--fail-on")
    )
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_help_and_version_load_nothing() -> None:
    code = "import sys; from warplens.cli.main import run; run([sys.argv[1]]); print(len(sys.modules), 'cyclopts' in "
    code += "sys.modules, 'rich' in sys.modules, 'tree_sitter' in sys.modules, file=sys.stderr)"
    for word in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, word], capture_output=True, text=True, check=True
        )
        assert done.stderr.split()[1:] == ["False", "False", "False"]
        assert done.stdout
