# SPDX-License-Identifier: Apache-2.0
"""How large the numbers may be that a kernel is given, by the ends of its own arrays."""

from __future__ import annotations

import pytest
from tests.suite.catalogue import SUITE

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.array_ends import largest_that_fit
from warplens_tools.tunable.source import File


def largest(body: str) -> int | None:
    """Of the parameter n, the second."""
    text = SourceText(
        "#define MOST 64\nconstexpr int kDeep = 3;\n"
        f"__global__ void walk(const float* in, int n, int m, float* out) {{ {body} }}\n"
    )
    return largest_that_fit(File(text, parse(text, "walk.cu")), "walk").get(1)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("int row[MOST + 1]; for (int j = 0; j <= n; j++) row[j] = j; out[0] = row[m];", 64),
        ("float kept[MOST]; for (int j = 0; j < n; ++j) kept[j] = in[j];", 64),
        ("float kept[MOST]; for (int j = 0; j < n; ++j) kept[j + 1] = in[j];", 63),
        ("float kept[MOST]; for (int j = 1; j <= n; ++j) kept[j - 1] = in[j];", 64),
        ("int row[MOST]; out[0] = row[n];", 63),
        (
            "float a[4][kDeep * 2]; for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) a[i][j] = in[j];",
            6,
        ),
        (
            "__shared__ float a[MOST]; int p = threadIdx.x; if (p >= m) return; for (int j = 0; j < n; j++) a[j] = 1;",
            64,
        ),
        ("float a[8], b[16]; for (int j = 0; j < n; j++) { b[j] = in[j]; a[j] = b[j]; }", 8),
    ],
)
def test_an_array_that_is_walked_to_a_number_has_room_for_so_many(body: str, most: int) -> None:
    assert largest(body) == most


@pytest.mark.parametrize(
    "body",
    [
        "float kept[MOST]; if (n > MOST) return; for (int j = 0; j < n; ++j) kept[j] = in[j];",
        "float kept[MOST]; for (int j = 0; j < n; ++j) if (j < MOST) kept[j] = in[j];",
        "float kept[MOST]; for (int j = 0; j < n; ++j) if (j < m) kept[j] = in[j];",
        "float kept[MOST]; for (int j = 0; j < n && j < MOST; ++j) kept[j] = in[j];",
        "float kept[MOST]; for (int j = 0; j < n; ++j) kept[j % MOST] = in[j];",
        "float kept[MOST]; n = min(n, MOST); for (int j = 0; j < n; ++j) kept[j] = in[j];",
        "extern __shared__ float kept[]; for (int j = 0; j < n; ++j) kept[j] = in[j];",
        "for (int j = 0; j < n; ++j) out[j] = in[j];",
    ],
)
def test_what_is_tested_wrapped_or_of_unknown_length_says_nothing(body: str) -> None:
    assert largest(body) is None


def test_strings_longer_than_a_row_of_the_table_are_none_of_a_programs() -> None:
    text = SourceText.read(SUITE / "programs/edit_distance.cu")
    assert largest_that_fit(File(text, parse(text, "edit_distance.cu")), "levenshtein") == {4: 64}
