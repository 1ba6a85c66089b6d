# SPDX-License-Identifier: Apache-2.0
"""The cure fits the kernel: vectors for whole structs, aligned pads under wide copies, integer divisors by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.service.service import CheckOptions, Service
from warplens_tools.finding import Finding

pytestmark = pytest.mark.compiler

RECORD = """
#include <cuda_fp16.h>
struct alignas(16) H8 { __half2 h[4]; };
__global__ void twice(H8 *__restrict__ out, const H8 *__restrict__ in)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    H8 v = in[i];
    #pragma unroll
    for (int j = 0; j < 4; ++j) v.h[j] = __hadd2(v.h[j], v.h[j]);
    out[i] = v;
}
void run(H8 *out, const H8 *in) { twice<<<4096, 256>>>(out, in); }
"""
DIVIDED = """
__global__ void spread(float *out, const float *in, int size, int trips)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < trips; ++k) {
        i = i * 3 + k;
        sum += in[i % size] / (1.0f + sum);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
void run(float *out, const float *in, int size, int trips) { spread<<<1056, 256>>>(out, in, size, trips); }
"""
MAPPED = """
__global__ void scale_rows(float *out, const float *in, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int c = 0; c < columns; ++c) out[c * rows + row] = 2.0f * in[row * columns + c];
}
void run(float *out, const float *in) { scale_rows<<<1056, 256>>>(out, in, 270336, 64); }
"""
SERIAL = """
__global__ void prefix(float *a, int n)
{
    for (int i = 1; i < n; ++i) a[i] += a[i - 1];
}
void run(float *a, int n) { prefix<<<1, 1>>>(a, n); }
"""
HALVES = """
template <int WIDTH>
__global__ void halves(const float *in, float *out, int rows)
{
    __shared__ float tile[32][WIDTH];
    int half = threadIdx.x % 2 * (WIDTH / 2);
    for (int i = threadIdx.x; i < 32 * WIDTH; i += 128) tile[i / WIDTH][i % WIDTH] = in[i];
    __syncthreads();
    float sum = 0.0f;
    for (int j = 0; j < rows; j++)
        for (int c = 0; c < WIDTH / 2; c++) sum += tile[j][half + c] * (float)(threadIdx.x + c);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
void run(float *out, const float *in)
{
    halves<64><<<4096, 128>>>(in, out, 32);
    halves<128><<<4096, 128>>>(in, out, 32);
}
"""
RANKED = """
__global__ void placed(const unsigned *keys, unsigned *out, unsigned *filled, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned bucket = keys[i] & 63;
        unsigned at = atomicAdd(&filled[bucket], 1u);
        if (at < 4096) out[bucket * 4096 + at] = keys[i];
    }
}
void run(const unsigned *keys, unsigned *out) { placed<<<65536, 256>>>(keys, out, out, 1 << 24); }
"""


def found(tmp_path: Path, text: str) -> dict[str, Finding]:
    file = tmp_path / "k.cu"
    file.write_text(text)
    report = Service(tmp_path).check([file], CheckOptions(tier="binary", arch="sm_90"))
    return {f.slug: f for f in report.files[0].findings}


def test_no_structure_of_arrays_where_every_byte_is_used(tmp_path: Path) -> None:
    told = found(tmp_path, RECORD)
    assert "strided-field-access" not in told
    assert "uint4" in told["scalar-access"].guidance


def test_the_divisor_is_named_and_a_float_one_is_none(tmp_path: Path) -> None:
    told = found(tmp_path, DIVIDED)["integer-division"]
    assert "by size" in told.message
    assert "1.0f" not in told.message + told.guidance


def test_a_loop_that_maps_elements_is_not_told_to_reduce(tmp_path: Path) -> None:
    told = found(tmp_path, MAPPED)
    assert all("reduce" not in f.guidance for f in told.values())
    assert told


def test_serial_work_is_promised_no_card(tmp_path: Path) -> None:
    told = found(tmp_path, SERIAL)
    small = told["grid-too-small"]
    assert (small.severity, small.confidence, small.gain) == ("information", "low", None)
    assert "whether the loop can run in parallel" in small.missing


def test_lanes_that_meet_in_one_row_are_not_parted_by_padding(tmp_path: Path) -> None:
    told = found(tmp_path, HALVES)["shared-bank-conflicts"]
    assert "inside one row" in told.guidance
    assert "Pad" not in told.guidance


def test_an_atomic_that_brings_a_place_is_not_told_to_add_copies_up(tmp_path: Path) -> None:
    told = found(tmp_path, RANKED)["global-atomic-contention"]
    assert "reserve" in told.guidance
    assert told.severity == "information"
