// What single causes cost on a card: atomics that meet, stores that fill sectors in part, lines that the L1 looks up,
// latencies, short blocks, barriers. One JSON object a line: {"name", "clocks", "unit"}; clocks are the SM clock's.
//
// Build: nvcc -O3 -std=c++17 -arch=sm_XX costs.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        cudaError_t status_ = (call);                                                                  \
        if (status_ != cudaSuccess) {                                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_));      \
            std::exit(3);                                                                              \
        }                                                                                              \
    } while (0)

namespace {

int sms;
double clock_hz;
char *memory;
unsigned *places;
constexpr size_t kBytes = size_t(4) << 30;
constexpr int kThreads = 256;

template <class F> double seconds(F launch)
{
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    launch();
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaEventRecord(begin));
        launch();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        least = std::min(least, ms * 1e-3);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return least;
}

void report(const std::string &name, double clocks, const char *unit)
{
    std::printf("{\"name\": \"%s\", \"clocks\": %.5g, \"unit\": \"%s\"}\n", name.c_str(), clocks, unit);
    std::fflush(stdout);
}

// ------------------------------------------------------------------------------------------- global atomics

// Each lane adds at a place that a table gives it: the compiler cannot see that lanes meet.
template <class T, bool kReturns> __global__ void global_atomics(T *at, const unsigned *place, int passes, T *sink)
{
    unsigned mine = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
    T sum = 0;
    for (int p = 0; p < passes; ++p) {
        T old = atomicAdd(at + place[mine + size_t(p) * count], T(1));
        if (kReturns) sum += old;
    }
    if (kReturns && sum == T(-1)) *sink = sum;
}

__global__ void block_atomics(int *at, int stride, int passes)
{
    volatile int one = 1;
    for (int p = 0; p < passes; ++p) atomicAdd(at + size_t(blockIdx.x) * stride + (one - 1) * threadIdx.x, 1);
}

__global__ void leader_atomics(int *at, int passes)
{
    for (int p = 0; p < passes; ++p)
        if ((threadIdx.x & 31) == 0) atomicAdd(at, 1);
}

void fill_places(unsigned count, unsigned spread, size_t total)
{
    std::vector<unsigned> host(total);
    unsigned seed = 12345;
    for (auto &p : host) {
        seed = seed * 1664525u + 1013904223u;
        p = unsigned((uint64_t(seed) * count) >> 32) * spread;
    }
    CHECK(cudaMemcpy(places, host.data(), total * sizeof(unsigned), cudaMemcpyHostToDevice));
}

template <class T, bool kReturns> void global_atomic(const char *type, unsigned count, unsigned spread, int passes)
{
    int blocks = sms * 4;
    size_t lanes = size_t(blocks) * kThreads * passes;
    fill_places(count, spread, lanes);
    double took = seconds([&] { global_atomics<T, kReturns><<<blocks, kThreads>>>((T *)memory, places, passes, (T *)memory); });
    report("global " + std::string(kReturns ? "returning " : "") + type + ", " + std::to_string(count) + " places " +
               std::to_string(spread * sizeof(T)) + " B apart",
           took * clock_hz / double(lanes), "clocks of the card per lane");
}

void global_rulers()
{
    for (unsigned count : {1u, 2u, 4u, 16u, 64u, 256u, 1024u, 16384u, 1u << 20}) global_atomic<int, false>("int", count, 1, count < 1024 ? 8 : 32);
    for (unsigned count : {2u, 16u, 64u}) global_atomic<int, false>("int", count, 64, 8);
    for (unsigned count : {16u, 64u}) global_atomic<int, false>("int", count, 1024, 8);
    global_atomic<int, true>("int", 1, 1, 8);
    global_atomic<int, true>("int", 256, 1, 8);
    for (unsigned count : {1u, 256u, 16384u}) global_atomic<float, false>("float", count, 1, 8);
    for (unsigned count : {1u, 256u, 16384u}) global_atomic<double, false>("double", count, 1, 8);
    global_atomic<unsigned long long, false>("long", 1, 1, 8);
    for (int stride : {1, 8, 32, 256}) {
        int blocks = sms * 8, passes = 16;
        double took = seconds([&] { block_atomics<<<blocks, kThreads>>>((int *)memory, stride, passes); });
        report("global int, a place for each block, " + std::to_string(stride * 4) + " B apart", took * clock_hz * sms / (double(blocks) * kThreads / 32 * passes), "clocks of an SM per warp");
    }
    int blocks = sms * 8, passes = 64;
    double took = seconds([&] { leader_atomics<<<blocks, kThreads>>>((int *)memory, passes); });
    report("global int, one lane of each warp, one place", took * clock_hz / (double(blocks) * kThreads / 32 * passes), "clocks of the card per warp");
}

