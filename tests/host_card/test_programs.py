# SPDX-License-Identifier: Apache-2.0
"""Programs compiled by the real nvcc run on the card in software as they would on one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.host_card.ptx import PtxError, translate
from tests.host_card.toolkit import environment
from tests.host_cuda import HostProgram, agree
from tests.kept import digest_of, kept
from tests.patience import PATIENCE
from tests.suite.catalogue import programs

from warplens_tools.errors import MissingToolError

pytestmark = pytest.mark.compiler
PROGRAMS = Path(__file__).parent / "programs"
SUITE = {program.name: program for program in programs()}
_HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


@pytest.fixture(scope="module")
def card() -> dict[str, str]:
    try:
        return environment()
    except MissingToolError as error:
        pytest.skip(str(error))


def _built(source: Path, card: dict[str, str], *flags: str) -> Path:
    def make(out: Path) -> None:
        command = ["nvcc", "-arch=sm_90", "-std=c++17", "-w", *flags, str(source), "-o", str(out)]
        done = subprocess.run(command, env=card, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return kept(source.stem, digest_of(source, card["CUDA_HOME"], *flags), make)


def _run(
    program: Path, card: dict[str, str], *arguments: str, order: int = 1
) -> subprocess.CompletedProcess[str]:
    environment = {**card, "HOST_CARD_ORDER": str(order)}
    return subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.thorough
def test_instructions_are_as_on_the_host(card: dict[str, str]) -> None:
    program = _built(PROGRAMS / "instructions.cu", card, "-fmad=false", "-Xcompiler=-ffp-contract=off")
    assert _run(program, card).stdout == "0 wrong\n"


@pytest.mark.parametrize("order", [0, 1, 7])
def test_threads_meet_and_blocks_wait_for_others(card: dict[str, str], order: int) -> None:
    program = _built(PROGRAMS / "warps.cu", card)
    said = "thread 77 of block 0 has 21 and 10.50 and words\n0 wrong\n"
    assert _run(program, card, order=order).stdout == said


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (0, "no error"),
        (1, "an illegal memory access was encountered"),
        (2, "an illegal memory access was encountered"),
        (3, "misaligned address"),
        (4, "device-side assert triggered"),
        (5, "unspecified launch failure"),
        (6, "an illegal memory access was encountered"),
        (7, "an illegal memory access was encountered"),
        (9, "an illegal memory access was encountered"),
        (10, "no error"),
    ],
)
def test_what_a_card_forbids_ends_the_launch_and_loses_the_context(
    card: dict[str, str], how: int, said: str
) -> None:
    program = _built(PROGRAMS / "faults.cu", card)
    after = "invalid configuration argument" if said == "no error" else said
    assert _run(program, card, str(how)).stdout == f"{said}, {said}\n{after}\n"


def test_a_kernel_that_never_ends_is_waited_for(card: dict[str, str]) -> None:
    program = _built(PROGRAMS / "faults.cu", card)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([program, "8"], env=card, capture_output=True, timeout=1, check=False)


def test_an_unknown_instruction_refuses_its_kernel_alone_and_is_named() -> None:
    entry = ".visible .entry {name}(.param .u64 p)\n{{\n.reg .b32 %r<2>;\n{body}\nret;\n}}\n"
    text = (
        _HEAD + entry.format(name="odd", body="frobnicate.b32 %r0, %r1;") + entry.format(name="even", body="")
    )
    code = translate(text)
    assert '{"odd", ' in code
    assert re.search(r'"odd", .*"the instruction frobnicate\.b32 is not known"', code)
    assert re.search(r'"even", [^{]*nullptr\}', code)


def test_a_declaration_that_is_not_known_is_an_error() -> None:
    with pytest.raises(PtxError, match="not known"):
        translate(_HEAD + ".global .texref picture;\n")


@pytest.mark.thorough
@pytest.mark.parametrize("name", SUITE)
def test_a_program_of_the_suite_prints_what_it_prints_on_the_host(card: dict[str, str], name: str) -> None:
    program = SUITE[name]
    wanted = HostProgram(program.path.read_text()).run(*program.small)
    for order in (0, 3):
        done = _run(_built(program.path, card), card, *program.small, order=order)
        assert done.returncode == 0, done.stderr
        assert agree(wanted, done.stdout, relative=1e-4, absolute=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [n for n, p in SUITE.items() if p.expert.exists() and not p.has_cpp_expert])
def test_an_experts_version_with_ptx_prints_what_the_program_does(card: dict[str, str], name: str) -> None:
    program = SUITE[name]
    wanted = HostProgram(program.path.read_text()).run(*program.small)
    done = _run(_built(program.expert, card), card, *program.small)
    assert done.returncode == 0, done.stderr
    assert agree(wanted, done.stdout, relative=1e-3, absolute=1e-5)
