# SPDX-License-Identifier: Apache-2.0
"""Copies in host code: direction, stream, loop, and where the host memory comes from."""

from __future__ import annotations

import pytest

from warplens_tools.cuda.facts.host_copies import (
    HostCopy,
    host_copies,
    idle_waits,
    launch_beside,
    origin_of,
    root_of,
)
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

DECLARED = """
float *a = (float *)malloc(n), *b = new float[n]; float *p; cudaMallocHost((void **)&p, n);
std::vector<float> v(n, 1.f), w(n); std::vector<float, pinned_allocator<float>> q(n); std::vector<float *> parts;
auto u = std::make_unique<float[]>(n); std::vector<std::vector<float>> rows; for (auto &row : rows) f(row);
float *r; CHECK(cudaHostRegister(r, n, 0)); r = static_cast<float *>(malloc(n));
T *t = static_cast<T *>(std::malloc(n)); cudaHostAlloc(&s.buffer, n, 0); parts[0] = new float[n];
void send(float *d, const float *src, int n) { } void f() { send(d, v.data(), 3); send(d, b + 2, 1); }
void mixed(float *d, const float *any, int n) { } void g() { mixed(d, v.data(), 3); mixed(d, p, 1); }
"""


@pytest.mark.parametrize(
    ("pointer", "memory", "source"),
    [
        ("a", "pageable", "malloc"), ("b + i * n", "pageable", "new"), ("(void *)a", "pageable", "malloc"),
        ("v.data()", "pageable", "std::vector"), ("&w[i]", "pageable", "std::vector"),
        ("rows[i].data()", "pageable", "std::vector"), ("row.data()", "pageable", "std::vector"),
        ("u.get()", "pageable", "std::make_unique"), ("t", "pageable", "malloc"), ("parts[0]", "pageable", "new"),
        ("src", "pageable", "std::vector"), ("p", "pinned", "page-locked"), ("r", "pinned", "page-locked"),
        ("s.buffer", "pinned", "page-locked"), ("q.data()", "unknown", ""), ("any", "unknown", ""),
        ("elsewhere", "unknown", ""), ("", "unknown", ""),
    ],
)  # fmt: skip
def test_origins(pointer: str, memory: str, source: str) -> None:
    found = origin_of(DECLARED, pointer)
    assert (found.memory, found.source) == (memory, source)


@pytest.mark.parametrize(
    ("pointer", "root"),
    [
        ("h + i * n", "h"), ("&h[i]", "h"), ("frame.pixels.data()", "pixels"), ("(float *)h", "h"),
        ("reinterpret_cast<char *>(h) + 4", "h"), ("this->h", "h"), ("42", ""),
    ],
)  # fmt: skip
def test_roots(pointer: str, root: str) -> None:
    assert root_of(pointer) == root


HOST = """
#define CHECK(call) do { if ((call) != cudaSuccess) return; } while (0)
constexpr int N = 1024;
__global__ void k(float *a) { a[threadIdx.x] = 0; }
void run(float *d, float *h, int parts, cudaStream_t s, cudaStream_t *turns, cudaEvent_t *done)
{
    cudaMemcpy(d, h, N * sizeof(float), cudaMemcpyHostToDevice);
    for (int p = 0; p < parts; ++p) {
        CHECK(cudaMemcpyAsync(d, h + p * N, N * 4, cudaMemcpyHostToDevice, s));
        k<<<1, 32, 0, s>>>(d);
        cudaMemcpy2DAsync(h, 64, d, 64, 64, parts, cudaMemcpyDeviceToHost, turns[p % 2]);
        cudaStreamSynchronize(turns[p % 2]);
        cudaEventSynchronize(done[0]);
        cudaMemcpy(d, d, 4, cudaMemcpyDeviceToDevice);
    }
}
"""


def copies() -> tuple[HostCopy, ...]:
    return host_copies(parse_tree(SourceText(HOST)))


def test_direction_stream_size_and_loop_of_each_copy() -> None:
    first, inward, outward = copies()
    assert (first.direction, first.stream, first.bytes, first.loop) == ("in", "", 4096, None)
    assert (inward.host, inward.stream, inward.bytes, inward.moves) == ("h + p * N", "s", 4096, True)
    assert (outward.direction, outward.host, outward.moves) == ("out", "h", False)
    assert inward.asynchronous
    assert not first.asynchronous


def test_a_wait_for_a_stream_taken_in_turn_is_for_older_work() -> None:
    loop = copies()[1].loop
    assert loop is not None
    assert [w.arguments for w in idle_waits(parse_tree(SourceText(HOST)), loop)] == ["done[0]"]


def test_a_copy_serves_the_launch_of_its_loop() -> None:
    text = SourceText(HOST)
    model = parse(text, "t.cu")
    site = launch_beside(parse_tree(text), model, copies()[1])
    assert site == model.launches[0]
    alone = SourceText("void up(float *d, float *h) { cudaMemcpy(d, h, 4, cudaMemcpyHostToDevice); }")
    (copy,) = host_copies(parse_tree(alone))
    assert launch_beside(parse_tree(alone), parse(alone, "t.cu"), copy) is None
