# SPDX-License-Identifier: Apache-2.0
"""`warplens config`: a settings file to start from, and the settings that count."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from cyclopts import App
from msgspec.inspect import Metadata, type_info

from warplens.cli.main import EXIT_CLEAN
from warplens.cli.streams import write_json
from warplens.read_settings import FILE_NAME
from warplens.service.service import Service
from warplens.settings import Settings
from warplens_tools.errors import InputError

app = App(
    name="config", help="Write a settings file, or show the settings that count.", help_format="markdown",
    result_action="return_value",
)  # fmt: skip


@app.command
def init(folder: Path = Path(), /) -> int:
    """Write a warplens.toml with every setting at its default, commented out.

    Parameters
    ----------
    folder
        Where to write it; the current folder if left out.
    """
    target = folder / FILE_NAME
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError as error:
        raise InputError(
            f"{target} is there already", remedy="edit it; docs/settings.md lists the keys"
        ) from error
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    sys.stdout.write(f"wrote {target}\n")
    return EXIT_CLEAN


@app.command
def show(path: Path = Path(), /) -> int:
    """Print the settings that count for a file or folder, and the file they come from, as JSON.

    Parameters
    ----------
    path
        The file or folder; the current folder if left out.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist")
    loaded = Service(Path.cwd()).settings_for(Path(os.path.abspath(path)))  # noqa: PTH100
    write_json({"file": loaded.file, "settings": loaded.settings})
    return EXIT_CLEAN


def template() -> str:
    """A settings file that sets nothing: every key with its description and default in comments."""
    lines = ["# Settings of Warplens for the files below this folder. Take away a # to set one."]
    tables: list[tuple[str, type]] = []
    for field in msgspec.structs.fields(Settings):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            tables.append((field.encode_name, field.type))
        elif field.encode_name not in ("program", "launch"):
            lines += ["", *_setting(field)]
    for name, kind in tables:
        lines += ["", f"# [{name}]"]
        for field in msgspec.structs.fields(kind):
            lines += _setting(field)
    lines += ["", "# How programs are built and run: see docs/programs.md.", "# [[program]]"]
    lines += ['# source = "bench/*.cu"', '# arguments = ["-n", "1024"]', ""]
    return "\n".join(lines)


def _setting(field: msgspec.structs.FieldInfo) -> Iterator[str]:
    info = type_info(field.type)
    schema: dict[str, Any] = (info.extra_json_schema or {}) if isinstance(info, Metadata) else {}
    words = f"{schema.get('description', '')}".split()
    line = "#"
    for word in words:
        if len(line) + len(word) > 100:
            yield line
            line = "#"
        line += f" {word}"
    yield line
    yield f"# {field.encode_name} = {_toml(field.default)}"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return msgspec.json.encode(value).decode()
