# SPDX-License-Identifier: Apache-2.0
"""What the probe answers: one JSON object per line, tagged by `record`."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import InputError
from warplens_tools.run.probe.job import Extent


class _Record(msgspec.Struct, frozen=True, tag_field="record"):
    pass


class SurveyedShape(_Record, frozen=True, tag="kernel"):
    """One kernel at one launch geometry, over the program's whole run."""

    mangled: str
    grid: Extent
    block: Extent
    shared: int
    #: Launch calls that ran at once, and that went into a graph.
    launches: int
    captured: int
    #: Runs that CUPTI timed, those of graphs among them.
    timed: int
    in_graphs: int
    total_ns: float
    #: Durations of the first runs, ns.
    samples: tuple[float, ...]
    #: Launches by graphs that a visit can reach by running the nodes before; and why it cannot reach others.
    reachable: int = 0
    obstacle: str = ""
    #: Which of the calls for its kernel were its launches, from 0; the first ones, where they are many.
    order: tuple[float, ...] = ()

    @property
    def runs(self) -> int:
        """Launches of every kind: its own, and those that graphs made of it."""
        return self.launches + max(self.reachable, self.in_graphs)

    @property
    def visitable(self) -> int:
        """Launches that a visit can choose among, in the order in which the program makes them."""
        return self.launches + self.reachable


class SurveyEnd(_Record, frozen=True, tag="end"):
    """The survey is complete."""

    #: The driver's name for how the card's work ended; "" where nothing is known against it.
    failed: str = ""


class TracedActivity(_Record, frozen=True, tag="activity"):
    """Something a device did. Times in nanoseconds on CUPTI's clock."""

    kind: Literal["kernel", "transfer", "memset"]
    start: int
    end: int
    device: int
    correlation: int
    #: Mangled; "" for what is no kernel.
    name: str = ""
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    registers: int | None = None
    bytes: int = 0
    #: CUpti_ActivityMemcpyKind, and CUpti_ActivityMemoryKind of both sides.
    copy: int = 0
    source: int = 0
    target: int = 0


class TracedCall(_Record, frozen=True, tag="call"):
    """A call of the CUDA runtime or driver API."""

    start: int
    end: int
    #: As CUPTI names it, e.g. "cudaLaunchKernel_v7000".
    name: str
    correlation: int
    thread: int


class TraceEnd(_Record, frozen=True, tag="traced"):
    """The trace is complete."""

    #: CUPTI's API version.
    cupti: int
    #: Activities and calls beyond what is kept.
    dropped: int


class Arrived(_Record, frozen=True, tag="arrived"):
    """The program has a context and waits at the job's gate, before it uses the card."""


class Opened(_Record, frozen=True, tag="opened"):
    """The launch was reached and memory saved."""

    bytes: int
    #: Kinds of memory that cannot be compared.
    opaque: tuple[str, ...]
    seconds: float
    #: How long nothing may be heard while the baseline is learned because a launch has not come back.
    silent_seconds: float = 0.0
    #: Nodes of the launch's graph that were run one by one before it.
    graph_nodes: int = 0


class Stage(_Record, frozen=True, tag="stage"):
    """The baseline is about to be run in a way that the program never does."""

    name: str


class BaselineRecord(_Record, frozen=True, tag="baseline"):
    """What the baseline computes is known."""

    cases: tuple[str, ...]
    #: Input sets on which the baseline itself gives NaN, infinity or other results each time.
    dropped: tuple[str, ...]
    #: Bytes of memory that one launch changes.
    changed_bytes: int
    #: Bytes of outputs that do not depend on what lay there before, and are poisoned.
    pure_bytes: int
    #: Where durations come from.
    origin: str
    learn_seconds: float
    warm_up_seconds: float
    #: Input sets that there was no time or no memory for.
    skipped: tuple[str, ...] = ()
    #: Of `learn_seconds`, on larger copies of its memory.
    room_seconds: float = 0.0
    #: On every set of inputs rounding alone may change the results by their own size.
    blind: bool = False
    #: Seconds that the kernel's twin took, and why nothing is known of it; "" where something is, or it was not asked.
    twin_seconds: float = 0.0
    twin: str = ""


class Pulse(_Record, frozen=True, tag="pulse"):
    """Work on the candidate goes on."""


class Begin(_Record, frozen=True, tag="begin"):
    """A candidate is about to be run."""

    candidate: str
    #: How long nothing may be heard of it because a launch has not come back.
    silent_seconds: float = 0.0


class TimingRecord(_Record, frozen=True, tag="timing"):
    """Durations by round, ns; `again` is the baseline a second time in the same round."""

    #: "varied" is on other inputs than the program's, which `inputs` names.
    cache: Literal["program", "flushed", "varied", "varied flushed"]
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    again: tuple[float, ...]
    #: Timed launches whose results were compared.
    checked: int
    inputs: str = "own"


