// SPDX-License-Identifier: Apache-2.0
// Price of an arithmetic Asian call by Monte Carlo: a thread simulates one path of the share price.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Option {
  float spot, strike, rate, volatility, maturity;
  int steps;  // even: each draw gives two normal numbers
};

__host__ __device__ inline unsigned int hash(unsigned int x) {
  x = (x ^ 61u) ^ (x >> 16);
  x *= 9u;
  x ^= x >> 4;
  x *= 0x27d4eb2du;
  x ^= x >> 15;
  return x | 1u;
}

__host__ __device__ inline unsigned int xorshift(unsigned int& state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

// In (0, 1].
__host__ __device__ inline float uniform(unsigned int& state) { return ((xorshift(state) >> 8) + 1) * (1.0f / 16777216.0f); }

__global__ void asian_paths(Option opt, float* payoff, int paths, unsigned int seed) {
  int path = blockIdx.x * blockDim.x + threadIdx.x;
  if (path >= paths) return;

  unsigned int state = hash(path + seed);
  float dt = opt.maturity / opt.steps;
  float price = opt.spot;
  float sum = 0.0f;
  for (int step = 0; step < opt.steps; step += 2) {
    // Box-Muller
    float u1 = uniform(state);
    float u2 = uniform(state);
    float radius = sqrtf(-2.0f * logf(u1));
    float z0 = radius * cosf(2.0f * 3.14159265f * u2);
    float z1 = radius * sinf(2.0f * 3.14159265f * u2);

    price *= expf((opt.rate - 0.5f * opt.volatility * opt.volatility) * dt + opt.volatility * sqrtf(dt) * z0);
    sum += price;
    price *= expf((opt.rate - 0.5f * opt.volatility * opt.volatility) * dt + opt.volatility * sqrtf(dt) * z1);
    sum += price;
  }
  payoff[path] = fmaxf(sum / opt.steps - opt.strike, 0.0f);
}

double path_on_cpu(const Option& opt, int path, unsigned int seed) {
  unsigned int state = hash(path + seed);
  double dt = opt.maturity / opt.steps, price = opt.spot, sum = 0;
  double drift = (opt.rate - 0.5 * opt.volatility * opt.volatility) * dt, vol = opt.volatility * std::sqrt(dt);
  for (int step = 0; step < opt.steps; step += 2) {
    double u1 = uniform(state), u2 = uniform(state);
    double radius = std::sqrt(-2 * std::log(u1));
    sum += price *= std::exp(drift + vol * radius * std::cos(2 * M_PI * u2));
    sum += price *= std::exp(drift + vol * radius * std::sin(2 * M_PI * u2));
  }
  return std::fmax(sum / opt.steps - opt.strike, 0.0);
}

int main(int argc, char** argv) {
  int paths = argc > 1 ? atoi(argv[1]) : 1 << 20;
  Option opt{100.0f, 105.0f, 0.03f, 0.25f, 1.0f, argc > 2 ? atoi(argv[2]) : 252};
  int blockSize = argc > 3 ? atoi(argv[3]) : 128;
  const int batches = 10;

  float* d_payoff;
  cudaMalloc(&d_payoff, paths * sizeof(float));
  std::vector<float> payoff(paths);
  double total = 0;
  int wrong = 0;
  for (int b = 0; b < batches; b++) {
    unsigned int seed = b * 1000003u;
    asian_paths<<<(paths + blockSize - 1) / blockSize, blockSize>>>(opt, d_payoff, paths, seed);
    cudaMemcpy(payoff.data(), d_payoff, paths * sizeof(float), cudaMemcpyDeviceToHost);
    for (float p : payoff) total += p;
    for (int i = 0; i < paths; i += 1 + paths / 50)
      if (std::fabs(payoff[i] - path_on_cpu(opt, i, seed)) > 0.01) wrong++;
  }
  double price = std::exp(-opt.rate * opt.maturity) * total / ((double)batches * paths);
  printf("price of the option: %.2f (%d paths wrong)\n", price, wrong);
  cudaFree(d_payoff);
  return wrong != 0;
}
