# SPDX-License-Identifier: Apache-2.0
"""Memory that nobody sees what a launch of one kernel leaves in, by the text of the host side."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.text import SourceText
from warplens_tools.tunable.scratch import unseen_after
from warplens_tools.tunable.source import File

KERNELS = (
    "__global__ void add(const float* in, float* parts, float* out, int n) {\n"
    "    parts[0] = in[0]; out[0] = parts[0] + n; }\n"
    "__global__ void other(float* parts) { parts[0] = 1; }\n"
)
ALLOCATED = "cudaMalloc(&parts, 64); cudaMalloc((void**)&out, 4); cudaMalloc(&in, 4 * n);"
LAUNCHED = "add<<<8, 256>>>(in, parts, out, n);"
READ = "cudaMemcpy(&got, out, 4, cudaMemcpyDeviceToHost);"


def unseen(body: str, declared: str = "float *in, *parts, *out; float got;") -> frozenset[int]:
    text = SourceText(f"{KERNELS}int main(int n, char**) {{ {declared} {body} return 0; }}\n")
    return unseen_after(File(text, parse(text, "add.cu")), "add")


def test_what_is_allocated_cleared_freed_and_passed_alone_is_seen_by_nobody() -> None:
    cleared = "cudaMemset(parts, 0, 64); cudaMemset(in, 0, 4);"
    assert unseen(f"{ALLOCATED} {cleared} {LAUNCHED} {LAUNCHED} {READ} cudaFree(parts);") == {0, 1}
    assert unseen(f"{ALLOCATED} {LAUNCHED}", "float *in, *out; float* parts = nullptr;") == {0, 1, 2}


@pytest.mark.parametrize(
    "seen",
    [
        "cudaMemcpy(&got, parts, 4, cudaMemcpyDeviceToHost);",
        "if (n > 7) cudaMemcpy(&got, parts + 1, 4, cudaMemcpyDeviceToHost);",
        "other<<<1, 1>>>(parts);",
        "float* same = parts; cudaMemcpy(&got, same, 4, cudaMemcpyDeviceToHost);",
        "add<<<8, 256>>>(parts, out, in, n);",
        "float** where = &parts;",
        "cudaMallocManaged(&parts, 64);",
        "auto show = [&] { return parts[0]; };",
    ],
)
def test_whoever_else_may_see_it_is_seen(seen: str) -> None:
    assert 1 not in unseen(f"{ALLOCATED} {LAUNCHED} {READ} {seen}")


def test_what_is_another_name_for_other_memory_is_seen() -> None:
    assert 1 not in unseen(LAUNCHED, "float *in, *out; float* parts = out; float got;")


def test_a_variable_of_the_same_name_elsewhere_is_another() -> None:
    text = SourceText(
        f"{KERNELS}float first(float* parts) {{ return parts[0]; }}\n"
        f"int main(int n, char**) {{ float *in, *parts, *out; {ALLOCATED} {LAUNCHED} return 0; }}\n"
    )
    assert unseen_after(File(text, parse(text, "add.cu")), "add") == {0, 1, 2}
