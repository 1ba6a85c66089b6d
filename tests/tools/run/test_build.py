# SPDX-License-Identifier: Apache-2.0
"""Programs are built outside the user's tree, as they are and with one file replaced."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warplens_tools.errors import CompileError, InputError
from warplens_tools.run.build import Overlay, build_program, start_command
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

MAIN = """#include <cstdio>
#include "parts/value.cuh"
__global__ void k() {}
int main(int argc, char** argv) { std::printf("%d %d\\n", value(), argc); return 0; }
"""
HEADER = "inline int value() { return 1; }\n"


@pytest.fixture
def toolchain() -> Toolchain:
    found = resolve_toolchain()
    if found.find("nvcc") is None:
        pytest.skip("no nvcc")
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A user's tree: a unit beside a folder with a header, which is read-only."""
    tree = tmp_path / "user tree"
    (tree / "parts").mkdir(parents=True)
    (tree / "main.cu").write_text(MAIN)
    (tree / "parts/value.cuh").write_text(HEADER)
    return tree


def files(tree: Path) -> set[Path]:
    return {path for path in tree.rglob("*") if path.is_file()}


@pytest.mark.compiler
def test_an_edited_unit_and_an_edited_header_are_built(
    tree: Path, tmp_path: Path, toolchain: Toolchain
) -> None:
    before = files(tree)
    unit, header = tree / "main.cu", tree / "parts/value.cuh"
    workload = Workload(str(unit), str(unit), arguments=("a", "b"))

    def said(name: str, overlay: Overlay | None) -> str:
        program = build_program(
            workload, toolchain=toolchain, arch="sm_90", folder=tmp_path / name, overlay=overlay
        )
        command = start_command(workload, program)
        assert command.directory == str(tree)
        done = subprocess.run(command.arguments, capture_output=True, text=True, check=True)
        return done.stdout

    assert said("plain", None) == "1 3\n"
    assert said("unit", Overlay(str(unit), MAIN.replace('"%d %d', '"edited %d %d'))) == "edited 1 3\n"
    assert said("header", Overlay(str(header), HEADER.replace("1", "7"))) == "7 3\n"
    assert files(tree) == before


@pytest.mark.compiler
def test_messages_name_the_users_own_file(tree: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    unit = tree / "main.cu"
    broken = Overlay(str(unit), MAIN.replace("{}", "{ x = 1; }"))
    with pytest.raises(CompileError, match=r"does not build: .*x") as caught:
        build_program(
            Workload(str(unit), str(unit)),
            toolchain=toolchain,
            arch="sm_90",
            folder=tmp_path / "out",
            overlay=broken,
        )
    message = next(m for m in caught.value.messages if m.severity == "error")
    assert (message.path, message.line) == (str(unit), 3)


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        (
            "int elsewhere(int);\nint main() { return elsewhere(1); }\n",
            (),
            r"undefined reference to .elsewhere\(int\)",
        ),
        ("int main() {}\n", ("-lnowhere_to_be_found",), "cannot find -lnowhere_to_be_found"),
    ],
)
def test_what_the_linker_lacks_is_named(
    tmp_path: Path, toolchain: Toolchain, text: str, flags: tuple[str, ...], said: str
) -> None:
    unit = tmp_path / "main.cu"
    unit.write_text(text)
    with pytest.raises(CompileError, match=rf"does not build: {said}"):
        build_program(
            Workload(str(unit), str(unit), flags=flags),
            toolchain=toolchain,
            arch="sm_90",
            folder=tmp_path / "out",
        )


def test_a_build_command_of_ones_own(tree: Path, tmp_path: Path) -> None:
    unit = str(tree / "main.cu")
    script = 'printf "#!/bin/sh\\necho {arch} $(wc -l < "$1")\\n" > "$2" && chmod +x "$2"'
    command = ("sh", "-c", script, "build", "{source}", "{output}")
    workload = Workload(unit, unit, build=command, wrapper=("env", "A=1"), command=("{program}", "--fast"))
    program = build_program(workload, toolchain=Toolchain({}, {}), arch="sm_90", folder=tmp_path / "own")
    start = start_command(workload, program)
    assert start.arguments == ("env", "A=1", str(program), "--fast")
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "sm_90 4\n"


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (("true",), "left no program"),
        (("sh", "-c", "echo no rule; exit 2"), "does not build: no rule"),
        (("make", "{target}"), "placeholder"),
    ],
)
def test_a_build_that_fails_says_how(tree: Path, tmp_path: Path, build: tuple[str, ...], said: str) -> None:
    unit = str(tree / "main.cu")
    with pytest.raises((InputError, CompileError), match=said):
        build_program(
            Workload(unit, unit, build=build),
            toolchain=Toolchain({}, {}),
            arch="sm_90",
            folder=tmp_path / "x",
        )


def test_another_program_may_load_what_was_built(tree: Path) -> None:
    unit, built = str(tree / "main.cu"), tree / "build/program"
    workload = Workload(
        unit,
        unit,
        command=("python3", "drive.py", "{output}"),
        arguments=('--settings={"folder": 1}', "{program}"),
        environment={"PYTHONPATH": "{folder}:/lib"},
    )
    start = start_command(workload, built)
    assert start.arguments == ("python3", "drive.py", str(built), '--settings={"folder": 1}', str(built))
    assert start.environment == {"PYTHONPATH": f"{tree}/build:/lib"}


@pytest.mark.compiler
def test_a_program_of_several_units_is_told_what_to_configure(tmp_path: Path) -> None:
    unit = tmp_path / "main.cu"
    unit.write_text("void elsewhere();\nint main() { elsewhere(); }\n")
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    with pytest.raises(CompileError) as caught:
        build_program(
            Workload(str(unit), str(unit)), toolchain=toolchain, arch="sm_90", folder=tmp_path / "x"
        )
    assert "[[program]]" in caught.value.remedy


def test_a_working_directory_must_exist(tree: Path) -> None:
    unit = str(tree / "main.cu")
    with pytest.raises(InputError, match="does not exist"):
        start_command(Workload(unit, unit, directory=str(tree / "gone")), tree / "program")
