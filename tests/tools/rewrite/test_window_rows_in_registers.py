# SPDX-License-Identifier: Apache-2.0
"""Rows of several outputs' windows are folded once: what rows come to, loops over candidates, what is each's own."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.rewrite.common.shifted import is_same_row
from warplens_tools.text import SourceText

SLUG = "window-rows-in-registers"
MATCH = """
#define R 2
#define SHIFTS 5
__global__ void alike(const float* left, const float* right, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < R || y < R || x >= width - R || y >= height - R) return;
  float best = 1e30f, sum = 0.0f;
  for (int d = 0; d < SHIFTS; d++) {
    if (x - d - R < 0) break;
    float cost = 0.0f;
    for (int dy = -R; dy <= R; dy++)
      for (int dx = -R; dx <= R; dx++) {
        float l = left[(y + dy) * width + x + dx];
        float r = right[(y + dy) * width + x + dx - d];
        cost += fabsf(l - r);
      }
    sum += cost;
    if (cost < best) best = cost;
  }
  out[y * width + x] = best + 0.01f * sum;
}
"""
POINTERS = """
#define R 2
__global__ void alike(const float* left, const float* right, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width - 2 * R - 4 || y >= height - 2 * R) return;
  int row = y * width;
  const float* here = left + (y + R) * width + x + R;
  float total = 0.0f;
  for (int d = 0; d < width % 4 + 1; d++) {
    const float* there = right + (y + R) * width + x + R + d;
    float scale = 1.0f / (1 + d);
    float apart = 0.0f, most = -1.0f;
    for (int j = -R; j <= R; j++) {
      for (int i = -R; i <= R; i++) {
        if ((i + 9) % 3 == 1) continue;
        float e = here[j * width + i] - there[j * width + i];
        apart += e * e;
        most = fmaxf(most, e + left[row + j * width + R * width + x + R]);
      }
    }
    if (apart > 1e9f) continue;
    total += scale * apart + most * right[row + x];
  }
  out[y * width + x] = total;
}
"""
RUN = """
  int w = atoi(argv[1]), h = atoi(argv[2]);
  Device<float> a(w * h, 5), b(w * h, 9), o(w * h, 3);
  dim3 block(16, 4), grid((w + 15) / 16, (h + 3) / 4);
  alike<<<grid, block>>>(a, b, o, w, h);
  o.show();
"""
SIZES = ((37, 60), (70, 13), (16, 9), (40, 36))


def test_a_loop_over_candidates_is_gone_through_once() -> None:
    after = holds(SLUG, program(MATCH, RUN), *SIZES, relative=1e-5, absolute=1e-5)
    inside = after[after.index("if (inside)") : after.index("} else {")]
    assert inside.count("for (int d = 0") == 1
    assert "float best[OUTPUTS];" in inside
    assert "costRows[OUTPUTS + 2 * R]" in inside
    assert rewritten(SLUG, after)[0].refused
    assert "another order" in rewritten(SLUG, program(MATCH, RUN))[0].caveat


def test_sums_of_integers_stay_the_same() -> None:
    code = MATCH.replace("float", "int").replace("fabsf", "abs").replace("1e30f", "1 << 30")
    code = code.replace("0.0f", "0").replace("0.01f", "3")
    run = RUN.replace("float", "int")
    assert "order" not in rewritten(SLUG, program(code, run))[0].caveat
    holds(SLUG, program(code, run), (37, 60), (70, 13))


def test_several_windows_behind_pointers() -> None:
    code = POINTERS.replace("    if (apart > 1e9f) continue;\n", "")
    after = holds(SLUG, program(code, RUN), *SIZES, relative=1e-5, absolute=1e-5)
    assert "apartRows" in after and "mostRows" in after and "float total[" in after
    # the same for all outputs, and once for them
    assert after.count("float scale = 1.0f / (1 + d);") == 2


def test_what_is_called_for_its_effect_is_called_for_each_output() -> None:
    helper = "__device__ void note(float* seen, int d) { seen[0] = d; }\n"
    code = helper + MATCH.replace("float* out,", "float* out, float* seen,").replace(
        "    float cost = 0.0f;\n", "    note(seen, d);\n    float cost = 0.0f;\n"
    )
    after = rewritten(SLUG, program(code, RUN.replace("a, b, o,", "a, b, o, b,")))[1]
    inside = after[after.index("if (inside)") : after.index("} else {")]
    called = inside[: inside.index("note(seen, d);")]
    assert called.rstrip().endswith("for (int o = 0; o < OUTPUTS; ++o) {")


def test_a_window_without_candidates() -> None:
    code = MATCH.replace("for (int d = 0; d < SHIFTS; d++) {", "int d = 1;\n  {")
    code = code.replace("    if (x - d - R < 0) break;\n", "").replace("x < R", "x < R + 1")
    flat = code.replace("  int d = 1;\n  {\n", "  int d = 1;\n").replace(
        "best = cost;\n  }\n", "best = cost;\n"
    )
    holds(SLUG, program(flat, RUN), *SIZES, relative=1e-5, absolute=1e-5)


def test_outputs_that_one_number_is_divided_into() -> None:
    code = MATCH.replace(
        """  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
