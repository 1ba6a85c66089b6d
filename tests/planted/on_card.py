# SPDX-License-Identifier: Apache-2.0
"""Times the planted programs, their twins and the controls on a GPU, and asks Nsight Compute's own rules.

Durations are CUPTI's, of every launch of the program's own run; the shortest counts. Programs are run side by side to
save the card's time; one whose launches are so long that another program takes its turn in them is run again alone.
Where the cause stands outside the kernel (transfers, launches, waits) the whole timeline counts, from the first thing
the device does to the end of the last, of a program that runs alone.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from warplens.measure.kernel.survey import survey
from warplens_tools.collect.cupti import trace_timeline
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.collect.recording import read_recording
from warplens_tools.errors import WarplensError
from warplens_tools.micro.registry import TOOLS
from warplens_tools.run.probe.library import probe_library
from warplens_tools.run.probe.visit import Command
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

#: Seconds for one program, and for one under Nsight Compute.
PROGRAM_LIMIT, NCU_LIMIT = 60.0, 60.0
SIDE_BY_SIDE = 6
#: Microseconds of a launch from which programs side by side take turns in it: half of the time slice of 2 ms that
#: `nvidia-smi compute-policy` names as the default.
SLICE_US = 1_000.0
#: Runs of a program whose whole timeline counts.
TRACES = 3
#: Causes outside the kernel: what removing them gains does not show in the kernel's own time.
OUTSIDE = frozenset({"pageable-transfer", "serial-copies", "host-sync-in-loop", "launch-overhead"})
_SECTIONS = (
    "SpeedOfLight", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "ComputeWorkloadAnalysis",
    "WarpStateStats", "SchedulerStats", "SourceCounters", "Occupancy", "LaunchStats", "InstructionStats",
)  # fmt: skip


class Run(msgspec.Struct, frozen=True):
    """One program's run. Times in microseconds."""

    program: str
    #: Shortest launch by kernel name; 0 launches where the program failed.
    kernels: dict[str, float]
    #: From the device's first activity to the end of its last; None where that was not asked.
    span: float | None = None
    problem: str = ""


class Rules(msgspec.Struct, frozen=True):
    """What Nsight Compute's own rules said of a kernel, largest estimated speedup first."""

    program: str
    #: Rule, its estimate in per cent (None where it gives none), and its words.
    advice: tuple[tuple[str, float | None, str], ...] = ()
    metrics: dict[str, float] = {}
    problem: str = ""


def time_programs(
    paths: Sequence[Path], folder: Path, arch: str, outside: Collection[str] = ()
) -> dict[str, Run]:
    """Build and time programs; by file name. Those named in `outside` by their whole timeline too."""
    library = probe_library(resolve_toolchain())
    built = build_programs(paths, folder, arch)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = dict(zip(paths, pool.map(lambda p: _time(p, built[p], library, folder), paths), strict=True))
    for path, run in runs.items():
        if max(run.kernels.values(), default=0.0) >= SLICE_US:
            runs[path] = _time(path, built[path], library, folder)
        if path.name in outside and not run.problem:
            runs[path] = _traced(runs[path], built[path], library, folder)
    return {path.name: run for path, run in runs.items()}


def build_programs(paths: Sequence[Path], folder: Path, arch: str) -> dict[Path, Path]:
    """Each program's executable, built side by side in the folder."""
    toolchain = resolve_toolchain()
    with ThreadPoolExecutor(16) as pool:
        built = pool.map(lambda p: _build(p, folder, toolchain, arch), paths)
    return dict(zip(paths, built, strict=True))


