// SPDX-License-Identifier: Apache-2.0
// How far each of many points is from a line of many segments, such as positions from a road or a coast.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void must(cudaError_t e, const char* where) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", where, cudaGetErrorString(e));
    exit(1);
}

constexpr int kThreads = 128;
constexpr int kPoints = 4;       // of a thread
constexpr int kSegments = 512;   // in shared memory at a time

// All that a segment's vertices give is made once for a block; a thread goes through the segments for four points, in
// squares of distances, whose root is taken at the end.
__global__ void __launch_bounds__(kThreads)
    polyline_distance(const float2* __restrict__ points, int count, const float2* __restrict__ line, int vertices,
                      float* __restrict__ distance) {
    __shared__ float4 segment[kSegments];    // where it begins, and where it goes
    __shared__ float2 direction[kSegments];  // the same over the square of its length
    const int first = blockIdx.x * kThreads * kPoints + threadIdx.x;
    float px[kPoints], py[kPoints], nearest[kPoints];
#pragma unroll
    for (int k = 0; k < kPoints; k++) {
        const int i = first + k * kThreads;
        const float2 p = i < count ? points[i] : make_float2(0, 0);
        px[k] = p.x;
        py[k] = p.y;
        nearest[k] = INFINITY;
    }

    for (int from = 0; from + 1 < vertices; from += kSegments) {
        const int here = min(kSegments, vertices - 1 - from);
        __syncthreads();
        for (int s = threadIdx.x; s < here; s += kThreads) {
            const float2 a = line[from + s], b = line[from + s + 1];
            const float dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
            segment[s] = make_float4(a.x, a.y, dx, dy);
            direction[s] = length2 > 0.0f ? make_float2(dx / length2, dy / length2) : make_float2(0, 0);
        }
        __syncthreads();
#pragma unroll 4
        for (int s = 0; s < here; s++) {
            const float4 l = segment[s];
            const float2 u = direction[s];
#pragma unroll
            for (int k = 0; k < kPoints; k++) {
                const float qx = px[k] - l.x, qy = py[k] - l.y;
                const float t = __saturatef(qx * u.x + qy * u.y);
                const float ex = qx - t * l.z, ey = qy - t * l.w;
                nearest[k] = fminf(nearest[k], ex * ex + ey * ey);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < kPoints; k++) {
        const int i = first + k * kThreads;
        if (i < count) distance[i] = sqrtf(nearest[k]);
    }
}

__global__ void count_near(const float* distance, int count, float limit, int* near) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int mine = i < count && distance[i] < limit;
    int of_block = __syncthreads_count(mine);
    if (threadIdx.x == 0) atomicAdd(near, of_block);
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 400000;
    int vertices = argc > 2 ? atoi(argv[2]) : 2000;
    int repeats = argc > 3 ? atoi(argv[3]) : 15;
    int threads = argc > 4 ? atoi(argv[4]) : 256;

    std::vector<float2> points(count), line(vertices);
    std::vector<float> distance(count);
    unsigned seed = 13;
    auto uniform = [&seed] { return ((seed = seed * 1664525u + 1013904223u) >> 8) * (1.0f / 16777216.0f); };
    for (float2& p : points) {
        p.x = 2.0f * uniform() - 1.0f;
        p.y = 2.0f * uniform() - 1.0f;
    }
    for (int v = 0; v < vertices; v++) {  // a spiral with bends
        float turn = 25.0f * v / vertices, r = 0.9f * v / vertices + 0.05f * std::sin(0.3f * v);
        line[v] = make_float2(r * std::cos(turn), r * std::sin(turn));
    }

    float2 *d_points, *d_line;
    float* d_distance;
    int* d_near;
    must(cudaMalloc(&d_points, count * sizeof(float2)), "points");
    must(cudaMalloc(&d_line, vertices * sizeof(float2)), "line");
    must(cudaMalloc(&d_distance, count * sizeof(float)), "distance");
    must(cudaMalloc(&d_near, sizeof(int)), "near");
    must(cudaMemcpy(d_points, points.data(), count * sizeof(float2), cudaMemcpyHostToDevice), "points");
    must(cudaMemcpy(d_line, line.data(), vertices * sizeof(float2), cudaMemcpyHostToDevice), "line");
    must(cudaMemset(d_near, 0, sizeof(int)), "near");

    cudaEvent_t t0, t1;
    must(cudaEventCreate(&t0), "event");
    must(cudaEventCreate(&t1), "event");
    must(cudaEventRecord(t0), "event");
    for (int i = 0; i < repeats; i++) {
        const int each = kThreads * kPoints;
        polyline_distance<<<(count + each - 1) / each, kThreads>>>(d_points, count, d_line, vertices, d_distance);
        must(cudaGetLastError(), "launch");
    }
    must(cudaEventRecord(t1), "event");
    count_near<<<(count + threads - 1) / threads, threads>>>(d_distance, count, 0.0312345f, d_near);
    must(cudaGetLastError(), "launch");
    must(cudaDeviceSynchronize(), "run");
    float ms;
    must(cudaEventElapsedTime(&ms, t0, t1), "event");
    fprintf(stderr, "%.3f ms\n", ms / repeats);

    int near = 0;
    must(cudaMemcpy(distance.data(), d_distance, count * sizeof(float), cudaMemcpyDeviceToHost), "copy");
    must(cudaMemcpy(&near, d_near, sizeof(int), cudaMemcpyDeviceToHost), "copy");
    must(cudaFree(d_points), "free");
    must(cudaFree(d_line), "free");
    must(cudaFree(d_distance), "free");
    must(cudaFree(d_near), "free");

    double worst = 0, mean = 0;
    for (int i = 0; i < count; i++) mean += distance[i] / count;
    for (int i = 0; i < count; i += 1 + count / 1000) {
        double best = 1e30;
        for (int s = 0; s + 1 < vertices; s++) {
            double ax = line[s].x, ay = line[s].y, dx = line[s + 1].x - ax, dy = line[s + 1].y - ay;
            double px = points[i].x - ax, py = points[i].y - ay, l2 = dx * dx + dy * dy;
            double t = l2 > 0 ? std::fmin(std::fmax((px * dx + py * dy) / l2, 0.0), 1.0) : 0.0;
            best = std::fmin(best, std::hypot(px - t * dx, py - t * dy));
        }
        worst = std::fmax(worst, std::fabs(best - distance[i]));
    }
    printf("mean distance %.5f, near %.3f\n", mean, (double)near / count);
    printf("%s\n", worst < 1e-5 ? "ok" : "wrong");
    return worst < 1e-5 ? 0 : 1;
}
