# SPDX-License-Identifier: Apache-2.0
"""Runs Nsight Systems on a program, and reads what it exports to SQLite.

The export's tables differ between versions: a table or column that is absent leaves its part of the
timeline out. Only CUDA activity is traced (`-t cuda`), without CPU sampling.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from warplens_tools.collect.timeline import DIRECTIONS, Activity, HostCall, build_timeline
from warplens_tools.errors import InputError, MissingToolError, ToolFailedError
from warplens_tools.evidence import TimelineEvidence
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Toolchain

#: Activities read of one export; a longer trace is cut, which its origin then says.
MAX_ACTIVITIES = 200_000
_MEMORY = {0: "pageable", 1: "pinned", 4: "managed", 6: "managed"}
_KERNELS = """
    SELECT k.start, k.end, k.correlationId, {name}, gridX, gridY, gridZ, blockX, blockY, blockZ,
           registersPerThread
    FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = {key}
    WHERE deviceId = ? ORDER BY k.start LIMIT ?"""


def collect_timeline(
    program: Sequence[str],
    *,
    toolchain: Toolchain,
    workdir: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    time_limit: float = 120.0,
    task: Task = UNATTENDED,
) -> TimelineEvidence:
    """Trace `program` (its command line); the report and its export stay in `workdir`.

    Raises:
        MissingToolError: no Nsight Systems.
        InputError: the program used no GPU.
        ToolFailedError: nsys failed.
        TimeLimitError, CancelledError: as named.
    """
    nsys = toolchain.require("nsys").path
    workdir.mkdir(parents=True, exist_ok=True)
    report = workdir / "timeline.nsys-rep"
    command = [nsys, "profile", "--trace", "cuda", "--sample", "none", "--cpuctxsw", "none"]
    command += ["--force-overwrite", "true", "--output", str(report), *program]
    variables = {**(os.environ if env is None else env), "TMPDIR": str(workdir)}
    done = run(command, cwd=cwd, env=variables, timeout=time_limit, task=task)
    if not report.is_file():
        raise ToolFailedError(
            f"nsys wrote no report (status {done.status})",
            status=done.status,
            output=done.stdout + done.stderr,
        )
    return read_timeline(report, toolchain=toolchain, workdir=workdir, task=task)


def read_timeline(
    path: Path, *, toolchain: Toolchain, workdir: Path, task: Task = UNATTENDED
) -> TimelineEvidence:
    """The timeline of a `.nsys-rep` (needs nsys) or of a `.sqlite` that nsys exported.

    Raises:
        InputError: no such file, not an export of Nsight Systems, or no GPU activity in it.
        MissingToolError: a `.nsys-rep`, and no nsys to open it.
        ToolFailedError: the export failed.
    """
    if not path.is_file():
        raise InputError(f"there is no report {path}")
    if path.suffix != ".nsys-rep":
        return read_sqlite(path)
    nsys = toolchain.find("nsys")
    if nsys is None:
        raise MissingToolError(
            f"{path.name} needs Nsight Systems to be opened, and nsys is not here",
            remedy="where nsys is: `nsys export --type sqlite REPORT`, and import the .sqlite",
        )
    workdir.mkdir(parents=True, exist_ok=True)
    exported = workdir / f"{path.stem}.sqlite"
    command = [nsys.path, "export", "--type", "sqlite", "--force-overwrite", "true"]
    done = run([*command, "--output", exported, path], timeout=300.0, task=task)
    if done.status != 0 or not exported.is_file():
        raise ToolFailedError(
            f"nsys could not export {path.name}", status=done.status, output=done.stdout + done.stderr
        )
    return read_sqlite(exported)


def read_sqlite(path: Path) -> TimelineEvidence:
    """The timeline of the device that worked longest, from an export of Nsight Systems.

    Raises:
        InputError: it is no such export, or holds no GPU activity.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            base.text_factory = lambda data: data.decode("utf-8", errors="replace")
            timeline = _read(base)
    except (sqlite3.Error, ValueError, OverflowError, TypeError) as error:
        raise InputError(
            f"{path} is not a SQLite export of Nsight Systems that can be read: {error}",
            remedy="make one with `nsys export --type sqlite REPORT`",
        ) from error
    if timeline is None:
        raise InputError(f"{path} holds no GPU activity", remedy="trace with `nsys profile --trace cuda`")
    return timeline


