# SPDX-License-Identifier: Apache-2.0
"""Judges on several cards of this machine, or of a Ray cluster."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from warplens.agent.judging import JudgeSession
from warplens.measure.judge_settings import Allowed
from warplens.measure.pool.local import LANES, MOST_LANES, local_pool
from warplens.measure.pool.messages import judge_setup
from warplens.measure.pool.on_ray import ray_pool
from warplens.measure.pool.pool import CHUNK
from warplens.service.optimize import OpenJudge, open_judge
from warplens_tools.arch.load import present_gpus
from warplens_tools.errors import InputError
from warplens_tools.run.workload import Workload

#: Cores from which a search on one card has lanes unasked: two batches of eight compile at once, beside a visit.
#: On 16 they judged 1.65 times as many candidates a minute (`docs/benchmarks/pool_one_card.json`).
LANES_FROM_CORES = 8
#: Candidates at a time of each lane of such a search, where it has `MOST_LANES`: hardly more in hand before anything is
#: learned of them than two lanes with eight have, and more judged. By events of modelled times (16 tables,
#: `tests.suite.shared_card`) 32 for 29 in 40 s where each visit learns the kernel for 2.5 s, 58 for 46 where it takes
#: 0.8, and what was found by then is 1.08 and 1.03 times as fast; of two searches that share the card as many, and what
#: they found is 0.90 times as fast.
SEARCH_CHUNK = 6
#: Candidates from which it has them: two lanes have two batches in hand, which of a small budget would all be asked for
#: before anything is learned.
LANES_FROM_CANDIDATES = 24
#: Cores a card from which one that was asked for gets `MOST_LANES`. By judgement: two batches are built while a third
#: is measured, some five cores' work.
_MOST_FROM_CORES = 12


def search_opener(cards: int | None, cluster: str = "", candidates: int | None = None) -> OpenJudge:
    """As `opener`, for a search of so many candidates (None for as many as the settings say): where neither is asked
    for, lanes of one card if there are cores and candidates enough for them."""
    enough = candidates is None or candidates >= LANES_FROM_CANDIDATES
    lanes = enough and cards is None and not cluster and (os.cpu_count() or 1) >= LANES_FROM_CORES
    return opener(1, chunk=SEARCH_CHUNK) if lanes else opener(cards, cluster)


def opener(cards: int | None, cluster: str = "", *, chunk: int = CHUNK) -> OpenJudge:
    """What opens the judge: one in this process where neither is asked for, a pool of `cards` (0 for all of a kind),
    with `MOST_LANES` lanes each where there are cores enough, of `chunk` candidates at a time at most, or the cluster
    at an address.

    Raises:
        InputError: both are asked for, or there are not so many cards.
    """
    if cards is not None and cluster:
        raise InputError("--cards and --cluster exclude each other", remedy="a cluster gives all its cards")
    if cards is None and not cluster:
        return open_judge

    def opened(
        workload: Workload, kernel: str, arch: str, allowed: Allowed
    ) -> AbstractContextManager[JudgeSession]:
        if cluster:
            return ray_pool(judge_setup(workload, kernel, arch, allowed), cluster)
        chosen = chosen_cards(cards or 0)
        if not chosen:
            # which says what is missing
            return open_judge(workload, kernel, arch, allowed)
        cores = (os.cpu_count() or 1) // len(chosen)
        many = cores >= _MOST_FROM_CORES
        # while one lane has the card, two build
        jobs = max(1, cores // 2)
        setup = judge_setup(workload, kernel, arch, allowed, build_jobs=jobs)
        return local_pool(setup, chosen, MOST_LANES if many else LANES, chunk=chunk if many else CHUNK)

    return opened


def chosen_cards(count: int) -> list[str]:
    """UUIDs of so many cards of the first one's kind, all of them for 0: speedups on unlike cards do not compare.

    Raises:
        InputError: there are not so many.
    """
    gpus = present_gpus()
    alike = [gpu.uuid for gpu in gpus if gpu.name == gpus[0].name and gpu.uuid]
    if gpus and count > len(alike):
        raise InputError(
            f"there are {len(alike)} cards of the kind {gpus[0].name}, not {count}",
            remedy="leave --cards at 0 for all of them",
        )
    return alike[: count or None]
