#include "bodies.h"

static __device__ float smallest = 0.01f;

__device__ float softening(float size) {
    float soft = smallest;
    for (int k = 1; k < 8; ++k) soft += sqrtf(size + k) * 1e-3f;
    return soft;
}
