#pragma once

constexpr int kAttractors = 64;

extern __constant__ float4 attractor[kAttractors];
extern __device__ unsigned steps_done;

__device__ float softening(float size);
void place_attractors();
unsigned count_steps();
