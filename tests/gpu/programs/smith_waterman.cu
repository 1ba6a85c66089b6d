// Local alignment score of two sequences, anti-diagonal by anti-diagonal: every launch has another grid.
#include <algorithm>
#include <cstdio>
#include <string>

__global__ void diagonal(const char *a, const char *b, int *score, int n, int sum, int first, int cells) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= cells) return;
    const int i = first + k, j = sum - i, width = n + 1;
    const int match = score[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 3 : -3);
    const int gap = max(score[(i - 1) * width + j], score[i * width + j - 1]) - 2;
    score[i * width + j] = max(0, max(match, gap));
}

int main() {
    const int n = 1024, width = n + 1;
    std::string a, b;
    for (int i = 0; i < n; ++i) {
        a += "ACGT"[i * 7919 % 4];
        b += "ACGT"[(i * 104729 + i / 9) % 4];
    }
    char *x, *y;
    int *score;
    cudaMalloc(&x, n);
    cudaMalloc(&y, n);
    cudaMalloc(&score, width * width * sizeof(int));
    cudaMemcpy(x, a.data(), n, cudaMemcpyHostToDevice);
    cudaMemcpy(y, b.data(), n, cudaMemcpyHostToDevice);
    cudaMemset(score, 0, width * width * sizeof(int));
    for (int sum = 2; sum <= 2 * n; ++sum) {
        const int first = std::max(1, sum - n), cells = std::min(n, sum - 1) - first + 1;
        diagonal<<<(cells + 127) / 128, 128>>>(x, y, score, n, sum, first, cells);
    }
    int last;
    if (cudaMemcpy(&last, score + width * width - 1, sizeof last, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("last cell %d\n", last);
    return 0;
}
