# SPDX-License-Identifier: Apache-2.0
"""Every constant of the search, each with its reason."""

from __future__ import annotations

from typing import Literal

import msgspec

#: Seconds from which on a visit spends most of its time on the program's way to the launch: eight candidates take
#: about 2 s there.
LONG_PROGRAM = 2.0
#: What is to be less: time; energy among what is faster; or energy among what is as fast as the fastest.
Objective = Literal["time", "energy", "lexicographic"]
#: Versions are as fast as the fastest within this share of its time.
EQUAL_TIME = 0.01


class SearchSettings(msgspec.Struct, frozen=True):
    """How the tree is grown. Journalled with a run, so that a resumed run goes on by the same rules."""

    #: A working node may have `widening * visits ** widening_power` children: progressive widening with the usual
    #: square root. Within that a new child has to promise more than the best one there is (`competing`), so the
    #: factor only keeps a bad guess of what steps bring from taking the whole budget.
    widening: float = 2.0
    widening_power: float = 0.5
    #: Children of a version that failed. Deterministic edits seldom repair what another broke, so one:
    #: fewer than any working node gets (asymmetric branching).
    failed_children: int = 1
    #: Weight of the visits in selection; rewards lie in 0 to 1. A few dozen verdicts leave little to explore with, and
    #: versions that are alike are many: on modelled tables (`tests/bench/replay.py`) 0.03 was ahead of 0.1 and 0.01.
    exploration: float = 0.03
    #: Share of the best reward below a node in its value, the rest is the mean. Verdicts carry their own noise test,
    #: so one good version says more about a subtree than its average does.
    best_share: float = 1.0
    #: What a pending candidate counts for in visits, at once: they take from the bonus for what was seldom visited, so
    #: that a batch spreads out, and nothing from the best reward. A batch is a large part of a budget, and with a loss
    #: there only one step of eight went below the best version (0.87 of the best gain on modelled tables, now 0.93).
    virtual_visits: int = 1
    #: A batch ends with the first candidate that promises less than this share of its best one, in log2 of the speedup:
    #: a verdict costs seconds, and after the best one's there are better steps to spend them on.
    batch_share: float = 0.4
    #: Times that an idea is made again where it came to a known text or one that cannot run, in a row.
    makings: int = 8
    #: What is left of the promise of a number's other value for each one of it that waits for a verdict: that verdict
    #: says what the next is worth, so that a batch holds few values of one number beside the rewrites.
    beside_waiting: float = 0.5
    #: Versions in which a change must have failed, and never have worked, before it is not tried again: two, as one
    #: failure may be the company's.
    strikes: int = 2
    #: How much the effect of one number's other value says of a value one octave away, against the prior (1); a
    #: power of it at more octaves. Times one octave apart are alike more often than not.
    next_value: float = 0.6
    #: What a value within an octave of the best one tried is expected to bring, against that one: enough for it to come
    #: before what showed no effect.
    climb: float = 1.2
    #: How much a rule's effect at one place says of the same rule at another.
    same_rule: float = 0.3
    #: The parts, so that what each is worth can be measured: expectations from findings, hit rates and like kernels;
    #: conclusions shared by all branches; all steps at once that were found to help; children by the square root of
    #: visits; one repair under what failed; a text that two ways lead to as one version.
    priors: bool = True
    memory: bool = True
    leaps: bool = True
    progressive: bool = True
    asymmetric: bool = True
    #: Off: with it a search of few verdicts found the best of a small space less often.
    transpositions: bool = False
    #: A new child of a version is weighed against its best one: its expected reward, with a bonus for versions with few
    #: children, against the child's score. Without it, a version has all the children that widening allows at once.
    competing: bool = True
    #: Longest chain of steps from the user's text: longer diffs are not read.
    max_depth: int = 6
    #: Rewards of versions without a usable time, in the order of how far they came.
    reward_not_built: float = 0.0
    reward_crashed: float = 0.02
    reward_wrong: float = 0.05
    #: Reward of exactly the baseline's time; the scale above and below it is logarithmic, so that one rare
    #: large speedup does not swamp the tree.
    reward_same: float = 0.5
    #: Speedup that earns the full reward where the headroom to the roof is not known.
    cap: float = 4.0
    #: Least cap: a kernel near its roof still has to tell 1.02 from 1.00.
    least_cap: float = 1.1
    #: Samples that the ridge on a change counts for: one, so that a single verdict is believed by half.
    prior_trials: float = 1.0
    #: What a failure counts as in the effects of its changes, in log2 of a speedup: as if twice slower.
    failure_gain: float = -1.0
    #: Standard deviation of the noise on the expected log2 gain of a step never tried, when the next step is
    #: drawn; keeps seeds apart without overruling a clear expectation.
    draw_noise: float = 0.15
    #: That of a step that promises nothing; it grows with twice the promise.
    least_noise: float = 0.03
    #: The same of a rewrite, of which nobody knows what it will do here, where other values of a number seldom bring
    #: much: with less (0.03), rewrites that nothing promised came after all that was known in ever new company (0.84 of
    #: the best gain in 32 verdicts on modelled tables, now 0.88).
    rewrite_noise: float = 0.15
    #: Least fitted effect, in log2, of a change that a leap takes along: 2 % faster, above usual noise.
    leap_gain: float = 0.03
    #: The search ends when the best version runs at this share of the roof: what is left is inside the uncertainty
    #: of the ceilings (KernelAgent stops at 95 % of its speed of light, too).
    roof_share: float = 0.95


class Budget(msgspec.Struct, frozen=True):
    """How much one run may spend: candidates judged, and seconds in all. `batch` candidates a visit."""

    candidates: int = 60
    seconds: float = 300.0
    #: A visit costs about half a second and the program's start; eight share that cost and still let the
    #: tree learn between visits.
    batch: int = 8

    @property
    def first_batch(self) -> int:
        """Candidates of a lane's first visit: half as many, so that the first verdicts come soon."""
        return max(1, self.batch // 2)

    def batch_for(self, program_seconds: float) -> int:
        """Candidates a visit for a program that runs so long: twice as many where its start costs more than theirs."""
        return self.batch if program_seconds < LONG_PROGRAM else 2 * self.batch
