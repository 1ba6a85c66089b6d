# SPDX-License-Identifier: Apache-2.0
"""Kernels in strings of Python scripts: found, given launch specs, optimised where they stand."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.server.agent.doubles import CODE, ComputedJudge

from warplens.cli.main import run
from warplens.measure.judge_settings import Allowed
from warplens.service.applying import apply_result
from warplens.service.embedded import embedded, optimize_script
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText

KERNEL = CODE[: CODE.index("int main()")].replace("__global__", "// überall\n__global__", 1)
SPEC = """/* warplens: launch
shapes = [{ n = 1048576 }]
grid = "(n + BLOCK - 1) / BLOCK"
block = "BLOCK"
arguments.x = { count = "n" }
*/
"""
SCRIPT = 'import cupy\n\nÄNDERN = "ü"; SOURCE = r"""%s"""\nscale = cupy.RawKernel(SOURCE, "scale")\n'


class Judged(ComputedJudge):
    def __enter__(self) -> Judged:
        return self

    def __exit__(self, *error: object) -> None:
        return None


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT % KERNEL)
    return path


def test_a_first_spec_is_written_into_the_string(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "train.py"]) == 0 and "for scale" in capsys.readouterr().out
    text = script.read_text()
    (string,) = embedded(SourceText(text), script)
    assert string.text.text.count("warplens: launch") == 1 and "count = " in string.text.text
    assert text.startswith('import cupy\n\nÄNDERN = "ü"; SOURCE = r"""') and text.endswith(
        'RawKernel(SOURCE, "scale")\n'
    )
    assert run(["spec", "train.py"]) == 2 and script.read_text() == text


def test_a_kernel_in_a_string_is_optimised_where_it_stands(script: Path) -> None:
    with pytest.raises(InputError, match=r"train.py:3 have no launch spec"):
        optimize_script(Service(script.parent), script, OptimizeOptions())
    script.write_text(SCRIPT % (SPEC + KERNEL))
    before = script.read_text()
    judge = Judged(SourceText(SPEC + KERNEL))
    seen: list[Workload] = []

    def opened(workload: Workload, kernel: str, arch: str, allowed: Allowed) -> Judged:
        del kernel, arch, allowed
        seen.append(workload)
        return judge

    result = optimize_script(Service(script.parent), script, OptimizeOptions(candidates=24), judge=opened)
    assert seen[0].generated and Path(seen[0].source).read_text() == SPEC + KERNEL
    assert result.outcome == "faster" and result.path == str(script)
    assert result.diff.startswith("--- a/train.py\n") and judge.confirmed
    apply_result(result)
    after = script.read_text()
    assert after.startswith(before[: before.index("shapes")]) and after.endswith(
        before[before.index("if (i < n)") :]
    )
    (string,) = embedded(SourceText(after), script)
    numbers = re.findall(r"#define BLOCK (\d+)|#pragma unroll (\d+)", string.text.text)
    assert numbers != [("256", ""), ("", "1")] and len(numbers) == 2
    assert ast.parse(after)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "has no string with a kernel"),
        ("x = (\n", "is no Python"),
        ('x = """\n__global__ void k() { printf("\\n"); }\n"""\n', "has escapes or pieces"),
        ('x = "__global__ void k()" " {}"\n', "has escapes or pieces"),
        ('x = "__global__ void k() {}"\ny = "__global__ void m() {}"\n', "several strings with kernels"),
    ],
)
def test_what_cannot_be_edited_is_said(script: Path, text: str, said: str) -> None:
    script.write_text(text)
    with pytest.raises(InputError, match=said):
        optimize_script(Service(script.parent), script, OptimizeOptions())
