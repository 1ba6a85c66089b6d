# SPDX-License-Identifier: Apache-2.0
"""What a pool and its workers say to each other: one JSON object a line."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from warplens.measure.confirm import Confirmation
from warplens.measure.judge_settings import Allowed, MeasureSettings
from warplens.measure.measures import Measures
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools import errors
from warplens_tools.decode import from_json
from warplens_tools.errors import ToolFailedError, WarplensError
from warplens_tools.run.workload import Workload


class Setup(msgspec.Struct, frozen=True):
    """How a worker makes its judge."""

    #: "module:function" that takes `payload`; see `Opens`.
    factory: str
    #: JSON that the factory understands.
    payload: str


class JudgeSetup(msgspec.Struct, frozen=True):
    """The payload of `judges`."""

    workload: Workload
    kernel: str
    arch: str
    allowed: Allowed
    #: Compilations at a time in one worker.
    build_jobs: int


#: What a setup's factory is.
Opens = Callable[[str], AbstractContextManager[Measures]]


class Baselined(msgspec.Struct, frozen=True, tag="baseline"):
    """Measure the baseline; or, the other way, it was."""

    baseline: Baseline | None = None


class Expecting(msgspec.Struct, frozen=True, tag="expect"):
    """These are likely judged first. Nothing is answered."""

    candidates: tuple[Candidate, ...]


class Judging(msgspec.Struct, frozen=True, tag="judge"):
    """Judge these."""

    candidates: tuple[Candidate, ...]


class Confirming(msgspec.Struct, frozen=True, tag="confirm"):
    """Measure a winner again."""

    candidate: Candidate


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """End what is going on."""


class Told(msgspec.Struct, frozen=True, tag="verdict"):
    """A verdict is known."""

    verdict: Verdict


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    """A winner was measured again."""

    confirmation: Confirmation


class Said(msgspec.Struct, frozen=True, tag="said"):
    """How far it is."""

    message: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """All of a request was answered. How long confirming takes at most, and as a rule, as known now."""

    confirmation_seconds: float = 0.0
    confirmation_about: float = 0.0


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A request could not be answered."""

    kind: str
    message: str
    remedy: str = ""


Request = Baselined | Expecting | Judging | Confirming | Stop
Answer = Baselined | Told | Confirmed | Said | Done | Failed


class LostError(WarplensError):
    """A worker ended, or its machine is gone; what it had not answered is open."""


def done(judge: Measures) -> Done:
    """All was answered by that judge."""

    def seconds(name: str) -> float:
        known: float = getattr(judge, name, lambda: 0.0)()
        return known

    return Done(seconds("confirmation_seconds"), seconds("confirmation_about"))


def failure(error: BaseException) -> Failed:
    """An error as it travels."""
    if isinstance(error, WarplensError):
        return Failed(type(error).__name__, str(error), error.remedy)
    return Failed(ToolFailedError.__name__, f"the judge failed: {type(error).__name__}: {error}")


def raised(failed: Failed) -> WarplensError:
    """The error again."""
    kind = getattr(errors, failed.kind, ToolFailedError)
    made: WarplensError = kind(failed.message, remedy=failed.remedy)
    return made


def opened(setup: Setup) -> AbstractContextManager[Measures]:
    """A judge by a setup."""
    module, _, name = setup.factory.partition(":")
    factory: Opens = getattr(importlib.import_module(module), name)
    return factory(setup.payload)


def judge_setup(
    workload: Workload, kernel: str, arch: str, allowed: Allowed, *, build_jobs: int = 0
) -> Setup:
    """The setup of real judges, each of the first card that its process sees."""
    payload = JudgeSetup(workload, kernel, arch, allowed, build_jobs)
    return Setup("warplens.measure.pool.messages:judges", msgspec.json.encode(payload).decode())


def judges(payload: str) -> AbstractContextManager[Measures]:
    """A real judge."""
    from warplens.measure.judge import Judge

    setup = from_json(payload, JudgeSetup)
    settings = MeasureSettings(
        host_edits=setup.allowed.host_edits,
        lower_precision=setup.allowed.lower_precision,
        energy=setup.allowed.energy,
        build_jobs=setup.build_jobs,
    )
    return Judge(setup.workload, kernel=setup.kernel, arch=setup.arch, settings=settings)
