# SPDX-License-Identifier: Apache-2.0
"""Runs compute-sanitizer on a program and reads what it reports. Running and parsing are separate functions.

https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html describes the tools and their reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import ToolFailedError
from warplens_tools.evidence import SourceLine, Unknown
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.toolchain.locate import Toolchain

#: Out-of-bounds and misaligned accesses; races, in shared memory only; global memory read before it was written;
#: barriers not reached by all.
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
RACES = Unknown("races in global memory", "compute-sanitizer's racecheck sees shared memory only")
#: Status that the tool is asked to end with where it has reports: a program of the user's may use small ones.
_FOUND = 77
#: Reports of one run; a loop over a wrong index has millions of the same.
_REPORTS = 200
#: Bytes; a row of the largest arrays is seldom longer.
_PADDING = 4096
_PREFIX = re.compile(r"^=========(?: |$)")
_PLACE = re.compile(r"\bat (?:0x[0-9a-fA-F]+ in )?(.+?)\+0x[0-9a-fA-F]+(?: in (.+?):(\d+))?(?=$|[ :\[])")
_THREAD = re.compile(r"by thread \([\d,]+\) in block \([\d,]+\)")
_HAZARDS = re.compile(r" ?\[(\d+) hazards?\]")
#: What the tool says of itself.
_OWN = re.compile(
    r"COMPUTE-SANITIZER|(?:ERROR|RACECHECK|LEAK) SUMMARY|Target application|No attachable process|Warning: |"
    r"Error: (?:process|No |Target|Failed|The )|Internal Sanitizer|Unable to|Generating|"
    r"\d+ errors? (?:was|were) not printed"
)


class Fault(msgspec.Struct, frozen=True):
    """One kind of report at one place."""

    #: Of `TOOLS`.
    tool: str
    #: E.g. "Invalid __global__ write of size 4 bytes".
    message: str
    #: The device function as the tool prints it, e.g. "scale(float *, int)"; "" for a call of the CUDA API.
    function: str
    place: SourceLine | None = None
    #: A race's other accesses.
    others: tuple[SourceLine, ...] = ()
    #: Of the first: the thread, what the address lies in.
    detail: str = ""
    count: int = 1


class Examined(msgspec.Struct, frozen=True):
    """One tool's run on a program."""

    tool: str
    faults: tuple[Fault, ...]


def examine(
    tool: str,
    program: Sequence[str],
    *,
    toolchain: Toolchain,
    kernel: str = "",
    launches: int = 0,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    time_limit: float = 120.0,
    task: Task = UNATTENDED,
) -> Examined:
    """Run one of `TOOLS` on `program` (its command line): every kernel, or those with `kernel` in their name.

    `launches`: how many of them at most, 0 for all. `time_limit` in seconds.

    Raises:
        MissingToolError: there is no compute-sanitizer.
        ToolFailedError: the program or the tool failed without a report.
        TimeLimitError, CancelledError: both were stopped.
    """
    command = [toolchain.require("compute-sanitizer").path, "--tool", tool]
    command += ["--kernel-name", f"kns={kernel}"] if kernel else []
    command += ["--launch-count", str(launches)] if launches else []
    # Allocations lie beside each other: an access past the end of one is inside the next without a gap.
    command += ["--padding", str(_PADDING)] if tool == "memcheck" else []
    command += ["--print-limit", str(_REPORTS), "--error-exitcode", str(_FOUND), *program]
    done = run(die_with_parent(command), cwd=cwd, env=env, timeout=time_limit, task=task)
    faults = parse_reports(tool, done.stdout)
    # without its summary the tool was not in the program
    if not faults and (done.status not in (0, _FOUND) or "SUMMARY" not in done.stdout):
        raise ToolFailedError(
            f"{tool} ended with {done.status} and no report",
            remedy="run the program by itself first",
            status=done.status,
            output=done.stdout + done.stderr,
        )
    return Examined(tool, faults)


def parse_reports(tool: str, output: str) -> tuple[Fault, ...]:
    """Every report in the tool's output, the same ones counted together, in the order of their first."""
    found: dict[tuple[object, ...], Fault] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    for block in _blocks(output):
        fault = _fault(tool, block)
        key = (fault.message, fault.function, fault.place, fault.others)
        found.setdefault(key, fault)
        counts[key] += fault.count
    faults = tuple(msgspec.structs.replace(fault, count=counts[key]) for key, fault in found.items())
    # After a fault on the device every call of the API fails; that says nothing more.
    return tuple(f for f in faults if f.function) or faults


def _blocks(output: str) -> Iterator[list[str]]:
    """The lines of one report after another: a line at the margin, then what is indented below it."""
    block: list[str] = []
    for line in output.splitlines():
        if not _PREFIX.match(line):
            continue
        text = line[len("========= ") :].rstrip()
        if text.startswith(" ") and block:
            block.append(text.strip())
            continue
        if block:
            yield block
        block = [text] if text and not text.startswith(" ") and not _OWN.match(text) else []
    if block:
        yield block


def _fault(tool: str, block: list[str]) -> Fault:
    told = block[: next((i for i, line in enumerate(block) if "backtrace" in line.lower()), len(block))]
    places = [match for line in told for match in _PLACE.finditer(line)]
    where = [SourceLine(m[2], int(m[3])) for m in places if m[2]]
    hazards = [int(n) for line in told for n in _HAZARDS.findall(line)]
    said = [told[0], *(line for line in told[1:] if line.startswith("and ") and _PLACE.search(line))]
    message = " ".join(_HAZARDS.sub("", _PLACE.sub("", line)) for line in said).removeprefix("Error: ")
    details = [
        line for line in told[1:] if _THREAD.search(line) or line.startswith(("Access", "and is", "Address"))
    ]
    return Fault(
        tool=tool,
        message=re.sub(r"\s+", " ", message).strip(" ."),
        function=places[0][1].strip() if places else "",
        place=where[0] if where else None,
        others=tuple(dict.fromkeys(where[1:])) if tool == "racecheck" else (),
        detail="; ".join(details),
        count=max(1, sum(hazards)),
    )