def _build(path: Path, folder: Path, toolchain: Toolchain, arch: str) -> Path:
    output = folder / path.name.removesuffix(".cu").replace(".", "_")
    nvcc = toolchain.require("nvcc").path
    command = [nvcc, "-O3", "-std=c++17", "-lineinfo", f"-arch={arch}", "-o", str(output), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return output


def _time(path: Path, built: Path, library: Path, folder: Path) -> Run:
    try:
        shapes = survey(Command((str(built),), str(folder)), library, folder, PROGRAM_LIMIT)
    except WarplensError as error:
        return Run(path.name, {}, problem=str(error))
    kernels: dict[str, float] = {}
    for shape in shapes:
        name = _plain(shape.mangled)
        if shape.samples:
            least = min(shape.samples) / 1e3
            kernels[name] = min(least, kernels.get(name, least))
    return Run(path.name, kernels)


def _traced(run: Run, built: Path, library: Path, folder: Path) -> Run:
    command = Command((str(built),), str(folder))
    spans = []
    try:
        for _ in range(TRACES):
            place = folder / f"{built.name}-trace"
            seen = trace_timeline(command, library, workdir=place, gpu_name="", time_limit=PROGRAM_LIMIT)
            spans.append(seen.span_ns / 1e3)
    except WarplensError as error:
        return msgspec.structs.replace(run, problem=str(error))
    return msgspec.structs.replace(run, span=min(spans))


def _plain(mangled: str) -> str:
    """The last name of a mangled one: "transpose" of _Z9transposePfS_."""
    names = []
    at = 2 if mangled.startswith("_Z") else 0
    at += mangled.startswith("N", at)
    while (found := re.match(r"\d+", mangled[at:])) is not None:
        start = at + found.end()
        at = start + int(found[0])
        names.append(mangled[start:at])
    return names[-1] if names else mangled


def ask_rules(
    programs: Sequence[tuple[str, str]], folder: Path, deadline: float, keep: Path | None = None
) -> dict[str, Rules]:
    """Nsight Compute's rules on (file name, kernel) pairs, until `deadline` (of `time.monotonic`)."""
    toolchain = resolve_toolchain()
    found: dict[str, Rules] = {}
    for program, kernel in programs:
        if time.monotonic() > deadline:
            found[program] = Rules(program, problem="not asked: no time left")
            continue
        try:
            found[program] = _rules(program, _profile(program, kernel, folder, toolchain))
        except (WarplensError, subprocess.SubprocessError) as error:
            found[program] = Rules(program, problem=str(error))
    if keep is not None:
        with tarfile.open(keep, "w:gz") as archive:
            for report in sorted(folder.glob("*.ncu-rep")):
                archive.add(report, report.name)
    return found


def _profile(program: str, kernel: str, folder: Path, toolchain: Toolchain) -> ProfiledLaunch:
    built = folder / program.removesuffix(".cu").replace(".", "_")
    report = built.with_suffix(".ncu-rep")
    command = [
        toolchain.require("ncu").path,
        "--clock-control",
        "none",
        "--force-overwrite",
        "--export",
        str(report),
    ]
    command += ["--kernel-name-base", "function", "--kernel-name", f"regex:^{re.escape(kernel)}$"]
    command += ["--launch-count", "1", "--kill", "yes", "--import-source", "yes"]
    command += [word for section in _SECTIONS for word in ("--section", section)]
    subprocess.run([*command, str(built)], capture_output=True, timeout=NCU_LIMIT, check=False, cwd=folder)
    return read_report(report, toolchain=toolchain)[0]


def recorded_rules(recordings: Mapping[str, Path]) -> dict[str, Rules]:
    """What Nsight Compute's rules said of recorded programs, by file name; without those it asked none of."""
    read = {program: read_recording(path)[0] for program, path in recordings.items()}
    return {program: _rules(program, launch) for program, launch in read.items() if launch.advice}


def _rules(program: str, launch: ProfiledLaunch) -> Rules:
    ranked = sorted(launch.advice, key=lambda a: -(a.speedup_percent or 0.0))
    advice = tuple((a.rule, a.speedup_percent, a.message) for a in ranked)
    return Rules(program, advice, {k: v for k, v in sorted(launch.metrics.items()) if "__" in k})


def names_cause(slug: str, words: str) -> bool:
    """Whether a rule's words name the cause of that slug."""
    named = next((tool.rule_words for tool in TOOLS if tool.slug == slug), "")
    return bool(named) and re.search(named, words, re.IGNORECASE | re.DOTALL) is not None
