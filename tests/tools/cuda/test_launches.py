# SPDX-License-Identifier: Apache-2.0
"""Launch sites: what is launched, with which configuration, as far as the text fixes it."""

from __future__ import annotations

from typing import Any

import pytest

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText

PRELUDE = """
#define UP(a, b) (((a) + (b) - 1) / (b))
#define LAUNCH(k, g, b, ...) do { k<<<g, b>>>(__VA_ARGS__); check(cudaGetLastError()); } while (0)
constexpr int kBlock = 256;
inline int div_up(int a, int b) { return (a + b - 1) / b; }
template <typename T, int N = 4> __global__ void k(T* a, int n) {}
__global__ void plain(float* a, int n) {}
"""


def launches(body: str) -> list[LaunchSite]:
    text = SourceText(f"{PRELUDE}void host(float* a, cudaStream_t s, int m) {{\n{body}\n}}\n")
    found = list(parse(text, "k.cu").launches)
    for site in found:
        assert site.host_function == "host"
        assert site.kernel_name in text.slice(site.span) or site.kernel_name in PRELUDE
    return found


CASES: dict[str, dict[str, Any]] = {
    "plain<<<4, 256>>>(a, 7);": {"kernel_name": "plain", "grid_value": (4, 1, 1), "arguments": ("a", "7")},
    "k<float, (8 >> 1)><<<m, 64, 2 * sizeof(float), s>>>(a, m);": {
        "template_arguments": ("float", "(8 >> 1)"),
        "grid_value": (None, 1, 1),
        "block_value": (64, 1, 1),
        "shared_value": 8,
        "stream": "s",
    },
    "k<k2<int>><<<m / 2, dim3(32, 8)>>>(a, m);": {
        "template_arguments": ("k2<int>",),
        "grid_value": (None, 1, 1),
        "block_value": (32, 8, 1),
        "shared_value": 0,
    },
    "dim3 grid(UP(1000, 32), 2), block = dim3(32, kBlock / 32); plain<<<grid, block>>>(a, 1);": {
        "grid": "grid",
        "grid_value": (32, 2, 1),
        "block_value": (32, 8, 1),
    },
    "dim3 block(kBlock, kBlock); plain<<<1, block>>>(a, 1);": {"block_value": (256, 256, 1)},
    "dim3 grid{8, 4, 2}; dim3 block; plain<<<grid, block>>>(a, 1);": {
        "grid_value": (8, 4, 2),
        "block_value": (1, 1, 1),
    },
    "int64_t const n = 20; dim3 const grid((n + 31) / 32, n), block(32); plain<<<grid, block>>>(a, 1);": {
        "grid_value": (1, 20, 1),
        "block_value": (32, 1, 1),
    },
    "dim3 const grid{8, m}; dim3 const block(m, kBlock); plain<<<grid, block>>>(a, 1);": {
        "grid_value": (8, None, 1),
        "block_value": (None, 256, 1),
    },
    "dim3 block(32); block.y = m; plain<<<1, block>>>(a, 1);": {"block_value": (32, None, 1)},
    "dim3 block(32); block.y = m; block = dim3(8, 4); plain<<<1, block>>>(a, 1);": {"block_value": (8, 4, 1)},
    "dim3 block; block.x = 32; block.y = 4; plain<<<1, block>>>(a, 1);": {"block_value": (32, 4, 1)},
    "dim3 block(32); if (m) block = dim3(8); plain<<<1, block>>>(a, 1);": {"block_value": (None, None, None)},
    "dim3 block(32); for (int i = 0; i < m; ++i) { plain<<<1, block>>>(a, 1); block.x /= 2; }": {
        "block_value": (None, None, None)
    },
    "int n = 300; plain<<<ceil(n / (float)kBlock), kBlock>>>(a, n);": {"grid_value": (2, 1, 1)},
    "int n = 300; plain<<<ceil(n / kBlock), kBlock>>>(a, n);": {"grid_value": (1, 1, 1)},
    "int n = 300; dim3 grid((n - 1) / 256.0 + 1); plain<<<grid, kBlock>>>(a, n);": {"grid_value": (2, 1, 1)},
    "int n = 300; dim3 block(64, 4), grid((n + block.x - 1) / block.x, n / block.y); plain<<<grid, block>>>(a, n);": {
        "grid_value": (5, 75, 1),
        "block_value": (64, 4, 1),
    },
    # as unsigned ints, in which it wraps
    "int n = 3; dim3 block(64), grid((n - block.x) / block.x); plain<<<grid, block>>>(a, n);": {
        "grid_value": (None, 1, 1)
    },
    "int n = 300; dim3 block(n, side()); dim3 grid(n / block.x, n / block.y); plain<<<grid, block>>>(a, n);": {
        "grid_value": (1, None, 1)
    },
    "int n; n = 64; plain<<<n, 32>>>(a, n); other(&n);": {"grid_value": (64, 1, 1)},
    "int n = 4; other(&n); plain<<<n, 32>>>(a, n);": {"grid_value": (None, 1, 1)},
    "dim3 g(3); for (int i = 0; i < m; ++i) { g = dim3(5, 2); plain<<<g, 8>>>(a, 1); }": {
        "grid_value": (5, 2, 1)
    },
    "cudaStream_t stream; int n = 64; plain<<<n, 2, 0, stream>>>(n, 3);": {"grid_value": (64, 1, 1)},
    "int n = 300; if (argc > 1) n = atoi(argv[1]); plain<<<n, 8>>>(a, n);": {
        "grid_value": (None, 1, 1),
        "untold": ((300, 1, 1), (8, 1, 1)),
    },
    "int n = 300; if (argc > 1) n = atoi(argv[1]); n *= m; plain<<<n, 8>>>(a, n);": {"untold": None},
    "int n = 1 << 20; plain<<<(n + 255) / 256, kBlock>>>(a, n);": {"grid_value": (4096, 1, 1)},
    "int n = 1 << 20; n /= 2; plain<<<(n + 255) / 256, kBlock>>>(a, n);": {"grid_value": (None, 1, 1)},
    "int n = 64; read(&n); plain<<<n, 32>>>(a, n);": {"grid_value": (None, 1, 1)},
    "int n = 64; fill(n); plain<<<n, 32>>>(a, n);": {"grid_value": (None, 1, 1)},
    "int n = 64; std::vector<float> h(n); plain<<<n, 32>>>(a, n);": {"grid_value": (64, 1, 1)},
    "int n = 64; std::vector<float> g(9), h(n); plain<<<n, 32>>>(a, n);": {"grid_value": (64, 1, 1)},
    "int n = 64; f(m), g(n); plain<<<n, 32>>>(a, n);": {"grid_value": (None, 1, 1)},
    "int n = argc > 1 ? atoi(argv[1]) : 300; plain<<<n, 8>>>(a, n);": {
        "grid_value": (None, 1, 1),
        "untold": ((300, 1, 1), (8, 1, 1)),
    },
    "int b = argc >= 3 ? std::stoi(argv[2]) : 1 << argc; plain<<<9, b>>>(a, 1);": {
        "untold": ((9, 1, 1), (2, 1, 1)),
    },
    "int n = 1000; plain<<<div_up(n, 128), 128>>>(a, n);": {"grid_value": (8, 1, 1)},
    "for (int b = 32; b < 1024; b *= 2) plain<<<1, b>>>(a, m);": {
        "block_value": (None, 1, 1),
        "loop_depth": 1,
    },
    "for (int s = 0; s < m; ++s) { int j = 0; while (j < m) { plain<<<1, 1>>>(a, j); j++; } }": {
        "counters": ("j", "s"),
    },
    "for (int s = m; s > 0; s -= 2) plain<<<1, 1>>>(a, s);": {"counters": ()},
    "while (m) { do { plain<<<1, 1>>>(a, m); } while (m); }": {"loop_depth": 2},
    "CHECK((k<float><<<1, 2>>>(a, m)));": {"kernel_name": "k", "block_value": (2, 1, 1)},
    "LAUNCH(plain, 3, kBlock, a, m);": {
        "kernel_name": "plain",
        "grid_value": (3, 1, 1),
        "block_value": (256, 1, 1),
        "arguments": ("a", "m"),
    },
    "auto fn = k<double, 8>; fn<<<1, 32>>>(a, m);": {
        "kernel_name": "k",
        "template_arguments": ("double", "8"),
    },
    "auto fn = m ? k<float> : table[m]; fn<<<1, 32>>>(a, m);": {"kernel_name": ""},
    "void (*fn)(float*, int) = plain; fn<<<1, 32>>>(a, m);": {"kernel_name": "plain"},
    "table[m]<<<1, 32>>>(a, m);": {"kernel_name": ""},
    "other::scale<<<1, 32>>>(a, m);": {"kernel_name": "other::scale"},
    "void* args[] = {&a, &m}; cudaLaunchKernel((const void*)plain, dim3(4), dim3(64), args, 16, s);": {
        "kernel_name": "plain",
        "grid_value": (4, 1, 1),
        "block_value": (64, 1, 1),
        "shared_value": 16,
        "arguments": ("a", "m"),
    },
    "cudaLaunchCooperativeKernel((void*)&k<float, 2>, 4, 64, args);": {
        "kernel_name": "k",
        "template_arguments": ("float", "2"),
        "shared_value": 0,
    },
    "dim3 g(4); g = dim3(8); ; plain<<<g, 8>>>(a, 1);": {"grid_value": (8, 1, 1)},
    "plain << <m, 64, 16, s >> > (a, 7);": {
        "grid": "m",
        "block_value": (64, 1, 1),
        "shared_value": 16,
        "stream": "s",
        "arguments": ("a", "7"),
    },
    "plain <<<4, 8 >> 1>> >(a, 1);": {"grid_value": (4, 1, 1), "block_value": (4, 1, 1)},
    "hipLaunchKernelGGL(k<float, 2>, dim3(4), 64, 0, s, a, m);": {
        "kernel_name": "k",
        "template_arguments": ("float", "2"),
        "grid_value": (4, 1, 1),
        "stream": "s",
        "arguments": ("a", "m"),
    },
    "cudaLaunchConfig_t c; c.gridDim = 4; c.blockDim = dim3(8, 8); cudaLaunchKernelEx(&c, plain, a, m);": {
        "kernel_name": "plain",
        "grid_value": (4, 1, 1),
        "block_value": (8, 8, 1),
        "arguments": ("a", "m"),
    },
}


