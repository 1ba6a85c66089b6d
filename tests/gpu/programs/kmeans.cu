// One step of k-means: assignment, then sums by float atomics, whose order changes the last digits.
#include <cstdio>
#include <vector>

struct Points {
    const float *x, *y;
    int count;
};

__global__ void assign(Points points, const float2 *centre, int clusters, int *label) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points.count) return;
    float least = 1e30f;
    int best = 0;
    for (int c = 0; c < clusters; ++c) {
        const float dx = points.x[i] - centre[c].x, dy = points.y[i] - centre[c].y, distance = dx * dx + dy * dy;
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    label[i] = best;
}

__global__ void gather(Points points, const int *label, float2 *sum, int *members) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points.count) return;
    atomicAdd(&sum[label[i]].x, points.x[i]);
    atomicAdd(&sum[label[i]].y, points.y[i]);
    atomicAdd(&members[label[i]], 1);
}

int main() {
    const int count = 1 << 19, clusters = 32;
    std::vector<float> x(count), y(count);
    unsigned state = 7;
    auto next = [&] { return static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) / (1 << 24); };
    for (int i = 0; i < count; ++i) x[i] = next() + i % 5, y[i] = next() + i % 7;
    std::vector<float2> centres(clusters);
    for (int c = 0; c < clusters; ++c) centres[c] = make_float2(x[c * 311], y[c * 311]);
    float *dx, *dy;
    float2 *centre, *sum;
    int *label, *members;
    cudaMalloc(&dx, count * 4);
    cudaMalloc(&dy, count * 4);
    cudaMalloc(&centre, clusters * sizeof(float2));
    cudaMalloc(&sum, clusters * sizeof(float2));
    cudaMalloc(&label, count * 4);
    cudaMalloc(&members, clusters * 4);
    cudaMemcpy(dx, x.data(), count * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), count * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(centre, centres.data(), clusters * sizeof(float2), cudaMemcpyHostToDevice);
    const Points points{dx, dy, count};
    for (int step = 0; step < 4; ++step) {
        cudaMemset(sum, 0, clusters * sizeof(float2));
        cudaMemset(members, 0, clusters * 4);
        assign<<<count / 256, 256>>>(points, centre, clusters, label);
        gather<<<count / 256, 256>>>(points, label, sum, members);
    }
    std::vector<int> sizes(clusters);
    if (cudaMemcpy(sizes.data(), members, clusters * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%d in the first\n", sizes[0]);
    return 0;
}
