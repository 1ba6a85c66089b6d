# SPDX-License-Identifier: Apache-2.0
"""Settings: one typed definition (`read_settings.py` reads them).

`package.json`, the JSON schema of `warplens.toml` and the reference page are generated from these types
(`make generate`); a test fails when they are stale. Keys are kebab-case in TOML and camelCase in editors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from warplens_tools.evidence import Tier
from warplens_tools.run.spec.model import LaunchSpec


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
    idioms: Annotated[
        bool,
        Meta(
            description="Try idioms, too: a whole computation that is recognised, such as a matrix product, is "
            "replaced by an implementation of Warplens' own; see docs/idioms.md."
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
    #: The folder above which nothing is searched for: the workspace's, or the settings file's; "" for no such bound.
    topmost: str = ""

    @property
    def bound(self) -> Path | None:
        """How far up the commands that build a file are searched for; None for as far as there are folders."""
        return Path(self.topmost) if self.topmost else None