class ResultRecord(_Record, frozen=True, tag="result"):
    """One candidate is done."""

    candidate: str
    #: "provisional": right on the first sets of inputs, and not faster than the bar.
    state: Literal["right", "provisional", "wrong", "unproven", "refused", "illegal", "crashed", "hung"]
    reason: str
    bitwise: bool = False
    #: Largest difference in units of its bound; None where it is infinite.
    error_ratio: float | None = 0.0
    #: ‖got - expected‖ / ‖expected‖ of the floats that were compared.
    relative_error: float | None = 0.0
    #: Right only because a lower precision is allowed.
    lowered: bool = False
    wrong: int = 0
    stray: int = 0
    nan: int = 0
    timings: tuple[TimingRecord, ...] = ()
    load_seconds: float = 0.0
    right_seconds: float = 0.0
    timing_seconds: float = 0.0
    #: Of the kernel's twin, on the sets of inputs that the candidate was compared on: a digit for each mark, 1 where it
    #: was set; "" where there is no twin. Behind them, where they are known of each of those sets, the marks of the
    #: candidate's own. And on how many of those sets the kernel's did not run.
    ran: str = ""
    ran_unknown: int = 0

    @property
    def speedup(self) -> float:
        """Of the first timing, the baseline's median over the candidate's; 0 of no rounds."""
        timed = self.timings[0] if self.timings else None
        if timed is None or not timed.baseline or not timed.candidate:
            return 0.0
        return median((*timed.baseline, *timed.again)) / median(timed.candidate)


class Compared(_Record, frozen=True, tag="compared"):
    """One launch of an accompanied program, run as the baseline and as the candidate from equal memory."""

    candidate: str
    #: Mangled, as the program knows it.
    kernel: str
    #: Which launch of the kernel, from 0, whatever its shape.
    launch: int
    grid: Extent
    block: Extent
    state: Literal["right", "wrong", "unproven", "refused", "illegal", "crashed", "hung"]
    reason: str
    seconds: float
    bitwise: bool = False
    error_ratio: float | None = 0.0
    relative_error: float | None = 0.0


class Accompanied(_Record, frozen=True, tag="accompanied"):
    """The program has ended; what was done to one of its kernels."""

    candidate: str
    kernel: str
    #: Launches at once, and those that went into graphs.
    launches: int
    captured: int
    #: Launches that were compared, at how many shapes, and that the candidate made in the kernel's place.
    compared: int
    shapes: int
    replaced: int
    #: Why some launches stayed the baseline's; "" where none did.
    left: str
    #: The driver launched the candidate at once; else the baseline's launch was undone first.
    in_place: bool


class Damaged(_Record, frozen=True, tag="damaged"):
    """A candidate changed memory that could not be put back; the visit ended."""

    candidate: str


class Failed(_Record, frozen=True, tag="failed"):
    """The visit or survey cannot go on."""

    reason: str


class Never(_Record, frozen=True, tag="never"):
    """The program ended without the launch in question."""

    #: Launches of the kernel that ran, that were captured into graphs, and that had the shape.
    seen: int
    captured: int
    matching: int

    def why(self) -> InputError:
        """What the user is told of it."""
        if self.captured:
            return InputError("every launch of that shape went into a graph, and none was reached there")
        if self.seen:
            return InputError(
                "the program launched the kernel with other shapes than before",
                remedy="make its launches the same in every run, for example by a fixed seed",
            )
        return InputError("the program did not launch the kernel this time")


class Closed(_Record, frozen=True, tag="closed"):
    """Every candidate was judged, and nothing of the program is at work on the card any more."""

    #: Of the card's memory, what nobody has while this process still holds its own; 0 where that is not known.
    free_share: float = 0.0


Record = (
    SurveyedShape
    | SurveyEnd
    | TracedActivity
    | TracedCall
    | TraceEnd
    | Arrived
    | Opened
    | Stage
    | BaselineRecord
    | Begin
    | Pulse
    | ResultRecord
    | Compared
    | Accompanied
    | Damaged
    | Failed
    | Never
    | Closed
)


class RecordReader:
    """Reads a result file while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        #: Everything read so far.
        self.records: list[Record] = []

    def read(self) -> list[Record]:
        """The records that were added since the last call; a line that is not complete waits."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        complete = [line for line in lines if line.endswith(b"\n")]
        self._offset += sum(map(len, complete))
        added = [from_json(line, Record) for line in complete]
        self.records += added
        return added


def read_records(path: Path) -> list[Record]:
    """The records of a result file; a last line that was cut short is left out. [] if there is no file."""
    reader = RecordReader(path)
    return reader.read()