// ------------------------------------------------------------------------------------------- shared atomics

template <class T, bool kOwn> __global__ void shared_atomics(T *out, int places, int passes)
{
    __shared__ T sums[8 * 32];
    sums[threadIdx.x] = 0;
    __syncthreads();
    T *mine = kOwn ? sums + threadIdx.x / 32 * 32 : sums;
    int at = (threadIdx.x * 7 + blockIdx.x) % places;
    for (int p = 0; p < passes; ++p) atomicAdd(mine + (at ^ (p & 0)), T(p));
    __syncthreads();
    if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = mine[threadIdx.x];
}

template <class T, bool kOwn> void shared_atomic(const char *type, int places)
{
    int blocks = sms * 8, passes = 64;
    double took = seconds([&] { shared_atomics<T, kOwn><<<blocks, kThreads>>>((T *)memory, places, passes); });
    report("shared " + std::string(type) + ", " + std::to_string(32 / places) + " lanes a word" + (kOwn ? ", words of the warp" : ""),
           took * clock_hz * sms / (double(blocks) * kThreads / 32 * passes), "clocks of an SM per warp");
}

void shared_rulers()
{
    for (int places : {1, 2, 4, 8, 16, 32}) {
        shared_atomic<int, false>("int", places);
        shared_atomic<float, false>("float", places);
        shared_atomic<float, true>("float", places);
    }
    shared_atomic<double, false>("double", 1);
    shared_atomic<double, false>("double", 4);
}

// ----------------------------------------------------------------------------------------- scattered accesses

// Lane after lane `stride` bytes apart; with `walk` the next pass writes the next element of the same stretch.
template <class T> __global__ void scatter(char *at, size_t stride, int passes, bool walk)
{
    size_t mine = size_t(blockIdx.x) * blockDim.x + threadIdx.x, count = size_t(gridDim.x) * blockDim.x;
    for (int p = 0; p < passes; ++p) {
        char *place = walk ? at + mine * stride + size_t(p) * sizeof(T) : at + (mine + p * count) * stride;
        T value{};
        *reinterpret_cast<T *>(place) = value;
    }
}

template <class T> __global__ void gather(const char *__restrict__ at, size_t stride, int passes, bool walk, float *sink)
{
    size_t mine = size_t(blockIdx.x) * blockDim.x + threadIdx.x, count = size_t(gridDim.x) * blockDim.x;
    float sum = 0;
#pragma unroll 4
    for (int p = 0; p < passes; ++p) {
        const char *place = walk ? at + mine * stride + size_t(p) * sizeof(T) : at + (mine + p * count) * stride;
        T value = *reinterpret_cast<const T *>(place);
        sum += *reinterpret_cast<const unsigned char *>(&value);
    }
    if (sum == -1.0f) *sink = sum;
}

template <class T> void scattered(size_t stride, bool walk)
{
    int blocks = sms * 8;
    size_t threads = size_t(blocks) * kThreads;
    int passes = walk ? int(stride / sizeof(T)) : int(std::min<size_t>(64, kBytes / (threads * stride)));
    passes = std::min(passes, 256);
    if (passes < 1 || threads * stride > kBytes) return;
    std::string tail = std::to_string(sizeof(T)) + " B each " + std::to_string(stride) + " B" + (walk ? ", walked" : "");
    double per = clock_hz * sms / (double(threads) / 32 * passes);
    report("stores of " + tail, seconds([&] { scatter<T><<<blocks, kThreads>>>(memory, stride, passes, walk); }) * per, "clocks of an SM per warp");
    report("loads of " + tail, seconds([&] { gather<T><<<blocks, kThreads>>>(memory, stride, passes, walk, (float *)places); }) * per, "clocks of an SM per warp");
}

// Neighbouring lanes write neighbouring bytes of `run`, then jump: how much of a sector a request fills.
__global__ void runs(char *at, int run, size_t stride, int passes)
{
    size_t mine = size_t(blockIdx.x) * blockDim.x + threadIdx.x, count = size_t(gridDim.x) * blockDim.x;
    for (int p = 0; p < passes; ++p) {
        size_t n = mine + p * count;
        *reinterpret_cast<float *>(at + n / run * stride + n % run * 4) = 1.0f;
    }
}

