// Breadth-first search, one launch per level; the number of levels and what each does depend on the data.
#include <cstdio>
#include <vector>

__global__ void expand(const int *offsets, const int *neighbours, int *level, int depth, int vertices, int *changed) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || level[v] != depth) return;
    for (int e = offsets[v]; e < offsets[v + 1]; ++e)
        if (level[neighbours[e]] < 0) {
            level[neighbours[e]] = depth + 1;
            *changed = 1;
        }
}

int main() {
    const int side = 512, vertices = side * side;
    std::vector<int> offsets(1, 0), neighbours, level(vertices, -1);
    for (int v = 0; v < vertices; ++v) {
        const int x = v % side, y = v / side;
        if (x + 1 < side) neighbours.push_back(v + 1);
        if (y + 1 < side) neighbours.push_back(v + side);
        neighbours.push_back((v * 17 + 5) % vertices);
        offsets.push_back(static_cast<int>(neighbours.size()));
    }
    level[0] = 0;
    int *o, *n, *l, *c;
    cudaMalloc(&o, offsets.size() * 4);
    cudaMalloc(&n, neighbours.size() * 4);
    cudaMalloc(&l, vertices * 4);
    cudaMallocManaged(&c, 4);
    cudaMemcpy(o, offsets.data(), offsets.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(n, neighbours.data(), neighbours.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(l, level.data(), vertices * 4, cudaMemcpyHostToDevice);
    int depth = 0;
    do {
        *c = 0;
        expand<<<(vertices + 255) / 256, 256>>>(o, n, l, depth++, vertices, c);
        if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    } while (*c);
    std::printf("%d levels\n", depth);
    return 0;
}
