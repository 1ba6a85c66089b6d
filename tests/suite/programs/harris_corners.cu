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

__global__ void harris_response(const float* ix, const float* iy, float* response, int w, int h, float k) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sxx = 0.0f, sxy = 0.0f, syy = 0.0f;
  for (int dy = -WINDOW; dy <= WINDOW; dy++) {
    for (int dx = -WINDOW; dx <= WINDOW; dx++) {
      int xx = x + dx, yy = y + dy;
      if (xx < 0 || xx >= w || yy < 0 || yy >= h) continue;
      float gx = ix[yy * w + xx];
      float gy = iy[yy * w + xx];
      sxx += gx * gx;
      sxy += gx * gy;
      syy += gy * gy;
    }
  }
  float trace = sxx + syy;
  response[y * w + x] = sxx * syy - sxy * sxy - k * trace * trace;
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
    harris_response<<<grid, block>>>(d_ix, d_iy, d_response, w, h, k);
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
