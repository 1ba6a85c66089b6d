# SPDX-License-Identifier: Apache-2.0
"""Kernels in strings of Python scripts: found, given launch specs, optimised where they stand."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from tests.server.agent.doubles import CODE, ComputedJudge
from tests.standard import STANDARD

from warplens.cli.main import run
from warplens.measure.judge_settings import Allowed
from warplens.service.applying import apply_result
from warplens.service.embedded import embedded, optimize_script
from warplens.service.optimize import OptimizeOptions
from warplens.service.service import Service
from warplens.service.torch_host import device_side
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import resolve_toolchain

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
        before[before.index('"""\nscale') :]
    )
    (string,) = embedded(SourceText(after), script)
    assert "// überall\n__global__" in string.text.text
    numbers = re.findall(r"#define BLOCK (\d+)|#pragma unroll (\d+)", string.text.text)
    assert numbers and numbers != [("256", ""), ("", "1")]
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


INLINE = (Path(__file__).parents[2] / "torch_tasks/cuda/damped_wave.py").read_text()


def test_of_what_pytorch_compiles_inline_the_device_side_remains(script: Path) -> None:
    script.write_text(INLINE)
    assert run(["spec", "train.py", "--kernel", "wave"]) == 0
    (string,) = embedded(SourceText.read(script), script)
    found = device_side(string.text)
    assert "torch" not in found.text and "gradients<<<" not in found.text and "warplens: launch" in found.text
    assert len(found.text) == len(string.text.text)
    at = found.text.index("if (i < n) y[i]")
    assert string.text.text[at:].startswith("if (i < n) y[i]")
    assert device_side(SourceText(KERNEL)).text == KERNEL


@pytest.mark.slow
def test_the_device_side_of_every_inline_module_compiles(tmp_path: Path) -> None:
    nvcc = resolve_toolchain().require("nvcc").path
    texts = []
    for number, path in enumerate(sorted((Path(__file__).parents[2] / "torch_tasks/cuda").glob("*.py"))):
        (string,) = embedded(SourceText.read(path), path)
        texts.append(f"namespace n{number} {{\n{device_side(string.text).text}\n}}\n")
    (tmp_path / "all.cu").write_text("".join(texts))
    command = [nvcc, "-arch=sm_90", "-ptx", str(tmp_path / "all.cu"), "-o", str(tmp_path / "all.ptx")]
    subprocess.run(command, check=True)
    assert (tmp_path / "all.ptx").read_text().count(".entry") >= 15


@pytest.mark.slow
@pytest.mark.thorough
def test_every_module_that_is_compiled_without_pytorch_compiles(tmp_path: Path) -> None:
    nvcc = resolve_toolchain().require("nvcc").path
    for path in sorted((Path(__file__).parents[2] / "torch_tasks/plain").glob("*.py")):
        (string,) = embedded(SourceText.read(path), path)
        (tmp_path / "k.cu").write_text(string.text.text)
        subprocess.run(
            [nvcc, *STANDARD, "-arch=sm_90", "-c", str(tmp_path / "k.cu"), "-o", str(tmp_path / "k.o")],
            check=True,
        )
        assert {b"forward", b"backward"} <= set((tmp_path / "k.o").read_bytes().split(b"\0"))


def test_a_kernel_that_pytorch_compiles_inline_is_optimised_in_its_script(script: Path) -> None:
    body = (
        SPEC
        + KERNEL
        + "torch::Tensor run(torch::Tensor x)\n{\n    scale<<<1, BLOCK>>>(x.data_ptr<float>(), 1);\n    return x;\n}\n"
    )
    script.write_text(SCRIPT % ("#include <torch/extension.h>\n" + body))
    judge = Judged(SourceText(device_side(SourceText("#include <torch/extension.h>\n" + body)).text))
    result = optimize_script(
        Service(script.parent), script, OptimizeOptions(candidates=24), judge=lambda *_: judge
    )
    assert result.outcome == "faster"
    apply_result(result)
    after = script.read_text()
    assert "torch::Tensor run(torch::Tensor x)" in after and "#include <torch/extension.h>" in after
    assert after != SCRIPT % ("#include <torch/extension.h>\n" + body) and ast.parse(after)
