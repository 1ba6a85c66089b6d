# SPDX-License-Identifier: Apache-2.0
"""Every reader of a tool's output survives what is cut, empty, damaged, of another version, or huge."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warplens_tools.collect.ncu_csv import parse_csv
from warplens_tools.collect.ncu_report import read_report
from warplens_tools.collect.nsys import MAX_ACTIVITIES, read_sqlite
from warplens_tools.errors import InputError
from warplens_tools.toolchain.demangle import demangle, qualified_name, strip_signature
from warplens_tools.toolchain.disassemble import parse_nvdisasm
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.toolchain.messages import parse_messages
from warplens_tools.toolchain.ptxas import parse_ptxas

DATA = Path(__file__).parents[2] / "data"
COLLECT, REPORTS = DATA / "collect", DATA / "reports"
EXPORT = REPORTS / "saxpy_transpose.nsys.sqlite"
PTXAS = """ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'
ptxas info    : Function properties for _Z1kPf
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 16 bytes smem
"""


def read(name: str) -> str:
    """A recorded output."""
    return (REPORTS / name if (REPORTS / name).is_file() else COLLECT / name).read_text("utf-8")


def read_messages(text: str) -> object:
    """A compiler's messages."""
    return parse_messages(text, directory=COLLECT)


#: Readers of text with a recording each.
READERS: list[tuple[Callable[[str], object], str]] = [
    (parse_csv, read("saxpy_transpose.raw.csv")[-20_000:]),
    (parse_csv, read("saxpy_transpose.details.csv")[:20_000]),
    (parse_csv, read("saxpy_transpose.source_sass.csv")),
    (parse_nvdisasm, read("inline.gi.txt")),
    (parse_nvdisasm, read("inline.lrm.txt")),
    (parse_ptxas, PTXAS),
    (read_messages, PTXAS),
]
readers = st.integers(0, len(READERS) - 1)


@given(readers, st.data())
def test_a_cut_output_is_survived(reader: int, data: st.DataObject) -> None:
    parse, text = READERS[reader]
    first = data.draw(st.integers(0, len(text)))
    parse(text[first : data.draw(st.integers(first, len(text)))])


@given(readers, st.lists(st.tuples(st.floats(0, 1), st.text(max_size=20)), max_size=5))
def test_foreign_text_in_the_middle_is_survived(reader: int, pieces: list[tuple[float, str]]) -> None:
    parse, text = READERS[reader]
    for share, piece in pieces:
        at = int(share * len(text))
        text = text[:at] + piece + text[at + len(piece) :]
    parse(text)


@given(readers, st.integers(0, 1 << 30))
def test_columns_and_words_of_another_version_are_survived(reader: int, seed: int) -> None:
    parse, text = READERS[reader]
    shuffle = random.Random(seed).shuffle
    lines = text.splitlines()[:60]
    changed = []
    for line in lines:
        cells = line.split(",")
        shuffle(cells)
        changed.append(",".join(cells))
    parse("\n".join(changed))


@pytest.mark.parametrize("parse", dict.fromkeys(parse for parse, _ in READERS), ids=lambda p: p.__name__)
@pytest.mark.parametrize("text", ["", "\n", "\0", "\ufeff", '"', "a,b\n" * 3, "\r\n\r", "٣,²\n"])
def test_nothing_to_speak_of_is_survived(parse: Callable[[str], object], text: str) -> None:
    assert not parse(text)


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r[0].__name__)
@pytest.mark.sampled(2)
def test_a_huge_output_is_read_in_seconds(reader: tuple[Callable[[str], object], str]) -> None:
    parse, text = reader
    started = time.process_time()
    parse(text * (2_000_000 // len(text)))
    # a tenth of a second here; what grows with the square of the size would take hours
    assert time.process_time() - started < 60


def test_a_field_of_any_length_is_read() -> None:
    text = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n"0","' + "k" * 300_000 + '","5"\n'
    (launch,) = parse_csv(text)
    assert len(launch.kernel) == 300_000


@given(st.text(max_size=60) | st.from_regex(r"_ZN?[0-9]+[A-Za-z0-9_]{0,30}E?", fullmatch=True))
def test_any_name_is_survived(name: str) -> None:
    qualified_name(name)
    strip_signature(demangle(name))


@pytest.mark.parametrize("at", [0, 4, 64, 5_000, 60_000])
@pytest.mark.sampled(2)
def test_a_report_with_other_bytes_is_read_or_refused(tmp_path: Path, at: int) -> None:
    data = bytearray((REPORTS / "tr.ncu-rep").read_bytes())
    data[at : at + 8] = b"\xff\x00\x7f\x80WL\x01\xfe"
    damaged = tmp_path / "other.ncu-rep"
    damaged.write_bytes(data)
    try:
        launches = read_report(damaged, toolchain=Toolchain({}, {}))
    except InputError as error:
        assert str(damaged) in str(error)
    else:
        assert launches


def copied(folder: Path) -> Path:
    """A recorded export to be changed."""
    path = folder / "export.sqlite"
    path.write_bytes(EXPORT.read_bytes())
    return path


def columns(table: str) -> list[str]:
    """Names of a recorded table's columns."""
    with sqlite3.connect(EXPORT.absolute().as_uri() + "?mode=ro", uri=True) as base:
        found = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
    base.close()
    return found


TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds", "TARGET_INFO_GPU")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(TABLES).flatmap(lambda t: st.tuples(st.just(t), st.sampled_from(columns(t)))),
    st.sampled_from(["gone", "NULL", "'text'", "-1", "9223372036854775807", "1e300", "x'ff00'"]),
)
def test_an_export_of_another_version_is_read_or_refused(
    tmp_path: Path, place: tuple[str, str], value: str
) -> None:
    table, column = place
    path = copied(tmp_path)
    with sqlite3.connect(path) as base:
        if value == "gone":
            base.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
        else:
            # a copy has no keys and checks that would refuse the value
            base.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
            base.execute(f"DROP TABLE {table}")
            base.execute(f"ALTER TABLE loose RENAME TO {table}")
            base.execute(f"UPDATE {table} SET {column} = {value}")
    base.close()
    try:
        timeline = read_sqlite(path)
    except InputError as error:
        assert str(path) in str(error)
    else:
        assert timeline.span_ns >= 0


@pytest.mark.thorough
def test_a_huge_export_is_cut_and_says_so(tmp_path: Path) -> None:
    path = copied(tmp_path)
    with sqlite3.connect(path) as base:
        names = ", ".join(columns("CUPTI_ACTIVITY_KIND_KERNEL"))
        base.execute("CREATE TABLE one AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1")
        base.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_ACTIVITIES + 10}) "
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL ({names}) SELECT one.* FROM one, n"
        )
    base.close()
    timeline = read_sqlite(path)
    assert timeline.origin.endswith("(cut)")
    assert sum(k.launches for k in timeline.kernels) == MAX_ACTIVITIES
