# SPDX-License-Identifier: Apache-2.0
"""What is judged and what is said of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from warplens_tools.evidence import Observation, Resources
from warplens_tools.text import TextEdit

#: `refused`     the edit is not allowed, or the workload cannot be measured
#: `not_built`   the compiler rejected it
#: `illegal`     its resources do not fit the card
#: `crashed`     it faulted or trapped
#: `hung`        it ran past its time limit and was killed
#: `wrong`       its results differ from the baseline's beyond the bound
#: `unproven`    correctness or time could not be established; the reason says why
#: `impossible`  it was faster than a provable bound allows, so the measurement is not believed
#: `provisional` right on the first few sets of inputs and not faster than the bar it was held to (`Candidate.bar`): it
#:               was compared no further, so that it may yet be wrong; its timing guides a search and is never offered
#: `slower`, `same`, `faster`  against the baseline, beyond or within the noise of the same run
State = Literal[
    "refused", "not_built", "illegal", "crashed", "hung", "wrong", "unproven", "impossible",
    "provisional", "slower", "same", "faster",
]  # fmt: skip
#: States of a candidate that computes what it should, and was timed; and those of one that was timed at all.
RIGHT: tuple[State, ...] = ("faster", "same", "slower")
TIMED: tuple[State, ...] = (*RIGHT, "provisional")


class Candidate(msgspec.Struct, frozen=True):
    """One version of a file to be judged: edits against the user's text, and where they come from."""

    id: str
    path: str
    kernel: str
    #: Against the baseline text, not the parent's.
    edits: tuple[TextEdit, ...]
    parent: str = ""
    #: "rewrite:<slug>", "parameters", "model:<role>", or "user".
    origin: str = ""
    title: str = ""
    #: SHA-256 of the edited text.
    text_hash: str = ""
    #: Codes of the findings it answers.
    answers: tuple[str, ...] = ()
    #: Launch geometry that comes with it, where the edit changes it; None means the baseline's.
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    dynamic_shared_bytes: int | None = None
    #: Host code computes a new geometry from what the text does not fix: the rebuilt program is asked.
    asks_program: bool = False
    #: Its grid follows from what the program passes to the kernel, by the rule of its text's launch.
    grid_by_rule: bool = False
    #: The speedup that it has to beat to be looked at in full, as the best so far; 0: it is, whatever it comes to.
    bar: float = 0.0

    @property
    def keeps_geometry(self) -> bool:
        """Whether it is launched as the baseline is."""
        geometry = (self.grid, self.block, self.dynamic_shared_bytes)
        return not (self.asks_program or self.grid_by_rule) and geometry == (None, None, None)


class Interval(msgspec.Struct, frozen=True):
    """A median with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float


class Conditions(msgspec.Struct, frozen=True):
    """Under which a time was taken."""

    gpu: str
    uuid: str
    driver: str
    cuda: str
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    #: NVML's throttle reasons that were active, by name.
    throttling: tuple[str, ...] = ()


class Timing(msgspec.Struct, frozen=True):
    """A candidate against the baseline, interleaved in one process."""

    baseline_ns: Interval
    candidate_ns: Interval
    #: baseline / candidate: above 1 is faster.
    speedup: Interval
    #: Largest |ratio - 1| of the baseline against itself in the same visit, and at least what one tick of the clock is
    #: of the shorter duration: the A/A noise floor.
    noise: float
    rounds: int
    #: "flushed" (L2 cold) or "program" (as the program leaves it).
    cache: Literal["flushed", "program"] = "program"
    #: What was timed: the launch; for edits of host code the whole process, or all that the device did in it; for a
    #: PyTorch task a call of the module.
    span: Literal["launch", "process", "device", "call"] = "launch"


#: What a timing of more than a launch is of, in words.
SPANS = {
    "process": "whole process, on the clock outside",
    "device": "device busy, as CUPTI traced it",
    "call": "one call of the module",
}


class Outside(msgspec.Struct, frozen=True):
    """How a candidate that changes host code was judged: by what its program does, seen from outside."""

    #: Of the program's doings, e.g. "3 lines of output with 5 numbers".
    compared: tuple[str, ...] = ()
    #: What the baseline itself does otherwise each time, or what cannot be read.
    left_out: tuple[str, ...] = ()
    #: Ways of seeming right or fast that nothing here would notice.
    not_ruled_out: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """All of it in words, for people."""
        parts = (
            ("compared", self.compared),
            ("not compared", self.left_out),
            ("could not be ruled out", self.not_ruled_out),
        )
        said = (f"{name}: {'; '.join(what)}" for name, what in parts if what)
        return ("judged from outside the program, because host code was edited", *said)


class Further(msgspec.Struct, frozen=True):
    """What else an edit changes beside the judged kernel's heaviest launch shape, each in words."""

    #: Kernels and shapes at which its results were compared, and of these those at which it was timed too.
    compared: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()
    #: Kernels that it changes and the program never launches.
    not_run: tuple[str, ...] = ()
    #: Kernels and shapes beyond the bound on further ones (`MeasureSettings.further_most`).
    left_out: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """All of it in words, for people."""
        parts = (
            ("also compared", self.compared),
            ("also timed, and not slower", self.timed),
            ("changed but not run by this program", self.not_run),
            ("not judged, beyond the bound", self.left_out),
        )
        return tuple(f"{name}: {'; '.join(what)}" for name, what in parts if what)


class Launch(msgspec.Struct, frozen=True):
    """How a candidate was launched where it was judged, at the program's heaviest launch of the kernel."""

    #: None where the probe worked it out launch by launch, of what the program passes.
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int]
    dynamic_shared_bytes: int


class Verdict(msgspec.Struct, frozen=True):
    """What the judge says of one candidate."""

    candidate: str
    state: State
    reason: str
    timings: tuple[Timing, ...] = ()
    resources: Resources | None = None
    baseline_resources: Resources | None = None
    #: None where it never came to a launch of the kernel alone.
    launch: Launch | None = None
    conditions: Conditions | None = None
    evidence: tuple[Observation, ...] = ()
    #: Largest difference of any output element in units of its bound (at most 1 is right);
    #: None if none was compared.
    error_ratio: float | None = None
    #: Set where host code was edited: nothing of such a program is trusted, only what is seen from outside.
    outside: Outside | None = None
    #: What else the edit changes, and what of it was judged; None where nothing but the judged launch was looked at.
    further: Further | None = None
    #: Grids of the program's launches at which it was slower, though faster at the heaviest: what a dispatch by the
    #: launch's size would leave as it is. Not every one, where the first was enough to turn it down.
    slower_at: tuple[tuple[int, int, int], ...] = ()
    #: Seconds each step of the gate took, by name: of what was done once for all of a visit's candidates its share.
    cost: dict[str, float] = {}

    @property
    def program_timing(self) -> Timing | None:
        """The timing with the cache as the program leaves it, else the flushed one."""
        return next((t for t in self.timings if t.cache == "program"), next(iter(self.timings), None))
