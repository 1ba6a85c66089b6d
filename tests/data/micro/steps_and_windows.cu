// Steps of a tree, of a host loop and of a window, beside twins that take fewer. A mark names what is expected on its line.

// One window of a picture, read by every thread around its own pixel.
__global__ void blurred(float *__restrict__ out, const float *__restrict__ in, int width, int height, int radius)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f, all = 0.0f, own = in[y * width + x];
    for (int dy = -radius; dy <= radius; ++dy)
        for (int dx = -radius; dx <= radius; ++dx) {
            int ax = min(max(x + dx, 0), width - 1), ay = min(max(y + dy, 0), height - 1);
            float other = in[ay * width + ax], apart = other - own;  // expect: window-loads
            float weight = __expf(-apart * apart - 0.1f * (dx * dx + dy * dy));
            sum += weight * other;
            all += weight;
        }
    out[y * width + x] = sum / all;
}

__global__ void blurred_by_tile(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    __shared__ float tile[12][36];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (int r = threadIdx.y; r < 12; r += 8)
        for (int c = threadIdx.x; c < 36; c += 32) {
            int ax = min(max((int)blockIdx.x * 32 + c - 2, 0), width - 1);
            int ay = min(max((int)blockIdx.y * 8 + r - 2, 0), height - 1);
            tile[r][c] = in[ay * width + ax];  // expect: misaligned-access
        }
    __syncthreads();
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = 0; dy < 5; ++dy)
        for (int dx = 0; dx < 5; ++dx) sum += tile[threadIdx.y + dy][threadIdx.x + dx];  // expect: shared-windows
    out[y * width + x] = sum;
}

// A pivot a pass.
__global__ void relaxed(float *paths, int n, int k)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    float through = paths[blockIdx.y * n + k];
    paths[blockIdx.y * n + column] = fminf(paths[blockIdx.y * n + column], through + paths[k * n + column]);
}

// A tree over the block after a long walk: what it costs beside that is not told.
__global__ void farthest(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float best[256];
    float top = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) top = fmaxf(top, in[i]);  // hint: one-load-in-flight
    best[threadIdx.x] = top;
    __syncthreads();
    for (int apart = 128; apart > 0; apart >>= 1) {  // expect: barrier-tree
        if (threadIdx.x < apart) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + apart]);
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = best[0];
}

__global__ void farthest_by_shuffles(float *__restrict__ out, const float *__restrict__ in, int n)
{
    __shared__ float best[8];
    float top = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) top = fmaxf(top, in[i]);  // hint: one-load-in-flight
    for (int apart = 16; apart > 0; apart >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, apart));
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = top;
    __syncthreads();
    if (threadIdx.x < 8) top = best[threadIdx.x];
    for (int apart = 4; apart > 0; apart >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, apart));
    if (threadIdx.x == 0) out[blockIdx.x] = top;
}

// Three barriers a band, with a thread alone between them.
__global__ void banded(float *__restrict__ out, const float *__restrict__ in, int bands)
{
    __shared__ float before[256], score[256];
    __shared__ int place;
    before[threadIdx.x] = 0.0f;
    for (int band = 0; band < bands; ++band) {  // expect: barriers-per-step
        if (threadIdx.x == 0) place = band % 7;
        __syncthreads();
        float sum = in[band * 256 + threadIdx.x];  // hint: unoverlapped-copy
        for (int k = 0; k < 256; ++k) sum = fmaf(before[(threadIdx.x + k) % 256], 0.5f, sum * sum - place);
        score[threadIdx.x] = sum;
        __syncthreads();
        before[threadIdx.x] = score[threadIdx.x];
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = before[threadIdx.x];
}

// Two buffers in turn, and every thread knows the place.
__global__ void banded_in_turn(float *__restrict__ out, const float *__restrict__ in, int bands)
{
    __shared__ float score[2][256];
    score[0][threadIdx.x] = 0.0f;
    __syncthreads();
    for (int band = 0; band < bands; ++band) {
        float sum = in[band * 256 + threadIdx.x];  // hint: unoverlapped-copy
        for (int k = 0; k < 256; ++k)
            sum = fmaf(score[band % 2][(threadIdx.x + k) % 256], 0.5f, sum * sum - band % 7);
        score[(band + 1) % 2][threadIdx.x] = sum;
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = score[bands % 2][threadIdx.x];
}

void run(float *out, float *paths, const float *in, int n, int width, int height)
{
    blurred<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(out, in, width, height, n);
    blurred_by_tile<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(out, in, width, height);
    for (int k = 0; k < n; ++k) relaxed<<<dim3(n / 256, n), 256>>>(paths, n, k);  // expect: pass-per-step
    banded<<<1056, 256>>>(out, in, n);
    banded_in_turn<<<1056, 256>>>(out, in, n);
    farthest<<<1056, 256>>>(out, in, n);
    farthest_by_shuffles<<<1056, 256>>>(out, in, n);
}
