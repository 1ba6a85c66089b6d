// k nearest neighbours of every query point by brute force; each thread keeps its k best in a small heap.
#include <cfloat>
#include <cstdio>
#include <vector>

template <int K>
__global__ void nearest(const float2 *__restrict__ points, int count, const float2 *__restrict__ queries,
                        int query_count, int *__restrict__ result)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= query_count) return;

    float best[K];
    int index[K];
    for (int k = 0; k < K; ++k) {
        best[k] = FLT_MAX;
        index[k] = -1;
    }

    float2 me = queries[q];
    for (int i = 0; i < count; ++i) {
        float2 p = points[i];
        float d = (p.x - me.x) * (p.x - me.x) + (p.y - me.y) * (p.y - me.y);
        if (d >= best[K - 1]) continue;
        int at = K - 1;
        while (at > 0 && best[at - 1] > d) {
            best[at] = best[at - 1];
            index[at] = index[at - 1];
            --at;
        }
        best[at] = d;
        index[at] = i;
    }
    for (int k = 0; k < K; ++k) result[q * K + k] = index[k];
}

int main()
{
    const int count = 20000, query_count = 1 << 15;
    std::vector<float2> points(count), queries(query_count);
    unsigned state = 12345;
    auto uniform = [&] { return (state = state * 1664525u + 1013904223u) / 4294967296.0f; };
    for (auto &p : points) p = make_float2(uniform(), uniform());
    for (auto &p : queries) p = make_float2(uniform(), uniform());

    float2 *d_points, *d_queries;
    int *d_result;
    cudaMalloc(&d_points, count * sizeof(float2));
    cudaMalloc(&d_queries, query_count * sizeof(float2));
    cudaMalloc(&d_result, query_count * 16 * sizeof(int));
    cudaMemcpy(d_points, points.data(), count * sizeof(float2), cudaMemcpyHostToDevice);
    cudaMemcpy(d_queries, queries.data(), query_count * sizeof(float2), cudaMemcpyHostToDevice);

    nearest<16><<<(query_count + 127) / 128, 128>>>(d_points, count, d_queries, query_count, d_result);

    std::vector<int> result(query_count * 16);
    if (cudaMemcpy(result.data(), d_result, result.size() * sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    for (int i : result)
        if (i < 0 || i >= count) return 1;
    std::printf("first neighbour of query 0: %d\n", result[0]);
    return 0;
}
