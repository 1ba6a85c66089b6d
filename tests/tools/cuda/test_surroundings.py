# SPDX-License-Identifier: Apache-2.0
"""Launches of a file's kernels that stand in other files, and what they come to there."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.model import LaunchSite, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.project import Project, without_guard
from warplens_tools.cuda.surroundings import defines_around, surroundings
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.forms import describe
from warplens_tools.text import SourceText

KERNEL = "__global__ void k(float* x, int n) { x[threadIdx.x] = n; }\n"
OTHER = "__global__ void twice(float* x, int n) { x[threadIdx.x] *= n; }\n"


def project(root: Path, files: dict[str, str]) -> Project:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Project([root / name for name in files])


def met(root: Path, files: dict[str, str], name: str) -> SourceModel:
    made = project(root, files)
    path = root / name
    unit = next(iter(made.units_including(path)), path)
    text = SourceText(files[name], defines=defines_around(path, unit, made))
    model = parse(text, str(path))
    return surroundings(model, made, {}).of(model)


def only(model: SourceModel) -> LaunchSite:
    (site,) = model.all_launches_of(model.kernels[0])
    return site


def test_the_unit_that_includes_a_header_launches_its_kernel(tmp_path: Path) -> None:
    files = {
        "inc/k.h": f"#ifndef K_H\n#define K_H\n{KERNEL}#endif\n",
        "src/main.cu": '#include "../inc/k.h"\n#define B 128\nint main() {\n  k<<<4, B>>>(nullptr, 7);\n}\n',
    }
    site = only(met(tmp_path, files, "inc/k.h"))
    assert (site.grid_value, site.block_value, site.argument_values) == ((4, 1, 1), (128, 1, 1), (None, 7))
    assert (site.path, site.span.line) == (str(tmp_path / "src/main.cu"), 4)


def test_a_unit_that_declares_the_kernel_launches_it(tmp_path: Path) -> None:
    files = {
        "k.cu": KERNEL,
        "k.h": "#define SIDE 16\n__global__ void k(float* x, int n);\n",
        "main.cu": '#include "k.h"\nint main() { dim3 b(SIDE, SIDE); k<<<2, b>>>(nullptr, 3); }\n',
        "unlike.cu": f"{KERNEL}int main() {{ k<<<9, 512>>>(nullptr, 1); }}\n",
    }
    assert only(met(tmp_path, files, "k.cu")).block_value == (16, 16, 1)


def test_two_programs_tell_nothing_of_one_another(tmp_path: Path) -> None:
    files = {
        "a.cu": f"{KERNEL}void run(int t) {{ k<<<1, t>>>(nullptr, 1); }}\nint main() {{}}\n",
        "b.cu": "void run(int t);\nint main() { run(64); }\n",
    }
    assert only(met(tmp_path, files, "a.cu")).block_value == (None, 1, 1)


def test_callers_in_other_units_give_a_wrapper_its_values(tmp_path: Path) -> None:
    files = {
        "k.cu": f"{KERNEL}void run(float* x, int n, int t) {{ k<<<n / t, t>>>(x, n); }}\n",
        "app.cpp": "void run(float*, int, int);\nint main() { run(nullptr, 1024, 256); }\n",
    }
    site = only(met(tmp_path, files, "k.cu"))
    assert (site.grid_value, site.block_value, site.argument_values) == (
        (4, 1, 1),
        (256, 1, 1),
        (None, 1024),
    )
    assert site.path == ""
    files["test.cpp"] = "void run(float*, int, int);\nvoid test() { run(nullptr, 1024, 128); }\n"
    assert only(met(tmp_path, files, "k.cu")).block_value == (None, 1, 1)


@pytest.mark.parametrize(
    ("wrapper", "call"),
    [
        ("template <class K> void go(K f, int b) { f<<<1, b>>>(nullptr, 1); }", "go(k, 64); go(twice, 128);"),
        (
            "template <void (*F)(float*, int)> void go(int b) { F<<<1, b>>>(nullptr, 1); }",
            "go<k>(64); go<twice>(128);",
        ),
        (
            "void go(void (*f)(float*, int), int b) { f<<<1, b>>>(nullptr, 1); }",
            "go(&k, 64); go(twice, 128);",
        ),
        ("#define GO(f, b) f<<<1, b>>>(nullptr, 1)", "GO(k, 64); GO(twice, 128);"),
    ],
)
def test_wrappers_of_a_header_launch_what_they_are_passed(tmp_path: Path, wrapper: str, call: str) -> None:
    files = {
        "go.h": f"#pragma once\n{wrapper}\n",
        "k.cuh": f'#include "go.h"\n{KERNEL}{OTHER}',
        "main.cu": f'#include "k.cuh"\nint main() {{ {call} }}\n',
    }
    model = met(tmp_path, files, "k.cuh")
    found = {s.kernel_name: s.block_value for s in model.elsewhere}
    assert found == {"k": (64, 1, 1), "twice": (128, 1, 1)}


@pytest.mark.parametrize(
    ("host", "kernels"),
    [
        ("void (*f)(float*, int) = k; f<<<1, 32>>>(nullptr, 1);", {"k"}),
        ("auto f = m ? k : twice; f<<<1, 32>>>(nullptr, 1);", {"k", "twice"}),
        (
            "void (*f)(float*, int) = nullptr; if (m) f = &k; else f = twice; f<<<1, 32>>>(0, 1);",
            {"k", "twice"},
        ),
        ("void (*f)(float*, int) = table[m]; f<<<1, 32>>>(nullptr, 1);", {""}),
        ("void (*f[2])(float*, int) = {k, twice}; f[m]<<<1, 32>>>(nullptr, 1);", {"k", "twice"}),
        ("void (*f[2])(float*, int); f[0] = k; f[1] = twice; f[m]<<<1, 32>>>(nullptr, 1);", {"k", "twice"}),
        ("void (*f[2])(float*, int); f[0] = k; f[1] = g(m); f[m]<<<1, 32>>>(nullptr, 1);", {""}),
    ],
)
def test_function_pointers(host: str, kernels: set[str]) -> None:
    model = parse(SourceText(f"{KERNEL}{OTHER}void host(int m) {{ {host} }}\n"), "k.cu")
    assert {site.kernel_name for site in model.launches} == kernels


def test_what_headers_define_counts_in_the_file(tmp_path: Path) -> None:
    files = {
        "a.h": "#define TILE 16\n#define UP(a, b) (((a) + (b) - 1) / (b))\n#define TWICE 1\n",
        "b.h": "static const int kRows = 4;\n#define TWICE 2\nconst int n = 9;\n",
        "k.cu": '#include "a.h"\n#include "b.h"\n__global__ void k(float* x, int n) {'
        " __shared__ float t[TILE][kRows]; __shared__ float u[UP(TILE, 5)]; __shared__ float v[TWICE]; }\n",
    }
    (kernel,) = met(tmp_path, files, "k.cu").kernels
    assert [array.sizes for array in kernel.arrays] == [(16, 4), (4,), (None,)]


def test_a_number_that_a_file_multiplies_by_is_not_declared_there(tmp_path: Path) -> None:
    files = {
        "a.h": "#define WIDE 30ULL\nconst int kTall = 4;\nconst int kDeep = 5;\n",
        "k.cu": '#include "a.h"\n__global__ void k(char* x) { f(x, threadIdx.x * WIDE); '
        "x[2 * (threadIdx.x * kTall)] = 0; "
        "int kDeep = 7; x[kDeep] = 1; }\n",
    }
    path = tmp_path / "k.cu"
    found = defines_around(path, path, project(tmp_path, files))
    assert found == {"WIDE": "30ULL", "kTall": "(4)"}


def test_what_headers_call_an_integer_is_one(tmp_path: Path) -> None:
    files = {
        "a.h": "#ifdef WIDE\ntypedef uint64_t col_t;\n#else\ntypedef uint32_t col_t;\n#endif\nusing Row = col_t;\n",
        "b.h": "namespace q { typedef long long off_t; typedef double real; typedef off_t *place; }\n",
        "k.cu": '#include "a.h"\n#include "b.h"\n__global__ void k(q::real* x, Row n) {'
        " col_t i = threadIdx.x; q::off_t j = i * n; q::real r = 3; x[j] = r; x[(int)r] = 0; }\n",
    }
    model = met(tmp_path, files, "k.cu")
    made = project(tmp_path, files)
    text = SourceText(files["k.cu"], defines=defines_around(tmp_path / "k.cu", tmp_path / "k.cu", made))
    known, unknown = accesses(parse_tree(text), model.kernels[0])
    assert known.index is not None and describe(known.index) == "n * threadIdx.x"
    assert unknown.index is None
    assert layouts_of(parse_tree(text)).bytes("real") == 8
    assert layouts_of(parse_tree(text)).bytes("col_t") is None


def test_a_guard_goes_and_offsets_stay() -> None:
    text = "// of it\n#ifndef A_H\n#define A_H\nint a;\n#endif  // A_H\n"
    without = without_guard(text)
    assert len(without) == len(text)
    assert without.split() == ["//", "of", "it", "int", "a;"]
    assert without_guard("#ifndef A\n#define B\nint a;\n#endif\n").startswith("#ifndef")
