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

__device__ float segment_distance(float2 p, float2 a, float2 b) {
    float dx = b.x - a.x;
    float dy = b.y - a.y;
    float length2 = dx * dx + dy * dy;
    float t = 0.0f;
    if (length2 > 0.0f) {
        t = ((p.x - a.x) * dx + (p.y - a.y) * dy) / length2;
        t = fminf(fmaxf(t, 0.0f), 1.0f);
    }
    float ex = p.x - (a.x + t * dx);
    float ey = p.y - (a.y + t * dy);
    return sqrtf(ex * ex + ey * ey);
}

__global__ void polyline_distance(const float2* points, int count, const float2* line, int vertices, float* distance) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float nearest = INFINITY;
    for (int s = 0; s + 1 < vertices; s++) {
        nearest = fminf(nearest, segment_distance(points[i], line[s], line[s + 1]));
    }
    distance[i] = nearest;
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
        polyline_distance<<<(count + threads - 1) / threads, threads>>>(d_points, count, d_line, vertices, d_distance);
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
