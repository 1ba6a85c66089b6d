# SPDX-License-Identifier: Apache-2.0
"""Ties the launches of a report, made here or elsewhere, to the kernels and lines of one file as it is now.

Kernels are matched by qualified name. Lines are matched by what is surest: identical SASS (then the line
table of this build holds, with its inline chain), else the source text inside the report compared with the
current source, else the line numbers of the report where they fall inside the kernel. What no longer matches
is said.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from warplens_tools.collect.profiled import ProfiledLaunch, counter_evidence, representative
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.evidence import CompiledKernel, CounterEvidence, InstructionCounters, Unknown
from warplens_tools.sass.attribution import LineTable
from warplens_tools.text import SourceText
from warplens_tools.toolchain.demangle import demangle, strip_signature

#: Text values and averages, which a sum over a line's instructions would falsify.
_NOT_SUMMED = ("memory_type", "memory_access_type", "memory_access_size_type", "_nway")

LineOf = Callable[[InstructionCounters], int | None]


class Matching(msgspec.Struct, frozen=True):
    """Counters by qualified kernel name, and what could not be tied to the file."""

    counters: dict[str, CounterEvidence]
    unknown: tuple[Unknown, ...]


def report_kernel_name(launch: ProfiledLaunch) -> str:
    """Qualified name of the launched kernel, without template arguments."""
    written = demangle(launch.mangled) if launch.mangled else launch.kernel
    return strip_signature(written.replace("<unnamed>", "(anonymous namespace)"))


def match_launches(
    launches: Sequence[ProfiledLaunch],
    model: SourceModel,
    text: SourceText,
    *,
    report: str,
    compiled: Sequence[CompiledKernel] = (),
    gpu_name: str = "",
) -> Matching:
    """Match every launch of `report` (its name, for messages) to a kernel of the file.

    Args:
        compiled: this build's kernels; where their SASS equals the report's, lines come from them.
        gpu_name: of the GPU the file is judged against; another one in the report is said. "" if none.
    """
    grouped: dict[str, list[ProfiledLaunch]] = {}
    for launch in launches:
        grouped.setdefault(report_kernel_name(launch), []).append(launch)
    found: dict[str, CounterEvidence] = {}
    unknown: list[Unknown] = []
    for name, group in grouped.items():
        kernel = _kernel(model, name)
        if kernel is None:
            unknown.append(
                Unknown(f"counters of {name}", f"{report} profiled it, but this file defines no such kernel")
            )
            continue
        launch = representative(group)
        lines, doubts = _lines(launch, kernel, model, text, report, compiled)
        evidence = counter_evidence(launch, launches=len(group))
        found[kernel.qualified_name] = msgspec.structs.replace(evidence, lines=lines)
        unknown += doubts
    return Matching(found, (*_other_gpu(found.values(), gpu_name, report), *unknown))


def _kernel(model: SourceModel, name: str) -> Kernel | None:
    """By qualified name, else by a plain name that only one kernel of the file has."""
    exact = next((k for k in model.kernels if k.qualified_name == name), None)
    if exact is not None:
        return exact
    plain = [k for k in model.kernels if k.name == name.rsplit("::", 1)[-1]]
    # A report may print the plain name alone; two different namespaces are two kernels.
    return plain[0] if len(plain) == 1 and ("::" not in name or plain[0].macro) else None


def _other_gpu(found: Iterable[CounterEvidence], gpu_name: str, report: str) -> list[Unknown]:
    others = dict.fromkeys(c.gpu_name for c in found if gpu_name and c.gpu_name and c.gpu_name != gpu_name)
    return [
        Unknown(
            f"counters on {gpu_name}",
            f"{report} was recorded on {other}; its counters tell of that GPU",
            "profile on this GPU to know it",
        )
        for other in others
    ]


def _lines(
    launch: ProfiledLaunch,
    kernel: Kernel,
    model: SourceModel,
    text: SourceText,
    report: str,
    compiled: Sequence[CompiledKernel],
) -> tuple[dict[int, dict[str, float]], list[Unknown]]:
    if not launch.instructions:
        return {}, []
    twin = next((c for c in compiled if same_code(c, launch.instructions)), None)
    if twin is not None:
        table = LineTable(kernel, model.path)
        by_offset = {i.address - twin.instructions[0].address: i for i in twin.instructions}
        return _summed(
            launch.instructions,
            lambda x: table.kernel_line(by_offset[x.offset]) if x.offset in by_offset else None,
        ), []
    if not any(x.place for x in launch.instructions):
        why = (
            "this build's code differs from the profiled code"
            if compiled
            else "there is no compiled code here"
        )
        return {}, [
            Unknown(
                f"lines of {kernel.qualified_name} in {report}",
                f"it holds SASS without source lines, and {why}",
                "profile a build with -lineinfo, or export the report as .ncu-rep",
            )
        ]
    return _by_text(launch, kernel, model, text, report)


def same_code(compiled: CompiledKernel, counted: Sequence[InstructionCounters]) -> bool:
    """Equal opcodes in equal places, padding aside: operands print differently across tools."""
    ours = [(i.opcode, *i.modifiers) for i in compiled.instructions]
    theirs = [_opcode(x.text) for x in counted]
    for code in (ours, theirs):
        while code and code[-1][0] in ("NOP", "BRA"):
            code.pop()
    return bool(ours) and ours == theirs


def _opcode(sass: str) -> tuple[str, ...]:
    words = sass.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return tuple(words[0].rstrip(";").split(".")) if words else ("",)


def _by_text(
    launch: ProfiledLaunch, kernel: Kernel, model: SourceModel, text: SourceText, report: str
) -> tuple[dict[int, dict[str, float]], list[Unknown]]:
    path = _report_path(launch, model, text)
    if path is None:
        return {}, [
            Unknown(
                f"lines of {kernel.qualified_name} in {report}",
                "no file of the report has this file's name or text",
            )
        ]
    old = launch.sources.get(path)
    mapping = None if old is None else line_mapping(old, text.text)
    lost: set[int] = set()

    def line_of(x: InstructionCounters) -> int | None:
        if x.place is None or x.place.path != path:
            return None
        line = x.place.line if mapping is None else mapping.get(x.place.line)
        if line is None or not kernel.span.contains_line(line):
            lost.add(x.place.line)
            return None
        return line

    lines = _summed(launch.instructions, line_of)
    return lines, _doubts(kernel, report, lost, unchecked=mapping is None)


def _doubts(kernel: Kernel, report: str, lost: set[int], *, unchecked: bool) -> list[Unknown]:
    doubts = []
    if unchecked:
        doubts.append(
            Unknown(
                f"whether {report} matches the current source",
                "it carries no source text, so its line numbers are taken as they are",
                "profile with --import-source yes",
            )
        )
    if lost:
        first = ", ".join(map(str, sorted(lost)[:5])) + (", …" if len(lost) > 5 else "")
        doubts.append(
            Unknown(
                f"counters of {len(lost)} changed lines of {kernel.qualified_name}",
                f"lines {first} of {report} are no longer in the kernel as they were profiled",
                "profile again",
            )
        )
    return doubts


def _report_path(launch: ProfiledLaunch, model: SourceModel, text: SourceText) -> str | None:
    """The report's name for this file: the same path, else the same name, else most lines in common."""
    places = dict.fromkeys(x.place.path for x in launch.instructions if x.place)
    candidates = [*places, *(p for p in launch.sources if p not in places)]
    if model.path in candidates:
        return model.path
    named = [p for p in candidates if Path(p).name == Path(model.path).name]
    if len(named) == 1:
        return named[0]
    own = {line.strip() for line in text.lines() if line.strip()}
    shared = {p: _shared(own, launch.sources.get(p, "")) for p in named or candidates}
    best = max(shared, key=lambda p: shared[p], default=None)
    return best if best is not None and shared[best] > 0.5 else None


def _shared(own: set[str], other: str) -> float:
    theirs = {line.strip() for line in other.splitlines() if line.strip()}
    return len(own & theirs) / len(theirs) if theirs else 0.0


def line_mapping(old: str, new: str) -> Mapping[int, int]:
    """1-based lines of `old` to the lines of `new` that say the same, in order; changed lines are absent."""
    before = [line.rstrip() for line in old.splitlines()]
    after = [line.rstrip() for line in new.splitlines()]
    if before == after:
        return {n: n for n in range(1, len(before) + 1)}
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=len(before) > 5000)
    return {
        block.a + k + 1: block.b + k + 1 for block in matcher.get_matching_blocks() for k in range(block.size)
    }


def _summed(instructions: Sequence[InstructionCounters], line_of: LineOf) -> dict[int, dict[str, float]]:
    lines: dict[int, dict[str, float]] = {}
    for instruction in instructions:
        line = line_of(instruction)
        if line is None:
            continue
        counters = lines.setdefault(line, {})
        for name, amount in instruction.values.items():
            if not name.endswith(_NOT_SUMMED):
                counters[name] = counters.get(name, 0.0) + amount
    return lines
