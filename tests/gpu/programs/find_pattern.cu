// Every place where a word stands in a text, appended as it is found: the order differs from run to run.
#include <cstdio>
#include <cstring>
#include <string>

__constant__ char word[16];

__global__ void find(const char *text, int length, int letters, int *places, int *found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + letters > length) return;
    for (int k = 0; k < letters; ++k)
        if (text[i + k] != word[k]) return;
    places[atomicAdd(found, 1)] = i;
}

int main() {
    std::string text;
    while (text.size() < 4000000) text += text.size() % 7 ? "the kernel waits for " : "warp after warp ";
    const int length = static_cast<int>(text.size());
    cudaMemcpyToSymbol(word, "warp", 4);
    char *device;
    int *places, *found, count = 0;
    cudaMalloc(&device, length);
    cudaMalloc(&places, length * sizeof(int));
    cudaMalloc(&found, sizeof(int));
    cudaMemcpy(device, text.data(), length, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; ++i) {
        cudaMemset(found, 0, sizeof(int));
        find<<<(length + 255) / 256, 256>>>(device, length, 4, places, found);
    }
    if (cudaMemcpy(&count, found, sizeof count, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%d times\n", count);
    return count == 0;
}
