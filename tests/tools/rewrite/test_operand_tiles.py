# SPDX-License-Identifier: Apache-2.0
"""Products and their like, tiled: the programs print the same on the host, at sizes that no tile divides."""

from __future__ import annotations

import re

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten

GEMM = """
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
      sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;
  }
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
  dim3 block(16, 16);
  dim3 grid((n + block.x - 1) / block.x, (m + 15) / 16);
  matmul<<<grid, block>>>(a, b, c, m, n, k);
}
"""
MNK = "  int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]);\n"
PROGRAMS = {
    "all on all but itself": (
        """
__global__ void forces(const float4* pos, float4* force, int n, float cut) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = pos[i];
  float fx = 0, fy = 0;
  for (int j = 0; j < n; j++) {
    if (j == i) continue;
    float4 q = pos[j];
    float dx = p.x - q.x, dy = p.y - q.y, r2 = dx * dx + dy * dy + 0.25f;
    if (r2 < cut) {
      fx += dx / r2;
      fy += dy / r2;
    }
  }
  force[i] = make_float4(fx, fy, 0, 0);
}
""",
        MNK + "  n += m + k; Device<float> a(4 * n), b(4 * n, 2);\n"
        "  forces<<<(n + 63) / 64, 64>>>((float4*)(float*)a, (float4*)(float*)b, n, 30.0f); b.show();",
    ),
    "one number divided, its row limited": (
        """
__global__ void matmul(double* c, const double* a, const double* b, int n) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int row = idx / n, col = idx % n;
  if (row < n) {
    double sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
    c[idx] = sum;
  }
}
""",
        MNK + "  Device<double> a(n * n), b(n * n, 2), c(n * n + m * k);\n"
        "  matmul<<<(n * n + 63) / 64, 64>>>(c, a, b, n); c.show();",
    ),
    "plain": (
        GEMM,
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n); run(a, b, c, m, n, k); c.show();",
    ),
    "column major, alpha and beta, macros": (
        """
#define IDX2C(i, j, ld) (((j) * (ld)) + (i))
#define BLOCK_SIZE 16
// C = alpha A B + beta C
__global__ void sgemm_naive(int m, int n, int k, float alpha, const float *A, int lda, const float *B, int ldb,
                            float beta, float *C, int ldc)
{
    int i = blockIdx.x * BLOCK_SIZE + threadIdx.x;
    int j = blockIdx.y * BLOCK_SIZE + threadIdx.y;
    if (i >= m || j >= n)
        return;
    float acc = 0;
    for (int p = 0; p < k; p++)
        acc += A[IDX2C(i, p, lda)] * B[IDX2C(p, j, ldb)];
    C[IDX2C(i, j, ldc)] = alpha * acc + beta * C[IDX2C(i, j, ldc)];
}
void gemm(int m, int n, int k, float *a, float *b, float *c) {
    dim3 threads(BLOCK_SIZE, BLOCK_SIZE);
    dim3 blocks((m + BLOCK_SIZE - 1) / BLOCK_SIZE, (n + BLOCK_SIZE - 1) / BLOCK_SIZE);
    sgemm_naive<<<blocks, threads>>>(m, n, k, 1.5f, a, m, b, k, 0.5f, c, m);
}
""",
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n); gemm(m, n, k, a, b, c); c.show();",
    ),
    "half, both operands along the loop, bias and relu": (
        """
__global__ void linear(const __half* __restrict__ x, const __half* __restrict__ w, __half* y, const float* bias,
                       unsigned int rows, unsigned int cols, unsigned int inner) {
  const unsigned int r = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows && c < cols) {
    float total = bias[c];
    for (unsigned int t = 0; t < inner; ++t) {
      float xv = __half2float(x[r * inner + t]);
      float wv = __half2float(w[c * inner + t]);
      total += xv * wv;
    }
    y[r * cols + c] = __float2half(total > 0.0f ? total : 0.0f);
  }
}
""",
        MNK + "  Device<__half> x(m * k), w(n * k, 2), y(m * n); Device<float> bias(n, 3);\n"
        "  linear<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, w, y, bias, m, n, k); y.show();",
    ),
    "batched, a template, local pointers": (
        """
template <typename T>
__global__ void batched(const T* A, const T* B, T* C, int n) {
  int b = blockIdx.z;
  const T* a = A + b * n * n;
  const T* bb = B + (size_t)b * n * n;
  T* c = C + b * n * n;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n && col < n) {
    T s = T(0);
    for (int k = 0; k < n; k++) s += a[row * n + k] * bb[k * n + col];
    c[row * n + col] = s;
  }
}
""",
        "  int n = atoi(argv[1]), nb = 3;\n  Device<double> a(nb * n * n), b(nb * n * n, 2), c(nb * n * n);\n"
        "  dim3 block(32, 8), grid((n + 31) / 32, (n + 7) / 8, nb);\n"
        "  batched<double><<<grid, block>>>(a, b, c, n); c.show();",
    ),
    "pairwise distances, one number for both axes": (
        """
__global__ void pairwise(const float* pts, const float* other, float* dist, int n, int m, int dim) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= n * m) return;
  int i = idx / m;
  int j = idx % m;
  float d = 0.0f;
  for (int k = 0; k < dim; ++k) {
    float diff = pts[i * dim + k] - other[j * dim + k];
    d += diff * diff;
  }
  dist[idx] = sqrtf(d);
}
""",
        MNK + "  Device<float> p(m * k), q(n * k, 2), d(m * n);\n  int t = 256;\n"
        "  pairwise<<<(m * n + t - 1) / t, t>>>(p, q, d, m, n, k); d.show();",
    ),
    "all bodies on one": (
        """
__global__ void nbody(const float4* pos, float* acc, int n, float eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 me = pos[i];
    float ax = 0.0f, ay = 0.0f;
    for (int j = 0; j < n; j++) {
      float4 other = pos[j];
      float dx = other.x - me.x, dy = other.y - me.y;
      float inv = rsqrtf(dx * dx + dy * dy + eps);
      float s = other.w * inv * inv * inv;
      ax += dx * s; ay += dy * s;
    }
    acc[2 * i] = ax;
    acc[2 * i + 1] = ay;
  }
}
""",
        "  int n = atoi(argv[1]); Device<float> p(4 * n), a(2 * n);\n"
        "  nbody<<<(n + 255) / 256, 256>>>((const float4*)p.data, a, n, 0.5f); a.show();",
    ),
    "min-plus, conditions instead of sums": (
        """
__global__ void minplus(const int* d, const int* e, int* out, int n) {
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  if (i >= n) return;
  if (j >= n) return;
  int best = d[i * n + j];
  for (int k = 0; k < n; ++k) {
    int via = d[i * n + k] + e[k * n + j];
    if (via < best) best = via;
  }
  out[i * n + j] = best;
}
""",
        "  int n = atoi(argv[1]); Device<int> d(n * n), e(n * n, 2), o(n * n);\n"
        "  dim3 b(16, 16), g((n + 15) / 16, (n + 15) / 16); minplus<<<g, b>>>(d, e, o, n); o.show();",
    ),
    "sizes of the file, no guard": (
        """
#define N 96
__global__ void mm_const(float *a, float *b, float *c) {
	int tx = threadIdx.x, ty = threadIdx.y;
	int bx = blockIdx.x, by = blockIdx.y;
	int row = by * 32 + ty;
	int col = bx * 32 + tx;
	float value = 0.0;
	for (int k = 0; k < N; k++) {
		value += a[row * N + k] * b[k * N + col];
	}
	c[row * N + col] = value;
}
""",
        "  Device<float> a(N * N), b(N * N, 2), c(N * N);\n  dim3 tb(32, 32); dim3 bl(N / 32, N / 32);\n"
        "  mm_const<<<bl, tb>>>(a, b, c); c.show();",
    ),
    "attention scores in bfloat16, causal": (
        """
__global__ void scores(const __nv_bfloat16* q, const __nv_bfloat16* k, float* s, int seq, int dh, float scale) {
  int col = threadIdx.x + blockIdx.x * blockDim.x;
  int row = threadIdx.y + blockDim.y * blockIdx.y;
  int head = blockIdx.z;
  if (row < seq && col < seq) {
    float acc = 0.f;
    for (int d = 0; d < dh; d++)
      acc = fmaf(__bfloat162float(q[(head * seq + row) * dh + d]),
                 __bfloat162float(k[(head * seq + col) * dh + d]), acc);
    s[(head * seq + row) * seq + col] = col <= row ? acc * scale : -1e30f;
  }
}
""",
        "  int seq = atoi(argv[1]), dh = atoi(argv[3]), heads = 2;\n"
        "  Device<__nv_bfloat16> q(heads * seq * dh), k(heads * seq * dh, 2); Device<float> s(heads * seq * seq);\n"
        "  dim3 g((seq + 15) / 16, (seq + 15) / 16, heads); scores<<<g, dim3(16, 16)>>>(q, k, s, seq, dh, 0.125f);\n"
        "  s.show();",
    ),
    "indices in variables, __ldg": (
        """
__global__ void product(const float* A, const float* B, float* C, int n) {
  size_t i = blockIdx.y * (size_t)blockDim.y + threadIdx.y, j = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n && j < n) {
    float x = 0;
    for (int k = 0; k < n; k++) {
      size_t ai = i * n + k;
      size_t bi = k * (size_t)n + j;
      x += __ldg(&A[ai]) * __ldg(B + bi);
    }
    C[i * n + j] = x;
  }
}
""",
        "  int n = atoi(argv[1]); Device<float> a(n * n), b(n * n, 2), c(n * n);\n"
        "  dim3 g((n + 15) / 16, (n + 15) / 16); product<<<g, dim3(16, 16)>>>(a, b, c, n); c.show();",
    ),
    "a kernel that transposes, rows on x": (
        """
__global__ void atb(const double* a, const double* b, double* c, int rows, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < n) {
    if (j < m) {
      const double *pa = a + i;
      double total = 0.0;
      int r;
      for (r = 0; r < rows; r += 1) { total += pa[r * n] * b[r * m + j]; }
      c[i * m + j] = total;
    }
  }
}
""",
        MNK + "  Device<double> a(k * m), b(k * n, 2), c(m * n);\n"
        "  dim3 t(8, 32); atb<<<dim3((m + 7) / 8, (n + 31) / 32), t>>>(a, b, c, k, m, n); c.show();",
    ),
    "some outputs early": (
        """
__global__ void qk_scores(const half* Q, const half* K, float* scores, int seq, int d) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= seq || j >= seq) return;
  if (j > i) {
    scores[i * seq + j] = -1e30f;
    return;
  }
  const half* q = Q + (size_t)i * d;
  const half* k = K + (size_t)j * d;
  float dot = 0.0f;
  for (int x = 0; x < d; x++) dot += __half2float(q[x]) * __half2float(k[x]);
  scores[i * seq + j] = dot / sqrtf((float)d);
}
""",
        "  int seq = atoi(argv[1]), d = atoi(argv[3]); Device<half> q(seq * d), k(seq * d, 2);\n"
        "  Device<float> s(seq * seq);\n"
        "  dim3 threads(32, 8), blocks((seq + 31) / 32, (seq + 7) / 8);\n"
        "  qk_scores<<<blocks, threads>>>(q, k, s, seq, d);\n"
        "  s.show();",
    ),
    "records, the own one read in the loop": (
        """
struct Body { float x, y, vx, vy; };
__global__ void bodyForce(Body *p, float dt, int n) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) {
    float Fx = 0.0f; float Fy = 0.0f;
    for (int j = 0; j < n; j++) {
      float dx = p[j].x - p[i].x;
      float dy = p[j].y - p[i].y;
      float invDist = 1.0f / sqrtf(dx * dx + dy * dy + 0.25f);
      Fx += dx * invDist; Fy += dy * invDist;
    }
    p[i].vx += dt * Fx; p[i].vy += dt * Fy;
  }
}
""",
        "  int n = atoi(argv[1]); Device<float> p(4 * n); int blockSize = 64;\n"
        "  int nBlocks = (n + blockSize - 1) / blockSize;\n"
        "  bodyForce<<<nBlocks, blockSize>>>((Body*)p.data, 0.01f, n); p.show();",
    ),
    "a matrix and a vector": (
        """
__global__ void matvec(const double* A, const double* x, double* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double dot = 0;
  for (int c = 0; c < cols; ++c) dot += A[(size_t)r * cols + c] * x[c];
  y[r] += dot;
}
""",
        MNK
        + "  Device<double> a(m * k), x(k, 2), y(m, 3); matvec<<<(m + 127) / 128, 128>>>(a, x, y, m, k); y.show();",
    ),
}
PROGRAMS |= {
    "matrices of two dimensions, rows by pointers": (
        """
#define W 40
__global__ void multiply(const float a[][W], float (*b)[W], float c[W][W], int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (y < n && x < W) {
    float t = c[y][x];
    for (int k = 0; k < W; k++) t += a[y][k] * b[k][x];
    c[y][x] = t;
  }
}
""",
        MNK + "  (void)k; m = m < W ? m : W; Device<float> a(W * W), b(W * W, 2), c(W * W, 3);\n"
        "  multiply<<<dim3((W + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>((float (*)[W])a.data, (float (*)[W])b.data,"
        " (float (*)[W])c.data, m); c.show();",
    ),
    "a triangle, elements by macros that end with the kernel": (
        """
#define A(i, j) A[(i) + (j) * lda]
#define C(i, j) (C[(i) + (j) * n])
__global__ void syrk(int n, int k, float alpha, const float* A, int lda, float* C) {
  int i = threadIdx.x + blockDim.x * blockIdx.x;
  int j = threadIdx.y + blockDim.y * blockIdx.y;
  if (i >= n || j > i) return;
  float t = 0.0f;
  for (int l = 0; l < k; l++) t += A(i, l) * A(j, l);
  C(i, j) = C(i, j) + alpha * t;
}
#undef A
#undef C
""",
        MNK + "  (void)n; Device<float> a(m * k), c(m * m, 3); dim3 t(8, 8), g((m + 7) / 8, (m + 7) / 8);\n"
        "  syrk<<<g, t>>>(m, k, 0.5f, a, m, c); c.show();",
    ),
    "outputs that threads stride over by the grid": (
        """
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
  for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += gridDim.y * blockDim.y)
    for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < N; col += gridDim.x * blockDim.x) {
      float s = 0;
      for (int k = 0; k < K; k++) s += A[row * K + k] * B[k * N + col];
      C[row * N + col] = s;
    }
}
""",
        MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n, 3);\n"
        "  mm<<<dim3(2, 1), dim3(8, 8)>>>(a, b, c, m, n, k); c.show();",
    ),
    "one problem of many, its matrices found at the head": (
        """
__global__ void bmm(const float* A, const float* __restrict__ B, float* C, int M, int N, int K) {
  A += blockIdx.z * M * K;
  B += blockIdx.z * K * N;
  C += blockIdx.z * M * N;
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum = fmaf(A[row * K + k], B[k * N + col], sum);
  C[row * N + col] = sum;
}
""",
        MNK + "  Device<float> a(2 * m * k), b(2 * k * n, 2), c(2 * m * n, 3);\n"
        "  bmm<<<dim3((n + 15) / 16, (m + 15) / 16, 2), dim3(16, 16)>>>(a, b, c, m, n, k); c.show();",
    ),
}
SIZES = ((65, 33, 17), (7, 70, 40))


