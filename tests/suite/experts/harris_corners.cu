// SPDX-License-Identifier: Apache-2.0
// Harris corners: gradients of an image, then of each pixel the response from the products summed over a window.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int WINDOW = 2;  // to each side

static void check(cudaError_t err, const char* what) {
  if (err != cudaSuccess) {
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(err));
    exit(2);
  }
}

__global__ void gradients(const float* image, float* ix, float* iy, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int left = max(x - 1, 0), right = min(x + 1, w - 1);
  int up = max(y - 1, 0), down = min(y + 1, h - 1);
  ix[y * w + x] = 0.5f * (image[y * w + right] - image[y * w + left]);
  iy[y * w + x] = 0.5f * (image[down * w + x] - image[up * w + x]);
}

constexpr int kStrip = 18;          // rows of a warp
constexpr int kAcross = 30 * 4;     // columns of a warp: the first and the last lane only lend theirs
constexpr int kSide = 2 * WINDOW + 1;

__device__ __forceinline__ float4 load_four(const float* from, int x, int y, int w, int h) {
  float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (y < 0 || y >= h) return v;
  const float* row = from + (size_t)y * w;
  if (w % 4 == 0) {
    if (x >= 0 && x < w) v = *(const float4*)(row + x);
  } else {
    if (x >= 0 && x < w) v.x = row[x];
    if (x + 1 >= 0 && x + 1 < w) v.y = row[x + 1];
    if (x + 2 >= 0 && x + 2 < w) v.z = row[x + 2];
    if (x + 3 >= 0 && x + 3 < w) v.w = row[x + 3];
  }
  return v;
}

// Sums over five columns of a lane's four, from those of the neighbouring lanes.
__device__ __forceinline__ float4 across(const float v[4]) {
  const float l2 = __shfl_up_sync(0xffffffffu, v[2], 1), l3 = __shfl_up_sync(0xffffffffu, v[3], 1);
  const float r0 = __shfl_down_sync(0xffffffffu, v[0], 1), r1 = __shfl_down_sync(0xffffffffu, v[1], 1);
  const float middle = v[1] + v[2], first = l3 + v[0], last = v[3] + r0;
  return make_float4(l2 + first + middle, first + middle + v[3], v[0] + middle + last, middle + last + r1);
}

__device__ __forceinline__ float response_of(float sxx, float sxy, float syy, float k) {
  const float trace = sxx + syy;
  return sxx * syy - sxy * sxy - k * trace * trace;
}

// Roof: DRAM, 12 bytes a pixel. A warp goes down 18 rows of 120 columns, four a lane: the products of the last five rows
// stay in registers, their sums over the columns go between the lanes; the loads are two rows ahead.
__global__ void __launch_bounds__(128, 4) harris_response(const float* __restrict__ ix, const float* __restrict__ iy,
                                                          float* __restrict__ response, int w, int h, float k) {
  static_assert(WINDOW == 2, "a lane's four columns reach two beyond");
  const int lane = threadIdx.x % 32;
  const int x = blockIdx.x * kAcross + 4 * lane - 4;
  const int y0 = (blockIdx.y * 4 + threadIdx.x / 32) * kStrip;
  if (y0 >= h) return;
  const bool writes = lane > 0 && lane < 31;

  float4 gx[3], gy[3];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    gx[r] = load_four(ix, x, y0 - WINDOW + r, w, h);
    gy[r] = load_four(iy, x, y0 - WINDOW + r, w, h);
  }
  float xx[kSide][4], xy[kSide][4], yy[kSide][4];
