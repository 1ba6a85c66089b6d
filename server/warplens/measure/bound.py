# SPDX-License-Identifier: Apache-2.0
"""How long confirming a winner takes, and may take at most, from how long the program takes to build and to run."""

from __future__ import annotations

from warplens.measure.energy import EnergySettings
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.collect.sanitizer import TOOLS

#: Seconds of one visit beyond the program's own: its inputs varied, its timings, the probe.
_VISIT = 5.0
#: A program under the probe, or rebuilt, may take this many times as long as it did.
_SLOWER = 3.0
#: compute-sanitizer slows a program down about so much, by its documentation's "up to an order of magnitude" and more;
#: its own start, in seconds.
_SANITIZED, _SANITIZER_START = 20.0, 10.0


#: What a confirmation took on an H200's host beside the program's own runs: a fresh visit, and what is compared there;
#: the one on all inputs; the checks side by side. Of searches with one confirmation, on programs of half a second, 25
#: to 31 s in all (`docs/benchmarks/suite_sealed_third.json`, `suite_sealed_first.json`); of those of 14 at once on one
#: card no account is taken.
_FRESH, _ALL_INPUTS, _BESIDE = 3.0, 9.0, 6.0
#: Runs of the program that the longest of those checks comes to.
_BESIDE_RUNS = 4.0


def confirmation_about(program: float, build: float, shapes: int, settings: MeasureSettings) -> float:
    """Seconds that a confirmation takes as a rule, of a program that runs `program` seconds, is built in `build` and
    launches the kernel in `shapes` shapes beside the judged one."""
    if settings.host_edits:
        return build + settings.outside_rounds * 3.0 * program + 2 * settings.outside_traces * 2.0 * program
    visits = settings.confirmations + min(shapes, settings.further_most)
    measured = visits * (program + _FRESH) + program + _ALL_INPUTS
    energy = energy_seconds(program) if settings.energy else 0.0
    # compilers work meanwhile
    whole = 2 * settings.program_runs * program
    return max(measured, build) + _BESIDE + _BESIDE_RUNS * program + whole + energy


def sanitizer_seconds(program: float, settings: MeasureSettings) -> float:
    """Limit of one run of one tool of compute-sanitizer on a program of so many seconds."""
    return min(settings.sanitizer_seconds, _SANITIZER_START + _SANITIZED * program)


def confirmation_seconds(program: float, build: float, settings: MeasureSettings) -> float:
    """The bound, for a program that runs `program` seconds and is built in `build`."""
    if settings.host_edits:
        rounds = 2 * settings.outside_seconds + 8 * settings.outside_repeats * _SLOWER * program
    else:
        rounds = 0.0
    visit = _SLOWER * program + _VISIT
    # what is compared and not timed may fail in company and be asked again alone: the first and the last launch, the
    # candidate in its kernel's place, each of the sanitizer's tools, and one of them on the original, whose faults
    # excuse the candidate's, and how the program does behind the fence
    untimed = (
        2 * visit
        + _SLOWER * settings.accompany_seconds
        + (len(TOOLS) + 1) * sanitizer_seconds(program, settings)
        + 2 * _SLOWER * program
    )
    return (
        2 * _SLOWER * build
        # every further place, all inputs, every fresh process
        + (settings.further_most + 1 + settings.confirmations) * visit
        + 2 * settings.program_runs * _SLOWER * program
        + 2 * untimed
        + rounds
        + (energy_seconds(program) if settings.energy else 0.0)
    )


def energy_seconds(program: float) -> float:
    """How long measuring the energy of two versions of a program may take."""
    energy = EnergySettings()
    sample = energy.least_seconds + _SLOWER * program
    return 2 * (energy.samples + 1) * sample + (energy.samples + 1) * 2 * energy.idle_seconds
