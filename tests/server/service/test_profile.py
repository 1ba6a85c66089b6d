# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import msgspec
import pytest

from warplens.cli.main import run
from warplens.cli.profile import write_drawings
from warplens.read_settings import load
from warplens.service.profile import ProfileOptions, profile_file
from warplens.service.report import Report
from warplens.service.service import Service
from warplens.service.workloads import require_main, workload_of
from warplens_tools.errors import InputError

ROOT = Path(__file__).parents[3]
REPORTS = ROOT / "tests/data/reports"
RAW = REPORTS / "saxpy_transpose.raw.csv"
SOURCE = REPORTS / "saxpy_transpose.source_sass.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all tests, so that its unit is compiled once."""
    made = tmp_path_factory.mktemp("profile")
    shutil.copy(REPORTS / "saxpy_transpose.cu", made / "t.cu")
    return made


@pytest.fixture
def unit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the recorded program."""
    monkeypatch.setenv("WARPLENS_CACHE", str(folder / "cache"))
    return folder / "t.cu"


def profiled(path: Path, reports: Sequence[Path], kernel: str = "", arch: str | None = None) -> Report:
    made = ProfileOptions(kernel, tuple(reports), arch)
    return profile_file(Service(path.parent), path, made)


def test_an_imported_report_needs_no_gpu(unit: Path) -> None:
    report = profiled(unit, [RAW, REPORTS / "saxpy_transpose.nsys.sqlite"])
    (file,) = report.files
    saxpy, transpose = file.kernels
    assert {"counters", "timeline"} <= set(file.tiers)
    assert saxpy.bottleneck.measured is not None
    assert (saxpy.bottleneck.bound, saxpy.bottleneck.measured.bound) == ("memory", "memory")
    assert saxpy.profile is not None
    assert saxpy.profile.gpu == "NVIDIA H200"
    assert saxpy.profile.roofline is not None
    assert saxpy.profile.roofline.reaches[0].roof == "dram"
    assert transpose.profile is not None
    assert next(iter(transpose.profile.stalls)) == "drain"
    assert file.timeline is not None
    assert file.timeline.kernels[0].launches == 3
    assert not any("no CUDA GPU" in u.why for u in report.unknown), "the counters are known"


@pytest.mark.parametrize("names", [["saxpy_transpose.raw.csv"], ["saxpy_transpose.nsys.sqlite"]])
def test_who_gave_a_report_is_not_asked_for_one(unit: Path, names: list[str]) -> None:
    report = profiled(unit, [REPORTS / name for name in names])
    assert not [u for u in report.unknown if "--import" in u.remedy or "no CUDA GPU" in u.why]
    assert not [u for u in report.unknown if u.failed]


def test_the_rules_of_nsight_compute_stand_beside_ours(unit: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = [str(RAW), str(REPORTS / "saxpy_transpose.details.csv")]
    assert run(["profile", str(unit), *(word for path in given for word in ("--import", path))]) == 0
    out = capfd.readouterr().out
    advice = [line for line in out.splitlines() if line.startswith("  Nsight Compute: ")]
    assert advice
    assert any("(its estimate: " in line and "% of the time)" in line for line in advice)
    assert "no CUDA GPU" not in out


def test_one_kernel_alone(unit: Path) -> None:
    report = profiled(unit, [RAW], kernel="tr")
    assert [k.name for k in report.files[0].kernels] == ["tr"]
    with pytest.raises(InputError, match="defines no kernel nonesuch") as caught:
        profiled(unit, [RAW], kernel="nonesuch")
    assert "saxpy, tr" in caught.value.remedy


def test_another_architecture_is_said(unit: Path) -> None:
    report = profiled(unit, [RAW], arch="sm_80")
    assert any("recorded on NVIDIA H200" in u.why for u in report.unknown)


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_sass_without_lines_takes_them_from_this_build_where_the_code_is_the_same(unit: Path) -> None:
    report = profiled(unit, [RAW, SOURCE])
    saxpy = report.files[0].kernels[0]
    assert saxpy.profile is not None
    said = [u for u in report.unknown if "lines of saxpy" in u.what]
    assert bool(saxpy.profile.lines) != bool(said), "lines, or the reason why there are none"


def test_the_json_answer_fits_its_schema(unit: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    status = run(["profile", str(unit), "--import", str(RAW), "--format", "json"])
    assert status == 0
    answer = json.loads(capfdbinary.readouterr().out)
    jsonschema.validate(answer, json.loads((ROOT / "docs/schema/report.json").read_text("utf-8")))
    assert answer["files"][0]["kernels"][0]["profile"]["roofline"]["points"]


def test_the_text_answer_shows_roofs_stalls_and_timeline(
    unit: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sqlite = REPORTS / "saxpy_transpose.nsys.sqlite"
    assert run(["profile", str(unit), "--import", str(RAW), "--import", str(sqlite)]) == 0
    text = capfd.readouterr().out
    for said in ("DRAM", "71%", "long scoreboard", "launch calls", "memory-bound"):
        assert said in text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.csv", None, "there is no report"),
        ("empty.csv", b"", "holds no profiled kernel"),
        ("text.csv", b"hello\n", "holds no profiled kernel"),
        ("cut.ncu-rep", b"NVR\0\0\0", "ncu"),
        ("broken.sqlite", b"SQLite format 3\0garbage", "not a SQLite export"),
        ("trace.nsys-rep", b"x", "nsys"),
    ],
)
def test_a_bad_report_is_one_sentence(
    unit: Path, name: str, content: bytes | None, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    report = unit.parent / name
    if content is not None:
        report.write_bytes(content)
    assert run(["profile", str(unit), "--import", str(report)]) == 2
    errors = capfd.readouterr().err
    assert said in errors
    assert "Traceback" not in errors


def test_drawings_are_written(unit: Path) -> None:
    report = profiled(unit, [RAW])
    write_drawings(report, unit.parent / "roofs")
    assert (unit.parent / "roofs/saxpy.svg").read_text("utf-8").startswith("<svg")
    (unit.parent / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_drawings(report, unit.parent / "file" / "below")


def test_the_program_of_a_file(tmp_path: Path) -> None:
    unit = tmp_path / "t.cu"
    shutil.copy(REPORTS / "saxpy_transpose.cu", unit)
    assert workload_of(unit, unit, load(unit)).unit == str(unit)
    require_main(unit, unit, load(unit))
    unit.write_text("__global__ void k() {}\n")
    with pytest.raises(InputError, match="has no main"):
        require_main(unit, unit, load(unit))
    (unit.parent / "warplens.toml").write_text(
        '[[program]]\nsource = "*.cu"\nbuild = "make -C {root} OUT={output}"\nwrapper = ["nice"]\n'
    )
    require_main(unit, unit, load(unit))
    found = workload_of(unit, unit, load(unit))
    assert found.build == ("make", "-C", "{root}", "OUT={output}")
    assert found.root == str(unit.parent)
    assert found.wrapper == ("nice",)


def test_the_report_survives_its_own_wire_form(unit: Path) -> None:
    report = profiled(unit, [RAW])
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_a_report_that_names_no_card_is_said_to(unit: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "nameless.csv"
    nameless.write_text(
        RAW.read_text("utf-8").replace("device__attribute_display_name", "device__attribute_other")
    )
    (said,) = (u for u in profiled(unit, [nameless]).unknown if u.what == "the card of nameless.csv")
    assert "H100" in said.why
    assert not [u for u in profiled(unit, [RAW]).unknown if u.what.startswith("the card of")]