@pytest.mark.parametrize("body", CASES)
def test_a_launch_is_read(body: str) -> None:
    found = launches(body)
    assert len(found) == 1
    for field, expected in CASES[body].items():
        assert getattr(found[0], field) == expected, field


@pytest.mark.parametrize(
    "body",
    [
        'puts("k<<<1, 2>>>(a)");',
        "// plain<<<1, 2>>>(a);",
        "#if 0\nplain<<<1, 2>>>(a);\n#endif",
        "x = a << 3 >> 1;",
        "std::vector<std::pair<int, std::vector<int>> > q(m);",
    ],
)
def test_what_is_no_launch(body: str) -> None:
    assert launches(body) == []


def test_spans_cut_out_the_configuration() -> None:
    text = SourceText(PRELUDE + "void f() {\r\n\tk<int><<< /* µ */ 4 * 2, dim3(3) >>>(a);\r\n}")
    site = parse(text, "k.cu").launches[0]
    assert text.slice(site.grid_span) == "4 * 2"
    assert text.slice(site.block_span) == "dim3(3)"
    assert text.slice(site.span).endswith(">>>(a)")


@pytest.mark.parametrize(
    ("using", "value"),
    [
        ("using namespace shop;", (128, 1, 1)),
        ("using namespace other::shop;", (128, 1, 1)),
        ("using namespace store;", (None, 1, 1)),
        ("", (None, 1, 1)),
    ],
)
def test_a_namespace_in_use_gives_its_constants(using: str, value: tuple[int | None, int, int]) -> None:
    text = SourceText(
        "#define TWICE(a) (2 * (a))\n"
        "namespace shop { constexpr int kItems = TWICE(64 * 128); __global__ void k(float* a) {} }\n"
        "namespace twice { constexpr int kShelves = 4; }\nnamespace again { constexpr int kShelves = 8; }\n"
        f"void host(float* a) {{\n  {using} using namespace twice;\n"
        "  k<<<kItems / 128, 128>>>(a);\n  k<<<kShelves, 128>>>(a);\n}\n"
    )
    items, shelves = parse(text, "k.cu").launches
    assert items.grid_value == value
    assert shelves.grid_value[0] is None


