__device__ inline int inc(int x) { return x + 1; }
__device__ inline int inc_thrice(int x) {
  return inc(x) * 3;
}
