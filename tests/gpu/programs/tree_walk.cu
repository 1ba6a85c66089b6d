// Queries against a search tree whose nodes point at one another: the pointers lie in device memory.
#include <cstdio>
#include <vector>

struct Node {
    float key, value;
    Node *left, *right;
};

__global__ void look_up(const Node *root, const float *queries, float *answers, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Node *at = root, *best = root;
    while (at) {
        if (fabsf(at->key - queries[i]) < fabsf(best->key - queries[i])) best = at;
        at = queries[i] < at->key ? at->left : at->right;
    }
    answers[i] = best->value;
}

Node *build(std::vector<Node> &nodes, Node *device, int low, int high) {
    if (low >= high) return nullptr;
    const int middle = (low + high) / 2;
    nodes[middle] = {0.001f * middle, static_cast<float>(middle % 97), build(nodes, device, low, middle), build(nodes, device, middle + 1, high)};
    return device + middle;
}

int main() {
    const int size = 1 << 16, count = 1 << 20;
    Node *device;
    cudaMalloc(&device, size * sizeof(Node));
    std::vector<Node> nodes(size);
    Node *root = build(nodes, device, 0, size);
    cudaMemcpy(device, nodes.data(), size * sizeof(Node), cudaMemcpyHostToDevice);
    std::vector<float> queries(count);
    for (int i = 0; i < count; ++i) queries[i] = 0.001f * ((i * 40503u) % size) + 0.0003f;
    float *q, *a;
    cudaMalloc(&q, count * 4);
    cudaMalloc(&a, count * 4);
    cudaMemcpy(q, queries.data(), count * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) look_up<<<count / 256, 256>>>(root, q, a, count);
    if (cudaMemcpy(queries.data(), a, count * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.1f\n", queries[1]);
    return 0;
}
