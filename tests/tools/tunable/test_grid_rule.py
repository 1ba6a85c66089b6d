# SPDX-License-Identifier: Apache-2.0
"""The grid that host code launches, as a rule of the numbers that it passes along."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.grid_rule import GridRule, grid_rule
from warplens_tools.tunable.source import File

KERNEL = "__global__ void work(float* out, int n, int rows, int columns) { out[threadIdx.x] = n + rows + columns; }\n"


def rule(host: str) -> GridRule | None:
    text = SourceText(KERNEL + host)
    return grid_rule(File(text, parse(text, "work.cu")), "work")


def launched(before: str, grid: str, arguments: str = "out, n, rows, columns") -> GridRule | None:
    helpers = "int parts(int all) { return (all + 255) / 256; }\n"
    helpers += "template <class T> T blocks_for(T n, T each) { return (n + each - 1) / each; }\n"
    head = "void run(float* out, int n, int rows, int columns)"
    return rule(f"{helpers}{head} {{\n{before}\nwork<<<{grid}>>>({arguments});\n}}\n")


@pytest.mark.parametrize(
    ("before", "grid", "expected"),
    [
        ("", "(n + 255) / 256, 256", "p1 255 + 256 /"),
        ("int b = 128; int blocks = (n + b - 1) / b;", "blocks, b", "p1 128 + 1 - 128 /"),
        ("dim3 block(64);", "(n - 1) / block.x + 1, block", "p1 1 - 64 / 1 +"),
        ("", "(int)ceil(n / 256.0), 256", "p1 256 up"),
        ("", "(int)ceil((float)n / 256), 256", "p1 256 up"),
        ("size_t all = (size_t)rows * columns;", "(unsigned)((all + 255) / 256), 256", "p2 p3 * 255 + 256 /"),
        ("", "std::min(1024, (n + 255) / 256), 256", "1024 p1 255 + 256 / min"),
        ("int depth = read();", "n * depth, 256", "p1 ? *"),
        ("", "n < 64 ? n : 64, 256", "p1 64 min"),
        ("", "n >= rows ? n : rows, 256", "p1 p2 max"),
        ("", "blocks_for(n, 256), 256", "p1 256 + 1 - 256 /"),
        ("", "parts(n), 256", "p1 255 + 256 /"),
        ("", "n / 256 + (n % 256 == 0 ? 0 : 1), 256", "p1 256 / 0 1 0 - p1 256 up p1 256 / - * + +"),
        ("", "n % 256 ? n / 256 + 1 : n / 256, 256", "p1 256 / p1 256 / 1 + p1 256 / - p1 256 up p1 256 / - * +"),
    ],
)  # fmt: skip
def test_a_rule_is_read_through_variables_casts_and_roundings(before: str, grid: str, expected: str) -> None:
    assert launched(before, grid) == (expected, "1", "1")


def test_axes_of_objects_and_of_lists() -> None:
    said = launched("dim3 grid((columns + 15) / 16, (rows + 15) / 16);", "grid, dim3(16, 16)")
    assert said == ("p3 15 + 16 /", "p2 15 + 16 /", "1")
    assert launched("", "dim3(n, rows, 4), 32") == ("p1", "p2", "4")
    # a product of two names alone is taken for a pointer among a function's parameters
    assert launched("dim3 grid(columns, rows * n);", "grid, 32") == ("p3", "p2 p1 *", "1")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("dim3 grid; grid.x = (n + 255) / 256;", ("p1 255 + 256 /", "1", "1")),
        ("dim3 grid(1, 1); grid.x = (columns + 15) / 16;\ngrid.y = rows;", ("p3 15 + 16 /", "p2", "1")),
        ("dim3 grid(n, 2); grid.y = rows;", ("p1", "p2", "1")),
        (
            "dim3 threads, grid; threads.x = 128; grid.x = (n + threads.x - 1) / threads.x;",
            ("p1 128 + 1 - 128 /", "1", "1"),
        ),
        ("dim3 grid(n); grid.x = n; grid.x = rows;", ("p2", "1", "1")),
        # none of these is what every launch has
        ("dim3 grid; grid.y = rows;", None),
        ("dim3 grid(n); if (rows > 4) grid.x = rows;", None),
        ("dim3 grid(n); grid.x = rows; grid.y++;", None),
        ("dim3 grid(n); grid.x = rows; change(&grid);", None),
    ],
)
def test_members_that_are_set_later_are_extents(before: str, expected: GridRule | None) -> None:
    assert launched(before, "grid, 256") == expected


def test_members_that_are_set_after_a_launch_are_none() -> None:
    head = "void run(float* out, int n, int rows, int columns)"
    launch = "work<<<grid, 64>>>(out, n, rows, columns);"
    assert rule(f"{head} {{ dim3 grid(n); grid.x = rows; {launch} }}") == ("p2", "1", "1")
    assert rule(f"{head} {{ dim3 grid(n); {launch} grid.x = rows; }}") is None


def test_one_variable_for_two_parameters_is_the_larger_of_them() -> None:
    assert launched("", "(n + 31) / 32, 32", "out, n, n, columns") == ("p1,2 31 + 32 /", "1", "1")


def test_members_and_variables_of_the_file_are_passed_as_they_are_written() -> None:
    said = rule(
        "struct Shape { int n, rows; };\nint columns;\n"
        "void run(float* out, Shape s) {\n"
        "  work<<<dim3((s.n + 255) / 256, columns), 256>>>(out, s.n, s.rows, columns);\n}\n"
    )
    assert said == ("p1 255 + 256 /", "p3", "1")


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cudaLaunchCooperativeKernel"])
def test_launches_by_a_call_are_read(call: str) -> None:
    said = rule(
        "void run(float* out, int n, int rows) {\n  int one = 1;\n  void* args[] = {&out, (void*)&n, &rows, &one};\n"
        f"  {call}((void*)work, dim3((n + 255) / 256, rows), dim3(256), args, 0, 0);\n}}\n"
    )
    assert said == ("p1 255 + 256 /", "p2", "1")


def test_what_a_caller_passes_stands_for_the_parameter() -> None:
    said = rule(
        "void run(float* out, int blocks, int n) { work<<<blocks, 256>>>(out, n, 1, 1); }\n"
        "int main() { int n = count(); run(0, (n + 255) / 256, n); }\n"
    )
    assert said == ("p1 255 + 256 /", "1", "1")


@pytest.mark.parametrize(
    ("before", "grid"),
    [
        ("", "264, 256"),
        ("int blocks = read();", "blocks, 256"),
        ("int a = read(), b = read();", "n * a * b, 256"),
        ("", "n > 4 ? rows : 4, 256"),
    ],
)
def test_there_is_no_rule_of_what_the_kernel_is_not_given(before: str, grid: str) -> None:
    assert launched(before, grid) is None


def test_launches_that_differ_have_none() -> None:
    said = rule(
        "void run(float* o, int n) { work<<<n, 32>>>(o, n, 1, 1); work<<<n / 2, 64>>>(o, n, 1, 1); }\n"
    )
    assert said is None
