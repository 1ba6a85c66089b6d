# SPDX-License-Identifier: Apache-2.0
"""Programs in which a thread walks something by itself: rows, segments, columns, chunks."""

from __future__ import annotations

RC = "  int rows = atoi(argv[1]), cols = atoi(argv[2]);\n"
#: Row pointers of segments of 0 to 2 * cols elements, and columns within [0, cols).
CSR = RC + (
    "  std::vector<int> p(rows + 1), c;\n"
    "  for (int i = 0; i < rows; ++i) {"
    " for (int k = 0; k < i * 7 % (2 * cols + 1); ++k) c.push_back((i + 5 * k) % cols);"
    " p[i + 1] = (int)c.size(); }\n"
    "  c.push_back(0);\n"
    "  Device<int> ptr(rows + 1), col(c.size());\n"
    "  cudaMemcpy(ptr, p.data(), p.size() * sizeof(int), cudaMemcpyHostToDevice);\n"
    "  cudaMemcpy(col, c.data(), c.size() * sizeof(int), cudaMemcpyHostToDevice);\n"
)

#: name: (kernel and launching function, body of main). The second sizes are fewer than a warp's, and odd.
ROWS: dict[str, tuple[str, str]] = {
    "updates of a row that a divided number finds": (
        """
__global__ void backward(float* grad, const float* probs, const int* targets, int B, int T, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T) {
        int b = i / T, t = i % T;
        float* d = grad + b * T * V + t * V;
        const float* p = probs + b * T * V + t * V;
        int ix = abs(targets[b * T + t]) % V;
        for (int v = 0; v < V; v++) {
            float indicator = v == ix ? 1.0f : 0.0f;
            d[v] += (p[v] - indicator) * 0.5f;
        }
    }
}
""",
        RC + "  Device<float> d(2 * rows * cols), p(2 * rows * cols, 2); Device<int> t(2 * rows, 3);\n"
        "  backward<<<(2 * rows + 63) / 64, 64>>>(d, p, t, 2, rows, cols); d.show();",
    ),
    "softmax by pointers": (
        """
__global__ void softmaxRows(const float *x, float *y, int rows, int cols)
{
    int r = threadIdx.x + blockIdx.x * blockDim.x;
    if (r < rows)
    {
        const float *xr = x + (size_t)r * cols;
        float *yr = y + (size_t)r * cols;
        float m = xr[0];
        for (int c = 1; c < cols; c++)
            m = fmaxf(m, xr[c]);
        float s = 0.0f;
        for (int c = 0; c < cols; c++)
        {
            yr[c] = expf(xr[c] - m);
            s += yr[c];
        }
        for (int c = 0; c < cols; c++)
            yr[c] /= s;
    }
}
void softmax(const float *x, float *y, int rows, int cols)
{
    const int threads = 64;
    int blocks = (rows + threads - 1) / threads;
    softmaxRows<<<blocks, threads>>>(x, y, rows, cols);
}
""",
        RC + "  Device<float> x(rows * cols), y(rows * cols, 2); softmax(x, y, rows, cols); y.show();",
    ),
    "a template in half precision": (
        """
template <typename T>
__global__ void layernorm(const T* __restrict__ in, T* __restrict__ out, const T* gamma, int n, int d, float eps) {
  const int tid = threadIdx.x;
  const int row = blockIdx.x * 128 + tid;
  if (row >= n) return;
  float mean = 0.f, var = 0.f;
  for (int i = 0; i < d; ++i) mean += static_cast<float>(in[row * d + i]);
  mean /= d;
  for (int i = 0; i < d; ++i) {
    float t = static_cast<float>(in[row * d + i]) - mean;
    var += t * t;
  }
  const float rstd = rsqrtf(var / d + eps);
  for (int i = 0; i < d; ++i)
    out[row * d + i] =
        static_cast<T>((static_cast<float>(in[row * d + i]) - mean) * rstd * static_cast<float>(gamma[i]));
}
""",
        RC + "  Device<__half> x(rows * cols), g(cols, 3), y(rows * cols, 2);\n"
        "  dim3 grid((rows + 127) / 128);\n"
        "  layernorm<__half><<<grid, 128>>>(x, y, g, rows, cols, 1e-5f); y.show();",
    ),
    "rows of a sparse matrix, striding the grid": (
        """
__global__ void spmv(int num_rows, const int *row_ptr, const int *col_idx, const double *x, double *y) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < num_rows; row += blockDim.x * gridDim.x) {
    double dot = 0;
    int start = row_ptr[row], end = row_ptr[row + 1];
    for (int k = start; k < end; k++)
      dot += x[col_idx[k]] * (k % 3);
    y[row] = dot;
  }
}
""",
        CSR + "  Device<double> x(cols), y(rows, 2);\n  spmv<<<2, 64>>>(rows, ptr, col, x, y); y.show();",
    ),
    "a segment in a while loop": (
        """
__global__ void degree_sum(const int* first, const int* edge, const float* rank, float* next, unsigned vertices)
{
    unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < vertices) {
        float sum = 0;
        int e = first[v];
        while (e < first[v + 1]) {
            int u = edge[e];
            sum += rank[u] * 0.5f;
            e++;
        }
        next[v] = 0.15f + sum;
    }
}
""",
        CSR + "  Device<float> x(cols), y(rows, 2);\n"
        "  degree_sum<<<(rows + 255) / 256, 256>>>(ptr, col, x, y, rows); y.show();",
    ),
    "the largest and where": (
        """
__global__ void argmax(const float* logits, int* out, float* best_out, int batch, int classes) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= batch) return;
  float best = logits[b * classes];
  int arg = 0;
  for (int c = 1; c < classes; ++c) {
    float v = logits[b * classes + c];
    if (v > best) {
      best = v;
      arg = c;
    }
  }
  out[b] = arg;
  best_out[b] = best;
}
""",
        RC + "  Device<float> x(rows * cols), y(rows, 2); Device<int> at(rows);\n"
        "  argmax<<<(rows + 63) / 64, 64>>>(x, at, y, rows, cols); at.show(); y.show();",
    ),
    "a sum that does not begin at nothing": (
        """
#define THREADS 96
__global__ void gemv(const float* A, const float* x, float* y, int m, int n, float alpha, float beta) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= m) return;
  float acc = beta * y[i];
  for (int j = 0; j < n; j++) acc += alpha * A[(long)i * n + j] * x[j];
  y[i] = acc;
}
""",
        RC + "  Device<float> a(rows * cols), x(cols, 3), y(rows, 2);\n"
        "  gemv<<<(rows + THREADS - 1) / THREADS, THREADS>>>(a, x, y, rows, cols, 2.0f, 0.5f); y.show();",
    ),
    "vectors folded by members, one row a block of one thread": (
        """
__global__ void forces(const float4* p, float3* f, int n) {
  int i = blockIdx.x;
  float4 me = p[i];
  float3 acc = make_float3(0.f, 0.f, 0.f);
  for (int j = 0; j < n; ++j) {
    if (j == i) continue;
    float dx = p[j].x - me.x, dy = p[j].y - me.y, dz = p[j].z - me.z;
    float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-2f);
    acc.x += dx * inv;
    acc.y += dy * inv;
    acc.z += dz * inv;
  }
  f[i] = acc;
}
""",
        RC + "  Device<float> p(4 * rows), f(3 * rows, 2); (void)cols;\n"
        "  forces<<<rows, 1>>>((float4*)p.data, (float3*)f.data, rows); f.show();",
    ),
    "two axes, tiles by variables": (
        """
__global__ void scores(const float* q, const float* k, float* s, int n, int m, int d) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < m) {
        float dot = 0.f;
        for (int e = 0; e < d; ++e) dot += q[i * d + e] * k[j * d + e];
        s[i * m + j] = dot * rsqrtf((float)d);
    }
}
void run(const float* q, const float* k, float* s, int n, int m, int d) {
    dim3 block(16, 8);
    dim3 grid((m + block.x - 1) / block.x, (n + block.y - 1) / block.y);
    scores<<<grid, block>>>(q, k, s, n, m, d);
}
""",
        RC + "  Device<float> q(rows * cols), k(9 * cols, 2), s(rows * 9, 3);\n"
        "  run(q, k, s, rows, 9, cols); s.show();",
    ),
    "attention with an accumulator of its own": (
        """
template <int D>
__global__ void attention(const float* Q, const float* K, const float* V, float* O, int T, float scale) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= T) return;
  const float* qh = Q + q * D;
  float acc[D];
  for (int d = 0; d < D; d++) acc[d] = 0.f;
  float m = -1e30f, l = 0.f;
  for (int t = 0; t <= q; t++) {
    float s = 0.f;
    for (int d = 0; d < D; d++) s += qh[d] * K[t * D + d];
    s *= scale;
    float mn = fmaxf(m, s);
    float corr = expf(m - mn), p = expf(s - mn);
    l = l * corr + p;
    for (int d = 0; d < D; d++) acc[d] = acc[d] * corr + p * V[t * D + d];
    m = mn;
  }
  for (int d = 0; d < D; d++) O[q * D + d] = acc[d] / l;
}
""",
        RC + "  Device<float> q(rows * 72), k(rows * 72, 2), v(rows * 72, 3), o(rows * 72, 4); (void)cols;\n"
        "  attention<72><<<(rows + 31) / 32, 32>>>(q, k, v, o, rows, 0.125f); o.show();",
    ),
    "a plane of a batch, folded by nested loops": (
        """
__global__ void batch_stats(const float* x, float* mean, float* var, int n, int c, int hw) {
  int ch = blockIdx.x * blockDim.x + threadIdx.x;
  if (ch >= c) return;
  float s = 0.f, sq = 0.f;
  for (int b = 0; b < n; b++) {
    for (int p = 0; p < hw; p++) {
      float v = x[(b * c + ch) * hw + p];
      s += v;
      sq += v * v;
    }
  }
  float m = s / (n * hw);
  mean[ch] = m;
  var[ch] = sq / (n * hw) - m * m;
}
""",
        RC + "  Device<float> x(3 * rows * cols), m(rows, 2), v(rows, 3);\n"
        "  batch_stats<<<(rows + 127) / 128, 128>>>(x, m, v, 3, rows, cols); m.show(); v.show();",
    ),
    "a flag that any may set, and a count": (
        """
__global__ void classify(const int* text, const int* start, int* kinds, int* any, int lines) {
  int l = blockDim.x * blockIdx.x + threadIdx.x;
  if (l >= lines) return;
  int count = 0;
  for (int i = start[l]; i < start[l + 1]; ++i) {
    if (text[i] % 5 == 2) {
      count++;
      *any = 1;
    }
    if (text[i] % 7 == 3) ++count;
  }
  kinds[l] = count;
}
""",
        CSR + "  Device<int> kinds(rows), any(1); int zero = 0;\n"
        "  cudaMemcpy(any, &zero, sizeof(int), cudaMemcpyHostToDevice);\n"
        "  classify<<<(rows + 255) / 256, 256>>>(col, ptr, kinds, any, rows); kinds.show(); any.show();",
    ),
    "a backward loop in steps, and a product": (
        """
__global__ void mixed(const double* x, double* y, int rows, int cols) {
  const size_t r = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double p = 1.0, lo = 1e30;
  for (int c = cols - 1; c >= 0; c -= 2) {
    p *= 1.0 + x[r * cols + c] * 1e-3;
    lo = x[r * cols + c] < lo ? x[r * cols + c] : lo;
  }
  y[r] = p + lo;
}
""",
        RC + "  Device<double> x(rows * cols), y(rows, 2);\n"
        "  mixed<<<(rows + 31) / 32, 32>>>(x, y, rows, cols); y.show();",
    ),
}

#: For warps alone: threads of one block, numbered without it.
ONE_BLOCK = (
    """
__global__ void norms(const float* x, float* y, int cols) {
  int r = threadIdx.x;
  float sum = 0.0f;
  for (int c = 0; c < cols; ++c) sum += x[r * cols + c] * x[r * cols + c];
  y[r] = sqrtf(sum);
}
""",
    RC + "  Device<float> x(64 * cols), y(64, 2); (void)rows; norms<<<1, 64>>>(x, y, cols); y.show();",
)


def kernel_of(
    loop: str, before: str = "float s = 0;", after: str = "y[r] = s;", launch: str = "(n + 63) / 64, 64"
) -> str:
    """A kernel of a row a thread around a loop, and its launch."""
    return (
        "__device__ int next(int* state);\n"
        "__global__ void k(const float* x, float* y, int* z, int n, int m) {\n"
        "  int r = blockIdx.x * blockDim.x + threadIdx.x;\n  if (r >= n) return;\n"
        f"  {before}\n  {loop}\n  {after}\n}}\n"
        f"void run(const float* x, float* y, int* z, int n, int m) {{ k<<<{launch}>>>(x, y, z, n, m); }}\n"
    )