@pytest.mark.parametrize("slug", ["register-tile", "shared-tile"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(12)
def test_a_product_is_tiled(slug: str, name: str) -> None:
    after = holds(slug, program(*PROGRAMS[name]), *SIZES, relative=2e-5, absolute=1e-4)
    assert "__shared__" in after
    assert rewritten(slug, after)[0].refused


KEPT = {
    "a macro's sizes, a counter declared before, what was there scaled": (
        """
#define NJ 70
#define NK 40
#define BOUND(N, n) n
#define PB_NI BOUND(NI, ni)
#define PB_NJ BOUND(NJ, nj)
typedef float DATA_TYPE;
__global__ void gemm(int ni, int nj, int nk, DATA_TYPE alpha, DATA_TYPE beta, DATA_TYPE *a, DATA_TYPE *b, DATA_TYPE *c)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x;
	int i = blockIdx.y * blockDim.y + threadIdx.y;
	if ((i < PB_NI) && (j < PB_NJ))
	{
		c[i * NJ + j] *= beta;
		int k;
		for(k=0; k < nk; k++)
		{
			c[i * NJ + j] += alpha * a[i * NK + k] * b[k * NJ +j];
		}
	}
}
void run(int ni, int nj, int nk, DATA_TYPE *A, DATA_TYPE *B, DATA_TYPE *C) {
	dim3 block(32, 8);
	dim3 grid((size_t)(ceil( ((float)nj)/ ((float)block.x) )),(size_t)(ceil( ((float)ni)/ ((float)block.y) )));
	gemm<<< grid, block >>>(ni, nj, nk, 1.5f, 0.5f, A, B, C);
}
""",
        "  int ni = atoi(argv[1]); Device<float> a(ni * NK), b(NK * NJ, 2), c(ni * NJ, 3); run(ni, NJ, NK, a, b, c);"
        " c.show();",
    ),
    "no limit, as many blocks as a variable says": (
        """
__global__ void product(const int *a, const int *b, int *c, int N) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  c[row * N + col] = 0;
  for (int k = 0; k < N; k++) {
    c[row * N + col] = c[row * N + col] + a[row * N + k] * b[k * N + col];
  }
}
void run(const int* a, const int* b, int* c, int N) {
  int THREADS = 16;
  int BLOCKS = N / THREADS;
  dim3 threads(THREADS, THREADS), blocks(BLOCKS, BLOCKS);
  product<<<blocks, threads>>>(a, b, c, N);
}
""",
        "  int n = atoi(argv[1]) / 16 * 16; Device<int> a(n * n), b(n * n, 2), c(n * n, 3); run(a, b, c, n); c.show();",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_sums_in_memory_become_tiles(name: str) -> None:
    after = holds("sum-kept-tile", program(*KEPT[name]), (65,), (33,), relative=2e-5, absolute=1e-4)
    assert "__shared__" in after and "threadIdx.y * " in after
    assert re.search(r"\? b\[k \* NJ ?\+ ?j\]|\? b\[k \* N \+ col\]", after)
    assert re.search(r"tileB\[t / \w+\]\[t % \w+\]", after), "rows of B are read along memory"


@pytest.mark.compiler
def test_rows_that_threads_walk_become_tiles() -> None:
    by_row = GEMM.replace(
        "int row = blockIdx.y * blockDim.y + threadIdx.y;", "int row = blockIdx.x * 64 + threadIdx.x;"
    )
    by_row = by_row.replace("  int col = blockIdx.x * blockDim.x + threadIdx.x;\n", "")
    by_row = by_row.replace(
        "  if (row < M && col < N) {", "  if (row >= M) return;\n  for (int col = 0; col < N; ++col) {"
    )
    by_row = by_row.replace("dim3 block(16, 16);", "dim3 block(64);").replace(
        "dim3 grid((n + block.x - 1) / block.x, (m + 15) / 16);", "dim3 grid((m + 63) / 64);"
    )
    main = MNK + "  Device<float> a(m * k), b(k * n, 2), c(m * n, 3); run(a, b, c, m, n, k); c.show();"
    after = holds("loop-into-tiles", program(by_row, main), *SIZES, relative=2e-5, absolute=1e-4)
    assert "__shared__" in after and "kTileCols" not in after


REFUSED = {
    "shares memory already": GEMM.replace("    float sum", "    __shared__ float t[4];\n    float sum"),
    "the loop is left early": GEMM.replace("      sum +=", "      if (sum > 9) break;\n      sum +="),
    "the loop stores": GEMM.replace("      sum +=", "      C[row * N + col] = 0; sum +="),
    "its length differs": GEMM.replace("k < K", "k < row * 2"),
    "its step is not one": GEMM.replace("++k", "k += 2"),
    "no operand is shared": GEMM.replace("A[row * K + k]", "A[(row * N + col) * K + k]"),
    "an array is passed on": GEMM.replace("sum += A[row * K + k]", "sum += at(A, row * K + k)"),
    "threads are told apart": GEMM.replace("C[row * N", "if (threadIdx.x < 3) C[row * N"),
    "no launch is in the file": GEMM[: GEMM.index("void run")],
    "what is launched is not told": GEMM.replace("(a, b, c, m, n, k);", "(a, b, c, size(m), n, k);"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("slug", ["register-tile", "shared-tile"])
def test_what_is_no_product_is_left_alone(slug: str, name: str) -> None:
    assert rewritten(slug, REFUSED[name])[0].refused


def test_a_stride_of_two_grids_leaves_outputs_out() -> None:
    code, main = PROGRAMS["outputs that threads stride over by the grid"]
    twice = code.replace("col += gridDim.x", "col += 2 * gridDim.x")
    assert code != twice and rewritten("register-tile", program(twice, main))[0].refused


def test_blocks_beyond_a_triangle_do_nothing() -> None:
    text = program(*PROGRAMS["a triangle, elements by macros that end with the kernel"])
    after = holds("register-tile", text, (150, 3, 20), relative=1e-5, absolute=1e-5)
    assert re.search(r"if \(j0 >= i0 \+ \w+\) return;", after)


BATCHED = """
__global__ void batched(const float* const* As, const float* const* Bs, float* const* Cs, int m, int n, int k) {
  const float* a = As[blockIdx.z];
  const float* b = Bs[blockIdx.z];
  float* c = Cs[blockIdx.z];
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < m && col < n) {
    float s = 0;
    for (int i = 0; i < k; i++) s += a[row * k + i] * b[i * n + col];
    c[row * n + col] = s;
  }
}
"""
BATCHED_MAIN = """
  int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]);
  Device<float> a(3 * m * k), b(3 * k * n, 2), c(3 * m * n, 3);
  std::vector<float*> as, bs, cs;
  for (int i = 0; i < 3; i++) {
    as.push_back(a.data + i * m * k); bs.push_back(b.data + i * k * n); cs.push_back(c.data + i * m * n);
  }
  batched<<<dim3((n + 15) / 16, (m + 15) / 16, 3), dim3(16, 16)>>>(as.data(), bs.data(), cs.data(), m, n, k);
  c.show();
"""


@pytest.mark.compiler
def test_each_block_has_matrices_of_a_table_of_them() -> None:
    for slug in ("register-tile", "shared-tile"):
        holds(slug, program(BATCHED, BATCHED_MAIN), (17, 33, 9), (70, 5, 40), relative=1e-5, absolute=1e-4)