#pragma unroll
  for (int r = 0; r < kStrip + 2 * WINDOW; r++) {
    if (r + 2 < kStrip + 2 * WINDOW) {
      gx[(r + 2) % 3] = load_four(ix, x, y0 - WINDOW + r + 2, w, h);
      gy[(r + 2) % 3] = load_four(iy, x, y0 - WINDOW + r + 2, w, h);
    }
    const float4 a4 = gx[r % 3], b4 = gy[r % 3];
    const float a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
    for (int e = 0; e < 4; e++) {
      xx[r % kSide][e] = a[e] * a[e];
      xy[r % kSide][e] = a[e] * b[e];
      yy[r % kSide][e] = b[e] * b[e];
    }
    if (r < 2 * WINDOW) continue;

    float sxx[4], sxy[4], syy[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      sxx[e] = xx[0][e] + xx[1][e] + xx[2][e] + xx[3][e] + xx[4][e];
      sxy[e] = xy[0][e] + xy[1][e] + xy[2][e] + xy[3][e] + xy[4][e];
      syy[e] = yy[0][e] + yy[1][e] + yy[2][e] + yy[3][e] + yy[4][e];
    }
    const float4 wxx = across(sxx), wxy = across(sxy), wyy = across(syy);
    const float4 out = make_float4(response_of(wxx.x, wxy.x, wyy.x, k), response_of(wxx.y, wxy.y, wyy.y, k),
                                   response_of(wxx.z, wxy.z, wyy.z, k), response_of(wxx.w, wxy.w, wyy.w, k));
    const int y = y0 + r - 2 * WINDOW;
    if (writes && y < h) {
      float* to = response + (size_t)y * w + x;
      if (w % 4 == 0) {
        if (x < w) __stcs((float4*)to, out);
      } else {
        if (x < w) to[0] = out.x;
        if (x + 1 < w) to[1] = out.y;
        if (x + 2 < w) to[2] = out.z;
        if (x + 3 < w) to[3] = out.w;
      }
    }
  }
}

int main(int argc, char** argv) {
  int w = argc > 1 ? atoi(argv[1]) : 4096;
  int h = argc > 2 ? atoi(argv[2]) : 4096;
  int bx = argc > 3 ? atoi(argv[3]) : 32;
  int by = argc > 4 ? atoi(argv[4]) : 8;
  const float k = 0.04f;
  size_t n = (size_t)w * h;

  std::vector<float> image(n), ix(n), iy(n), response(n);
  unsigned s = 41;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      s = s * 1664525u + 1013904223u;
      bool light = (x / 24 + y / 40) % 2 == 0;  // a chessboard and noise
      image[(size_t)y * w + x] = (light ? 0.8f : 0.2f) + (s >> 24) * (0.1f / 256);
    }

  float *d_image, *d_ix, *d_iy, *d_response;
  check(cudaMalloc(&d_image, n * sizeof(float)), "malloc");
  check(cudaMalloc(&d_ix, n * sizeof(float)), "malloc");
  check(cudaMalloc(&d_iy, n * sizeof(float)), "malloc");
  check(cudaMalloc(&d_response, n * sizeof(float)), "malloc");
  check(cudaMemcpy(d_image, image.data(), n * sizeof(float), cudaMemcpyHostToDevice), "copy");

  dim3 block(bx, by), grid((w + bx - 1) / bx, (h + by - 1) / by);
  for (int frame = 0; frame < 4; frame++) {
    gradients<<<grid, block>>>(d_image, d_ix, d_iy, w, h);
    check(cudaGetLastError(), "gradients");
    harris_response<<<dim3((w + kAcross - 1) / kAcross, (h + 4 * kStrip - 1) / (4 * kStrip)), 128>>>(d_ix, d_iy, d_response, w, h, k);
    check(cudaGetLastError(), "harris_response");
  }
  check(cudaMemcpy(ix.data(), d_ix, n * sizeof(float), cudaMemcpyDeviceToHost), "copy back");
  check(cudaMemcpy(iy.data(), d_iy, n * sizeof(float), cudaMemcpyDeviceToHost), "copy back");
  check(cudaMemcpy(response.data(), d_response, n * sizeof(float), cudaMemcpyDeviceToHost), "copy back");

  double worst = 0;
  for (size_t i = 0; i < n; i += n > 100000 ? 61 : 1) {
    int x = (int)(i % w), y = (int)(i / w);
    double sxx = 0, sxy = 0, syy = 0;
    for (int yy = std::max(y - WINDOW, 0); yy <= std::min(y + WINDOW, h - 1); yy++)
      for (int xx = std::max(x - WINDOW, 0); xx <= std::min(x + WINDOW, w - 1); xx++) {
        double gx = ix[(size_t)yy * w + xx], gy = iy[(size_t)yy * w + xx];
        sxx += gx * gx;
        sxy += gx * gy;
        syy += gy * gy;
      }
    double want = sxx * syy - sxy * sxy - (double)k * (sxx + syy) * (sxx + syy);
    worst = std::fmax(worst, std::fabs(want - response[i]));
  }
  cudaFree(d_image);
  cudaFree(d_ix);
  cudaFree(d_iy);
  cudaFree(d_response);
  printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
  return worst < 1e-5 ? 0 : 1;
}