// A transposed write: lanes `rows` elements apart, blocks side by side; every sector is filled in the end.
__global__ void transposed(float *at, size_t rows, int passes)
{
    for (int p = 0; p < passes; ++p) at[size_t(threadIdx.x) * rows + size_t(p) * gridDim.x + blockIdx.x] = 1.0f;
}

// A transpose's write by blocks of two dimensions: the warps of a block fill each other's sectors.
__global__ void block_transposed(float *at, int rows)
{
    size_t x = size_t(blockIdx.x) * blockDim.x + threadIdx.x, y = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    at[x * rows + y] = 1.0f;
}

// Every pass writes the same stretch again: it stays in the L2.
__global__ void rewrite(char *at, size_t stride, int passes)
{
    size_t mine = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int p = 0; p < passes; ++p) *reinterpret_cast<volatile float *>(at + mine * stride) = float(p);
}

// A record of `kFields` floats for each thread, its first `fields` written one by one.
template <int kFields> __global__ void records(float *at, int fields, int passes)
{
    size_t mine = size_t(blockIdx.x) * blockDim.x + threadIdx.x, count = size_t(gridDim.x) * blockDim.x;
    for (int p = 0; p < passes; ++p)
#pragma unroll
        for (int f = 0; f < kFields; ++f)
            if (f < fields) reinterpret_cast<volatile float *>(at)[(mine + p * count) * kFields + f] = 1.0f;
}

template <int kFields> __global__ void update(float *at, int passes)
{
    size_t mine = size_t(blockIdx.x) * blockDim.x + threadIdx.x, count = size_t(gridDim.x) * blockDim.x;
    for (int p = 0; p < passes; ++p) at[(mine + p * count) * kFields] += 1.0f;
}

template <int kFields> void written_records(int fields)
{
    int blocks = sms * 8, passes = 16;
    double per = clock_hz * sms / (double(blocks) * kThreads / 32 * passes);
    report(std::to_string(fields) + " stores into records of " + std::to_string(kFields * 4) + " B",
           seconds([&] { records<kFields><<<blocks, kThreads>>>((float *)memory, fields, passes); }) * per, "clocks of an SM per warp");
}

template <int kFields> void updated_records()
{
    int blocks = sms * 8, passes = 16;
    double per = clock_hz * sms / (double(blocks) * kThreads / 32 * passes);
    report("updates of 4 B each " + std::to_string(kFields * 4) + " B",
           seconds([&] { update<kFields><<<blocks, kThreads>>>((float *)memory, passes); }) * per, "clocks of an SM per warp");
}

void record_rulers()
{
    for (size_t stride : {4, 32, 128}) {
        int blocks = sms, passes = 256;
        double per = clock_hz * sms / (double(blocks) * kThreads / 32 * passes);
        report("stores of 4 B each " + std::to_string(stride) + " B, the same again", seconds([&] { rewrite<<<blocks, kThreads>>>(memory, stride, passes); }) * per, "clocks of an SM per warp");
        report("stores of 4 B each " + std::to_string(stride) + " B, the same again, 8 blocks an SM", seconds([&] { rewrite<<<blocks * 8, kThreads>>>(memory, stride, passes); }) * per / 8, "clocks of an SM per warp");
    }
    written_records<1>(1), written_records<2>(2), written_records<4>(4), written_records<8>(8), written_records<16>(16);
    written_records<4>(1), written_records<8>(1), written_records<12>(3), written_records<12>(12);
    updated_records<1>(), updated_records<4>(), updated_records<8>(), updated_records<12>(), updated_records<32>();
}

// --------------------------------------------------------------------------------------------------- constants

__constant__ float table[16384];

__global__ void constants(float *out, const unsigned *__restrict__ index, unsigned mask, int passes)
{
    unsigned at = index[threadIdx.x + blockIdx.x * blockDim.x];
    float sum = 0;
    for (int p = 0; p < passes; ++p) {
        sum += table[at & mask];
        at = at * 1664525u + 1013904223u;
        at ^= at >> 15;
    }
    out[threadIdx.x + blockIdx.x * blockDim.x] = sum;
}

