# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.collect import metrics as names
from warplens_tools.collect.ncu_csv import number, parse_csv, require_csv
from warplens_tools.collect.profiled import counter_evidence, representative
from warplens_tools.errors import InputError

REPORTS = Path(__file__).parents[2] / "data/reports"
RAW = (REPORTS / "saxpy_transpose.raw.csv").read_text()
DETAILS = (REPORTS / "saxpy_transpose.details.csv").read_text()
SOURCE = (REPORTS / "saxpy_transpose.source_sass.csv").read_text()

#: The same raw page as an old version in a German locale printed it, with scaled units.
FOREIGN = """\ufeff==PROF== Verbunden
"ID","Process ID","Kernel Name","Kernel Time","gpu__time_duration.sum","dram__bytes_read.sum",@
"","","","","usecond","Mbyte","%","",""
"0","1","k(float*)","2020-Jan-01 10:00:00","1.230,50","536,87","70,9","1.024","256"
""".replace(
    "@", '"dram__throughput.avg.pct_of_peak_sustained_elapsed","launch__grid_dim_x","launch__block_dim_x"'
)


def test_raw_page_holds_both_launches_with_units() -> None:
    saxpy, transpose = parse_csv(RAW)
    assert saxpy.kernel == "saxpy(int, float, const float *, float *)"
    assert (saxpy.grid, saxpy.block) == ((262144, 1, 1), (256, 1, 1))
    assert saxpy.gpu_name == "NVIDIA H200"
    assert saxpy.compute_capability == "9.0"
    assert saxpy.metrics[names.DURATION] == 230432
    assert saxpy.units[names.DURATION] == "ns"
    assert transpose.metrics["derived__memory_l2_theoretical_sectors_global_excessive"] == 58720256
    assert "derived_tempMetric4" not in transpose.metrics, "nan is not a value"


def test_derived_figures_follow_from_the_counters() -> None:
    saxpy = counter_evidence(parse_csv(RAW)[0])
    operations = names.total(saxpy, names.FLOP_COUNTERS["fp32"])
    assert operations == pytest.approx(2 * 2**26, rel=1e-3)
    assert names.total(saxpy, names.FLOP_COUNTERS["fp64"]) == 0
    assert saxpy.passes == 38
    assert next(iter(saxpy.stalls)) == "long_scoreboard"
    assert sum(saxpy.stalls.values()) == pytest.approx(1)


def test_details_page_names_metrics_and_rules() -> None:
    saxpy, transpose = parse_csv(DETAILS)
    assert saxpy.metrics[names.DRAM_THROUGHPUT] == 70.86
    assert saxpy.metrics["dram__bytes.sum.per_second"] == 3409409872434.83
    assert {a.rule for a in transpose.advice} >= {"UncoalescedGlobalAccess"}
    assert any(a.speedup_percent for a in transpose.advice)


def test_source_page_counts_per_instruction() -> None:
    _, transpose = parse_csv(SOURCE)
    store = next(i for i in transpose.instructions if i.text.startswith("STG"))
    assert store.values["derived__memory_l2_theoretical_sectors_global_excessive"] == 58720256
    assert store.offset == 256
    assert store.place is None
    assert next(iter(counter_evidence(transpose).stalls)) == "drain"


def test_pages_of_one_run_are_joined() -> None:
    saxpy, _ = parse_csv(RAW + "\n" + SOURCE)
    assert saxpy.metrics[names.DURATION] == 230432
    assert saxpy.instructions[0].text.startswith("LDC R1")


def test_an_old_version_in_another_locale() -> None:
    (launch,) = parse_csv(FOREIGN)
    assert launch.metrics[names.DURATION] == pytest.approx(1_230_500)
    assert launch.metrics[names.DRAM_READ] == pytest.approx(536.87e6)
    assert launch.metrics[names.DRAM_THROUGHPUT] == pytest.approx(70.9), "the old spelling is known"
    assert (launch.grid, launch.block) == ((1024, 1, 1), (256, 1, 1))


@pytest.mark.parametrize(
    ("text", "comma", "expected"),
    [
        ("3,199,193,473.84", False, 3199193473.84),
        ("1.234.567,8", True, 1234567.8),
        ("1 234,5", True, 1234.5),
        ("1'234.5", False, 1234.5),
        ("-0.5", False, -0.5),
        ("n/a", False, None),
        ("nan", False, None),
        ("", False, None),
        ("No-CC", False, None),
        (".", False, None),
    ],
)
def test_numbers(text: str, comma: bool, expected: float | None) -> None:
    assert number(text, decimal_comma=comma) == expected


def test_text_without_a_table_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="holds no profiled kernel"):
        require_csv("==ERROR== nothing\n", name="x.csv")


def test_representative_is_the_median_of_the_heaviest_shape() -> None:
    launches = parse_csv(RAW)
    assert representative(launches).kernel.startswith("tr(")


@pytest.mark.thorough
def test_hundred_thousand_rows_are_read() -> None:
    header = '"ID","Kernel Name","gpu__time_duration.sum"'
    text = "\n".join([header, '"","","ns"', *(f'"{i}","k","{i}"' for i in range(100_000))])
    assert len(parse_csv(text)) == 100_000


@given(st.sampled_from([RAW[-9000:], RAW, DETAILS, SOURCE]), st.floats(0, 1))
def test_a_cut_text_gives_a_part_of_the_truth(text: str, share: float) -> None:
    whole = {(launch.kernel, n): v for launch in parse_csv(text) for n, v in launch.metrics.items()}
    cut = text[: round(share * len(text))]
    for launch in parse_csv(cut):
        for name, amount in launch.metrics.items():
            assert whole[launch.kernel, name] == amount


@given(
    st.text()
    | st.lists(st.lists(st.text(max_size=8))).map(lambda rows: '"ID","Kernel Name","a"\n' + str(rows))
)
def test_any_text_is_survived(text: str) -> None:
    parse_csv(text)


@given(st.binary(max_size=400))
def test_any_bytes_in_the_middle_are_survived(junk: bytes) -> None:
    lines = DETAILS.splitlines(keepends=True)
    lines.insert(len(lines) // 2, junk.decode("utf-8", errors="replace"))
    assert len(parse_csv("".join(lines))) >= 2
