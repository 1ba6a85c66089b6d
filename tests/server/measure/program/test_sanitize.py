# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer's answers, as a tool of the same name and output gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.measure.program.sanitize import new_reports
from warplens_tools.collect.sanitizer import TOOLS
from warplens_tools.run.probe.visit import Command
from warplens_tools.toolchain.locate import Missing, Tool, Toolchain

#: Fails on what its program is called; words as compute-sanitizer prints them.
TOOL = """#!/bin/sh
tool=$2
for program; do :; done
echo "========= COMPUTE-SANITIZER"
case "$tool $(basename $program)" in
    "memcheck faulty"|"memcheck old_faulty") ;;
    "initcheck hangs") sleep 60 ;;
    "racecheck crashes") exit 3 ;;
    "memcheck more_faulty") echo "========= Invalid __shared__ read of size 4 bytes"
        echo "=========     at k(float *)+0x10" ;;
    *) echo "========= ERROR SUMMARY: 0 errors"; exit 0 ;;
esac
echo "========= Invalid __global__ write of size 4 bytes"
echo "=========     at k(float *)+0x90"
echo "========= ERROR SUMMARY: 1 error"
exit 77
"""


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    path = tmp_path / "compute-sanitizer"
    path.write_text(TOOL)
    path.chmod(0o755)
    return Toolchain({"compute-sanitizer": Tool("compute-sanitizer", str(path), "PATH", "")}, {})


def reports(toolchain: Toolchain, before: str, after: str, limit: float = 60) -> tuple[str, list[str]]:
    fault, unknown = new_reports(
        Command((before,), ""),
        Command((after,), ""),
        kernel="k",
        toolchain=toolchain,
        time_limit=limit,
    )
    return fault, [u.what for u in unknown]


def test_only_faults_that_the_original_has_not_count(toolchain: Toolchain) -> None:
    races = ["races in global memory"]
    assert reports(toolchain, "/old", "/new") == ("", races)
    fault, _ = reports(toolchain, "/old", "/faulty")
    assert fault == "compute-sanitizer memcheck: Invalid __global__ write of size 4 bytes"
    assert reports(toolchain, "/old_faulty", "/faulty") == ("", races)
    fault, _ = reports(toolchain, "/old_faulty", "/more_faulty")
    assert fault == "compute-sanitizer memcheck: Invalid __shared__ read of size 4 bytes"


def test_what_could_not_be_examined_is_named(toolchain: Toolchain) -> None:
    assert reports(toolchain, "/old", "/crashes")[1] == [
        "racecheck of the candidate's device code",
        "races in global memory",
    ]
    fault, unknown = reports(toolchain, "/old", "/hangs", limit=2)
    assert fault == "" and "initcheck of the candidate's device code" in unknown
    assert set(TOOLS) == {"memcheck", "racecheck", "initcheck", "synccheck"}
    gone = Toolchain({}, {"compute-sanitizer": Missing("compute-sanitizer", "not installed", "install it")})
    assert reports(gone, "/old", "/faulty") == ("", ["memory errors the GPU does not trap"])
