# SPDX-License-Identifier: Apache-2.0
"""Candidates are checked and compiled alone, with the real compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.standard import STANDARD

from warplens.measure.build.candidates import Builder, Built
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.run.confine import abilities
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain

PROGRAM = Path(__file__).parents[3] / "gpu/programs/anonymous_globals.cu"
KERNEL = "(anonymous namespace)::reduce"


def candidate(name: str, old: str, new: str) -> Candidate:
    text = SourceText.read(PROGRAM)
    start = text.text.index(old)
    edit = TextEdit(text.span(start, start + len(old)), new)
    return Candidate(name, str(PROGRAM), KERNEL, (edit,))


@pytest.mark.compiler
def test_candidates_are_built_or_told_why_not(tmp_path: Path) -> None:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    foreign = tmp_path / "somebody's" / "notes.h"
    foreign.parent.mkdir()
    foreign.write_text("// nothing of the toolkit's\n")
    builder = Builder(
        Workload(str(PROGRAM), str(PROGRAM), flags=STANDARD),
        toolchain=toolchain,
        arch="sm_90",
        folder=tmp_path,
        settings=MeasureSettings(build_jobs=2),
    )
    baseline = builder.baseline()
    (kernel,) = baseline.evidence.kernels
    candidates = [
        candidate("a comment", "float sum = 0;", "float sum = 0;  // the sum"),
        candidate("other code", "sum += in[i] * table", "sum += 2 * in[i] * table"),
        candidate("host code", 'std::printf("total', 'std::printf("Total'),
        candidate("no such name", "float sum = 0;", "float sum = zero;"),
        candidate("a lie", "float sum = 0;", "float sum = 0;\n#error sh: gcc: not found\n"),
        candidate("foreign file", "#include <cstdio>", f'#include <cstdio>\n#include "{foreign}"'),
        candidate("state", "__device__ float total;", "__device__ float total;\n__device__ int seen;"),
        candidate("more state", "__device__ float total;", "__device__ float total, more[4];"),
        candidate(
            "state of assembler's",
            "float sum = 0;",
            'float sum = 0; asm volatile("{ .global .u32 seen; st.global.u32 [seen], 1; }");',
        ),
        candidate(
            "another overload",
            "__device__ unsigned finished;",
            "__device__ unsigned finished;\n__device__ int cudaMalloc(int a, int b, int c) { return a; }",
        ),
        candidate(
            "assembler that leaves",
            "float sum = 0;",
            'float sum = 0; asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 1; @p ex" "it; }");',
        ),
        candidate(
            "assembler that computes",
            "float sum = 0;",
            'float sum = 0; asm volatile("{ .reg .b32 a; mov.b32 a, %0; }" ::"f"(sum));',
        ),
        candidate(
            "a constant", "__device__ float total;", "__device__ float total;\n__constant__ int seen = 3;"
        ),
    ]
    done: dict[str, Built | Verdict] = {}

    def take(one: Built | Verdict) -> None:
        done[one.candidate if isinstance(one, Verdict) else one.candidate.id] = one

    builder.build_all(candidates, baseline, kernel, baseline.cubin, on_done=take)
    states = {name: one.state for name, one in done.items() if isinstance(one, Verdict)}
    assert states == {
        "host code": "refused",
        "no such name": "not_built",
        "a lie": "not_built",
        "foreign file": "refused",
        "state": "refused",
        "more state": "refused",
        "state of assembler's": "refused",
        "assembler that leaves": "refused",
        "another overload": "refused",
    }
    assert builder.changing_host == {"host code", "another overload", "more state"}
    leaves = done["assembler that leaves"]
    assert isinstance(leaves, Verdict)
    assert "leaves its function by exit" in leaves.reason
    refused = done["foreign file"]
    assert isinstance(refused, Verdict)
    assert "notes.h" in refused.reason
    built = {name: one for name, one in done.items() if isinstance(one, Built)}
    assert {name: one.identical for name, one in built.items()} == {
        "a comment": True,
        "other code": False,
        "a constant": False,
        "assembler that computes": True,
    }
    live = {v.name: v.live for v in built["a constant"].job.variables}
    assert live.pop("seen") == ""
    assert live["table"] == "table"
    assert all(live.values())
    assert "6reduce" in built["other code"].job.entry


@pytest.mark.compiler
def test_candidates_are_built_inside_a_fence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits that come past the first check, as an unknown trick would, still reach nothing."""
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None or not abilities().files:
        pytest.skip("no nvcc or no Landlock")
    monkeypatch.setattr("warplens.measure.build.candidates.why_outside", lambda *_: ("", ""))
    project, secrets = tmp_path / "project", tmp_path / "home"
    for folder in (project, secrets):
        folder.mkdir()
    (secrets / "key.h").write_text('static const char key[] = "swordfish";\n')
    (project / "other.h").write_text("#define OTHER 1\n")
    unit = project / "k.cu"
    unit.write_text("#include <cstddef>\n__global__ void k(float* x) { x[threadIdx.x] = 1.0f; }\n")
    builder = Builder(
        Workload(str(unit), str(unit), flags=STANDARD),
        toolchain=toolchain,
        arch="sm_90",
        folder=tmp_path / "builds",
        settings=MeasureSettings(build_jobs=2, build_memory_bytes=4 << 30),
    )
    baseline = builder.baseline()
    (kernel,) = baseline.evidence.kernels
    text = SourceText.read(unit)
    tricks = {
        "a secret": f'#include "{secrets / "key.h"}"\n',
        "a secret through the parent": '#include "../home/key.h"\n',
        "the passwords": '#include "/etc/passwd"\n',
        "a file of the project": '#include "other.h"\n',
        "a probe": f'#if __has_include("{secrets / "key.h"}")\n#include "{secrets / "key.h"}"\n#endif\n',
        "endless memory": "template <int N> struct S { S<N + 1> next; };\nusing T = decltype(S<0>::next);\n",
        "honest": "#include <cuda_fp16.h>\n",
    }
    candidates = [
        Candidate(name, str(unit), "k", (TextEdit(text.span(0, 0), trick),)) for name, trick in tricks.items()
    ]
    done: dict[str, Built | Verdict] = {}

    def take(one: Built | Verdict) -> None:
        done[one.candidate if isinstance(one, Verdict) else one.candidate.id] = one

    builder.build_all(candidates, baseline, kernel, baseline.cubin, on_done=take)
    verdicts = {name: one for name, one in done.items() if isinstance(one, Verdict)}
    assert set(done) - set(verdicts) == {"honest"}
    assert {v.state for v in verdicts.values()} == {"not_built"}
    assert not any("swordfish" in v.reason or "root:" in v.reason for v in verdicts.values())
    assert "Permission denied" in verdicts["a secret"].reason


