# SPDX-License-Identifier: Apache-2.0
"""Where an error of the compiler is marked: on the token that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.service.service import CheckOptions, Service

#: A body, and the token that is marked. Columns of nvcc are of the line as preprocessed.
CASES = [
    ("  x[1] = undeclared * 2.f;", "undeclared"),
    ("\tx[1] = undeclared * 2.f;", "undeclared"),
    ("  float y = 2.f;  /* a comment */ x[1] = undeclared;", "undeclared"),
    ("  x[0] = threadIdx.q;", "q"),
    ("  int n = 10\n\n  // why\n  x[0] = n;", "10"),
    ("  if (x[1] > 0.f) { x[2] = x[1] }", "]"),
    ("#define M(a) ((a) + nope)\n  x[0] = M(3);", "x[0] = M(3);"),
]


@pytest.mark.compiler
@pytest.mark.parametrize(("body", "marked"), CASES)
@pytest.mark.sampled(3)
def test_an_error_is_marked_on_its_token(tmp_path: Path, body: str, marked: str) -> None:
    path = tmp_path / "k.cu"
    path.write_text(f"__global__ void k(float *x)\n{{\n{body}\n}}\n")
    (report,) = Service(tmp_path).check_file(path, CheckOptions()).files
    found = next(f for f in report.findings if f.slug == "not-compiled")
    line = path.read_text().splitlines()[found.line - 1]
    assert line[found.column - 1 : found.span.end_column - 1] == marked
