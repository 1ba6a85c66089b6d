# SPDX-License-Identifier: Apache-2.0
"""Addresses read off SASS: right or unknown, never wrong."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from tests.bench.bench_addresses import FOLDER, Expected, Result, compare, expectations, measure, summary
from tests.tools.sass.written import code

from warplens_tools.arch.load import load_architecture
from warplens_tools.evidence import CompiledKernel, Resources
from warplens_tools.sass import lanes
from warplens_tools.sass.addresses import AddressPattern, address_patterns
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.lanes import Value
from warplens_tools.sass.results import registers_written
from warplens_tools.sass.warps import Launch, full_warps, launch_of
from warplens_tools.toolchain.disassemble import parse_nvdisasm

LIMITS = load_architecture("sm_90").limits
INLINE = Path(__file__).parents[2] / "data/collect/inline.lrm.txt"


def patterns(
    text: str, block: tuple[int, int, int] | None = None, arch: str = "sm_90"
) -> list[AddressPattern]:
    """Patterns of a hand-written kernel."""
    return list(
        address_patterns(
            CompiledKernel("k", "k", "k", arch, Resources(1), code(text)), analyse(code(text)), block, LIMITS
        )
    )


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """Every kernel with a known pattern, for two architectures."""
    return measure(("sm_80", "sm_90"))


@pytest.mark.compiler
@pytest.mark.thorough
def test_known_patterns_are_never_told_wrong(results: list[Result]) -> None:
    assert [r for r in results if r.outcome == "wrong"] == []


@pytest.mark.compiler
@pytest.mark.thorough
def test_four_in_five_are_right(results: list[Result]) -> None:
    for arch, counts in summary(results)["architectures"].items():  # type: ignore[attr-defined]
        assert counts["kernels"] >= 60, arch
        assert counts["right"] >= 0.8 * counts["kernels"], arch


def test_what_stands_beside_an_access_is_compared() -> None:
    (wanted,) = expectations("x; //! ld stride=4 sectors=4-5")[1]
    told = AddressPattern(0, "global", 4, stride=4, sectors=(4, 5))
    assert compare(told, wanted)[0] == "right"
    assert compare(msgspec.structs.replace(told, stride=8), wanted)[0] == "wrong"
    assert compare(msgspec.structs.replace(told, sectors=(4, 4)), wanted)[0] == "wrong"
    assert compare(msgspec.structs.replace(told, sectors=(1, 32)), wanted)[0] == "unknown"
    assert compare(AddressPattern(0, "global", 4, why="?"), wanted)[0] == "unknown"
    assert compare(told, Expected("ld", unknown=True))[0] == "wrong"
    assert {p.name for p in FOLDER.glob("*.cu")} == {"linear.cu", "planes.cu", "shared.cu", "traps.cu"}


def test_a_hand_written_copy() -> None:
    copy = """
        S2R R0, SR_TID.X
        S2R R3, SR_CTAID.X
        IMAD R0, R3, c[0x0][0x0], R0
        IMAD.WIDE R2, R0, 0x8, c[0x0][0x160]
        LDG.E.64 R4, [R2.64+0x8]
        EXIT
    """
    (open_block,) = patterns(copy, arch="sm_80")
    assert (open_block.stride, open_block.sectors, open_block.alignment) == (8, (9, 9), 8)
    assert open_block.form == "8*blockDim.x*blockIdx.x + c[0x0][0x160] + 256*warp.x + 8*lane + 8"
    (of_48,) = patterns(copy, (48, 1, 1), arch="sm_80")
    assert of_48.sectors == (9, 9), "48 threads of 8 bytes: blocks begin at multiples of 384 bytes"


def test_predicated_halves_of_a_pair_are_followed_together() -> None:
    guarded = """
        S2R R0, SR_TID.X
        ISETP.GE.AND P0, PT, R0, c[0x0][0x168], PT
        @!P0 IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]
        @!P0 LDG.E R4, [R2.64]
        LDG.E R5, [R2.64]
        EXIT
    """
    same, other = patterns(guarded, arch="sm_80")
    assert same.sectors == (4, 4)
    assert other.sectors is None, "without the guard the register may hold something else"


def test_what_was_set_under_a_guard_is_forgotten_when_a_loop_comes_round() -> None:
    loop = """
        S2R R0, SR_TID.X
        ISETP.GE.AND P0, PT, R0, c[0x0][0x168], PT
        @!P0 IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]
        .L_top:
        @!P0 LDG.E R4, [R2.64]
        @!P0 LDG.E R2, [R2.64+0x40]
        ISETP.NE.AND P1, PT, R4, RZ, PT
        @P1 BRA `(.L_top)
        EXIT
    """
    assert [p.sectors for p in patterns(loop, arch="sm_80")] == [None, None]


def test_a_call_out_of_the_function_leaves_nothing_known() -> None:
    called = """
        S2R R0, SR_TID.X
        IMAD.WIDE R2, R0, 0x4, c[0x0][0x160]
        CALL.ABS.NOINC 0x0
        LDG.E R4, [R2.64]
        EXIT
    """
    (pattern,) = patterns(called, arch="sm_80")
    assert pattern.sectors is None


def test_a_uniform_register_holds_one_number() -> None:
    moved = """
        S2R R0, SR_TID.X
        R2UR UR4, R0
        IMAD.WIDE R2, RZ, 0x4, c[0x0][0x160]
        LDG.E R4, [R2.64+UR4]
        EXIT
    """
    (pattern,) = patterns(moved, arch="sm_80")
    assert (pattern.stride, pattern.sectors) == (0, (1, 1)), "the first lane's number, whatever it is"


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("IADD3 R2, P0, R4, UR4, RZ", ["R2"]),
        ("SHFL.BFLY PT, R5, R4, 0x1, 0x1f", ["R5"]),
        ("LDG.E.128 R8, desc[UR4][R2.64]", ["R8", "R9", "R10", "R11"]),
        ("LDSM.16.M88.4 R4, [R2]", ["R4", "R5", "R6", "R7"]),
        ("DFMA R4, R6, R8, R4", ["R4", "R5"]),
        ("STG.E [R2.64], R7", []),
        ("ISETP.GE.AND P0, PT, R7, 0x1, PT", []),
        ("UIADD3 UR4, UR4, 0x10, URZ", ["UR4"]),
        ("MOV RZ, R2", []),
    ],
)
def test_registers_that_an_instruction_may_overwrite(line: str, written: list[str]) -> None:
    assert registers_written(code(line)[0]) == written


def test_a_wgmma_may_overwrite_every_register_above() -> None:
    written = registers_written(code("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24")[0])
    assert {"R24", "R151"} <= set(written)


def test_warps_of_blocks() -> None:
    assert isinstance(launch_of((20, 20, 1), "sm_90"), str)
    square = launch_of((16, 16, 1), "sm_90", 3)
    assert isinstance(square, Launch)
    assert square.threads[1].constant == (6,) * 16 + (7,) * 16
    assert [full_warps(b) for b in ((16, 16, 1), (20, 20, 1), (4, 2, 1))] == [8, 12, 1]
    small = launch_of((8, 1, 1), "sm_90")
    assert isinstance(small, Launch) and small.lanes == 8


@pytest.mark.parametrize(
    "block", [(256, 1, 1), (32, 8, 1), (16, 16, 1), (8, 4, 4), (64, 2, 2), (4, 4, 8), (48, 1, 1)]
)
def test_any_warp_of_a_block_is_each_of_its_warps(block: tuple[int, int, int]) -> None:
    anyone = launch_of(block, "sm_90")
    assert isinstance(anyone, Launch)
    for number in range(full_warps(block)):
        one = launch_of(block, "sm_90", number)
        assert isinstance(one, Launch)
        for general, exact in zip(anyone.threads, one.threads, strict=True):
            shared = lanes.subtract(exact, Value(tuple(t for t in general.terms if not t[0])))
            assert isinstance(shared, Value)
            assert shared.uniform, "what differs from warp to warp is the same for its lanes"


def test_a_branch_may_test_a_predicate_operand() -> None:
    loop = """
        UISETP.GE.AND UP0, UPT, UR5, 0x1, UPT
        BRA.U !UP0, `(.L_end)
        .L_top:
        LDG.E R4, [R2.64]
        UISETP.NE.AND UP0, UPT, UR5, 0x1, UPT
        BRA.U UP0, `(.L_top)
        .L_end:
        EXIT
    """
    assert analyse(code(loop)).depths == (0, 0, 1, 1, 1, 0)


def test_damaged_code_is_told_nothing_of_and_raises_nothing() -> None:
    for name, whole in parse_nvdisasm(INLINE.read_text("utf-8")).items():
        generator = random.Random(name)
        for _ in range(40):
            pieces = list(whole)
            for _ in range(3):
                at = generator.randrange(len(pieces))
                operands = list(pieces[at].operands)
                generator.shuffle(operands)
                pieces[at] = msgspec.structs.replace(
                    pieces[at], operands=tuple(operands[: generator.randrange(5)])
                )
            del pieces[generator.randrange(len(pieces))]
            kernel = CompiledKernel(name, name, name, "sm_90", Resources(1), tuple(pieces))
            for block in (None, (32, 8, 1), (7, 7, 7)):
                for pattern in address_patterns(kernel, analyse(kernel.instructions), block, LIMITS):
                    assert pattern.why or pattern.sectors or pattern.conflict