@pytest.mark.compiler
@pytest.mark.thorough
def test_a_kernel_in_a_header_is_edited_through_its_unit(tmp_path: Path) -> None:
    """Its unit's flags come from a compile database; a neighbour of the header stays the user's own."""
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    project = tmp_path / "project"
    texts = {
        "include/parts/scale.cuh": '#pragma once\n#include "factor.cuh"\n'
        "template <class T> __global__ void scale(T* x) { x[threadIdx.x] *= FACTOR * factor(); }\n",
        "include/parts/factor.cuh": "#pragma once\n__device__ inline float factor() { return 2; }\n",
        "src/main.cu": "#include <parts/scale.cuh>\nint main() { scale<float><<<1, 32>>>(nullptr); }\n",
    }
    for name, content in texts.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(content)
    unit, header = project / "src/main.cu", project / "include/parts/scale.cuh"
    command = f"nvcc -DFACTOR=3 -I{project / 'include'} -c {unit} -o main.o"
    database = [{"directory": str(project), "command": command, "file": str(unit)}]
    (project / "compile_commands.json").write_text(json.dumps(database))
    builder = Builder(
        Workload(str(header), str(unit), flags=STANDARD),
        toolchain=toolchain,
        arch="sm_90",
        folder=tmp_path / "builds",
        settings=MeasureSettings(build_jobs=2),
    )
    baseline = builder.baseline()
    (kernel,) = baseline.evidence.kernels
    text = SourceText.read(header)
    start = text.text.index("*= FACTOR")
    edits = {
        "other": TextEdit(text.span(start, start + 9), "*= 7 * FACTOR"),
        "same": TextEdit(text.span(start, start + 9), "*=  FACTOR"),
        "secret": TextEdit(text.span(0, 0), "#include <../src/main.cu>\n"),
    }
    done: dict[str, Built | Verdict] = {}

    def take(one: Built | Verdict) -> None:
        done[one.candidate if isinstance(one, Verdict) else one.candidate.id] = one

    candidates = [Candidate(name, str(header), "scale", (edit,)) for name, edit in edits.items()]
    builder.build_all(candidates, baseline, kernel, baseline.cubin, on_done=take)
    other, same, secret = (done[name] for name in edits)
    assert isinstance(other, Built) and not other.identical
    assert isinstance(same, Built) and same.identical
    assert isinstance(secret, Verdict) and secret.state == "refused"
    assert header.read_text() == texts["include/parts/scale.cuh"]


@pytest.mark.compiler
@pytest.mark.thorough
def test_a_fence_that_keeps_the_tools_out_is_opened_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolkit in a place that the fence does not know: the baseline does not compile inside either."""
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None or not abilities().files:
        pytest.skip("no nvcc or no Landlock")
    monkeypatch.setattr("warplens_tools.run.confine._SYSTEM", ("/usr/bin", "/lib", "/lib64", "/usr/lib"))
    monkeypatch.setattr("warplens.measure.build.fence.readable", lambda *_: ())
    builder = Builder(
        Workload(str(PROGRAM), str(PROGRAM), flags=STANDARD),
        toolchain=toolchain,
        arch="sm_90",
        folder=tmp_path,
        settings=MeasureSettings(build_jobs=1),
    )
    baseline = builder.baseline()
    assert not [u for u in builder.fence.unknown() if "reads" in u.what or "read only" in u.what]
    done: list[Built | Verdict] = []
    broken = candidate("broken", "float sum = 0;", "float sum = zero;")
    fine = candidate("fine", "float sum = 0;", "float sum = 0.5f;")
    (kernel,) = baseline.evidence.kernels
    builder.build_all([fine, broken], baseline, kernel, baseline.cubin, on_done=done.append)
    built = [one for one in done if isinstance(one, Built)]
    assert [one.candidate.id for one in built] == ["fine"]
    assert [u.what for u in builder.fence.unknown()] == ["builds that read only what the baseline does"]
