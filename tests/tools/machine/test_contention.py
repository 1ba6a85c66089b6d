# SPDX-License-Identifier: Apache-2.0
"""The model of atomics gives what a card took for them, and compilers' retry loops count no trips."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.arch.load import load_architecture
from warplens_tools.evidence import Instruction
from warplens_tools.machine.atomics import sector_turns, slices_at_once
from warplens_tools.sass.flow import analyse

MEASURED = {
    figure["name"]: figure["clocks"]
    for figure in json.loads((Path(__file__).parents[3] / "docs/benchmarks/costs.json").read_text())[
        "figures"
    ]
}


@pytest.mark.parametrize("places", [1, 2, 4, 16, 64, 256, 1024])
def test_atomics_at_random_places_take_what_a_card_took(places: int) -> None:
    gpu = load_architecture("sm_90")
    turns = sector_turns(gpu.limits.warp_size, places, 4, SECTOR_BYTES)
    lane = turns * gpu.costs.atomic / slices_at_once(places * 4, gpu) / gpu.limits.warp_size
    measured = MEASURED[f"global int, {places} places 4 B apart"]
    assert max(lane / measured, measured / lane) < 1.5


def test_more_slices_serve_wider_spans() -> None:
    gpu = load_architecture("sm_90")
    found = [slices_at_once(span, gpu) for span in (4, 512, 4096, 65536, 1 << 20, 1 << 28)]
    assert found == sorted(found)
    assert found[0] == 1.0


def code(*opcodes: str) -> tuple[Instruction, ...]:
    """Instructions of which the one before last branches back to the first."""
    parts = [opcode.split(".") for opcode in opcodes]
    back = len(parts) - 2
    return tuple(
        Instruction(
            16 * i, part[0], tuple(part[1:]), (), "@!P0" if i == back else "", target=0 if i == back else None
        )
        for i, part in enumerate(parts)
    )


def test_the_retry_of_a_shared_float_atomic_is_no_loop() -> None:
    assert set(analyse(code("LDS", "FADD", "ATOMS.CAST.SPIN", "ISETP", "BRA", "EXIT")).depths) == {0}
    assert analyse(code("LDG", "FADD", "ATOMG.CAS", "ISETP", "BRA", "EXIT")).depths == (1, 1, 1, 1, 1, 0)
