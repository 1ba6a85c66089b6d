# SPDX-License-Identifier: Apache-2.0
"""A candidate's geometry, from its text alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from warplens.measure.build.own_geometry import asking, with_own_geometry
from warplens.measure.verdict import Candidate
from warplens_tools.text import SourceText, Span, TextEdit

CODE = """#define BLOCK 256
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
int main(int count, char** words) {
    float* x;
    const int n = 1 << 20;
    cudaMalloc(&x, n * sizeof(float));
    scale<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, n);
    return cudaDeviceSynchronize();
}
"""


def placed(before: str, after: str, **known: object) -> Candidate:
    candidate = Candidate("c", "/k.cu", "", (), **known)  # type: ignore[arg-type]
    return with_own_geometry(candidate, SourceText(before), SourceText(after), "scale")


def test_constants_fix_it() -> None:
    found = placed(CODE, CODE.replace("BLOCK 256", "BLOCK 128"))
    assert (found.grid, found.block, found.asks_program) == ((8192, 1, 1), (128, 1, 1), False)
    literal = placed(CODE, CODE.replace("BLOCK>>>", "128>>>").replace("BLOCK - 1) / BLOCK", "127) / 128"))
    assert (literal.grid, literal.block, literal.asks_program) == ((8192, 1, 1), (128, 1, 1), False)


def test_the_program_is_asked_where_they_do_not() -> None:
    code = CODE.replace("1 << 20", "count << 20")
    found = placed(code, code.replace("BLOCK 256", "BLOCK 128"))
    assert found.asks_program


def test_a_header_has_no_launch_of_its_own() -> None:
    header = CODE[: CODE.index("int main")]
    assert placed(header, header.replace("BLOCK 256", "BLOCK 128")).asks_program
    assert not placed(header, header.replace("*= 2", "+= x[i]")).asks_program


@pytest.mark.parametrize("known", [{"block": (64, 1, 1)}, {"asks_program": True}])
def test_what_is_known_already_stays(known: dict[str, object]) -> None:
    found = placed(CODE, CODE.replace("BLOCK 256", "BLOCK 128"), **known)
    assert found == Candidate("c", "/k.cu", "", (), **known)  # type: ignore[arg-type]


def test_device_code_alone_keeps_the_programs() -> None:
    found = placed(CODE, CODE.replace("*= 2", "+= x[i]"))
    assert (found.grid, found.block, found.asks_program) == (None, None, False)


def test_no_program_is_rebuilt_from_a_text_that_may_not_be_compiled() -> None:
    before = SourceText(CODE)
    builder = SimpleNamespace(
        text=before,
        workload=SimpleNamespace(source="/k.cu"),
        edited=lambda candidate: before.apply(list(candidate.edits)),
    )

    def candidate(name: str, old: str, new: str) -> Candidate:
        at = CODE.index(old)
        edit = TextEdit(before.span(at, at + len(old)), new)
        return Candidate(name, "/k.cu", "scale", (edit,), asks_program=True)

    both = TextEdit(Span(1, 1, 1, 5), "#"), TextEdit(Span(1, 2, 1, 6), "#")
    candidates = [
        candidate("good", "x[i] *= 2", "x[i] += x[i]"),
        candidate("reads", "x[i] *= 2;", 'x[i] *= 2; asm(".incbin \\"/etc/passwd\\"");'),
        Candidate("overlapping", "/k.cu", "scale", both, asks_program=True),
        Candidate("unasked", "/k.cu", "scale", ()),
    ]
    (only,) = asking(cast(Any, builder), candidates, "scale")
    assert "x[i] += x[i]" in only.text
