# SPDX-License-Identifier: Apache-2.0
"""Runs Nsight Compute on a program and reads back the counters of one kernel.

Clocks are never touched (`--clock-control none`). Caches are flushed before every replay pass, Nsight
Compute's default: without it the later passes of one launch would find the earlier ones' data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.metrics import Need
from warplens_tools.collect.ncu_report import profile_and_read
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.errors import InputError, MissingToolError, ToolFailedError, WarplensError
from warplens_tools.process.run import Completed
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Tool, Toolchain, tool_version

PERMISSION_REMEDY = (
    "run as root or with CAP_SYS_ADMIN; or allow every user with the kernel module option "
    '"options nvidia NVreg_RestrictProfilingToAdminUsers=0" in /etc/modprobe.d and a reboot of the host; in a '
    "container the host decides, and root inside it does not help (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
)
_ERROR_LINE = re.compile(r"^==ERROR== (.+)$", re.MULTILINE)
_FAILED_METRIC = re.compile(
    r"Failed to find metric (\S+)|metrics? (\S+) (?:was|were) not found", re.IGNORECASE
)


class NcuRequest(msgspec.Struct, frozen=True):
    """What to profile: one kernel, some of its launches, the counters that the given needs read."""

    #: Mangled name where it is known, else the plain function name.
    kernel: str
    mangled: bool = False
    needs: tuple[Need, ...] = ("roofline", "memory", "scheduling", "lines")
    #: Ask for tensor operations, where the SASS has matrix instructions.
    tensor: bool = False
    #: Ask how busy the atomic units are, where the SASS has global atomics, and the constant cache, where it
    #: indexes constants.
    atomics: bool = False
    constants: bool = False
    skip: int = 0
    count: int = 1


def requested_metrics(request: NcuRequest) -> tuple[str, ...]:
    """The metrics of the request's needs, each once."""
    wanted = [name for need in request.needs for name in names.NEEDS[need]]
    wanted += names.TENSOR_METRICS if request.tensor else ()
    wanted += names.ATOMIC_METRICS if request.atomics else ()
    wanted += names.CONSTANT_METRICS if request.constants else ()
    return tuple(dict.fromkeys(wanted))


def ncu_command(ncu: str, request: NcuRequest, program: Sequence[str], output: Path) -> list[str]:
    """The command line; `output` is the report without its suffix."""
    base = "mangled" if request.mangled else "function"
    name = request.kernel if request.mangled else f"regex:^{re.escape(request.kernel)}$"
    command = [
        ncu, "--clock-control", "none", "--target-processes", "all", "--force-overwrite", "--export", str(output),
        "--kernel-name-base", base, "--kernel-name", name,
        "--launch-skip", str(request.skip), "--launch-count", str(request.count),
    ]  # fmt: skip
    metrics = requested_metrics(request)
    if metrics:
        command += ["--metrics", ",".join(metrics)]
    if "lines" in request.needs:
        command += ["--import-source", "yes"]
    return [*command, *program]


def collect_counters(
    program: Sequence[str],
    request: NcuRequest,
    *,
    toolchain: Toolchain,
    workdir: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    time_limit: float = 120.0,
    task: Task = UNATTENDED,
) -> tuple[ProfiledLaunch, ...]:
    """Profile `program` (its command line) and read the report, which stays in `workdir`.

    Raises:
        MissingToolError: no Nsight Compute, no GPU or driver, or counters are closed to this user.
        InputError: the program never launched the kernel.
        ToolFailedError: the program or ncu failed.
        TimeLimitError, CancelledError: ncu and the program were stopped.
    """
    ncu = toolchain.require("ncu")
    workdir.mkdir(parents=True, exist_ok=True)
    output = workdir / "counters"
    command = ncu_command(ncu.path, request, program, output)
    # Nsight Compute's lock file in a shared /tmp belongs to whoever profiled first.
    variables = {**(os.environ if env is None else env), "TMPDIR": str(workdir)}
    report = output.with_suffix(".ncu-rep")
    report.unlink(missing_ok=True)
    done, launches = profile_and_read(
        command,
        report,
        toolchain=toolchain,
        cwd=cwd,
        env=variables,
        timeout=time_limit,
        task=task,
        on_start=lambda: _remember_version(ncu),
    )
    problem = explain_failure(done, request, report.is_file())
    if problem is not None:
        raise problem
    origin = f"ncu {tool_version(ncu)}".rstrip()
    return tuple(msgspec.structs.replace(launch, origin=origin) for launch in launches)


def _remember_version(ncu: Tool) -> None:
    """Asked while the program runs, answered from memory afterwards."""
    tool_version(ncu)


def explain_failure(done: Completed, request: NcuRequest, has_report: bool) -> WarplensError | None:
    """What went wrong in a run of ncu, as one sentence with its cure; None where a report was written."""
    output = done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in output:
        return MissingToolError(
            "the driver lets only administrators read GPU performance counters (ERR_NVGPUCTRPERM)",
            remedy=PERMISSION_REMEDY,
        )
    if re.search(
        r"(InsufficientDriver|cuInit|No CUDA-capable device|Cuda driver is not compatible|libcuda)", output
    ) and (not has_report):
        return MissingToolError("ncu found no GPU or no usable driver", remedy="run `warplens doctor`")
    if "Another instance" in output or "InterprocessLockFailed" in output:
        return ToolFailedError(
            "another profiler holds the GPU's counters", remedy="end it, or wait for it", output=output
        )
    if has_report:
        return None
    if "No kernels were profiled" in output:
        return InputError(
            f"the program never launched {request.kernel}"
            + (f" more than {request.skip} times" if request.skip else ""),
            remedy="check the program's arguments, or name another kernel",
        )
    if "returned an error code" in output and "==PROF== Profiling" not in output:
        return ToolFailedError(
            f"the program failed before it launched {request.kernel}",
            remedy="run it by itself first",
            status=done.status,
            output=output,
        )
    missing = [a or b for a, b in _FAILED_METRIC.findall(output)]
    if missing:
        return ToolFailedError(
            f"this Nsight Compute does not know {', '.join(missing)}", output=output, status=done.status
        )
    said = _ERROR_LINE.search(output)
    return ToolFailedError(
        f"ncu failed: {said[1]}" if said else f"ncu failed with status {done.status}",
        status=done.status,
        output=output,
    )
