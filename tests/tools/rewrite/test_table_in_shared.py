# SPDX-License-Identifier: Apache-2.0
"""Tables of constant memory that lanes look up apart."""

from __future__ import annotations

from tests.tools.rewrite.on_host import holds, program, rewritten

CODE = """
#define LEVELS 256
__constant__ unsigned char lut[LEVELS];
__constant__ float weights[16];
__global__ void map(const unsigned char* in, float* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += weights[k] * lut[(in[y * w + x] + k) % LEVELS];
  out[y * w + x] = sum + lut[255 - in[y * w + x]];
}
"""
MAIN = (
    "  int w = atoi(argv[1]), h = atoi(argv[2]); unsigned char l[LEVELS]; float f[16];\n"
    "  for (int i = 0; i < LEVELS; ++i) l[i] = i * 7; for (int i = 0; i < 16; ++i) f[i] = i / 8.0f;\n"
    "  cudaMemcpyToSymbol(lut, l, sizeof(l)); cudaMemcpyToSymbol(weights, f, sizeof(f));\n"
    "  Device<unsigned char> a(w * h); Device<float> b(w * h, 2);\n"
    "  map<<<dim3((w + 15) / 16, (h + 3) / 4), dim3(16, 4)>>>(a, b, w, h); b.show();"
)


def test_a_table_that_data_index_is_copied_first() -> None:
    after = holds("table-in-shared", program(CODE, MAIN), (37, 9))
    assert "shared_lut[LEVELS]" in after and "shared_weights" not in after
    assert "threadIdx.y * blockDim.x + threadIdx.x" in after


def test_a_table_of_several_dimensions_stays_so() -> None:
    code = """
constexpr int kSide = 4;
__constant__ float table[2][kSide + 1][kSide];
__global__ void turn(const float* in, float* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < kSide; k++) sum += in[x] * table[x % 2][k][threadIdx.x % kSide];
  out[x] = sum + table[1][kSide][0];
}
"""
    main = (
        "  int n = atoi(argv[1]); float t[40]; for (int i = 0; i < 40; ++i) t[i] = i / 8.0f;\n"
        "  cudaMemcpyToSymbol(table, t, sizeof(t)); Device<float> a(n), b(n, 2);\n"
        "  turn<<<(n + 63) / 64, 64>>>(a, b, n); b.show();"
    )
    after = holds("table-in-shared", program(code, main), (1000,), (37,))
    assert "shared_table[t / ((kSide + 1) * kSide)][t / kSide % (kSide + 1)][t % kSide]" in after
    assert "shared_table[x % 2][k][threadIdx.x % kSide]" in after
    assert rewritten("table-in-shared", after)[0].refused
    alike = code.replace("x % 2", "1").replace("[threadIdx.x % kSide]", "[0]")
    assert rewritten("table-in-shared", program(alike, main))[0].refused


def test_tables_that_stay_where_they_are() -> None:
    for old, new in (
        ("[(in[y * w + x] + k) % LEVELS]", "[k]"),
        ("#define LEVELS 256", "#define LEVELS 60000"),
        ("sum + lut[", "sum + *lut + lut["),
    ):
        text = CODE.replace(old, new)
        if old.startswith("[("):
            text = text.replace("lut[255 - in[y * w + x]]", "lut[255]")
        assert rewritten("table-in-shared", program(text, MAIN))[0].refused


def test_a_lookup_of_each_element_comes_in_vectors() -> None:
    code = """
__constant__ unsigned char table[256];
__global__ void map(const unsigned char* in, unsigned char* out, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[in[i]];
}
"""
    main = (
        "  size_t n = atoi(argv[1]); unsigned char t[256]; for (int i = 0; i < 256; ++i) t[i] = 255 - i;\n"
        "  cudaMemcpyToSymbol(table, t, 256); Device<unsigned char> a(n), b(n, 2);\n"
        "  map<<<(unsigned)((n + 63) / 64), 64>>>(a, b, n); b.show();"
    )
    after = holds("table-in-vectors", program(code, main), (1000,), (37,))
    assert "uint4" in after and "shared_table" in after