void constant_rulers()
{
    int blocks = sms * 8, passes = 256;
    fill_places(1u << 31, 1, size_t(blocks) * kThreads);
    for (unsigned words : {1u, 2u, 32u, 256u, 512u, 1024u, 4096u, 16384u}) {
        double took = seconds([&] { constants<<<blocks, kThreads>>>((float *)memory, places, words - 1, passes); });
        report("constants, " + std::to_string(words * 4) + " B of table", took * clock_hz * sms / (double(blocks) * kThreads / 32 * passes), "clocks of an SM per warp");
    }
}

void scattered_rulers()
{
    for (size_t stride : {32, 128, 1024, 4096}) scattered<float>(stride, false);
    for (size_t stride : {128, 132, 1008, 1024, 1420, 4096}) scattered<float>(stride, true);
    scattered<unsigned char>(256, true);
    scattered<double>(128, false), scattered<float4>(128, false);
    scattered<float4>(1024, true);
    for (int run : {2, 4, 8, 16, 32}) {
        int blocks = sms * 8, passes = 32;
        double per = clock_hz * sms / (double(blocks) * kThreads / 32 * passes);
        report("stores of " + std::to_string(run * 4) + " B each 128 B", seconds([&] { runs<<<blocks, kThreads>>>(memory, run, 128, passes); }) * per, "clocks of an SM per warp");
    }
    for (size_t rows : {size_t(1) << 18, (size_t(1) << 18) + 8 * 33}) {
        int blocks = 4096, passes = 64;
        double per = clock_hz * sms / (double(blocks) * kThreads / 32 * passes);
        report("transposed stores, rows of " + std::to_string(rows), seconds([&] { transposed<<<blocks, kThreads>>>((float *)memory, rows, passes); }) * per, "clocks of an SM per warp");
    }
    for (dim3 block : {dim3(4, 64), dim3(8, 32), dim3(16, 16), dim3(32, 8), dim3(32, 32)}) {
        int rows = 8192;
        dim3 grid(rows / block.x, rows / block.y);
        double per = clock_hz * sms / (double(rows) * rows / 32);
        report("transposed stores, blocks of " + std::to_string(block.x) + " by " + std::to_string(block.y), seconds([&] { block_transposed<<<grid, block>>>((float *)memory, rows); }) * per, "clocks of an SM per warp");
    }
}

// ------------------------------------------------------------------------------------------------ L1 look-ups

// Loads that hit the L1: lanes `stride` words apart within 64 KB.
__global__ void hits(const float *__restrict__ at, int stride, int passes, float *sink)
{
    float sum = 0;
    int first = (threadIdx.x & 31) * stride + (threadIdx.x >> 5);
#pragma unroll 8
    for (int p = 0; p < passes; ++p) sum += at[(first + p) & 16383];
    if (sum == -1.0f) *sink = sum;
}

void line_rulers()
{
    for (int stride : {0, 1, 2, 4, 8, 16, 32, 33, 34, 64, 65, 355, 256, 257, 260}) {
        int blocks = sms * 4, passes = 2048;
        double took = seconds([&] { hits<<<blocks, kThreads>>>((float *)memory, stride, passes, (float *)places); });
        report("L1 hits, lanes " + std::to_string(stride) + " words apart", took * clock_hz * sms / (double(blocks) * kThreads / 32 * passes), "clocks of an SM per warp");
    }
}

// -------------------------------------------------------------------------------------------------- latencies

__global__ void chase(const unsigned *at, unsigned first, int hops, long long *took)
{
    unsigned here = first;
    for (int i = 0; i < hops / 4; ++i) here = at[here];
    long long start = clock64();
    for (int i = 0; i < hops; ++i) here = at[here];
    took[0] = clock64() - start;
    took[1] = here;
}

void latency_rulers()
{
    // A chain of lines in an order that no prefetcher guesses; the larger ones do not fit the caches.
    for (size_t bytes : {size_t(64) << 10, size_t(4) << 20, size_t(16) << 20, size_t(2) << 30}) {
        size_t lines = bytes / 128;
        std::vector<unsigned> host(lines * 32);
        size_t step = (lines / 7 * 3 + 12345) | 1;
        for (size_t l = 0; l < lines; ++l) host[l * 32] = unsigned((l + step) % lines * 32);
        CHECK(cudaMemcpy(memory, host.data(), bytes, cudaMemcpyHostToDevice));
        int hops = int(std::min<size_t>(lines, bytes > (size_t(1) << 30) ? 4096 : 32768));
        long long took[2];
        // What does not fit a cache must not lie there from its own start.
        chase<<<1, 1>>>((unsigned *)memory, 0, hops, (long long *)places);
        if (bytes > (size_t(1) << 30)) chase<<<1, 1>>>((unsigned *)memory, unsigned(lines / 3 * 32), hops, (long long *)places);
        CHECK(cudaMemcpy(took, places, sizeof took, cudaMemcpyDeviceToHost));
        report("latency, " + std::to_string(bytes >> 10) + " KB", double(took[0]) / hops, "clocks per load");
    }
}

