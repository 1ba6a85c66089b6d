# SPDX-License-Identifier: Apache-2.0
"""nvcc's own steps: what it says with `--dryrun` that it would do, and a script that does some of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

SETTING = re.compile(r"([A-Z_]+)=(.*)")


def steps_said(written: str) -> list[str]:
    """Settings and commands, a line each, of what nvcc wrote to stderr."""
    return [line.removeprefix("#$ ") for line in written.splitlines() if line.startswith("#$ ")]


def script_of(said: Sequence[str], steps: Sequence[str], kept: Sequence[str]) -> str:
    """A shell script of these steps, with those of nvcc's settings that `kept` names; it ends at the first failure."""
    settings = [
        f"export {match[1]}={shlex.quote(match[2])}"
        for line in said
        if (match := SETTING.fullmatch(line)) is not None and match[1] in kept
    ]
    return "\n".join(["set -e", *settings, *steps])
