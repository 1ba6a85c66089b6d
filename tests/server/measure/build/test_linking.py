# SPDX-License-Identifier: Apache-2.0
"""Candidates for units whose device code is linked with others', with the real compiler and linker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.gpu.catalogue import Program, catalogue

from warplens.measure.build.candidates import Builder, Built
from warplens.measure.build.linking import relocatable
from warplens.measure.build.unit import Unit
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import InputError
from warplens_tools.run.build import Overlay, build_program
from warplens_tools.run.confine import abilities
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.cubin import parse_cubin
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain
from warplens_tools.toolchain.symbols import symbols, variables

pytestmark = pytest.mark.compiler
_EXECUTABLE = 2


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = resolve_toolchain()
    if found.find("nvcc") is None or found.find("cuobjdump") is None:
        pytest.skip("no nvcc or no cuobjdump")
    return found


class Opened:
    """A built program and its unit's builder."""

    def __init__(self, work: Workload, toolchain: Toolchain, folder: Path, arch: str = "sm_90") -> None:
        self.work, self.toolchain, self.folder = work, toolchain, folder
        self.program = build_program(work, toolchain=toolchain, arch=arch, folder=folder / "program")
        self.builder = Builder(
            work,
            toolchain=toolchain,
            arch="sm_90",
            folder=folder,
            settings=MeasureSettings(build_jobs=2, build_memory_bytes=4 << 30),
        )

    def baseline(self) -> Unit:
        return self.builder.baseline(program=self.program)

    def edit(self, name: str, old: str, new: str) -> Candidate:
        text = SourceText.read(Path(self.work.source))
        start = text.text.index(old)
        return Candidate(
            name, self.work.source, "", (TextEdit(text.span(start, start + len(old)), new),), title=new
        )

    def build(self, unit: Unit, kernel: str, candidates: Sequence[Candidate]) -> dict[str, Built | Verdict]:
        done: dict[str, Built | Verdict] = {}

        def take(one: Built | Verdict) -> None:
            done[one.candidate if isinstance(one, Verdict) else one.candidate.id] = one

        (target,) = (k for k in unit.evidence.kernels if k.qualified_name == kernel)
        self.builder.build_all(candidates, unit, target, self.program.read_bytes(), on_done=take)
        return done


def program(name: str) -> Program:
    return next(p for p in catalogue() if p.name == name)


def is_loadable(cubin: bytes) -> bool:
    return cubin[16] == _EXECUTABLE


