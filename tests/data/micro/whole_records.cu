// SPDX-License-Identifier: Apache-2.0
// Records that are used whole, word by word.
struct Body { float at[3], speed[3], mass, charge, age; };   // 36 bytes
struct Change { float mean[9], spread[9]; };                  // 72 bytes
__global__ void stepped(Body *bodies, const Body *slopes, Change *changes, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Body &b = bodies[i];
    const Body &s = slopes[i];
    Change &c = changes[i];
    for (int k = 0; k < 3; ++k) {
        c.mean[k] = 0.9f * c.mean[k] + 0.1f * s.at[k];  // expect: strided-field-access
        c.spread[k] = 0.9f * c.spread[k] + 0.1f * s.at[k] * s.at[k];
        b.at[k] -= rate * c.mean[k] / (sqrtf(c.spread[k]) + 1e-6f);
    }
    for (int k = 0; k < 3; ++k) {
        c.mean[3 + k] = 0.9f * c.mean[3 + k] + 0.1f * s.speed[k];
        c.spread[3 + k] = 0.9f * c.spread[3 + k] + 0.1f * s.speed[k] * s.speed[k];
        b.speed[k] -= rate * c.mean[3 + k] / (sqrtf(c.spread[3 + k]) + 1e-6f);  // expect: aliasing-reload
    }
}
void run(Body *b, Body *s, Change *c, int n) { stepped<<<(n + 255) / 256, 256>>>(b, s, c, n, 0.1f); }
