# SPDX-License-Identifier: Apache-2.0
"""What is derived from the settings' definition is in step with it, and read back as it was meant."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema

from warplens.read_settings import load
from warplens.settings import Program

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "extension" / "generate_settings.py"


def test_generated_files_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_default_of_the_editor_is_accepted(tmp_path: Path) -> None:
    package = json.loads((ROOT / "extension" / "package.json").read_text("utf-8"))
    editor: dict[str, object] = {}
    for key, item in package["contributes"]["configuration"]["properties"].items():
        section = editor
        *tables, last = key.removeprefix("warplens.").split(".")
        for table in tables:
            section = section.setdefault(table, {})  # type: ignore[assignment]
        section[last] = item["default"]
    assert load(tmp_path, root=tmp_path, editor=editor) == load(tmp_path, root=tmp_path)


def test_tables_in_lists_come_in_camel_case_from_an_editor(tmp_path: Path) -> None:
    program = {"source": "**/*.cu", "timeLimit": 5, "environment": {"timeLimit": "kept"}}
    loaded = load(tmp_path, root=tmp_path, editor={"program": [program]})
    expected = Program(source="**/*.cu", time_limit=5.0, environment={"timeLimit": "kept"})
    assert loaded.settings.program == (expected,)


def test_the_schema_of_the_settings_file_rejects_what_the_loader_rejects() -> None:
    schema = json.loads((ROOT / "docs" / "schema" / "settings.json").read_text("utf-8"))
    good = tomllib.loads(
        'architecture = "sm_90a"\n[hints]\nregisters = false\n[[program]]\nsource = "*.cu"\n'
    )
    jsonschema.validate(good, schema)
    for text in ('architecture = "hopper"', "code-lens = 1", "unknown = 1", "[[program]]\nbuild = 'make'"):
        try:
            jsonschema.validate(tomllib.loads(text), schema)
        except jsonschema.ValidationError:
            continue
        raise AssertionError(f"the schema accepts {text!r}")
