// A one-dimensional cellular automaton on a ring, a hundred generations per graph.
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

constexpr int kCells = 1024, kPerGraph = 100;

// class: launch
__global__ void generation(const unsigned char *__restrict__ now, unsigned char *__restrict__ next, int rule)
{
    int i = threadIdx.x;
    int left = now[(i + kCells - 1) % kCells], right = now[(i + 1) % kCells];
    next[i] = rule >> (left * 4 + now[i] * 2 + right) & 1;
}

int main(int argc, char **argv)
{
    int generations = (argc > 1 ? atoi(argv[1]) : 20000) / kPerGraph * kPerGraph;
    const int rule = 110;
    std::vector<unsigned char> cells(kCells, 0), other(kCells), got(kCells);
    cells[kCells / 2] = 1;
    unsigned char *now, *next;
    cudaMalloc(&now, kCells);
    cudaMalloc(&next, kCells);
    cudaMemcpy(now, cells.data(), kCells, cudaMemcpyHostToDevice);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t batch;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int g = 0; g < kPerGraph; ++g) {
        generation<<<1, kCells, 0, stream>>>(now, next, rule);
        std::swap(now, next);
    }
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&batch, graph, 0);
    for (int g = 0; g < generations; g += kPerGraph) cudaGraphLaunch(batch, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(got.data(), now, kCells, cudaMemcpyDeviceToHost);
    for (int g = 0; g < generations; ++g) {
        for (int i = 0; i < kCells; ++i) {
            int around = cells[(i + kCells - 1) % kCells] * 4 + cells[i] * 2 + cells[(i + 1) % kCells];
            other[i] = rule >> around & 1;
        }
        std::swap(cells, other);
    }
    return printf("%s\n", got == cells ? "ok" : "differs"), got != cells || cudaGetLastError() != cudaSuccess;
}
