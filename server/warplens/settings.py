# SPDX-License-Identifier: Apache-2.0
"""Settings: one typed definition, read from settings files, the environment and the editor.

`package.json`, the JSON schema of `warplens.toml` and the reference page are generated from these types
(`make generate`); a test fails when they are stale. Keys are kebab-case in TOML and camelCase in editors.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from warplens_tools.decode import from_builtins
from warplens_tools.errors import InputError
from warplens_tools.evidence import Tier
from warplens_tools.run.spec.model import Data, LaunchSpec

FILE_NAME = "warplens.toml"


class Hints(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Inlay hints after a kernel's name, each switched on its own."""

    registers: Annotated[bool, Meta(description="Show registers per thread after a kernel's name.")] = True
    occupancy: Annotated[
        bool, Meta(description="Show theoretical occupancy after a kernel's name where no lens says it.")
    ] = True


class Optimize(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """Budget of *Optimize this kernel*."""

    candidates: Annotated[int, Meta(ge=1, description="Candidates to judge at most.")] = 60
    seconds: Annotated[float, Meta(gt=0, description="Seconds to search at most.")] = 300.0
    host_edits: Annotated[
        bool,
        Meta(
            description="Warning: runs host code that you did not write. Judge edits of host code too, such as pinned "
            "copies, a kernel split in two or a launch loop turned into a graph. Their programs are compared and "
            "timed from outside, in a copy of the working directory, without network or your other files where "
            "the system can hold them to it; the verdict says what could not be compared or ruled out."
        ),
    ] = False
    lower_precision: Annotated[
        bool,
        Meta(
            description="Let a kernel win whose results are less precise than yours, as half precision, bfloat16 or "
            "TF32 leave them; the verdict says so, with their relative error."
        ),
    ] = False
    objective: Annotated[
        Literal["time", "energy", "lexicographic"],
        Meta(
            description="What is to be less: time; the energy of the whole program, among versions that are faster; or "
            "its energy among versions as fast as the fastest, within 1 %."
        ),
    ] = "time"


class Model(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A language model that takes part in *Optimize this kernel*."""

    provider: Annotated[
        str,
        Meta(
            pattern=r"^(none|openai|editor|files:.+)$",
            description="Who answers: none; openai for an OpenAI-compatible endpoint of any vendor or of your own; "
            "editor for the models of VS Code; files:FOLDER to write prompts to a folder and read answers from it. "
            "Nothing is sent before you agreed to it once for that address.",
        ),
    ] = "none"
    name: Annotated[
        str, Meta(description="The model, as its vendor names it; the editor's first if empty.")
    ] = ""
    base_url: Annotated[
        str, Meta(description="Address of an OpenAI-compatible endpoint; https://api.openai.com/v1 if empty.")
    ] = ""
    key_variable: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z_]\w*$",
            description="Environment variable that holds the endpoint's key. It is taken out of the environment, "
            "so that no program started later sees it.",
        ),
    ] = "OPENAI_API_KEY"
    max_tokens: Annotated[
        int, Meta(ge=0, description="Tokens that one search may spend on the model, prompts and replies.")
    ] = 1_500_000
    max_dollars: Annotated[
        float,
        Meta(ge=0, description="US dollars that one search may spend on the model, at the prices below."),
    ] = 5.0
    input_price: Annotated[
        float,
        Meta(ge=0, description="US dollars for a million tokens of prompts; 0 if not known or not charged."),
    ] = 0.0
    output_price: Annotated[
        float,
        Meta(ge=0, description="US dollars for a million tokens of replies; 0 if not known or not charged."),
    ] = 0.0
    prompt_tokens: Annotated[int, Meta(ge=2000, description="Tokens that one prompt may have.")] = 12_000
    reply_tokens: Annotated[int, Meta(ge=200, description="Tokens that one reply may have.")] = 4_000
    reply_seconds: Annotated[
        float, Meta(gt=0, description="Seconds one reply may take, retries included.")
    ] = 180.0
    retries: Annotated[
        int,
        Meta(
            ge=0, le=10, description="Repetitions of a request that failed for now (429, 500, no connection)."
        ),
    ] = 3
    feedback: Annotated[
        Literal["guidance", "metrics", "nothing"],
        Meta(
            description="What the model is told of the tools' findings: guidance in words, raw counters, or nothing; "
            "the last two are for comparison."
        ),
    ] = "guidance"


class Program(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """How to build and run the program that launches a file's kernels."""

    source: Annotated[str, Meta(description="Glob of the files it is for, relative to the settings file.")]
    build: Annotated[
        str,
        Meta(
            description="Build command with {source}, {output}, {arch}, {root} (a copy of the workspace, so that "
            "the build may write in it) and {folder} (for what it makes); nvcc with the unit's flags if empty."
        ),
    ] = ""
    command: Annotated[
        str,
        Meta(
            description="Start command with {output} (what was built; also {program}), {folder} and {root}; it may be "
            "another program that loads what was built. The built program itself if empty."
        ),
    ] = ""
    arguments: Annotated[tuple[str, ...], Meta(description="Arguments of a run, with the same names.")] = ()
    directory: Annotated[
        str,
        Meta(
            description="Working directory of a run, relative to the settings file; "
            "the source's folder if empty."
        ),
    ] = ""
    environment: Annotated[
        dict[str, str], Meta(description="Variables added to a run's environment, with the same names.")
    ] = {}
    wrapper: Annotated[
        tuple[str, ...], Meta(description='Put before every run, for example ["srun", "-n1"].')
    ] = ()
    launch: Annotated[
        int,
        Meta(
            ge=0,
            description="Which launch of the kernel's heaviest shape (grid, block, dynamic shared memory) is measured, "
            "from 1; 0 means the third, or the last of fewer: first ones often work on memory that is still zero.",
        ),
    ] = 0
    every_shape: Annotated[
        bool,
        Meta(
            description="Measure at every distinct launch shape, up to eight, instead of the heaviest alone: "
            "faster may then be slower at none of them."
        ),
    ] = False
    time_limit: Annotated[float, Meta(gt=0, description="Seconds one run may take.")] = 60.0


class Settings(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """All settings of a workspace folder."""

    architecture: Annotated[
        str,
        Meta(
            pattern=r"^(|sm_\d+[af]?)$",
            description="Architecture to compile for and judge against, such as sm_90; "
            "the GPU present if empty, else sm_90.",
        ),
    ] = ""
    tier: Annotated[
        Tier | Literal["auto"],
        Meta(
            description="Highest tier collected on save; "
            "auto means binary where a compiler is found, else source."
        ),
    ] = "auto"
    flags: Annotated[
        tuple[str, ...],
        Meta(description="Compile flags for units that no compile_commands.json lists."),
    ] = ()
    compile_commands: Annotated[
        str,
        Meta(description="Path of compile_commands.json; searched for upward and in build folders if empty."),
    ] = ""
    cuda_path: Annotated[str, Meta(description="CUDA toolkit folder; found by itself if empty.")] = ""
    compile_seconds: Annotated[float, Meta(gt=0, description="Seconds one compilation may take.")] = 300.0
    ignore: Annotated[
        tuple[str, ...], Meta(description="Codes or slugs of findings that are not reported.")
    ] = ()
    exclude: Annotated[
        tuple[str, ...], Meta(description="Globs of files and folders that are not analysed.")
    ] = ("**/node_modules/**",)
    code_lens: Annotated[bool, Meta(description="Show a lens over every kernel.")] = True
    hints: Hints = Hints()
    optimize: Optimize = Optimize()
    model: Model = Model()
    program: Annotated[
        tuple[Program, ...], Meta(description="How programs are built and run, first match wins.")
    ] = ()
    launch: Annotated[
        tuple[LaunchSpec, ...],
        Meta(description="How kernels without a program are launched; see docs/launch-specs.md."),
    ] = ()

    @property
    def database(self) -> Path | None:
        """The compile_commands.json that counts; None where it is searched for."""
        return Path(self.compile_commands) if self.compile_commands else None


class Problem(msgspec.Struct, frozen=True):
    """Something in the settings that was left out: why, in which file ("" for the editor's) and 1-based line."""

    message: str
    file: str = ""
    line: int = 1


class Loaded(msgspec.Struct, frozen=True):
    """Settings, the folder their relative paths start from, and the file they came from ("" if none)."""

    settings: Settings
    root: str
    file: str = ""
    problems: tuple[Problem, ...] = ()


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
    base = file.parent if file else (root or start)
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
    return Loaded(settings, str(base), str(file or ""), tuple(problems))


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
        near = difflib.get_close_matches(unknown[1], _keys(), n=1)
        return f"there is no setting {unknown[1]}{table}" + (f"; did you mean {near[0]}?" if near else "")
    if kind := _TYPE.match(error):
        wanted = " or ".join(_KINDS.get(name, name) for name in kind[1].split(" | "))
        return f"the setting {kind[3]} takes {wanted}, not {_KINDS.get(kind[2], kind[2])}"
    if value := _VALUE.match(error):
        return f"{value[2]}: {value[1][0].lower()}{value[1][1:]}"
    return error


def _keys() -> list[str]:
    """The keys of a settings file and of its tables."""
    kinds = (Settings, Hints, Optimize, Model, Program, LaunchSpec, Data)
    return [field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)]


def line_of(file: Path, key: str) -> int:
    """The line on which a settings file names a key, as itself or as a table."""
    found = re.search(
        rf"^[ \t]*(?:\[+[ \t\w.]*)?[\"']?{re.escape(key)}\b", file.read_text("utf-8"), re.MULTILINE
    )
    return found.string.count("\n", 0, found.start()) + 1 if found else 1


def _find(start: Path, root: Path | None, problems: list[Problem]) -> tuple[Path | None, dict[str, Any]]:
    """The nearest settings file and its table; one that does not parse is empty, and a problem."""
    folder = start if start.is_dir() else start.parent
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
    known = set(_keys())
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
