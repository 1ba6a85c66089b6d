# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer's reports on a file's lines; a program of that name gives recorded ones."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from warplens.cli.check import reaches
from warplens.service import sanitize
from warplens.service.report import Report
from warplens.service.sanitize import with_faults
from warplens.service.service import CheckOptions, Service
from warplens_tools.arch.load import load_architecture
from warplens_tools.toolchain.locate import Missing, Tool, Toolchain

RECORDED = Path(__file__).parents[2] / "data/sanitizer"
KERNEL = "__global__ void scale(float *x) { x[threadIdx.x] *= 2.0f; }\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose program is built by copying, on a card that stands in for one."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(f"#!/bin/sh\ncat {RECORDED}/$2.txt\n")
    tool.chmod(0o755)
    chain = Toolchain({"compute-sanitizer": Tool("compute-sanitizer", str(tool), "a test")}, {})
    card = msgspec.structs.replace(load_architecture("sm_90"), present=True, uuid="GPU-sanitize-test")
    monkeypatch.setattr(Service, "toolchain", lambda *_: chain)
    monkeypatch.setattr(sanitize, "load_gpu", lambda _: card)
    (tmp_path / "warplens.toml").write_text('[[program]]\nsource = "*.cu"\nbuild = "cp /bin/true {output}"\n')
    path = tmp_path / "faulty.cu"
    path.write_text(KERNEL)
    return path


def checked(path: Path) -> Report:
    service = Service(path.parent)
    return with_faults(service, service.check([path], CheckOptions(tier="source")))


def test_every_tool_s_faults_stand_on_the_file_s_lines(program: Path) -> None:
    report = checked(program)
    (file,) = report.files
    assert file.faults is not None
    assert {f.tool for f in file.faults} == {"memcheck", "racecheck", "initcheck", "synccheck"}
    assert all(f.place is None or f.place.path == str(program) for f in file.faults)
    assert any(u.what == "races in global memory" for u in report.unknown)
    assert reaches(report, "error")
    assert json.loads(msgspec.json.encode(report))["files"][0]["faults"][0]["place"]["line"] > 0


def test_what_cannot_be_run_is_said(program: Path) -> None:
    program.with_name("warplens.toml").unlink()
    report = checked(program)
    assert report.files[0].faults is None
    assert any("no main" in u.why for u in report.unknown)


def test_without_the_tool_it_says_how_to_get_it(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Toolchain(
        {}, {"compute-sanitizer": Missing("compute-sanitizer", "not found", "install the toolkit")}
    )
    monkeypatch.setattr(Service, "toolchain", lambda *_: gone)
    report = checked(program)
    assert report.files[0].faults is None
    assert any(u.why == "not found" and u.remedy == "install the toolkit" for u in report.unknown)
