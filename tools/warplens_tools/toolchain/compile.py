# SPDX-License-Identifier: Apache-2.0
"""Compiles the device code of one translation unit to a cubin, with its PTX and resource report.

One nvcc call does it all: `--keep` leaves the PTX and the preprocessed text (whose line markers are the
dependency list) at no measurable cost, where `-MD` would preprocess a second time.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens_tools.errors import CompileError, InputError, MissingToolError, ToolFailedError
from warplens_tools.evidence import BinaryEvidence, CompiledKernel, CompilerMessage, Resources
from warplens_tools.process.run import Completed, run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.cubin import read_cubin
from warplens_tools.toolchain.demangle import demangle, qualified_name
from warplens_tools.toolchain.flags import CompileFlags, foreign_target
from warplens_tools.toolchain.locate import Toolchain, tool_environment, tool_version
from warplens_tools.toolchain.messages import parse_messages
from warplens_tools.toolchain.ptx import line_map, max_threads
from warplens_tools.toolchain.ptxas import FunctionReport, parse_ptxas

#: Seconds; a CUTLASS unit with many GEMMs takes about one minute on a slow machine.
DEFAULT_TIME_LIMIT = 600.0
#: Bytes below which a preprocessed CUDA unit (a megabyte without any include of its own) cannot be written.
_LEAST_ROOM = 2 << 20
#: Pattern for the file that holds a unit as the device's compiler is given it, preprocessed.
DEVICE_TEXT = "*.cpp1.ii"
#: Skips what C++17 has libstdc++'s <cmath>, which every CUDA unit includes, bring along: templates for the host that
#: no device code can call, a fifth of what a small unit takes to compile.
WITHOUT_SPECIAL_FUNCTIONS = ("-D_GLIBCXX_BITS_SPECFUN_H=1",)
_SPECIAL_FUNCTIONS = re.compile(
    r"\b(?:assoc_laguerre|assoc_legendre|beta|(?:comp_)?ellint_[123]|cyl_bessel_[ijk]|cyl_neumann|expint|hermite"
    r"|laguerre|legendre|riemann_zeta|sph_bessel|sph_legendre|sph_neumann)[fl]?\b"
)
#: What ptxas says of a call of a device function that no file of the unit defines, and the option with which the linker
#: is left to find it.
_OF_OTHER_UNITS, _RELOCATABLE = "Unresolved extern function", "-rdc=true"
_MARKER = re.compile(rb'\n# \d+ "([^"<][^"]*)"')


def compile_unit(
    unit: Path,
    *,
    toolchain: Toolchain,
    flags: CompileFlags,
    arch: str,
    workdir: Path,
    overlay: str | None = None,
    task: Task = UNATTENDED,
    timeout: float | None = DEFAULT_TIME_LIMIT,
    through: Callable[[Sequence[str | Path]], Sequence[str | Path]] = tuple,
    on_start: Callable[[], None] | None = None,
    keep_text: bool = False,
    special_functions: bool = True,
    relocatable: bool = False,
) -> BinaryEvidence:
    """Compile `unit` for `arch`, e.g. "sm_90a", writing only inside `workdir` (made, and left, by this call).

    Args:
        overlay: text to compile in place of the file's own; paths and lines are still the file's.
        workdir: takes the cubin and the PTX, whose paths the evidence names.
        timeout: seconds.
        through: makes of nvcc's command the one that is run, e.g. with a sandbox in front.
        on_start: called while nvcc runs.
        keep_text: leave the preprocessed device text in `workdir` too, as `DEVICE_TEXT`.
        special_functions: False compiles faster, and the same device code, `WITHOUT_SPECIAL_FUNCTIONS` where the unit
            does well without them.
        relocatable: whether a unit that calls device functions of other units, and whose flags do not say so, is
            compiled as the build of its program must: with `-rdc=true`, which the evidence's origin then names.

    Raises:
        InputError: no such file, not UTF-8, or an architecture or option that this nvcc does not know.
        MissingToolError: no nvcc or no host compiler; says how to get it.
        CompileError: nvcc rejected the unit; carries its messages with lines.
        ToolFailedError: the toolkit's parts do not belong together.
        TimeLimitError, CancelledError: nvcc was stopped, with all its children.
    """
    nvcc = toolchain.require("nvcc")
    toolchain.require("host_compiler")
    unit = unit.absolute()
    check_unit(unit, overlay)
    workdir.mkdir(parents=True, exist_ok=True)
    command = _command(nvcc.path, unit, flags, arch, workdir, overlay)
    directory = _directory(unit, flags)

    def compiled(*options: str, on_start: Callable[[], None] | None = None) -> Completed:
        return run(
            through([command[0], *options, *command[1:]]),
            cwd=directory,
            env=tool_environment(workdir),
            task=task,
            timeout=timeout,
            on_start=on_start,
        )

    without = () if special_functions else WITHOUT_SPECIAL_FUNCTIONS
    done = compiled(*without, on_start=on_start)
    if without and done.status != 0 and _SPECIAL_FUNCTIONS.search(done.stderr + done.stdout):
        done = compiled()
    linked = relocatable and done.status != 0 and _OF_OTHER_UNITS in done.stderr + done.stdout
    if linked:
        done = compiled(*without, _RELOCATABLE)
    ptx_path = next(iter(sorted(workdir.glob("*.ptx"))), None)
    ptx = ptx_path.read_text(errors="replace") if ptx_path else ""
    output = done.stderr + done.stdout
    messages = parse_messages(
        output, directory=directory, ptx_lines=line_map(ptx) if _names_ptx(output) else None
    )
    if done.status != 0:
        raise _disk_full(workdir, output) or _failure(done, unit, arch, flags, nvcc.path, messages)
    dependencies = _dependencies(unit, workdir, directory)
    _drop_intermediates(workdir, keep=DEVICE_TEXT if keep_text else "")
    foreign = foreign_target(flags, arch)
    return BinaryEvidence(
        path=str(unit),
        arch=arch,
        origin=f"nvcc {tool_version(nvcc)}{f' {_RELOCATABLE}' if linked else ''}",
        flags=flags.arguments,
        kernels=_kernels(output, ptx, arch, workdir / "unit.cubin"),
        messages=(*flags.messages, *([foreign] if foreign else []), *messages),
        dependencies=dependencies,
        cubin_path=str(workdir / "unit.cubin"),
        ptx_path=str(ptx_path or ""),
    )


def _directory(unit: Path, flags: CompileFlags) -> Path:
    """Where nvcc runs: the build's folder, else the unit's; of a text that is in no file the nearest there is."""
    candidates = [*([Path(flags.directory)] if flags.directory else []), *unit.parents]
    return next((folder for folder in candidates if folder.is_dir()), Path("/"))


def check_unit(unit: Path, overlay: str | None) -> None:
    """Refuse early what nvcc would fail on obscurely: no such file, UTF-16.

    Raises:
        InputError: the file cannot be read or its encoding is one that nvcc does not take.
    """
    if overlay is not None:
        return
    try:
        with unit.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise InputError(f"cannot read {unit}: {error.strerror or error}") from error
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{unit} is UTF-16, which nvcc cannot read", remedy="save the file as UTF-8")


def _command(
    nvcc: str, unit: Path, flags: CompileFlags, arch: str, workdir: Path, overlay: str | None
) -> list[str | Path]:
    source = unit
    quoted: list[str] = []
    if overlay is not None:
        source = workdir / unit.name
        # The directive gives diagnostics and line tables the file's own name; -iquote its folder.
        source.write_text(f'#line 1 "{unit}"\n{overlay}', encoding="utf-8", newline="")
        quoted = ["-Xcompiler", f'-iquote,"{unit.parent}"']
    language = [] if unit.suffix == ".cu" else ["-x", "cu"]
    keep = ["--keep", "--keep-dir", str(workdir)]
    output = ["-o", str(workdir / "unit.cubin")]
    report = ["-lineinfo", "-Xptxas", "-v"]
    return [
        nvcc,
        "-cubin",
        f"-arch={arch}",
        *report,
        *keep,
        *flags.arguments,
        *quoted,
        *language,
        source,
        *output,
    ]


def _names_ptx(output: str) -> bool:
    """Whether ptxas speaks of PTX lines: reading the whole PTX for its line map is worth it only then."""
    return re.search(r"^ptxas .*\bline \d+", output, re.MULTILINE) is not None


def _kernels(output: str, ptx: str, arch: str, cubin_path: Path) -> tuple[CompiledKernel, ...]:
    """The entries, in the order of the PTX (ptxas reports them in no order of the source's)."""
    bounds = max_threads(ptx)
    cubin = read_cubin(cubin_path)
    reports = [report for report in parse_ptxas(output) if report.entry]
    order = {name: index for index, name in enumerate(re.findall(r"\.entry\s+([\w$]+)", ptx))}
    reports.sort(key=lambda report: order.get(report.name, len(order)))
    return tuple(
        CompiledKernel(
            mangled=report.name,
            demangled=demangle(report.name),
            qualified_name=qualified_name(report.name),
            arch=report.arch or arch,
            resources=resources_of(report, cubin.constant_bytes(report.name)),
            max_threads=bounds.get(report.name),
        )
        for report in reports
    )


def resources_of(report: FunctionReport, constant_bytes: int | None) -> Resources:
    """An entry's report as resources. ptxas prints every line for an entry, so None does not occur there.

    `constant_bytes` is the cubin's own figure, for a ptxas that does not report constant banks (13 and later).
    """
    return Resources(
        registers=report.registers or 0,
        stack_bytes=report.stack_bytes or 0,
        spill_store_bytes=report.spill_store_bytes or 0,
        spill_load_bytes=report.spill_load_bytes or 0,
        shared_bytes=report.shared_bytes or 0,
        constant_bytes=sum(report.constant_bytes.values()) if report.constant_bytes else constant_bytes or 0,
        barriers=report.barriers or 0,
    )


def _dependencies(unit: Path, workdir: Path, directory: Path) -> tuple[str, ...]:
    """Every file the preprocessor read, the unit first, from the line markers of its output."""
    names: dict[str, None] = {str(unit): None}
    ours = str(workdir) + os.sep
    for preprocessed in workdir.glob("*.cpp1.ii"):
        for marker in dict.fromkeys(_MARKER.findall(b"\n" + preprocessed.read_bytes())):
            path = os.path.normpath(os.path.join(directory, os.fsdecode(marker)))  # noqa: PTH118
            if not path.startswith(ours):
                names[path] = None
    # os.path on strings: a CUTLASS unit has some 800 of these, and the first findings wait for them.
    return tuple(name for name in names if os.path.isfile(name))  # noqa: PTH113


def _drop_intermediates(workdir: Path, *, keep: str) -> None:
    kept = set(workdir.glob(keep)) if keep else set()
    for path in set(workdir.iterdir()) - kept:
        if path.suffix in (".ii", ".gpu", ".c", ".module_id", ".stub", ".cpp") or ".cudafe" in path.name:
            with contextlib.suppress(OSError):
                path.unlink()


def _disk_full(workdir: Path, output: str) -> InputError | None:
    """Why nvcc failed where its folder has no room: it and its host compiler often do not say."""
    if shutil.disk_usage(workdir).free > _LEAST_ROOM and "No space left on device" not in output:
        return None
    return InputError(
        f"the disk that holds {workdir} is full",
        remedy="make room, or set WARPLENS_CACHE to a folder elsewhere",
    )


def _failure(
    done: Completed,
    unit: Path,
    arch: str,
    flags: CompileFlags,
    nvcc: str,
    messages: Sequence[CompilerMessage],
) -> Exception:
    output = done.stderr + done.stdout
    if "Unsupported gpu architecture" in output or "Value 'sm_" in output:
        known = ", ".join(supported_architectures(Path(nvcc)))
        return InputError(f"nvcc does not know the architecture {arch}", remedy=f"it knows {known}")
    if "Unknown option" in output:
        option = re.search(r"Unknown option '([^']+)'", output)
        named = option[1] if option else "an option"
        return InputError(f"nvcc does not know {named}, from {flags.origin}", remedy="correct the flags")
    if "Failed to preprocess host compiler" in output or re.search(r"(gcc|g\+\+|cc): not found", output):
        return MissingToolError(
            "nvcc found no host compiler that works", remedy="install a C++ compiler, e.g. `apt install g++`"
        )
    if mixed := re.search(
        r"invalid option: --\S+|Unsupported \.version .*|compiler and CUDA toolkit headers.*", output
    ):
        return ToolFailedError(
            f"the parts of this CUDA toolkit are of different releases ({mixed[0].rstrip(chr(34))})",
            remedy="see `warplens doctor`; `warplens setup toolchain` installs parts of one release",
            status=done.status,
            output=output,
        )
    errors = [m for m in messages if m.severity == "error"]
    first = next((m for m in errors if m.line), errors[0] if errors else None)
    remedy = f"compile for {arch}a" if f"not supported on .target '{arch}'" in output else ""
    return CompileError(
        _sentence(unit, first, len(errors), done.status),
        remedy=remedy,
        status=done.status,
        output=output,
        messages=tuple(messages),
    )


def _sentence(unit: Path, first: CompilerMessage | None, count: int, status: int) -> str:
    if first is None:
        return f"nvcc failed on {unit} with status {status}"
    place = f"{first.path or unit}:{first.line}" if first.line else str(unit)
    more = f" (and {count - 1} more)" if count > 1 else ""
    return f"{place}: {first.text}{more}"


def supported_architectures(nvcc: Path) -> tuple[str, ...]:
    """What `nvcc --list-gpu-code` names, e.g. ("sm_75", "sm_80")."""
    return tuple(run([nvcc, "--list-gpu-code"], timeout=20).stdout.split())
