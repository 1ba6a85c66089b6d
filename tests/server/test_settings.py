# SPDX-License-Identifier: Apache-2.0
"""Settings from files, the environment and the editor."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from warplens.read_settings import load, load_usable, take_variable
from warplens.service.service import Service
from warplens.settings import Settings
from warplens_tools.errors import InputError

KERNEL = "__global__ void half_of(float* x) { x[threadIdx.x] = x[threadIdx.x] * 0.5 + 0.25; }\n"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPLENS_ARCHITECTURE", raising=False)
    monkeypatch.delenv("WARPLENS_CUDA_PATH", raising=False)


def test_defaults_where_nothing_is_written(tmp_path: Path) -> None:
    loaded = load(tmp_path / "k.cu", root=tmp_path)
    assert loaded.settings == Settings()
    assert loaded.file == ""


def test_the_nearest_file_counts_and_paths_start_from_it(tmp_path: Path) -> None:
    (tmp_path / "warplens.toml").write_text('architecture = "sm_80"\n')
    inner = tmp_path / "a"
    inner.mkdir()
    (inner / "warplens.toml").write_text(
        'architecture = "sm_90"\n[hints]\noccupancy = false\n[[program]]\nsource = "*.cu"\narguments = ["-n", "3"]\n'
    )
    loaded = load(inner / "k.cu", root=tmp_path)
    assert loaded.settings.architecture == "sm_90"
    assert not loaded.settings.hints.occupancy
    assert loaded.settings.hints.registers
    assert loaded.settings.program[0].arguments == ("-n", "3")
    assert loaded.root == str(inner)


def test_pyproject_counts_only_with_our_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert load(tmp_path / "k.cu", root=tmp_path).file == ""
    (tmp_path / "pyproject.toml").write_text('[tool.warplens]\nflags = ["-DX"]\n')
    assert load(tmp_path / "k.cu", root=tmp_path).settings.flags == ("-DX",)


def test_without_a_settings_file_the_root_is_a_files_own_folder(tmp_path: Path) -> None:
    (tmp_path / "k.cu").touch()
    assert load(tmp_path / "k.cu").root == load(tmp_path).root == str(tmp_path)


def test_what_builds_a_file_is_searched_for_above_its_folder_where_nothing_bounds_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "k.cu").touch()
    assert load(tmp_path / "below" / "k.cu").bound is None
    assert load(tmp_path / "below" / "k.cu", root=tmp_path).bound == tmp_path
    (tmp_path / "warplens.toml").touch()
    assert load(tmp_path / "below" / "k.cu").bound == tmp_path


def test_the_editor_overrides_the_file_and_the_environment_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warplens.toml").write_text('architecture = "sm_80"\n[hints]\nregisters = false\n')
    editor = {
        "architecture": "sm_89",
        "hints": {"occupancy": False},
        "trace": {"server": "off"},
        "tier": None,
    }
    loaded = load(tmp_path / "k.cu", root=tmp_path, editor=editor)
    assert loaded.settings.architecture == "sm_89"
    assert not loaded.settings.hints.registers
    assert not loaded.settings.hints.occupancy
    monkeypatch.setenv("WARPLENS_ARCHITECTURE", "sm_75")
    assert load(tmp_path / "k.cu", root=tmp_path, editor=editor).settings.architecture == "sm_75"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("archtecture = 'sm_90'", "archtecture"),
        ("architecture = 'hopper'", "architecture"),
        ("tier = 'fast'", "tier"),
        ("a = = 1", "warplens.toml"),
        ("[[program]]\nbuild = 'make'", "source"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "warplens.toml").write_text(text)
    with pytest.raises(InputError, match=says):
        load(tmp_path / "k.cu", root=tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tier = 'source'\narchtecture = 'sm_90'", 2),
        ("flags = ['-DX']\narchitecture = 'hopper'\ntier = 'source'", 2),
        ("tier = 'source'\n\n[hints]\nregisters = 'no'\noccupancy = false", 3),
        ("tier = 'source'\n[[program]]\nbuild = 'make'\n[[program]]\nsource = '*.cu'", 2),
    ],
)
def test_an_editor_goes_on_without_what_is_wrong(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "warplens.toml").write_text(text)
    loaded = load_usable(tmp_path / "k.cu", root=tmp_path)
    assert [(p.file, p.line) for p in loaded.problems] == [(str(tmp_path / "warplens.toml"), line)]
    assert loaded.settings.tier == "source"
    assert loaded.settings.architecture == ""
    assert [p.source for p in loaded.settings.program] == (["*.cu"] if "[[program]]" in text else [])
    assert loaded.settings.hints.occupancy == ("occupancy" not in text)


def test_a_file_that_does_not_parse_counts_as_empty_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "warplens.toml").write_text("tier = 'source'\nflags = = 1")
    loaded = load_usable(tmp_path / "k.cu", root=tmp_path, editor={"architecture": "sm_89", "tier": 7})
    assert (loaded.settings.tier, loaded.settings.architecture) == ("auto", "sm_89")
    assert [(p.file, p.line) for p in loaded.problems] == [(str(tmp_path / "warplens.toml"), 2), ("", 1)]


def test_the_setting_compile_commands_counts(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "release"
    folder.mkdir(parents=True)
    unit = tmp_path / "k.cu"
    unit.write_text(KERNEL)

    def defines() -> dict[str, str]:
        service = Service(tmp_path)
        return service.build_defines(unit, unit, service.settings_for(unit))

    entry = {"directory": str(tmp_path), "file": "k.cu", "arguments": ["nvcc", "-DWIDE", "k.cu"]}
    (folder / "commands.json").write_text(json.dumps([entry]))
    assert defines() == {}
    (tmp_path / "warplens.toml").write_text('compile-commands = "out/release/commands.json"\n')
    assert defines() == {"WIDE": "1"}


def test_paths_and_names_that_mean_nothing_are_problems_on_their_line(tmp_path: Path) -> None:
    (tmp_path / "warplens.toml").write_text(
        'tier = "source"\nignore = ["WL108", "WL999"]\ncuda-path = "nowhere"\n'
    )
    service = Service(tmp_path)
    service.configure({})
    loaded = service.settings_for(tmp_path / "k.cu")
    assert sorted((p.line, p.message.rsplit(": ", 1)[1][:24]) for p in loaded.problems) == [
        (2, "there is no check WL999;"),
        (3, "there is no nowhere (loo"),
    ]
    assert loaded.settings.cuda_path == ""


def test_findings_stay_in_an_editor_and_the_command_line_refuses(tmp_path: Path) -> None:
    (tmp_path / "warplens.toml").write_text("tier = 3\n")
    path = tmp_path / "k.cu"
    service = Service(tmp_path)
    with pytest.raises(InputError, match="tier"):
        service.check_text(path, KERNEL)
    service.configure({})
    assert [f.slug for f in service.check_text(path, KERNEL).findings] == ["double-in-float-kernel"]


def test_a_text_in_the_midst_of_typing_is_known_by_its_errors(tmp_path: Path) -> None:
    service, path = Service(tmp_path), tmp_path / "k.cu"
    assert service.syntax_errors(path, KERNEL) == 0
    assert service.syntax_errors(path, KERNEL.replace("{", "{ if (", 1)) > 0


def test_a_secret_is_taken_out_of_the_environment_once_and_stays_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARPLENS_TEST_KEY", "sk-1")
    assert take_variable("WARPLENS_TEST_KEY") == "sk-1"
    assert "WARPLENS_TEST_KEY" not in os.environ
    child = subprocess.run(["env"], capture_output=True, text=True, check=True)
    assert "sk-1" not in child.stdout
    assert take_variable("WARPLENS_TEST_KEY") == "sk-1"
    assert take_variable("WARPLENS_NO_SUCH_KEY") == ""


@pytest.mark.parametrize("provider", ["none", "openai", "editor", "files:answers", "files:/tmp/a b"])
def test_a_provider_is_one_of_four(tmp_path: Path, provider: str) -> None:
    (tmp_path / "warplens.toml").write_text(f'[model]\nprovider = "{provider}"\nname = "m"\n')
    assert load(tmp_path / "k.cu", root=tmp_path).settings.model.provider == provider


@pytest.mark.parametrize(
    "line",
    ['provider = "other"', 'provider = "files:"', 'key-variable = "A B"', "max-tokens = -1", "api-key = 1"],
)
def test_what_no_model_setting_is_stops_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "warplens.toml").write_text(f"[model]\n{line}\n")
    with pytest.raises(InputError):
        load(tmp_path / "k.cu", root=tmp_path)