TWO = "void host(float* a) {\n#if FAST\n    plain<<<4, 128>>>(a, 7);\n#else\n    plain<<<4, 256>>>(a, 7);\n#endif\n}\n"


@pytest.mark.parametrize(
    ("before", "blocks"),
    [
        ("#define FAST 1\n", [128]),
        ("#define FAST 0\n", [256]),
        # A default stands.
        ("#ifndef FAST\n#define FAST 1\n#endif\n", [128]),
        ("#include <vector>\n#if !defined(FAST)\n#define FAST 0\n#endif\n", [256]),
        ('#include "check.h"\n#ifndef FAST\n#define FAST 1\n#endif\n', [128]),
        ("#ifdef SLOW\n#ifndef FAST\n#define FAST 1\n#endif\n#endif\n", [128, 256]),
        ("", [128, 256]),
    ],
)
def test_a_launch_that_the_unit_leaves_out_is_none(before: str, blocks: list[int]) -> None:
    found = parse(SourceText(before + PRELUDE + TWO), "k.cu").launches
    assert [site.block_value[0] for site in found if site.block_value] == blocks


@pytest.mark.parametrize("gone", ["// {}", "/* {} */", "\n#if 0\n{}\n#endif\n"])
def test_a_launch_that_is_commented_out_is_none(gone: str) -> None:
    assert launches(gone.format("plain<<<4, 256>>>(a, 7);")) == []
