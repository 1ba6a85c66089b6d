# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.toolchain.ptxas import parse_ptxas

CUDA_13 = """\
ptxas info    : 40 bytes gmem
ptxas info    : Compiling entry function '_Z5spillPdi' for 'sm_90a'
ptxas info    : Function properties for _Z5spillPdi
    1360 bytes stack frame, 2360 bytes spill stores, 2864 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1360 bytes cumulative stack size, 4096 bytes smem
ptxas info    : Compile time = 21.152 ms
ptxas info    : Function properties for _Z3reci
    40 bytes stack frame, 40 bytes spill stores, 40 bytes spill loads
"""
CUDA_12 = """\
ptxas info    : 0 bytes gmem, 256 bytes cmem[3]
ptxas info    : Compiling entry function '_Z4tilePKfPfi' for 'sm_80'
ptxas info    : Function properties for _Z4tilePKfPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 4096 bytes smem, 372 bytes cmem[0], 8 bytes cmem[2]
"""
CUDA_9 = """\
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_35'
ptxas info    : Function properties for _Z1kPf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 12 registers, 4096+16 bytes smem, 328 bytes cmem[0]
"""
NVRTC = """\
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'
ptxas info    : Function properties for _Z1kPf
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""


def test_cuda_13_entry_and_device_function() -> None:
    entry, device = parse_ptxas(CUDA_13)
    assert (entry.name, entry.arch, entry.entry) == ("_Z5spillPdi", "sm_90a", True)
    assert (entry.registers, entry.shared_bytes, entry.barriers) == (32, 4096, 1)
    assert (entry.stack_bytes, entry.spill_store_bytes, entry.spill_load_bytes) == (1360, 2360, 2864)
    assert entry.constant_bytes is None
    assert (device.name, device.entry, device.registers, device.spill_store_bytes) == (
        "_Z3reci",
        False,
        None,
        40,
    )


def test_cuda_12_names_constant_banks() -> None:
    (entry,) = parse_ptxas(CUDA_12)
    assert entry.constant_bytes == {0: 372, 2: 8}
    assert entry.shared_bytes == 4096


def test_user_and_system_shared_memory_add_up() -> None:
    (entry,) = parse_ptxas(CUDA_9)
    assert entry.shared_bytes == 4112


def test_nvrtc_marks_continuation_lines_differently() -> None:
    (entry,) = parse_ptxas(NVRTC)
    assert (entry.stack_bytes, entry.spill_store_bytes, entry.spill_load_bytes) == (16, 4, 8)


@given(
    st.integers(1, 255),
    st.integers(0, 1 << 20),
    st.one_of(st.none(), st.integers(1, 233472)),
    st.sampled_from(["    ", "ptxas         .     "]),
)
def test_any_figures_are_read_back(registers: int, spill: int, shared: int | None, indent: str) -> None:
    text = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        f"{indent}{spill} bytes stack frame, {spill} bytes spill stores, {spill + 1} bytes spill loads\n"
        f"ptxas info    : Used {registers} registers" + (f", {shared} bytes smem" if shared else "") + "\n"
    )
    (entry,) = parse_ptxas(text)
    assert entry.registers == registers
    assert (entry.stack_bytes, entry.spill_load_bytes) == (spill, spill + 1)
    assert entry.shared_bytes == (shared or 0)


@given(st.lists(st.sampled_from((CUDA_13 + CUDA_12 + NVRTC).splitlines())))
def test_lines_in_any_order_never_raise(lines: list[str]) -> None:
    for report in parse_ptxas("\n".join(lines)):
        assert report.name


@pytest.mark.parametrize("text", ["", "nvcc fatal   : Unsupported gpu architecture 'sm_12'", "\0\0"])
def test_text_without_a_report_is_empty(text: str) -> None:
    assert parse_ptxas(text) == ()
