# SPDX-License-Identifier: Apache-2.0
"""Reads `.ncu-rep` files, through the `ncu_report` module or, where there is none, through `ncu --import`.

The module is native code that trusts its input, so it runs in a process of its own: a damaged report may
end that process and nothing else. It comes from the `ncu-report` package or from Nsight Compute's own
`extras/python` folder.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu_csv import dimensions, parse_csv
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.decode import from_json
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.evidence import Advice, InstructionCounters, SourceLine
from warplens_tools.process.run import Completed, run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Toolchain

#: Seconds for one report; 100 launches with full sections read in about two.
TIME_LIMIT = 120.0
#: Launches read of one report; a report with more is a trace, and its first launches stand for it.
MAX_LAUNCHES = 512
_PER_INSTRUCTION_PREFIXES = ("smsp__pcsamp_", "memory_", "derived__memory_")


def read_report(path: Path, *, toolchain: Toolchain, task: Task = UNATTENDED) -> tuple[ProfiledLaunch, ...]:
    """Every launch of a report, in order, at most `MAX_LAUNCHES`.

    Raises:
        InputError: no such file, or nothing in it that this version can read.
        MissingToolError: neither the module nor `ncu` is there.
        TimeLimitError, CancelledError: as named.
    """
    if not path.is_file():
        raise InputError(f"there is no report {path}")
    folder, ncu = _module_folder(toolchain), toolchain.find("ncu")
    if folder is None and ncu is None:
        raise MissingToolError(
            f"{path.name} needs the ncu-report package or Nsight Compute to be opened",
            remedy="pip install 'warplens[ncu]', or export the report with "
            "`ncu --import REPORT --csv --page raw` and import that text",
        )
    launches = () if folder is None else _through_module(path, folder, task)
    if not launches and ncu is not None:
        # The report may be newer than the module, or the module of another Python.
        launches = _through_import(path, ncu.path, task)
    if not launches:
        raise InputError(
            f"{path} holds no profiled kernel that can be read: it is damaged, empty, or of a newer version",
            remedy="open it with the Nsight Compute that wrote it, and export `--csv --page raw`",
        )
    return launches


def profile_and_read(
    command: Sequence[str],
    report: Path,
    *,
    toolchain: Toolchain,
    cwd: Path | None,
    env: Mapping[str, str],
    timeout: float,
    task: Task = UNATTENDED,
    on_start: Callable[[], None] | None = None,
) -> tuple[Completed, tuple[ProfiledLaunch, ...]]:
    """Run `command`, which writes `report`, and read that; no launches where there is none, or none to read.

    The reader's process starts the command and gets itself ready meanwhile: alone, its start is a tenth of the
    time that profiling a short program takes. `on_start` is called meanwhile too.

    Raises:
        TimeLimitError, CancelledError: it was stopped, with all that it started.
    """
    folder = _module_folder(toolchain)
    if folder is not None:
        run_first = _First(tuple(command), dict(env), str(cwd) if cwd is not None else None)
        said = msgspec.json.encode(run_first).decode()
        done = run(
            _reader(report, folder),
            timeout=timeout,
            task=task,
            env=_environment(),
            stdin=said,
            on_start=on_start,
        )
        with contextlib.suppress(msgspec.DecodeError):
            both = from_json(done.stdout, _Both)
            return both.done, both.launches or _read_or_none(report, toolchain, task)
        # The reader ended before its answer: the report, if it was written, is looked at once more below.
        if report.is_file():
            return done, _read_or_none(report, toolchain, task)
    done = run(command, cwd=cwd, env=env, timeout=timeout, task=task, on_start=on_start)
    return done, _read_or_none(report, toolchain, task)


class _First(msgspec.Struct, frozen=True):
    """What the reader's process runs before it reads."""

    command: tuple[str, ...]
    environment: dict[str, str]
    directory: str | None


class _Both(msgspec.Struct, frozen=True):
    """The end of that command, and what its report holds."""

    done: Completed
    launches: tuple[ProfiledLaunch, ...]


def _read_or_none(report: Path, toolchain: Toolchain, task: Task) -> tuple[ProfiledLaunch, ...]:
    if not report.is_file():
        return ()
    return read_report(report, toolchain=toolchain, task=task)


def _reader(report: Path, folder: Path) -> list[str]:
    return [sys.executable, "-P", "-m", __name__, str(report), str(folder) if folder.parts else ""]


def _module_folder(toolchain: Toolchain) -> Path | None:
    """The folder to put on the path for `import ncu_report`; "" when it is importable as it is."""
    if importlib.util.find_spec("ncu_report") is not None:
        return Path()
    ncu = toolchain.find("ncu")
    if ncu is None:
        return None
    home = Path(ncu.path).resolve().parent
    products = sorted(Path("/opt/nvidia/nsight-compute").glob("*/extras/python"), reverse=True)
    places = (home / "extras/python", *sorted(home.parent.glob("nsight-compute*/extras/python")), *products)
    return next((p for p in places if (p / "ncu_report.py").is_file()), None)


def _through_module(path: Path, folder: Path, task: Task) -> tuple[ProfiledLaunch, ...]:
    done = run(_reader(path, folder), timeout=TIME_LIMIT, task=task, env=_environment())
    if done.status != 0:
        return ()
    try:
        return from_json(done.stdout, tuple[ProfiledLaunch, ...])
    except msgspec.DecodeError:
        return ()


