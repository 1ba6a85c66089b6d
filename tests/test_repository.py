# SPDX-License-Identifier: Apache-2.0
"""What the repository says of itself is true."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
#: Code: what a lambda captures and takes, `[&](int k)`, is no link.
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def test_an_extra_names_a_file_that_exists() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    described = dict(re.findall(r"^# ([\w/.]+): .*\n(\w+) = \[", text, re.M))
    assert {name for name in extras if name != "all"} == set(described.values())
    assert all((ROOT / path).is_file() for path in described)
    assert extras["all"] == [f"warplens[{','.join(sorted(n for n in extras if n != 'all'))}]"]


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in _LINK.findall(_FENCED.sub("", page.read_text()))
        if not (page.parent / target).exists()
    ]
    assert not broken


def test_the_workflow_runs_what_a_person_runs() -> None:
    assert "run: .ci/run" in (ROOT / ".github/workflows/ci.yml").read_text()
    makefile = (ROOT / "Makefile").read_text()
    commands = "\n".join(
        line for line in (ROOT / ".ci/run").read_text().splitlines() if not line.startswith("#")
    )
    targets = set(re.findall(r"\bmake ([\w-]+)", commands))
    assert {"test-beside", "test-vscode"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M)
    parts = dict(re.findall(r"^([\w-]+):.*\n\t\$\(MAKE\).* -j\d (.+)", makefile, re.M))
    assert set(parts["test"].split()) <= set(parts["test-beside"].split())


def test_the_hooks_run_what_make_lint_runs() -> None:
    hooks = re.findall(r"entry: \.venv/bin/([\w-]+)", (ROOT / ".pre-commit-config.yaml").read_text())
    lint = re.search(r"^lint:.*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert lint is not None
    assert set(hooks) - {"python"} == set(re.findall(r"\$\(VENV\)/bin/([\w-]+)", lint[1]))


def test_every_source_file_names_its_licence() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "license_headers.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}run `python tools/license_headers.py`"


def test_nothing_lies_at_the_top_that_has_no_room() -> None:
    """What somebody tried things with is left there easily."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no checkout")
    top = {path.partition("/")[0] for path in done.stdout.splitlines() if not path.startswith(".")}
    rooms = {"cutlass_index", "docs", "examples", "extension", "server", "tests", "tools"}
    pages = {"CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
    assert top == rooms | pages | {"Makefile", "pyproject.toml", "requirements.lock"}


def test_every_folder_of_tests_is_entered(pytestconfig: pytest.Config) -> None:
    """pytest passes over folders of some names without a word."""
    passed_over = pytestconfig.getini("norecursedirs")
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    assert not [f for f in folders for name in f.parts if any(fnmatch.fnmatch(name, p) for p in passed_over)]
