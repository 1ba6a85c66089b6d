#include "inline.cuh"
__device__ float line(float x) {
  return x * 2 + 1;
}
__device__ float curve(float x) {
  return line(x)
    + line(x * x);
}
__global__ void first(float* p, int* q) {
  p[threadIdx.x] = curve(p[threadIdx.x]);
  q[threadIdx.x] = inc_thrice(q[threadIdx.x]);
}
__device__ __noinline__ int deep(int n) {
  return n < 2 ? 1 : deep(n - 1) + inc_thrice(deep(n - 2));
}
__global__ void second(float* p, int* q) {
  p[threadIdx.x] = curve(p[threadIdx.x])
    * line(3);
  *q = deep(*q);
}
