# SPDX-License-Identifier: Apache-2.0
"""What is kept of a program between runs: found again while nothing changed, and only by its owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.measure.kept import KEPT, Kept, kept_of
from warplens.measure.program.whole import ProgramRun
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.workload import Workload
from warplens_tools.toolchain.compile import DEVICE_TEXT
from warplens_tools.toolchain.locate import resolve_toolchain

SHAPE = SurveyedShape("_Z1kv", (1, 1, 1), (32, 1, 1), 0, 3, 0, 3, 0, 3e3, (1e3,) * 3)
RUN = ProgramRun(0, 0.5, "done\n", "")


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BinaryEvidence:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    names = ("k.cu", "k.h", "k.cubin", "k.ptx", "k.cpp1.ii")
    source, header, cubin, ptx, text = (tmp_path / name for name in names)
    for path in (source, header, cubin, ptx, text):
        path.write_text(path.name)
    (tmp_path / "program").write_text("#!/bin/sh\n")
    return BinaryEvidence(
        *(str(source), "sm_90", "nvcc", (), ()),
        dependencies=(str(source), str(header)),
        cubin_path=str(cubin),
        ptx_path=str(ptx),
    )


def put(evidence: BinaryEvidence, key: str = "a") -> Kept:
    kept = Kept(key)
    kept.put(evidence, Path(evidence.path).parent / "program", (SHAPE,), RUN, 4.0)
    return kept


def entry(evidence: BinaryEvidence, key: str = "a") -> Path:
    return Path(evidence.path).parent / "cache/baselines" / key


def test_it_is_found_again_whole(evidence: BinaryEvidence, tmp_path: Path) -> None:
    assert Kept("a").take(tmp_path / "none") is None
    put(evidence)
    found = Kept("a").take(tmp_path / "new")
    assert found is not None
    known, program, cubin = found
    assert (known.surveyed, known.alone, known.build_seconds) == ((SHAPE,), RUN, 4.0)
    assert program.read_text() == "#!/bin/sh\n" and program.stat().st_mode & 0o777 == 0o700
    assert known.evidence.cubin_path == str(cubin) and cubin.read_text() == "k.cubin"
    ptx = Path(known.evidence.ptx_path)
    assert ptx.read_text() == "k.ptx"
    assert [path.read_text() for path in ptx.parent.glob(DEVICE_TEXT)] == ["k.cpp1.ii"]


def test_a_changed_header_or_a_changed_file_of_its_own_is_none(
    evidence: BinaryEvidence, tmp_path: Path
) -> None:
    put(evidence)
    header = Path(evidence.dependencies[1])
    header.write_text("another")
    assert Kept("a").take(tmp_path / "new") is None
    header.write_text("k.h")
    assert Kept("a").take(tmp_path / "new") is not None
    (entry(evidence) / "program").write_text("#!/bin/sh\nevil\n")
    assert Kept("a").take(tmp_path / "new") is None
    put(evidence)
    (entry(evidence) / "record.msgpack").write_bytes(b"\xff")
    assert Kept("a").take(tmp_path / "new") is None
    put(evidence).forget()
    assert not entry(evidence).exists()


def test_what_others_may_write_is_not_taken(evidence: BinaryEvidence, tmp_path: Path) -> None:
    put(evidence)
    assert entry(evidence).stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in entry(evidence).iterdir()} == {0o600}
    assert entry(evidence).parent.stat().st_mode & 0o777 == 0o700
    entry(evidence).chmod(0o770)
    assert Kept("a").take(tmp_path / "new") is None
    entry(evidence).chmod(0o700)
    entry(evidence).parent.chmod(0o777)
    assert Kept("a").take(tmp_path / "new") is None


def test_the_oldest_go(evidence: BinaryEvidence) -> None:
    for number in range(KEPT + 3):
        put(evidence, f"key{number}")
    assert len(list(entry(evidence).parent.iterdir())) == KEPT


def test_the_key_is_of_all_that_could_change_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    unit, data = tmp_path / "k.cu", tmp_path / "input.bin"
    unit.write_text("__global__ void k() {}")
    data.write_text("1")
    toolchain = resolve_toolchain()

    def key(card: str = "GPU-1 580", arch: str = "sm_90", **fields: object) -> object:
        fields = {"arguments": ("input.bin",), **fields}
        work = Workload(str(unit), str(unit), **fields)  # type: ignore[arg-type]
        kept = kept_of(
            work, text=unit.read_text(), toolchain=toolchain, arch=arch, card=card, probe=Path("/p/probe.so")
        )
        return kept._entry

    first = key()
    assert first is not None and key() == first
    others = [key(card="GPU-1 590"), key(arch="sm_80"), key(flags=("-O1",)), key(arguments=("7",))]
    others.append(key(environment={"A": "1"}))
    data.write_text("2")
    others.append(key())
    data.write_text("1")
    unit.write_text("__global__ void k() { }")
    others.append(key())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    others.append(key())
    assert len({first, *others}) == len(others) + 1
    assert key(build=("make",)) is None
