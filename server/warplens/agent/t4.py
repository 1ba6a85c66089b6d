# SPDX-License-Identifier: Apache-2.0
"""A run in the open results format of autotuners (T4, schema version 1.0.0), as Kernel Tuner writes and reads it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from warplens.agent.past import PastRun, PastVersion
from warplens.agent.versions import WORKING
from warplens.measure.verdict import State

#: https://github.com/odgaard/TuningSchema: what a configuration was that has no valid time.
_INVALIDITY: dict[State, str] = {
    "refused": "constraints",
    "illegal": "constraints",
    "not_built": "compile",
    "crashed": "runtime",
    "hung": "timeout",
    "wrong": "correctness",
    "unproven": "correctness",
    "impossible": "correctness",
}


def t4_of(past: PastRun, parameters: Mapping[str, int]) -> dict[str, Any]:
    """Every judged configuration of a run. `parameters` are the values of the user's version, by name.

    A version that some step other than a parameter has made is left out: it is of another kernel.
    """
    tuned = (v for v in past.told if all(name in parameters for name in v.state))
    return {"schema_version": "1.0.0", "results": [_result(past, v, parameters) for v in tuned]}


def _result(past: PastRun, version: PastVersion, parameters: Mapping[str, int]) -> dict[str, Any]:
    verdict = version.verdict
    assert verdict is not None
    values = {name: int(change.partition("=")[2]) for name, change in version.state.items()}
    at = datetime.datetime.fromtimestamp(past.run.started_at + version.at, datetime.UTC)
    timing = verdict.program_timing
    measurements: list[dict[str, Any]] = []
    if timing is not None:
        measurements = [
            {"name": "time", "value": timing.candidate_ns.median / 1e6, "unit": "ms"},
            {"name": "speedup", "value": timing.speedup.median, "unit": ""},
        ]
    return {
        "timestamp": at.isoformat(),
        "configuration": {**parameters, **values},
        "objectives": ["time"],
        "times": {
            "compilation_time": 1e3 * verdict.cost.get("build", 0.0),
            "runtimes": [timing.candidate_ns.median / 1e6] if timing is not None else [],
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": 1e3 * sum(s for name, s in verdict.cost.items() if name != "build"),
        },
        "invalidity": _INVALIDITY.get(verdict.state, "correct"),
        "correctness": 1 if verdict.state in WORKING else 0,
        "measurements": measurements,
    }