def _environment() -> dict[str, str]:
    """Only what the child needs to import what this process can."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LD_LIBRARY_PATH")}
    return {**kept, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "LC_ALL": "C.UTF-8"}


def _through_import(path: Path, ncu: str, task: Task) -> tuple[ProfiledLaunch, ...]:
    read = (ncu, "--import", str(path), "--csv")
    raw = run([*read, "--page", "raw", "--print-units", "base"], timeout=TIME_LIMIT, task=task)
    if raw.status != 0:
        return ()
    sass = run([*read, "--page", "source", "--print-source", "cuda,sass"], timeout=TIME_LIMIT, task=task)
    return parse_csv(f"{raw.stdout}\n{sass.stdout}", origin="ncu --import")


def _read_in_child(path: str, folder: str) -> list[ProfiledLaunch]:
    ncu_report = _module(folder)
    context = ncu_report.load_report(path)
    launches: list[ProfiledLaunch] = []
    for r in range(context.num_ranges() or 0):
        recorded = context.range_by_idx(r)
        for a in range(recorded.num_actions() or 0):
            if len(launches) == MAX_LAUNCHES:
                return launches
            launches.append(_launch(recorded.action_by_idx(a), ncu_report))
    return launches


def _module(folder: str) -> Any:
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("ncu_report")


def _launch(action: Any, module: Any) -> ProfiledLaunch:
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        if metric is None or not metric.has_value():
            continue
        if metric.kind() == metric.ValueKind_STRING:
            texts[name] = metric.as_string()
            continue
        amount = metric.as_double()
        if amount is None or amount != amount or abs(amount) == float("inf"):
            continue
        values[name], units[name] = names.to_base(amount, metric.unit() or "")
    major = values.get("device__attribute_compute_capability_major")
    minor = values.get("device__attribute_compute_capability_minor")
    return ProfiledLaunch(
        origin="ncu report",
        kernel=action.name(module.IAction.NameBase_DEMANGLED) or action.name(),
        mangled=action.name(module.IAction.NameBase_MANGLED) or "",
        gpu_name=texts.get("device__attribute_display_name", ""),
        compute_capability="" if major is None else f"{int(major)}.{int(minor or 0)}",
        grid=dimensions(values, "grid"),
        block=dimensions(values, "block"),
        metrics=names.canonical(values),
        units={name: unit for name, unit in units.items() if unit},
        texts=texts,
        instructions=tuple(_instructions(action)),
        sources={p: text for p, text in dict(action.source_files() or {}).items() if text},
        advice=tuple(_advice(action)),
    )


def _instructions(action: Any) -> Iterator[InstructionCounters]:
    """Counters by instruction address, joined over the metrics that have them."""
    counted: dict[int, dict[str, float]] = {}
    for name in action.metric_names():
        if not _per_instruction(name):
            continue
        metric = action.metric_by_name(name)
        if metric is None or not metric.has_correlation_ids():
            continue
        addresses = metric.correlation_ids()
        for i in range(metric.num_instances()):
            counters = counted.setdefault(addresses.as_uint64(i), {})
            if amount := metric.as_double(i):
                counters[name] = amount
    start = min(counted, default=0)
    for address in sorted(counted):
        yield _instruction(action, address, start, counted[address])


def _per_instruction(name: str) -> bool:
    if name.endswith(("_not_issued", "_type")):
        return False
    return name in names.PER_INSTRUCTION or name.startswith(_PER_INSTRUCTION_PREFIXES)


def _instruction(action: Any, address: int, start: int, values: dict[str, float]) -> InstructionCounters:
    where = action.source_info(address)
    return InstructionCounters(
        offset=address - start,
        text=" ".join((action.sass_by_pc(address) or "").split()),
        place=SourceLine(where.file_name(), where.line()) if where and where.file_name() else None,
        values=values,
    )


def _advice(action: Any) -> Iterator[Advice]:
    try:
        results = action.rule_results_as_dicts()
    except (KeyError, RuntimeError, TypeError, AttributeError):
        return
    for result in results:
        message = result.get("rule_message", {})
        text = " ".join(part for part in (message.get("title", ""), message.get("message", "")) if part)
        # Message types 2 and 3 are Nsight Compute's warnings and optimisation hints.
        if text and message.get("type") in (2, 3):
            yield Advice(
                rule=str(result.get("rule_identifier", "")),
                section=str(result.get("section_identifier", "")),
                message=text,
                speedup_percent=result.get("speedup_estimation", {}).get("speedup"),
            )


def _profile_in_child(first: _First, path: str, folder: str) -> _Both:
    started = time.monotonic()
    process = subprocess.Popen(
        first.command, env=first.environment, cwd=first.directory, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with contextlib.suppress(ImportError):
        _module(folder)
    out, err = (stream.decode("utf-8", errors="replace") for stream in process.communicate())
    done = Completed(first.command, process.returncode, out, err, time.monotonic() - started)
    launches: list[ProfiledLaunch] = []
    # What cannot be read this way is the caller's to try another way.
    with contextlib.suppress(Exception):
        launches = _read_in_child(path, folder)
    return _Both(done, tuple(launches))


if __name__ == "__main__":
    asked = sys.stdin.buffer.read()
    answer = (
        _profile_in_child(from_json(asked, _First), *sys.argv[1:3])
        if asked
        else _read_in_child(*sys.argv[1:3])
    )
    sys.stdout.buffer.write(msgspec.json.encode(answer))
