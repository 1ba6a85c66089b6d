# SPDX-License-Identifier: Apache-2.0
"""Settings as they are read from settings files, the environment and the editor."""

from __future__ import annotations

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from warplens.settings import Hints, Loaded, Model, Optimize, Problem, Program, Settings
from warplens_tools.decode import from_builtins
from warplens_tools.errors import InputError
from warplens_tools.run.spec.model import Data, LaunchSpec

FILE_NAME = "warplens.toml"


def load(start: Path, *, root: Path | None = None, editor: Mapping[str, Any] | None = None) -> Loaded:
    """Settings for files under `start`: defaults, the nearest settings file, the editor's, the environment.

    The nearest `warplens.toml`, or `pyproject.toml` with a `[tool.warplens]` table, counts, looking upward
    from `start` to `root` (to the filesystem's root if None). `WARPLENS_ARCHITECTURE` and
    `WARPLENS_CUDA_PATH` override.

    Raises:
        InputError: a settings file does not parse, or has an unknown key or a value of a wrong type.
    """
    loaded = load_usable(start, root=root, editor=editor)
    for problem in loaded.problems:
        raise InputError(problem.message, remedy="see docs/settings.md")
    return loaded


def load_usable(start: Path, *, root: Path | None = None, editor: Mapping[str, Any] | None = None) -> Loaded:
    """As `load`, with the defaults for what is wrong, which `problems` says: an editor goes on with the rest."""
    problems: list[Problem] = []
    file, table = _find(start, root, problems)
    merged = _merge(table, _kebab(editor or {}))
    for key in ("architecture", "cuda-path"):
        value = os.environ.get("WARPLENS_" + key.replace("-", "_").upper())
        if value:
            merged[key] = value
    topmost = file.parent if file else root
    base = topmost or _folder(start)
    try:
        settings = from_builtins(merged, Settings, strict=False)
    except msgspec.ValidationError:
        usable: dict[str, Any] = {}
        for key, value in merged.items():
            good, wrong = _usable(key, value)
            usable |= {key: good} if good is not None else {}
            if wrong:
                place = (str(file), line_of(file, key)) if file is not None and key in table else ("", 1)
                problems.append(Problem(f"{place[0] or 'the settings'}: {wrong}", *place))
        settings = from_builtins(usable, Settings, strict=False)
    return Loaded(settings, str(base), str(file or ""), tuple(problems), str(topmost or ""))


_TAKEN: dict[str, str] = {}


def take_variable(name: str) -> str:
    """The value of an environment variable that holds a secret, "" for none; from then on nothing inherits it."""
    value = os.environ.pop(name, None)
    if value is not None:
        _TAKEN[name] = value
    return _TAKEN.get(name, "")


def _usable(key: str, value: Any) -> tuple[Any, str]:
    """The part of a setting that can be used, None for nothing, and what is wrong with the rest."""
    wrong = _error(key, value)
    if not wrong:
        return value, ""
    kept: Any = None
    if isinstance(value, Mapping):
        kept = {k: v for k, v in value.items() if not _error(key, {k: v})}
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        kept = [item for item in value if not _error(key, [item])]
    return (None if kept is None or _error(key, kept) else kept), wrong


def _error(key: str, value: Any) -> str:
    try:
        from_builtins({key: value}, Settings, strict=False)
    except msgspec.ValidationError as error:
        return _plainly(str(error))
    return ""


_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$\.?(.*)`)?$")
_TYPE = re.compile(r"Expected `(.+?)`, got `(.+?)` - at `\$\.(.*)`$")
_VALUE = re.compile(r"(.+) - at `\$\.(.*)`$")
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _plainly(error: str) -> str:
    """msgspec's sentence in the words of a settings file."""
    if unknown := _UNKNOWN.match(error):
        table = f" in {unknown[2]}" if unknown[2] else ""
        near = difflib.get_close_matches(unknown[1], sorted(_keys()), n=1)
        return f"there is no setting {unknown[1]}{table}" + (f"; did you mean {near[0]}?" if near else "")
    if kind := _TYPE.match(error):
        wanted = " or ".join(_KINDS.get(name, name) for name in kind[1].split(" | "))
        return f"the setting {kind[3]} takes {wanted}, not {_KINDS.get(kind[2], kind[2])}"
    if value := _VALUE.match(error):
        return f"{value[2]}: {value[1][0].lower()}{value[1][1:]}"
    return error


@functools.cache
def _keys() -> frozenset[str]:
    """The keys of a settings file and of its tables."""
    kinds = (Settings, Hints, Optimize, Model, Program, LaunchSpec, Data)
    return frozenset(field.encode_name for kind in kinds for field in msgspec.structs.fields(kind))


def line_of(file: Path, key: str) -> int:
    """The line on which a settings file names a key, as itself or as a table."""
    found = re.search(
        rf"^[ \t]*(?:\[+[ \t\w.]*)?[\"']?{re.escape(key)}\b", file.read_text("utf-8"), re.MULTILINE
    )
    return found.string.count("\n", 0, found.start()) + 1 if found else 1


def _find(start: Path, root: Path | None, problems: list[Problem]) -> tuple[Path | None, dict[str, Any]]:
    """The nearest settings file and its table; one that does not parse is empty, and a problem."""
    folder = _folder(start)
    for candidate in (folder, *folder.parents):
        own = candidate / FILE_NAME
        if own.is_file():
            return own, _read_toml(own, problems)
        project = candidate / "pyproject.toml"
        if project.is_file():
            table = _read_toml(project, problems).get("tool", {}).get("warplens")
            if table is not None:
                return project, table
        if candidate == root:
            break
    return None, {}


def _folder(start: Path) -> Path:
    return start if start.is_dir() else start.parent


def _read_toml(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        line = re.search(r"at line (\d+)", str(error))
        problems.append(Problem(f"{path}: {error}", str(path), int(line[1]) if line else 1))
        return {}


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = (
            _merge(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
        )
    return merged


def _kebab(value: Mapping[str, Any]) -> dict[str, Any]:
    """An editor's camelCase object with the keys of the settings file; null means not set."""
    known = _keys()
    result = {}
    for key, item in value.items():
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).lower()
        if item is not None and name in known:
            result[name] = item if name == "environment" else _kebab_item(item)
    return result


def _kebab_item(item: Any) -> Any:
    if isinstance(item, list):
        return [_kebab_item(each) for each in item]
    return _kebab(item) if isinstance(item, Mapping) else item
