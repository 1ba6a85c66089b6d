# SPDX-License-Identifier: Apache-2.0
"""What a warp's pass needs of each resource, and what that says bounds the kernel."""

from __future__ import annotations

from tests.tools.machine.kernels import COPY, COPY_SASS, view_of

from warplens_tools.roofline.classify import classify


def test_a_copy_needs_device_memory_most() -> None:
    demand = view_of().demand
    top, cycles, other, less = demand.top(demand.dram_lower)
    assert (top, other) == ("dram", "issue")
    assert cycles > less > 0.0
    assert demand.flops == 0.0


def test_arithmetic_in_a_loop_outweighs_it() -> None:
    chain = "\n".join(f"FFMA R{n}, R4, R5, R{n}" for n in range(10, 42))
    view = view_of(
        listing=COPY_SASS.replace("STG", f".L:\n{chain}\n@P0 BRA `(.L)\nSTG"), lines=(3, 4, *[4] * 33, 4)
    )
    demand = view.demand
    assert demand.top(demand.dram_lower)[0] in ("fp32", "issue")
    assert demand.flops == 2 * 32 * 32 * 32


def test_the_class_follows_and_without_sass_there_is_none() -> None:
    assert classify(view_of(listing="")).bound == "unknown"
    assert classify(view_of(COPY.replace("<<<1024, 256>>>", "<<<2, 32>>>"))).bound == "latency"
