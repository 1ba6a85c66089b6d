#pragma once

__device__ float flux(float here, float there);
