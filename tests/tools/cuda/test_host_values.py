# SPDX-License-Identifier: Apache-2.0
"""Host code around launches: what its functions are passed, and what of it runs again and again."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.host_copies import host_copies
from warplens_tools.cuda.facts.host_loops import launch_loop
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.launches import Launches
from warplens_tools.text import SourceText

KERNEL = "__global__ void k(float *a, int n) { a[threadIdx.x] = n; }\n"
LAUNCH = "void go(float *a, int n, int threads) { k<<<(n + threads - 1) / threads, threads>>>(a, n); }\n"


def geometry(host: str) -> tuple[object, object]:
    """Grid and block of the first launch."""
    (site, *_) = parse(SourceText(KERNEL + host), "k.cu").launches
    return site.grid_value, site.block_value


@pytest.mark.parametrize(
    ("host", "grid", "block"),
    [
        (LAUNCH + "int main() { go(0, 1000, 256); }", 4, 256),
        (LAUNCH + "int main() { const int t = 64; go(0, 64, t); }", 1, 64),
        (LAUNCH + "int main() { go(0, 1000, 256); go(0, 2000, 256); }", None, 256),
        (LAUNCH + "int main(int argc, char **) { go(0, argc, 128); }", None, 128),
        (LAUNCH + "int main(int argc, char **) { go(0, 1 << 20, argc); }", None, None),
        (LAUNCH, None, None),
        (LAUNCH + "int main() { auto f = go; f(0, 1, 2); go(0, 1000, 256); }", None, None),
        (LAUNCH + "void go(float *a) { k<<<1, 1>>>(a, 1); } int main() { go(0, 1000, 256); }", None, None),
        (LAUNCH.replace("{ k", "{ threads *= 2; k") + "int main() { go(0, 1000, 256); }", None, None),
        (LAUNCH + "void mid(int t) { go(0, 512, t); } int main() { mid(32); }", 16, 32),
        (
            "template <int T> void go(float *a, int n) { k<<<(n + T - 1) / T, T>>>(a, n); }\n"
            "int main() { go<512>(0, 1024); }",
            2,
            512,
        ),
    ],
)
def test_a_block_size_that_is_passed_on(host: str, grid: int | None, block: int | None) -> None:
    assert geometry(host) == ((grid, 1, 1), (block, 1, 1))


def test_extents_that_are_passed_on() -> None:
    host = "void go(dim3 grid, dim3 block) { k<<<grid, block>>>(0, 1); }\n"
    assert geometry(host + "int main() { dim3 b(32, 4); go(dim3(7), b); }") == ((7, 1, 1), (32, 4, 1))
    unknown = (None, None, None)
    assert geometry(host + "int main() { go(1, 32); go(2, 32); }") == (unknown, (32, 1, 1))


@pytest.mark.parametrize(
    ("block", "lanes"),
    [
        ("4, 8, n", (4, 8, 1)),
        ("64, n, n", (64, 1, 1)),
        ("4, 4, n", None),
        ("n, 8", None),
        ("4, 8, 2", (4, 8, 2)),
        ("n", None),
    ],
)
def test_lanes_of_a_partly_known_block(block: str, lanes: tuple[int, int, int] | None) -> None:
    model = parse(
        SourceText(f"{KERNEL}void go(int n) {{ dim3 block({block}); k<<<1, block>>>(0, 1); }}"), "k.cu"
    )
    launches = Launches(model.kernels[0], model)
    assert launches.lanes(32) == lanes
    assert launches.block == (lanes if "n" not in block else None)


@pytest.mark.parametrize(
    ("blocks", "extents", "assumed"),
    [
        (("dim3(16, n)",), (16, None, 1), (16, 2, 1)),
        (("dim3(4, 4, n)",), (4, 4, None), (4, 4, 2)),
        (("dim3(n, 8)",), (None, 8, 1), (32, 1, 1)),
        (("64", "128"), (None, 1, 1), (32, 1, 1)),
        (("dim3(16, 16)", "dim3(16, 8)"), (16, None, 1), (16, 2, 1)),
        (("dim3(0, n)",), (None, None, 1), (32, 1, 1)),
        ((), (None, None, None), (32, 1, 1)),
    ],
)
def test_what_is_known_of_a_block_is_used(
    blocks: tuple[str, ...], extents: tuple[int | None, ...], assumed: tuple[int, int, int]
) -> None:
    calls = " ".join(f"k<<<1, {block}>>>(0, 1);" for block in blocks)
    model = parse(SourceText(f"{KERNEL}void go(int n) {{ {calls} }}"), "k.cu")
    launches = Launches(model.kernels[0], model)
    assert launches.extents == extents
    assert launches.assumed_lanes(32) == assumed


def waits(body: str, header: str = "for (int i = 0; i < 100; ++i)") -> list[str]:
    """Calls that the loop around the launch makes the host wait with."""
    text = SourceText(
        f"{KERNEL}void go(float *a, float *h, int n) {{ {header} {{\nk<<<1, 32>>>(a, 1);\n{body}\n}} }}\n"
    )
    loop = launch_loop(parse_tree(text), parse(text, "k.cu").launches[0])
    assert loop is not None
    return [call.name for call in loop.waits]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("cudaDeviceSynchronize();", 1),
        ("#ifdef DEBUG\ncudaDeviceSynchronize();\n#endif", 0),
        ("#define CHECKED 1\n#ifdef CHECKED\ncudaDeviceSynchronize();\n#endif", 1),
        ("if (i == 1) cudaDeviceSynchronize();", 0),
        ("if (n > 3 && i % 10 == 0) { cudaDeviceSynchronize(); }", 0),
        ("if (n == 1) cudaDeviceSynchronize();", 1),
        ("if (i == 0) { n = 2; } else cudaDeviceSynchronize();", 1),
        ("if (i > 1) cudaDeviceSynchronize();", 1),
        ("if (n > 5) { cudaDeviceSynchronize(); break; }", 0),
        ("for (int j = 0; j < 4; ++j) cudaDeviceSynchronize();", 1),
    ],
)
def test_what_the_loop_waits_for(body: str, expected: int) -> None:
    assert len(waits(body)) == expected


def test_a_file_inside_an_include_guard_is_read() -> None:
    guarded = f"#ifndef K_H\n#define K_H\n{KERNEL}void go(float *a, float *h) {{\n"
    text = SourceText(f"{guarded}  cudaMemcpy(h, a, 4, cudaMemcpyDeviceToHost);\n}}\n#endif\n")
    assert [copy.direction for copy in host_copies(parse_tree(text))] == ["out"]


def test_a_copy_of_one_iteration_is_in_no_loop() -> None:
    copy = "cudaMemcpy(h, a, 4, cudaMemcpyDeviceToHost);"
    text = SourceText(
        f"void go(float *a, float *h) {{ for (int i = 0; i < 9; ++i) {{ if (i == 1) {copy} }} }}"
    )
    (found,) = host_copies(parse_tree(text))
    assert found.loop is None
