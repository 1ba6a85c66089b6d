# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens_tools.errors import InputError
from warplens_tools.toolchain.flags import architectures_of, foreign_target, unit_flags


def _database(folder: Path, unit: Path, **entry: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compile_commands.json"
    path.write_text(json.dumps([{"file": str(unit), "directory": str(folder), **entry}]))
    return path


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    path = tmp_path / "src" / "k.cu"
    path.parent.mkdir()
    path.write_text("__global__ void k() {}\n")
    return path


def test_defaults_without_a_database(unit: Path) -> None:
    flags = unit_flags(unit, root=unit.parent)
    assert (flags.arguments, flags.origin) == (("-std=c++17",), "defaults")


def test_cmake_command_in_the_build_folder(unit: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    command = (
        "/opt/cuda/bin/nvcc -forward-unknown-to-host-compiler --options-file CMakeFiles/i.rsp -DX=1 -O3 "
        '-std=c++20 "--generate-code=arch=compute_90,code=[sm_90]" -Xcompiler=-fPIC -MD -MT k.o -MF k.o.d '
        f"-x cu -rdc=true -c {unit} -o k.o"
    )
    database = _database(build, unit, command=command)
    (build / "CMakeFiles").mkdir()
    (build / "CMakeFiles/i.rsp").write_text("-I../include -isystem=/opt/x\n")
    flags = unit_flags(unit, root=tmp_path)
    assert flags.origin == str(database)
    assert flags.architectures == ("sm_90",)
    assert flags.arguments == (
        "-forward-unknown-to-host-compiler",
        "-I",
        str(tmp_path / "include"),
        "-isystem",
        "/opt/x",
        "-DX=1",
        "-O3",
        "-std=c++20",
        "-Xcompiler=-fPIC",
        "-rdc=true",
    )


def test_arguments_form_launcher_and_relative_directory(unit: Path, tmp_path: Path) -> None:
    words = [
        "ccache",
        "nvcc",
        "-Iinc",
        "-D",
        "N=4",
        "-dc",
        "-gencode",
        "arch=compute_80,code=sm_80",
        "../src/k.cu",
    ]
    path = tmp_path / "out" / "compile_commands.json"
    path.parent.mkdir()
    path.write_text(json.dumps([{"file": "../src/k.cu", "directory": ".", "arguments": words}]))
    flags = unit_flags(unit, root=tmp_path)
    assert flags.arguments == ("-I", str(tmp_path / "out/inc"), "-DN=4", "-rdc=true")
    assert flags.architectures == ("sm_80",)
    foreign = foreign_target(flags, "sm_90a")
    assert foreign is not None
    assert "sm_80" in foreign.text
    assert foreign_target(flags, "sm_80") is None


def test_options_that_switch_the_optimiser_off_are_said_and_left_out(unit: Path, tmp_path: Path) -> None:
    _database(tmp_path, unit, arguments=["nvcc", "-G", "-O0", "-Xptxas", "-O0,-v", "-Xcicc", "-O0", "k.cu"])
    flags = unit_flags(unit, root=tmp_path)
    assert flags.arguments == ("-O0", "-Xptxas=-v")
    said = [m.text for m in flags.messages]
    assert len(said) == 4
    assert "-G" in said[0]
    assert [m.severity for m in flags.messages] == ["warning", "information", "warning", "warning"]


def test_clang_command_is_converted_and_the_rest_named(unit: Path, tmp_path: Path) -> None:
    words = [
        "clang++-18",
        "-x",
        "cuda",
        "--offload-arch=sm_86",
        "-ffast-math",
        "-Iinc",
        "-fcuda-weird",
        "-c",
        "k.cu",
    ]
    _database(tmp_path, unit, arguments=words)
    flags = unit_flags(unit, root=tmp_path)
    assert flags.arguments == ("--use_fast_math", "-I", str(tmp_path / "inc"))
    assert flags.architectures == ("sm_86",)
    assert "-fcuda-weird" in flags.messages[0].text


def test_a_header_read_first_may_lie_on_the_include_path(unit: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("")
    words = ["-include", "mine.h", "-include", "thrust/pair.h"]
    flags = unit_flags(unit, configured=words, root=tmp_path)
    assert flags.arguments == ("-include", str(tmp_path / "mine.h"), "-include", "thrust/pair.h")


def test_configured_flags_resolve_against_the_root(unit: Path, tmp_path: Path) -> None:
    flags = unit_flags(unit, configured=["-Iinclude", "--use_fast_math"], root=tmp_path)
    assert flags.arguments == ("-I", str(tmp_path / "include"), "--use_fast_math")
    assert flags.origin == "settings"


def test_another_file_in_the_database_is_not_taken(unit: Path, tmp_path: Path) -> None:
    _database(tmp_path, tmp_path / "other.cu", arguments=["nvcc", "-DX", "other.cu"])
    assert unit_flags(unit, root=tmp_path).origin == "defaults"


def test_a_database_that_was_named_counts_alone(unit: Path, tmp_path: Path) -> None:
    _database(tmp_path, unit, arguments=["nvcc", "-DNEAR", "k.cu"])
    (tmp_path / "elsewhere").mkdir()
    named = tmp_path / "elsewhere" / "compile_commands.json"
    entry = {"directory": str(tmp_path), "file": str(unit), "arguments": ["nvcc", "-DNAMED", str(unit)]}
    named.write_text(json.dumps([entry]))
    assert unit_flags(unit, root=tmp_path).arguments == ("-DNEAR",)
    for database in (named, named.parent):
        assert unit_flags(unit, root=tmp_path, database=database).arguments == ("-DNAMED",)
    other = tmp_path / "other.cu"
    assert unit_flags(other, root=tmp_path, database=named, configured=["-DMINE"]).arguments == ("-DMINE",)


def test_a_command_that_does_not_parse_is_an_input_error(unit: Path, tmp_path: Path) -> None:
    _database(tmp_path, unit, command="nvcc 'unclosed k.cu")
    with pytest.raises(InputError, match="does not parse"):
        unit_flags(unit, root=tmp_path)


def test_a_broken_database_is_an_input_error(unit: Path, tmp_path: Path) -> None:
    (tmp_path / "compile_commands.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        unit_flags(unit, root=tmp_path)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("arch=compute_90,code=[sm_90]", ["sm_90"]),
        ("arch=compute_90,code=[compute_90,sm_90]", ["sm_90", "sm_90"]),
        ("arch=compute_80,code=sm_80", ["sm_80"]),
        ("sm_90a", ["sm_90a"]),
        ("native", ["native"]),
        ("arch=compute_75", ["sm_75"]),
    ],
)
def test_architectures(value: str, names: list[str]) -> None:
    assert architectures_of(value) == names
