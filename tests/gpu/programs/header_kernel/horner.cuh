// A kernel template that lies in a header; candidates edit the header.
#pragma once

#include "degree.h"

template <typename T>
__global__ void horner(const T* x, T* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T sum = 0;
    for (int k = 0; k < kDegree; ++k) sum = sum * x[i] + T(1) / (k + 1);
    y[i] = sum;
}
