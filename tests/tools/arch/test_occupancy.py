# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.arch.load import known_architectures, load_architecture
from warplens_tools.arch.occupancy import occupancy
from warplens_tools.errors import InputError
from warplens_tools.toolchain.locate import resolve_toolchain

H100 = load_architecture("sm_90").limits


def test_registers_limit_and_what_would_help() -> None:
    found = occupancy(H100, block_threads=256, registers=72)
    assert (found.blocks, found.warps, found.occupancy) == (3, 24, 0.375)
    assert found.limiters == ("registers",)
    assert found.registers_for_next_block == 64


def test_shared_memory_limits_and_what_would_help() -> None:
    found = occupancy(H100, block_threads=128, registers=32, shared_bytes=100 * 1024)
    assert (found.blocks, found.limiters) == (2, ("shared memory",))
    assert found.shared_bytes_for_next_block == 228 * 1024 // 3 - 1024


def test_small_blocks_are_limited_by_their_number() -> None:
    found = occupancy(H100, block_threads=32, registers=16)
    assert (found.blocks, found.occupancy, found.limiters) == (32, 0.5, ("blocks",))
    assert found.registers_for_next_block is None


def test_a_block_that_does_not_fit_has_no_occupancy() -> None:
    assert occupancy(H100, block_threads=1024, registers=255).blocks == 0
    assert occupancy(H100, block_threads=2048, registers=16).limiters == ("warps",)
    assert occupancy(H100, block_threads=64, registers=16, shared_bytes=1 << 20).blocks == 0


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError):
        occupancy(H100, block_threads=0, registers=16)


CASES = st.tuples(
    st.sampled_from(known_architectures()), st.integers(1, 1024), st.integers(1, 255), st.integers(0, 232448)
)


@given(CASES)
def test_the_advice_admits_exactly_one_more_block(case: tuple[str, int, int, int]) -> None:
    arch, threads, registers, shared = case
    limits = load_architecture(arch).limits
    before = occupancy(limits, block_threads=threads, registers=registers, shared_bytes=shared)
    if len(before.limiters) != 1:
        return
    if (fewer := before.registers_for_next_block) is not None:
        assert fewer < registers
        after = occupancy(limits, block_threads=threads, registers=fewer, shared_bytes=shared)
        assert after.blocks > before.blocks
        one_more = occupancy(limits, block_threads=threads, registers=fewer + 1, shared_bytes=shared)
        assert one_more.blocks == before.blocks
    if (less := before.shared_bytes_for_next_block) is not None:
        assert less < shared
        after = occupancy(limits, block_threads=threads, registers=registers, shared_bytes=less)
        assert after.blocks > before.blocks


@pytest.mark.compiler
@pytest.mark.thorough
def test_agrees_with_the_runtimes_own_calculator(tmp_path: Path) -> None:
    """`cuda_occupancy.h` of the user's toolkit, over a random grid of every architecture."""
    tools = resolve_toolchain()
    headers, compiler = tools.find("cuda_headers"), tools.find("host_compiler")
    if headers is None or compiler is None:
        pytest.skip("no CUDA headers or no host compiler")
    if not (Path(headers.path) / "cuda_occupancy.h").is_file():
        pytest.skip(f"{headers.path} has no cuda_occupancy.h")
    program = tmp_path / "reference"
    source = Path(__file__).with_name("occupancy_reference.cpp")
    subprocess.run([compiler.path, "-I", headers.path, source, "-o", program], check=True)
    cases = list(_grid(random.Random(2)))
    lines = "\n".join(" ".join(map(str, row)) for _, row in cases)
    answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout
    compared = 0
    for (arch, row), answer in zip(cases, answers.splitlines(), strict=True):
        status, blocks = map(int, answer.split())
        if status == 0:
            threads, registers, shared = row[-3:]
            limits = load_architecture(arch).limits
            own = occupancy(limits, block_threads=threads, registers=registers, shared_bytes=shared)
            assert own.blocks == blocks, (arch, row)
            compared += 1
    assert compared > 0.9 * len(cases)


def _grid(random_source: random.Random) -> list[tuple[str, tuple[int, ...]]]:
    rows: list[tuple[str, tuple[int, ...]]] = []
    for arch in known_architectures():
        major, minor = int(arch[3:-1]), int(arch[-1])
        limits = load_architecture(arch).limits
        fixed = (major, minor, limits.max_threads, limits.shared_bytes, limits.max_shared_bytes_per_block)
        for _ in range(2000):
            shared = random_source.choice((0, random_source.randint(0, limits.max_shared_bytes_per_block)))
            row = (*fixed, random_source.randint(1, 1024), random_source.randint(1, 255), shared)
            rows.append((arch, row))
    return rows
