# SPDX-License-Identifier: Apache-2.0
"""Rows that data chooses, loads that threads share, and timelines' copies."""

from __future__ import annotations

import pytest
from tests.tools.machine.kernels import COPY, view_of

from warplens_tools.evidence import TimelineEvidence, TransferTotal
from warplens_tools.machine.rows import rows
from warplens_tools.machine.timeline_share import host_transfers, share_observation, total_ns


@pytest.mark.parametrize(("pitch", "sectors"), [(64, 8.0), (66, 8.75)])
def test_a_row_that_data_chooses_begins_where_its_pitch_puts_it(pitch: int, sectors: float) -> None:
    source = f"""\
__global__ void k(const float *a, const int *at, float *o)
{{
    int i = threadIdx.x, row = at[blockIdx.x];
    o[i] = a[row * {pitch} + i];
}}
void f(const float *a, const int *t, float *o) {{ k<<<8, 64>>>(a, t, o); }}
"""
    (found,) = rows(view_of(source, ""))
    assert (found.pitch, found.length) == (4 * pitch, 128)
    assert found.sectors == pytest.approx(sectors / 2, rel=0.1)


def test_loads_that_all_lanes_make_alike_are_read_by_all() -> None:
    listing = ".L:\nLDG.E R4, desc[UR4][R2.64]\nIADD3 R2, R2, 0x4, RZ\nFADD R5, R5, R4\n@P0 BRA `(.L)\nEXIT"
    written = f"MOV R2, c[0x0][0x210]\nMOV R3, c[0x0][0x214]\n{listing}", (3, 3, 4, 4, 4, 4, 5)
    view = view_of(COPY, *written)
    assert view.reuse.hidden_rereads == {2: 32}
    alone = view_of(COPY.replace("1024, 256", "1, 1"), *written)
    assert alone.reuse.hidden_rereads == {}
    assert view_of().reuse.hidden_rereads == {}


def test_copies_are_summed_by_direction() -> None:
    moved = (
        TransferTotal("host to device", "pinned", 1, 100, 30.0, 0, 0.0, 0, 0.0),
        TransferTotal("device to host", "pinned", 1, 100, 20.0, 0, 0.0, 0, 0.0),
    )
    timeline = TimelineEvidence("nsys", "", 200.0, 100.0, (), transfers=moved)
    assert total_ns(host_transfers(timeline, ("in",))) == 30.0
    assert total_ns(host_transfers(timeline, ("in", "out"))) == 50.0
    assert share_observation(timeline, "copies", 50.0).value == 0.25