""",
        """  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= width * height) return;
  int x = id % width, y = id / width;
""",
    )
    run = RUN.replace(
        "dim3 block(16, 4), grid((w + 15) / 16, (h + 3) / 4);", "int block = 64, grid = (w * h + 63) / 64;"
    )
    holds(SLUG, program(code, run), *SIZES, relative=1e-5, absolute=1e-5)


#: Kernels that are left alone.
LEFT = {
    "weights by row": MATCH.replace("fabsf(l - r)", "(dy + 3) * fabsf(l - r)"),
    "rows of another distance": MATCH.replace(
        "(y + dy) * width + x + dx - d", "(y + 2 * dy) * width + x + dx - d"
    ),
    "a size of the run's": MATCH.replace("-R; dy <= R", "-(width % 2); dy <= width % 2"),
    "candidates of each output": MATCH.replace("d < SHIFTS", "d < y % 4"),
    "a window that ends at once": MATCH.replace(
        "cost += fabsf(l - r);", "cost += fabsf(l - r);\n        if (l > 4) break;"
    ),
    "candidates that each output ends": MATCH.replace(
        "    sum += cost;\n", "    sum += cost;\n    if (cost > 9) break;\n"
    ),
    "what is read in the window": MATCH.replace(
        "cost += fabsf(l - r);", "cost += fabsf(l - r) * (cost > 3 ? 2 : 1);"
    ),
    "a product": MATCH.replace("cost += fabsf(l - r);", "cost *= 1.0f + fabsf(l - r) * 0.01f;"),
    "an extreme of its own beginning": MATCH.replace("float cost = 0.0f;", "float cost = y;").replace(
        "cost += fabsf(l - r);", "cost = fmaxf(cost, fabsf(l - r));"
    ),
    "a store before its windows": MATCH.replace(
        "    sum += cost;\n", "    out[y * width + x] = cost;\n    sum += cost;\n"
    ),
    "an output that goes on": POINTERS,
}


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    assert rewritten(SLUG, program(LEFT[name], RUN))[0].refused


@pytest.mark.parametrize(
    ("index", "same"),
    [
        ("a[(y + 3) * w + j * w + i]", True),
        ("a[(j + y - R) * (w + 1)]", True),
        ("a[min(max(y + j, 0), h - 1) * w]", True),
        ("(y + j) / 2 - b[-(-y - j)]", True),
        ("y * y + 2 * y * j + j * j", True),
        ("a[y * w + j]", False),
        ("a[(y + j) * w + j]", False),
        ("y - j", False),
        ("a[y]", False),
        ("(float)y + (float)j", False),
        ("y / 2 + j / 2", False),
    ],
)
def test_rows_that_slide(index: str, same: bool) -> None:
    tree = parse_tree(SourceText(f"void f() {{ int v = {index}; }}"))
    (value,) = tree.captures("(init_declarator value: (_) @v)")["v"]
    assert is_same_row(tree, [value], "y", "j", {}) is same