@pytest.fixture(scope="module")
def orbit(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return Opened(program("orbit").workload(), toolchain, tmp_path_factory.mktemp("orbit"))


def test_a_unit_is_linked_with_what_its_program_carries(orbit: Opened) -> None:
    unit = orbit.baseline()
    assert unit.linked is not None and len(unit.linked.others) == 2
    assert not unit.linked.launches
    assert is_loadable(unit.cubin) and not is_loadable(unit.own)
    found = parse_cubin(unit.cubin).functions()
    assert any("advance" in name for name in found) and any("softening" in name for name in found)
    assert {"attractor", "steps_done"} <= {v.name for v in variables(unit.cubin)}
    (kernel,) = unit.evidence.kernels
    assert kernel.resources.registers >= 16
    assert not orbit.builder.unknown()
    live = unit.live(orbit.program.read_bytes())
    carried = {name for path in (unit.linked.own, *unit.linked.others) for name in _variables(path)}
    assert set(live.values()) == carried
    assert len(carried) == 4


def _variables(path: str) -> set[str]:
    return {v.name for v in variables(Path(path).read_bytes())}


def test_candidates_are_linked_or_told_why_not(orbit: Opened, tmp_path: Path) -> None:
    unit = orbit.baseline()
    foreign = tmp_path / "notes.h"
    foreign.write_text("// nothing of the toolkit's\n")
    soft, start = "        const float soft = softening(here.w);\n", "    const float4 here = position[i];\n"
    other = "__device__ float elsewhere(float x);\n\n__global__ void advance"
    edits = [
        orbit.edit("comment", "if (i >= n) return;", "if (i >= n) return;  // done"),
        Candidate(
            "hoisted",
            orbit.work.source,
            "",
            (
                *orbit.edit("", soft, "").edits,
                *orbit.edit("", start, start + "    const float soft = softening(here.w);\n").edits,
            ),
        ),
        orbit.edit("host", "step < 6", "step < 5"),
        orbit.edit("state", "__global__ void advance", "__device__ int seen;\n\n__global__ void advance"),
        Candidate(
            "undefined",
            orbit.work.source,
            "",
            (
                *orbit.edit("", "__global__ void advance", other).edits,
                *orbit.edit("", "softening(here.w)", "elsewhere(here.w)").edits,
            ),
        ),
        orbit.edit(
            "launch", "    if (i >= n) return;", "    if (i < 0) advance<<<1, 1>>>(position, velocity, n);"
        ),
        orbit.edit("foreign", '#include "bodies.h"', f'#include "bodies.h"\n#include "{foreign}"'),
    ]
    done = orbit.build(unit, "advance", edits)
    verdicts = {name: (one.state, one.reason) for name, one in done.items() if isinstance(one, Verdict)}
    assert set(done) - set(verdicts) == {"comment", "hoisted"}
    assert verdicts["undefined"][0] == "not_built" and "does not link: Undefined" in verdicts["undefined"][1]
    assert verdicts["launch"][0] == "refused" and "from the device" in verdicts["launch"][1]
    assert {verdicts[name][0] for name in ("host", "state", "foreign")} == {"refused"}
    assert "seen" in verdicts["state"][1]
    comment, hoisted = done["comment"], done["hoisted"]
    assert isinstance(comment, Built) and comment.identical
    assert isinstance(hoisted, Built) and not hoisted.identical
    assert is_loadable(Path(hoisted.job.cubin).read_bytes())
    twins = {v.name: v.live for v in hoisted.job.variables}
    assert set(twins.values()) == set(unit.live(b"").values())
    assert twins["attractor"] == "attractor" and twins["steps_done"] == "steps_done"


def test_what_is_linked_is_all_that_a_build_may_read(
    orbit: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not abilities().files:
        pytest.skip("no Landlock")
    monkeypatch.setattr("warplens.measure.build.candidates.why_outside", lambda *_: ("", ""))
    secret = tmp_path / "key.h"
    secret.write_text('static const char key[] = "swordfish";\n')
    neighbour = Path(orbit.work.unit).with_name("softening.cu")
    unit = orbit.baseline()
    candidates = [
        orbit.edit("secret", "#include <cstdio>", f'#include "{secret}"'),
        orbit.edit("neighbour", "#include <cstdio>", f'#include "{neighbour}"'),
    ]
    done = orbit.build(unit, "advance", candidates)
    for one in done.values():
        assert isinstance(one, Verdict) and one.state == "not_built"
        assert "Permission denied" in one.reason and "swordfish" not in one.reason


@pytest.mark.thorough
def test_a_kernel_that_launches_others_gets_the_device_runtime(toolchain: Toolchain, tmp_path: Path) -> None:
    opened = Opened(program("child_kernels").workload(), toolchain, tmp_path)
    unit = opened.baseline()
    assert unit.linked is not None and unit.linked.launches
    assert is_loadable(unit.cubin)
    assert any("LaunchDevice" in name for name in symbols(unit.cubin).defined)
    done = opened.build(unit, "parent", [opened.edit("other", "x[i] + i", "x[i] - i")])
    built = done["other"]
    assert isinstance(built, Built) and not built.identical
    (unknown,) = opened.builder.unknown()
    assert "launches" in unknown.what
    # the runtime's own variables are not the candidate's to carry
    assert not built.job.variables


@pytest.mark.thorough
def test_code_from_a_library_with_flags_from_a_database(toolchain: Toolchain, tmp_path: Path) -> None:
    opened = Opened(program("separable").workload(), toolchain, tmp_path)
    unit = opened.baseline()
    assert unit.linked is not None and is_loadable(unit.cubin)
    assert not opened.builder.unknown()
    assert any("conductivity" in name for name in unit.live(b""))


@pytest.mark.parametrize("name", ["two_units", "header_kernel", "from_python"])
@pytest.mark.sampled(1)
def test_a_unit_that_is_whole_by_itself_is_not_linked(
    name: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    opened = Opened(program(name).workload(), toolchain, tmp_path)
    unit = opened.baseline()
    assert unit.linked is None and is_loadable(unit.cubin)
    # names local to a unit have another hash in the program, and are found there
    assert all(unit.live(opened.program.read_bytes()).values())


def units(folder: Path, texts: dict[str, str], build: str) -> Workload:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    unit = str(folder / "main.cu")
    return Workload(unit, unit, build=tuple(build.split()), root=str(folder))


MAIN = (
    '#include "parts.h"\n__global__ void k(float* x) { x[threadIdx.x] = part(x[0]) + half(x[1]); }\n'
    "int main() { k<<<1, 32>>>(nullptr); }\n"
)
PARTS = (
    "#pragma once\n__device__ float part(float x);\n__device__ inline float half(float x) { return x / 2; }\n"
)
TEXTS = {
    "main.cu": MAIN,
    "parts.h": PARTS,
    "parts.cu": '#include "parts.h"\n__device__ float part(float x) { return half(x); }\n',
}
TWO = "nvcc -std=c++14 -rdc=true {} {{root}}/main.cu {{root}}/parts.cu -o {{output}}"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-gencode arch=compute_90,code=compute_90", "as PTX, but no machine code for sm_90"),
    ],
)
def test_code_for_another_architecture_is_refused(
    flags: str, said: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    opened = Opened(units(tmp_path / "project", TEXTS, TWO.format(flags)), toolchain, tmp_path)
    with pytest.raises(InputError, match=said):
        opened.baseline()


def test_optimisation_at_link_time_is_refused(orbit: Opened, toolchain: Toolchain, tmp_path: Path) -> None:
    """Its tools are not in every toolkit: an object of it stands for the program."""
    work = units(
        tmp_path / "project", TEXTS, "nvcc -std=c++14 -dlto -arch={arch} -dc {root}/main.cu -o {output}"
    )
    opened = Opened(work, toolchain, tmp_path)
    with pytest.raises(InputError, match="optimised at link time"):
        opened.baseline()
    with pytest.raises(InputError, match="optimised at link time"):
        relocatable(CompileFlags(("-std=c++17", "-dlto"), "settings"), orbit.program.read_bytes())


def test_an_unlinked_unit_is_refused_where_the_program_carries_nothing(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    work = units(tmp_path / "project", TEXTS, "true")
    builder = Builder(work, toolchain=toolchain, arch="sm_90", folder=tmp_path, settings=MeasureSettings())
    with pytest.raises(InputError, match="that the built program does not carry"):
        builder.baseline()


@pytest.mark.thorough
def test_what_a_library_carries_stops_no_unit_that_is_whole_by_itself(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    texts = {
        "main.cu": "__global__ void k(float* x) { x[threadIdx.x] = 1; }\nint main() { k<<<1, 32>>>(nullptr); }\n"
    }
    texts |= {name: text for name, text in TEXTS.items() if name != "main.cu"}
    build = (
        "nvcc -std=c++14 -rdc=true -gencode arch=compute_90,code=compute_90 -c {root}/parts.cu -o {folder}/parts.o && "
        "nvcc -std=c++14 -arch={arch} -c {root}/main.cu -o {folder}/main.o && "
        "nvcc {folder}/main.o {folder}/parts.o -o {output}"
    )
    opened = Opened(units(tmp_path / "project", texts, build), toolchain, tmp_path)
    unit = opened.baseline()
    assert unit.linked is None and is_loadable(unit.cubin)


@pytest.mark.thorough
def test_a_header_that_other_units_read_too_is_found_out(toolchain: Toolchain, tmp_path: Path) -> None:
    opened = Opened(units(tmp_path / "project", TEXTS, TWO.format("-arch={arch}")), toolchain, tmp_path)
    assert opened.baseline().linked is not None
    header = str(tmp_path / "project/parts.h")

    def rebuilt(text: str, name: str) -> str:
        overlay = Overlay(header, text)
        folder = tmp_path / name
        new = build_program(opened.work, toolchain=toolchain, arch="sm_90", folder=folder, overlay=overlay)
        return opened.builder.differs(new)

    assert rebuilt(PARTS + "// a line more\n", "comment") == ""
    assert "part(float)" in rebuilt(PARTS.replace("x / 2", "x / 3"), "other")


@pytest.mark.thorough
def test_other_flags_than_the_programs_are_named(toolchain: Toolchain, tmp_path: Path) -> None:
    build = TWO.format("-arch={arch} -use_fast_math").replace("{{", "{").replace("}}", "}")
    text = MAIN.replace("half(x[1])", "sqrtf(x[1])")
    opened = Opened(units(tmp_path / "project", {**TEXTS, "main.cu": text}, build), toolchain, tmp_path)
    opened.baseline()
    (unknown,) = opened.builder.unknown()
    assert "flags" in unknown.what
