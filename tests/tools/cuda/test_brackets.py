# SPDX-License-Identifier: Apache-2.0
"""Balanced brackets of a text that is typed are those of the same text read afresh."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.cuda.syntax.brackets import Balanced, balance, balance_again

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "first").glob("*.cu"))
CODE = "".join(
    f"namespace p{n} {{\n{path.read_text().encode('ascii', 'replace').decode()}\n}}\n"
    for n, path in enumerate(EXAMPLES)
)
INSERTED = (
    "(", ")", "{", "}", "[", "]", ";", "\n", "x", "return (", "__global__ void f(int a) {", "namespace q {",
    "struct S {", "};", "template <int N>\n", "\n__device__ ",
)  # fmt: skip


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(INSERTED), st.sampled_from((0, 0, 1, 40))),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=25, deadline=None)
def test_what_is_read_again_is_what_a_fresh_reading_gives(edits: list[tuple[float, str, int]]) -> None:
    code, known = CODE, None
    for place, text, gone in edits:
        at = int(place * len(code))
        code = code[:at] + text + code[at + gone :]
        balanced, repairs, known = balance_again(code, known)
        assert (balanced, repairs) == balance(code)


def test_one_bracket_more_is_read_within_its_definition() -> None:
    at = CODE.index("__global__", len(CODE) // 2)
    first = Balanced(CODE[:at] + "(" + CODE[at:])
    second = Balanced(CODE[:at] + "x(" + CODE[at:], first)
    assert second.result() == Balanced(second.code).result()
    assert sum(a is b for a, b in zip(first.states, second.states, strict=False)) > 3
