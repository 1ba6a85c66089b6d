# SPDX-License-Identifier: Apache-2.0
"""What runs are compared by, without running any: outputs, files, inputs made otherwise, traces summed."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.measure.program.device_work import DeviceWork, too_little, work_of
from warplens.measure.program.effects import (
    RunEffects,
    Written,
    compared,
    left_out,
    stamps_of,
    unlike,
    written_since,
)
from warplens.measure.program.variation import changed_content
from warplens.measure.program.whole import ProgramRun
from warplens_tools.run.probe.records import TracedActivity, TraceEnd


def did(stdout: str = "", status: int = 0, **files: bytes) -> RunEffects:
    written = {
        name: Written("file", len(data), hashlib.sha256(data).hexdigest(), data)
        for name, data in files.items()
    }
    return RunEffects(ProgramRun(status, 1.0, stdout, ""), written)


def floats(*values: float) -> bytes:
    return struct.pack(f"{len(values)}f", *values)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([did("sum 1.234567\n")], did("sum 1.234568\n"), ""),
        ([did("sum 1.234567\n")], did("sum 1.3\n"), "prints"),
        # times are no results, whatever they are
        ([did("took 1.5 ms, 20 GB/s\n")], did("took 0.7 ms, 43 GB/s\n"), ""),
        ([did("took 1.5 ms\n")], did("took it 0.7 ms\n"), "prints"),
        ([did("mass 1.5 kg\n")], did("mass 0.7 kg\n"), "prints"),
        # what varies by rounding alone is a result still
        ([did("sum 1.234567\n"), did("sum 1.234566\n")], did("sum 1.5\n"), "prints"),
        ([did("sum 1.234567\n"), did("sum 1.234566\n")], did("sum 1.234565\n"), ""),
        ([did("at 17\n"), did("at 99\n")], did("at 3\n"), ""),
        ([did(a=floats(1, 2))], did(a=floats(1, 2.0001)), ""),
        ([did(a=floats(1, 2))], did(a=floats(1, 2.001)), "beyond the rounding of floats"),
        ([did(a=floats(1, 0))], did(a=floats(1, 1e-9)), "beyond"),
        ([did(a=floats(1, 2))], did(a=floats(1, float("nan"))), "beyond"),
        ([did(a=floats(1, 2))], did(a=floats(1, 2, 3)), "12 bytes to a, the original 8"),
        # small integers are no floats that differ by rounding
        ([did(a=struct.pack("2i", 1000000, 5))], did(a=struct.pack("2i", 1000001, 5)), "beyond"),
        ([did(a=b"x 1.5\n")], did(a=b"x 1.6\n"), "in a the rebuilt program writes 'x 1.6'"),
        ([did(a=b"\0x"), did(a=b"\0y")], did(a=b"\0z"), ""),
        ([did(a=b"x")], did(), "does not write a"),
        ([did(a=b"x"), did()], did(), ""),
        ([did()], did(a=b"x"), "writes a, the original does not"),
    ],
)
def test_differences(before: list[RunEffects], after: RunEffects, said: str) -> None:
    found = unlike(before, after)
    assert said in found
    assert bool(said) == bool(found)


@given(st.lists(st.floats(2.0**-60, 2.0**60, width=32), min_size=1), st.binary())
def test_the_same_doings_never_differ(values: list[float], data: bytes) -> None:
    doings = did(repr(values), a=floats(*values), b=data)
    assert unlike([doings], doings) == ""


def test_what_is_compared_is_said() -> None:
    runs = [did("n 5\nat 17\n", a=b"xyz", b=b"\0u"), did("n 5\nat 99\n", a=b"xyz", b=b"\0v")]
    assert compared(runs) == ("exit status 0", "1 lines of output with 1 numbers", "1 files of 3 bytes (a)")
    assert left_out(runs)[:2] == (
        "the numbers in 1 lines of output, where they vary by more than rounding",
        "what varies in b",
    )
    assert compared([did("done\n"), did("done\n")]) == ()
    assert compared([did("took 3.5 ms\n"), did("took 3.5 ms\n")]) == ()
    assert left_out([did("a\n"), did("a\nb\n")])[0] == "output, of 1 to 2 lines"


def test_files_made_changed_removed_and_read_are_seen(tmp_path: Path) -> None:
    for name in ("kept", "read", "changed", "rewritten", "removed", "replaced"):
        (tmp_path / name).write_text(name)
    before = stamps_of(tmp_path)
    (tmp_path / "read").read_text()
    (tmp_path / "changed").write_text("other")
    # the same bytes, and the time set back: it was written all the same
    times = (tmp_path / "rewritten").stat()
    (tmp_path / "rewritten").write_text("rewritten")
    os.utime(tmp_path / "rewritten", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "removed").unlink()
    (tmp_path / "replaced").unlink()
    (tmp_path / "replaced").symlink_to("kept")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/made").write_bytes(b"\0")
    os.mkfifo(tmp_path / "pipe")
    files, read = written_since(tmp_path, before)
    kinds = {name: written.kind for name, written in files.items()}
    assert kinds == {
        "changed": "file", "rewritten": "file", "removed": "removed", "replaced": "link", "new/made": "file",
        "pipe": "other",
    }  # fmt: skip
    assert "kept" not in read


@given(st.lists(st.floats(2.0**-30, 2.0**30, width=32), min_size=2, max_size=20))
def test_an_input_is_changed_in_its_numbers_alone(values: list[float]) -> None:
    binary = changed_content(floats(*values) + b"")
    text = changed_content(" ".join(f"{v:.4f}" for v in values).encode())
    assert text is None or len(text.split()) == len(values)
    if binary is not None:
        assert len(binary) == 4 * len(values)
        changed = struct.unpack(f"{len(values)}f", binary)
        assert all(new in (old, old / 2) for old, new in zip(values, changed, strict=True))


def test_an_input_without_known_numbers_is_left_alone() -> None:
    assert changed_content(b"words and 17\n") is None
    assert changed_content(b"\x89PNG\r\n\x1a\n\0\0\0") is None
    assert changed_content(b"") is None


def activity(kind: str, start: int, end: int, **fields: int) -> TracedActivity:
    return TracedActivity(kind, start, end, fields.pop("device", 0), 0, **fields)  # type: ignore[arg-type]


def test_device_time_counts_each_moment_once_per_device() -> None:
    trace = [
        activity("transfer", 0, 10, bytes=100, copy=1),
        activity("kernel", 5, 20),
        activity("kernel", 30, 40),
        activity("transfer", 40, 50, bytes=64, copy=2),
        activity("kernel", 0, 7, device=1),
    ]
    assert work_of([*trace, TraceEnd(1, 0)]) == DeviceWork(kernels=3, busy_ns=47.0, host_bytes=64)
    assert work_of(trace) is None
    # what was dropped were calls
    assert work_of([*trace, TraceEnd(1, 7)]) == work_of([*trace, TraceEnd(1, 0)])
    assert work_of([*trace[:1] * 200_000, TraceEnd(1, 7)]) is None


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (DeviceWork(10, 1000.0, 64), ""),
        (DeviceWork(1, 100.0, 64), ""),
        (DeviceWork(1, 10.0, 64), "too little"),
        (DeviceWork(0, 1000.0, 64), "no kernel"),
        (DeviceWork(10, 1000.0, 32), "fewer results"),
        (None, "could not be traced"),
    ],
)
def test_too_little_device_work_is_not_believed(work: DeviceWork | None, said: str) -> None:
    found = too_little(work, DeviceWork(10, 1000.0, 64), 0.02)
    assert said in found
    assert bool(said) == bool(found)
