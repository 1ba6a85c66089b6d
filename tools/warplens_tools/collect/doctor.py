# SPDX-License-Identifier: Apache-2.0
"""Checks the tools, the driver and the card against each other, and says what each lack takes away.

Versions are compared because NVIDIA's wheels depend on each other without pins, and mixes break late and
obscurely: a newer nvcc gives an older cicc options it does not know ("invalid option: --simt-only"), a newer
cicc writes PTX that an older ptxas refuses ("Unsupported .version"), and headers of another release stop
with an `#error` as soon as CCCL is included. Some mixes work; so a small unit is compiled to know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from warplens_tools.arch.load import DeviceQuery, driver_version, query_devices
from warplens_tools.collect.cache import work_folder
from warplens_tools.errors import WarplensError
from warplens_tools.run.gpu_lock import holder, said
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import SETUP_REMEDY, Toolchain, ToolName, release, tool_version
from warplens_tools.toolchain.managed import WHEEL_TOOLS, Bundle, toolchain_bundle

Status = Literal["ok", "warning", "missing", "broken"]

_PROFILING_PARAMETERS = Path("/proc/driver/nvidia/params")
_CAP_SYS_ADMIN = 1 << 21
_TAKES_AWAY: dict[ToolName, str] = {
    "nvcc": "the binary tier: registers, spills, SASS",
    "ptxas": "the binary tier: registers, spills, SASS",
    "cicc": "the binary tier: registers, spills, SASS",
    "cuda_headers": "the binary tier: registers, spills, SASS",
    "host_compiler": "the binary tier: nvcc preprocesses with it even for device code",
    "nvdisasm": "SASS: what is left of the binary tier is ptxas' resource report",
    "cuobjdump": "resources of programs that are already built",
    "cupti_headers": "timing in place: the probe cannot be built",
    "cupti_library": "timing in place: the probe cannot be loaded",
    "ncu": "the counters tier (reports made elsewhere can still be imported)",
    "nsys": "the timeline tier through Nsight Systems",
    "compute-sanitizer": "the memory check of a winning candidate",
}
_LABELS: dict[ToolName, str] = {
    "cuda_headers": "CUDA headers",
    "host_compiler": "host compiler",
    "cupti_headers": "CUPTI headers",
    "cupti_library": "CUPTI library",
}


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    #: e.g. "nvcc", "versions", "GPU", "counters".
    name: str
    status: Status
    #: What was found, or why nothing was.
    text: str
    #: What cannot be done without it; "" where nothing is lost.
    takes_away: str = ""
    remedy: str = ""


def diagnose(toolchain: Toolchain, *, devices: DeviceQuery | None = None) -> list[Check]:
    """Every check, tools first. Compiles one small unit (a third of a second) where there is an nvcc."""
    answer = query_devices() if devices is None else devices
    checks = [_tool(toolchain, name) for name in _TAKES_AWAY]
    checks += _versions(toolchain)
    checks += _disassembler(toolchain)
    if toolchain.find("nvcc") and toolchain.find("host_compiler"):
        checks.append(_trial(toolchain))
    checks.append(_gpu(answer))
    if answer.devices:
        checks += _driver(toolchain, answer)
        checks.append(profiling_permission())
    return checks


def _tool(toolchain: Toolchain, name: ToolName) -> Check:
    label = _LABELS.get(name, name)
    gone = toolchain.missing.get(name)
    if gone is not None:
        return Check(label, "missing", gone.why, _TAKES_AWAY[name], gone.remedy)
    tool = toolchain.tools[name]
    version = tool_version(tool)
    return Check(label, "ok", f"{version or 'version unknown'}, {tool.path} ({tool.origin})")


def _release(toolchain: Toolchain, name: ToolName) -> tuple[int, int] | None:
    """(major, minor) of a tool, None where it is missing or does not say."""
    tool = toolchain.find(name)
    return release(tool_version(tool)) if tool is not None else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def repair_bundle(toolchain: Toolchain) -> Bundle | None:
    """What `warplens setup toolchain` should install: what is missing, or all of a family that is mixed.

    None where nothing that a wheel carries is wanting.
    """
    wanting: set[str] = set(toolchain.missing)
    if any(_versions(toolchain)):
        wanting.add("nvcc")
    if any(_disassembler(toolchain)):
        wanting |= {"nvdisasm", "cuobjdump"}
    bundle = toolchain_bundle(wanting & set(WHEEL_TOOLS))
    return bundle if wanting & set(WHEEL_TOOLS) else None


def _versions(toolchain: Toolchain) -> Iterator[Check]:
    """nvcc against the parts of its own family."""
    nvcc = _release(toolchain, "nvcc")
    if nvcc is None:
        return
    reasons: dict[ToolName, str] = {
        "cicc": "nvcc and its front end cicc fail on each other's options",
        "ptxas": "ptxas refuses PTX of another release",
        "cuda_headers": "CCCL headers stop with an #error",
    }
    for name, reason in reasons.items():
        other = _release(toolchain, name)
        if other is not None and other != nvcc:
            label = _LABELS.get(name, name)
            text = f"nvcc is {_dotted(nvcc)}, {label} {_dotted(other)}: {reason}"
            yield Check("versions", "warning", text, _TAKES_AWAY["nvcc"], SETUP_REMEDY)


def _disassembler(toolchain: Toolchain) -> Iterator[Check]:
    nvcc, nvdisasm = _release(toolchain, "nvcc"), _release(toolchain, "nvdisasm")
    if nvcc is not None and nvdisasm is not None and nvdisasm < nvcc:
        text = f"nvdisasm {_dotted(nvdisasm)} is older than nvcc {_dotted(nvcc)}, and may not read its output"
        yield Check("versions", "warning", text, _TAKES_AWAY["nvdisasm"], SETUP_REMEDY)


def _trial(toolchain: Toolchain) -> Check:
    """Compile a kernel that includes CCCL: the surest test of whether these parts belong together."""
    flags = CompileFlags(("-std=c++17",), "trial")
    try:
        with work_folder() as folder:
            unit = folder / "trial.cu"
            unit.write_text("#include <cuda/std/cstdint>\n__global__ void trial(int* p) { *p = 1; }\n")
            compile_unit(
                unit, toolchain=toolchain, flags=flags, arch="sm_90", workdir=folder / "w", timeout=60
            )
    except WarplensError as error:
        remedy = error.remedy or SETUP_REMEDY
        return Check("trial compile", "broken", str(error), _TAKES_AWAY["nvcc"], remedy)
    return Check("trial compile", "ok", "a small unit compiles for sm_90")


def _gpu(answer: DeviceQuery) -> Check:
    if not answer.devices:
        lost = "measuring: timing, counters, timeline, optimize"
        return Check("GPU", "missing", answer.error or "the driver lists no device", lost)
    cards = ", ".join(f"{device.name} ({device.arch})" for device in answer.devices)
    found = f"{cards}, driver {driver_version() or 'version unknown'}"
    held = [said(who) for device in answer.devices if (who := holder(device.uuid)) is not None]
    return Check("GPU", "ok", found + "".join(f"; in use by {who}" for who in held))


def _driver(toolchain: Toolchain, answer: DeviceQuery) -> Iterator[Check]:
    """The driver's CUDA release against the compiler's and CUPTI's."""
    driver = (answer.cuda_version // 1000, answer.cuda_version % 1000 // 10)
    if driver == (0, 0):
        return
    supports = f"the driver supports CUDA {_dotted(driver)}"
    update = f"update the driver, or use a toolkit of CUDA {_dotted(driver)} or older"
    nvcc = _release(toolchain, "nvcc")
    if nvcc is not None and nvcc[0] > driver[0]:
        text = f"{supports}, nvcc is {_dotted(nvcc)}: its programs do not start"
        yield Check("driver", "broken", text, "measuring", update)
    elif nvcc is not None and nvcc > driver:
        text = f"{supports}, nvcc is {_dotted(nvcc)}: its cubins run, its PTX does not"
        yield Check("driver", "warning", text, "", update)
    cupti = _release(toolchain, "cupti_headers")
    if cupti is not None and cupti > driver:
        text = f"{supports}, CUPTI is of {_dotted(cupti)}"
        yield Check("CUPTI and driver", "warning", text, "timing in place may fail", update)


def profiling_permission(parameters: Path = _PROFILING_PARAMETERS) -> Check:
    """Whether this user may read the card's counters, as the kernel driver's parameters say."""
    try:
        text = parameters.read_text()
    except OSError:
        return Check(
            "counters", "warning", f"{parameters} cannot be read: permission is not known until tried"
        )
    match = re.search(r"RmProfilingAdminOnly:\s*(\d)", text)
    if match is None or match[1] == "0" or _is_admin():
        return Check("counters", "ok", "this user may read the card's counters")
    return Check(
        "counters",
        "warning",
        "the driver lets only administrators read the card's counters (ERR_NVGPUCTRPERM)",
        "the counters tier",
        "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0, or run with CAP_SYS_ADMIN",
    )


def _is_admin() -> bool:
    """Root, or a process with CAP_SYS_ADMIN."""
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return os.geteuid() == 0
    return match is not None and bool(int(match[1], 16) & _CAP_SYS_ADMIN)