def _read(base: sqlite3.Connection) -> TimelineEvidence | None:
    tables = {
        name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    }
    device = _busiest_device(base, tables)
    if device is None:
        return None
    activities = [
        *_kernels(base, tables, device),
        *_transfers(base, tables, device),
        *_memsets(base, tables, device),
    ]
    cut = " (cut)" if len(activities) >= MAX_ACTIVITIES else ""
    return build_timeline(
        activities,
        _calls(base, tables),
        origin=f"nsys {_version(base, tables)}".rstrip() + cut,
        gpu_name=_gpu_name(base, tables, device),
    )


def _busiest_device(base: sqlite3.Connection, tables: set[str]) -> int | None:
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        name = f"CUPTI_ACTIVITY_KIND_{table}"
        if name in tables:
            row = base.execute(
                f"SELECT deviceId FROM {name} GROUP BY deviceId ORDER BY SUM(end - start) DESC LIMIT 1"
            ).fetchone()
            if row is not None:
                return int(row[0])
    return None


def _kernels(base: sqlite3.Connection, tables: set[str], device: int) -> Iterator[Activity]:
    if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
        return
    named = "StringIds" in tables
    query = _KERNELS.format(name="s.value" if named else "'kernel'", key="k.demangledName" if named else "0")
    if not named:
        query = query.replace("LEFT JOIN StringIds s ON s.id = 0", "")
    for start, end, correlation, name, *rest in base.execute(query, (device, MAX_ACTIVITIES)):
        gx, gy, gz, bx, by, bz, registers = rest
        yield Activity(
            start, end, "kernel", name or "kernel", correlation, (gx, gy, gz), (bx, by, bz), registers
        )


def _transfers(base: sqlite3.Connection, tables: set[str], device: int) -> Iterator[Activity]:
    if "CUPTI_ACTIVITY_KIND_MEMCPY" not in tables:
        return
    query = """SELECT start, end, correlationId, copyKind, srcKind, dstKind, bytes
               FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE deviceId = ? ORDER BY start LIMIT ?"""
    for start, end, correlation, kind, source, target, size in base.execute(query, (device, MAX_ACTIVITIES)):
        direction = DIRECTIONS.get(kind, "unknown")
        host_side = target if direction.endswith("to host") else source
        memory = _MEMORY.get(host_side, "") if "host" in direction else ""
        yield Activity(
            start, end, "transfer", f"copy {direction}", correlation,
            bytes=size, direction=direction, host_memory=memory,
        )  # fmt: skip


def _memsets(base: sqlite3.Connection, tables: set[str], device: int) -> Iterator[Activity]:
    if "CUPTI_ACTIVITY_KIND_MEMSET" not in tables:
        return
    query = """SELECT start, end, correlationId, bytes FROM CUPTI_ACTIVITY_KIND_MEMSET
               WHERE deviceId = ? ORDER BY start LIMIT ?"""
    for start, end, correlation, size in base.execute(query, (device, MAX_ACTIVITIES)):
        yield Activity(start, end, "memset", "memset", correlation, bytes=size)


def _calls(base: sqlite3.Connection, tables: set[str]) -> Iterator[HostCall]:
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"):
        if table not in tables or "StringIds" not in tables:
            continue
        query = f"""SELECT c.start, c.end, s.value, c.correlationId FROM {table} c
                    JOIN StringIds s ON s.id = c.nameId ORDER BY c.start LIMIT ?"""
        for start, end, name, correlation in base.execute(query, (MAX_ACTIVITIES,)):
            yield HostCall(start, end, name or "", correlation)


def _version(base: sqlite3.Connection, tables: set[str]) -> str:
    if "META_DATA_EXPORT" not in tables:
        return ""
    row = base.execute("SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'").fetchone()
    return str(row[0]) if row else ""


def _gpu_name(base: sqlite3.Connection, tables: set[str], device: int) -> str:
    if "TARGET_INFO_GPU" not in tables:
        return ""
    row = base.execute("SELECT name FROM TARGET_INFO_GPU WHERE id = ?", (device,)).fetchone()
    return str(row[0]) if row and row[0] else ""