// ----------------------------------------------------------------------------------------------- short blocks

template <class T> __global__ void one_shot(T *__restrict__ out, const T *__restrict__ in, size_t count)
{
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i];
}

template <class T> __global__ void read_shot(T *__restrict__ out, const T *__restrict__ in, size_t count)
{
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    T value = in[i];
    if (*reinterpret_cast<unsigned char *>(&value) == 255) out[i] = value;
}

template <class T> __global__ void grid_stride(T *__restrict__ out, const T *__restrict__ in, size_t count)
{
    T kept{};
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        T value = in[i];
        if (*reinterpret_cast<unsigned char *>(&value) == 255) kept = value;
    }
    if (*reinterpret_cast<unsigned char *>(&kept) == 255) out[threadIdx.x] = kept;
}

__global__ void nothing() {}
__global__ void barriers(int count, int *out)
{
    int seen = 0;
    for (int i = 0; i < count; ++i) {
        __syncthreads();
        seen += clock();
    }
    if (seen == 7) *out = seen;
}

template <class T> void short_blocks(const char *type)
{
    size_t count = (size_t(256) << 20) / sizeof(T);
    if (sizeof(T) == 1) count /= 2;
    for (int threads : {128, 256, 1024}) {
        if (threads != 256 && sizeof(T) != 4) continue;
        unsigned blocks = unsigned(count / threads);
        double per = clock_hz * sms / (double(count) / 32);
        std::string tail = std::string(type) + " a thread, blocks of " + std::to_string(threads);
        report("copy " + tail, seconds([&] { one_shot<T><<<blocks, threads>>>((T *)(memory + kBytes / 2), (T *)memory, count); }) * per, "clocks of an SM per warp");
        report("read " + tail, seconds([&] { read_shot<T><<<blocks, threads>>>((T *)(memory + kBytes / 2), (T *)memory, count); }) * per, "clocks of an SM per warp");
        report("read in a loop " + tail, seconds([&] { grid_stride<T><<<sms * (2048 / threads), threads>>>((T *)(memory + kBytes / 2), (T *)memory, count); }) * per, "clocks of an SM per warp");
    }
}

void block_rulers()
{
    short_blocks<unsigned char>("1 B"), short_blocks<uint16_t>("2 B"), short_blocks<unsigned>("4 B");
    short_blocks<uint2>("8 B"), short_blocks<uint4>("16 B");
    for (int threads : {32, 256, 1024}) {
        int blocks = sms * 2048;
        report("empty blocks of " + std::to_string(threads), seconds([&] { nothing<<<blocks, threads>>>(); }) * clock_hz * sms / blocks, "clocks of an SM per block");
        for (int each : {1, 2048 / threads}) {
            int resident = std::min(each, 32);
            report("barriers, blocks of " + std::to_string(threads) + ", " + std::to_string(resident) + " on an SM",
                   seconds([&] { barriers<<<sms * resident, threads>>>(4096, (int *)memory); }) * clock_hz / 4096, "clocks per barrier");
        }
    }
}

}  // namespace

int main()
{
    cudaDeviceProp gpu;
    CHECK(cudaGetDeviceProperties(&gpu, 0));
    int khz = 0;
    CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    sms = gpu.multiProcessorCount;
    clock_hz = khz * 1e3;
    CHECK(cudaMalloc(&memory, kBytes));
    CHECK(cudaMemset(memory, 0, kBytes));
    CHECK(cudaMalloc(&places, size_t(256) << 20));
    global_rulers();
    CHECK(cudaMemset(memory, 0, kBytes));
    shared_rulers();
    scattered_rulers();
    record_rulers();
    constant_rulers();
    CHECK(cudaMemset(memory, 0, kBytes));
    line_rulers();
    block_rulers();
    latency_rulers();
}
