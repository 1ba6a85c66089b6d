# SPDX-License-Identifier: Apache-2.0
"""A shorter form of the scripted day of `tests.bench.bench_day`, with the real server and compiler."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.bench.bench_day import Day
from tests.server.lsp.client import REAL


@pytest.fixture
async def day(tmp_path: Path) -> AsyncIterator[Day]:
    day = Day(tmp_path, edits=24)
    await day.client.begin(tmp_path, command=REAL, options={"accepts": ["warplens/status"]})
    yield day
    with contextlib.suppress(Exception):
        await day.client.end()


@pytest.mark.compiler
async def test_findings_hold_still_through_edits_and_saves(day: Day) -> None:
    result = await day.edits_and_saves()
    assert result["findings"] > 2
    assert result["vanished_and_returned"] == 0, result["which"]
    assert result["the_same_at_the_end"] and result["resurrected_after_a_fix"] == 0


@pytest.mark.compiler
async def test_a_created_a_renamed_and_a_deleted_file_check_no_other(day: Day) -> None:
    result = await day.many_files(6)
    assert result["checked_after_create_rename_delete"] == 0


async def test_typing_is_answered_while_it_goes_on(day: Day) -> None:
    result = await day.typing()
    # the promise is 150 ms on an idle machine; without a longest wait nothing came before the last key
    assert result["change_to_publish"]["median_ms"] < 3000


async def test_a_large_file_that_was_closed_holds_no_other(day: Day) -> None:
    table = "".join(
        f"__device__ const float table{n}[4] = {{1.f, 2.f, 3.f, {n}.f}};\n" for n in range(35_000)
    )
    small = "__global__ void half(float* a) { a[threadIdx.x] = a[0] * 2.0; }\n"
    large = await day.open("large.cu", table)
    started = time.monotonic()
    day.client.close(large)
    uri = await day.open("small.cu", small)
    await day.client.until(lambda: uri in day.client.published, 60)
    taken = time.monotonic() - started
    other = await day.open("larger.cu", table + small)
    started = time.monotonic()
    await day.client.until(lambda: other in day.client.published, 300)
    assert taken < 0.5 * (time.monotonic() - started), "the closed file was read to its end"
