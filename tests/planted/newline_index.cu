// Counts the lines of a text: each thread counts the newlines in its part.
#include <cstdio>
#include <cstring>
#include <string>

static const int PART = 256;

// class: memory
__global__ void count_newlines(const char *text, int *counts, int length)
{
    int part = blockIdx.x * blockDim.x + threadIdx.x;
    int begin = part * PART, end = min(begin + PART, length);
    int lines = 0;
    for (int at = begin; at < end; at++)
        if (text[at] == '\n') lines++;  // expect: per-thread-chunks
    counts[part] = lines;
}

int main()
{
    const int length = 512 << 20, parts = length / PART;
    std::string text(length, 'x');
    long want = 0;
    for (int i = 17; i < length; i += 43) text[i] = '\n', ++want;
    char *d_text;
    int *d_counts;
    cudaMalloc((void **)&d_text, length);
    cudaMalloc((void **)&d_counts, parts * sizeof(int));
    cudaMemcpy(d_text, text.data(), length, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) count_newlines<<<parts / 128, 128>>>(d_text, d_counts, length);
    int *counts = new int[parts];
    cudaMemcpy(counts, d_counts, parts * sizeof(int), cudaMemcpyDeviceToHost);
    long got = 0;
    for (int i = 0; i < parts; i++) got += counts[i];
    if (got != want) { printf("%ld lines, not %ld\n", got, want); return 1; }
    printf("ok\n");
    return 0;
}
