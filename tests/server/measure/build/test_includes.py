# SPDX-License-Identifier: Apache-2.0
"""Where the headers that an edit adds stand among the baseline's lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.measure.build.includes import added_includes, with_includes

OWN = """#include <cstdio>
#include <vector>
inline int checked(int n) { return n + 1; }
__global__ void k(int* a) {
    a[0] = 1;
}
int main() { return 0; }
"""
KERNEL = "__global__ void k(int* a) {\n    a[0] = 1;\n}\n"
NEW = "__global__ void k(int* a) {\n    a[0] = __popc(1);\n}\n"


@pytest.mark.parametrize(
    ("edited", "added"),
    [
        (
            OWN.replace("#include <vector>\n", "#include <vector>\n#include <cuda_fp16.h>\n"),
            ((2, "<cuda_fp16.h>"),),
        ),
        (OWN.replace(KERNEL, f"#include <cuda_pipeline.h>\n\n{NEW}"), ((3, "<cuda_pipeline.h>"),)),
        (
            OWN.replace(KERNEL, f"constexpr int kN = 4;\n#include <cuda_pipeline.h>\n{NEW}"),
            ((3, "<cuda_pipeline.h>"),),
        ),
        ("#include <cuda_fp16.h>\n" + OWN, ((0, "<cuda_fp16.h>"),)),
        # inside a function nothing can stand: behind the text's own, as a header is at home there
        (OWN.replace("    a[0] = 1;\n", "#include <cuda_fp16.h>\n    a[0] = 1;\n"), ((2, "<cuda_fp16.h>"),)),
        (OWN.replace("#include <vector>\n", ""), ()),
        (OWN + "#include <cuda_fp16.h>", ((7, "<cuda_fp16.h>"),)),
        (OWN, ()),
    ],
)
def test_a_header_is_added_where_the_edit_has_it(edited: str, added: tuple[tuple[int, str], ...]) -> None:
    assert added_includes(OWN, edited) == added


@given(st.lists(st.sampled_from(["<a.h>", "<b.h>", '"c.h"']), max_size=3), st.integers(0, 3))
def test_what_is_added_to_the_baseline_is_what_the_edit_has(names: list[str], line: int) -> None:
    edited = with_includes(OWN, tuple((line, name) for name in names))
    assert with_includes(OWN, added_includes(OWN, edited)) == edited
