# SPDX-License-Identifier: Apache-2.0
"""Every constant of the judge, in one type, each with its reason."""

from __future__ import annotations

import msgspec


class Allowed(msgspec.Struct, frozen=True):
    """What a user lets candidates do."""

    #: Change host code; they are judged from outside then.
    host_edits: bool = False
    #: Win with results of a lower precision than the baseline's.
    lower_precision: bool = False
    #: No permission but a wish: measure a winner's energy, too, when it is confirmed.
    energy: bool = False


class MeasureSettings(msgspec.Struct, frozen=True):
    """How long to look, how sure to be. Seconds, unless the name says otherwise."""

    #: Candidates handed to one visit: enough to spread the program's start, few enough that a fault
    #: throws little away.
    candidates_per_visit: int = 32
    #: Rounds of one timing at least: below it a median's bootstrap interval means little.
    rounds_min: int = 15
    #: Rounds of one timing at most.
    rounds_max: int = 300
    #: Time one timing of one candidate may take, restores and cache flushes included.
    timing_seconds: float = 0.4
    #: The same of a kernel so slow that `rounds_min` rounds take longer: five rounds have to do then.
    timing_seconds_most: float = 2.0
    #: Learning what the baseline computes may take this long: where launches are slow or memory is large, input sets
    #: (at least two beside the program's own), repeats and moved inputs are fewer; once for a winner, three times that,
    #: and half of it for each look at a search's candidates (`kernel/visits.py`).
    learn_seconds: float = 2.0
    #: Stop once the standard error of the median log ratio is below this: a third of the smallest gain
    #: that is called faster, so that three standard errors separate it from none.
    precision: float = 0.0015
    #: A search's timing ends after five rounds where a candidate is this much faster or slower, in log of the ratio,
    #: and eight standard errors more: its place among others needs no tenths of a percent. Whatever is confirmed is
    #: timed in full again, so this decides how many candidates are judged and nothing that is reported.
    clear_gain: float = 0.25
    #: Gains below this are called "same" whatever the interval says: the same machine code loaded twice
    #: differs by up to half of it (where its instructions and the module lie), beyond its intervals.
    smallest_gain: float = 0.01
    #: How far the same code, loaded anew, may be from itself where a kernel launches kernels: up to a quarter, as
    #: seen on an H200 (`tests/gpu/programs/child_kernels.cu`).
    child_noise: float = 0.25
    #: Which launch of the heaviest shape is visited, from 0, where there are as many: the first ones often
    #: work on memory that is still all zeros.
    launch: int = 2
    #: Baseline launches before the first timing: an idle card needs some 50 ms to reach its clocks.
    warm_up_seconds: float = 0.15
    #: Runs of the baseline on equal inputs, for its own spread.
    repeats: int = 4
    #: A candidate is hung when it runs longer than `hang_factor` baselines plus `hang_seconds`.
    hang_factor: float = 50.0
    hang_seconds: float = 2.0
    #: A visit may take this long beyond the workload's own time limit, per candidate.
    visit_seconds_per_candidate: float = 10.0
    #: Share of timed launches whose results are compared as well.
    checked_share: float = 0.1
    #: Bound of a floating-point result in units of its rounding error estimate (see `compare.h`):
    #: about six standard deviations of a random walk of roundings.
    tolerance_factor: float = 8.0
    #: Whether results of a lower precision than the baseline's may win; the verdict says so.
    lower_precision: bool = False
    #: Relative error of each term of a result that is put down to a lower precision: that of rounding two factors
    #: to bfloat16 (2^-9 each).
    lowered_error: float = 2.0**-8
    #: Bootstrap resamples: the 95 % interval's ends then repeat to about 5 % of its width.
    resamples: int = 400
    #: Fresh processes in which a winner is measured again.
    confirmations: int = 3
    #: Time that comparing launches may take while a whole program runs with a winner in its kernels' places; the
    #: launches are drawn at random, and are all where they fit.
    accompany_seconds: float = 4.0
    #: Runs of the baseline on equal inputs at each of those launches, for its own spread.
    accompany_repeats: int = 3
    #: Kernels and launch shapes, beside the judged one, at which a winner is compared where its edit changes them:
    #: each is a run of the program. The proof names those beyond.
    further_most: int = 12
    #: Share of the program's kernel time that all of those together may take that are not timed too; what is timed
    #: may not be slower.
    further_share: float = 0.02
    #: Shapes at which candidates are measured where every one is asked for, the heaviest first.
    shapes_most: int = 8
    #: Runs of the whole program, each of the original and the rebuilt, for its gain and its exit.
    program_runs: int = 4
    #: One run of one of compute-sanitizer's tools on the rebuilt program; beyond it the check is left out.
    sanitizer_seconds: float = 120.0
    #: Whether edits of host code are judged at all, from outside the program (see `outside`).
    host_edits: bool = False
    #: Runs of the baseline from which is learned what of its doings repeats.
    outside_repeats: int = 3
    #: Rounds of whole processes: baseline, candidate and baseline again, in changing order. Below some ten the
    #: ends of a median's bootstrap interval are those of the range.
    outside_rounds: int = 12
    #: Rounds in which the device's doings are traced: they vary less.
    outside_traces: int = 5
    #: Rounds of both kinds end early after that many seconds, but not before `outside_least` were run.
    outside_seconds: float = 180.0
    outside_least: int = 5
    #: Least share of the baseline's device time that is believed to give the same results.
    outside_share: float = 0.02
    #: Size of one file that such a program may write.
    outside_file_bytes: int = 8 << 30
    #: Measure the energy of a winner's program beside the original's.
    energy: bool = False
    #: Compilations at a time; 0 means one per CPU core.
    build_jobs: int = 0
    #: One compilation may take this long.
    compile_seconds: float = 300.0
    #: Address space of one process of a candidate's build: the largest CUTLASS units take cicc some 8 GiB.
    build_memory_bytes: int = 32 << 30
    #: Whether a candidate that compiles to the baseline's machine code is measured all the same.
    measure_identical: bool = False
    #: Whether inputs that the source types as floating are perturbed as well.
    perturb_inputs: bool = True
    #: For trials of the judge alone: nothing is timed, and whatever compares right is called faster, so that many may
    #: share a card. Nothing that a user sees sets it.
    assume_faster: bool = False
    #: Whether timing is also taken with the L2 cache flushed.
    flush_cache: bool = True
