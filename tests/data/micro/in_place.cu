// What a loop works on in place, what a step's phases have to do, and what one thread of a block adds for all. A mark
// names what is expected on its line.

// Every thread goes through the elimination of a small system: no tile keeps what each step stores.
__global__ void eliminated(float *__restrict__ systems, int n)
{
    for (int row = 0; row < n - 1; ++row)
        for (int below = row + 1; below < n; ++below) {
            float factor = systems[below * n + row] / systems[row * n + row];
            for (int c = row; c < n; ++c) systems[below * n + c] -= factor * systems[row * n + c];  // expect: elements-read-again
        }
}

// The block on the diagonal, before those in its row and its column.
__global__ void pivot_block(int *paths, int n, int step)
{
    int i = step * 32 + threadIdx.y, j = step * 32 + threadIdx.x;
    for (int k = step * 32; k < step * 32 + 32; ++k) {  // expect: barriers-per-step
        paths[i * n + j] = min(paths[i * n + j], paths[i * n + k] + paths[k * n + j]);  // expect: elements-read-again, hint: unoverlapped-copy
        __syncthreads();
    }
}

__global__ void pivot_row(int *paths, int n, int step)
{
    int i = step * 32 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    for (int k = step * 32; k < step * 32 + 32; ++k) {  // expect: barriers-per-step
        paths[i * n + j] = min(paths[i * n + j], paths[i * n + k] + paths[k * n + j]);  // expect: elements-read-again, hint: unoverlapped-copy, expect: missing-cache-reuse
        __syncthreads();
    }
}

void shortest_paths(int *paths, int n)
{
    for (int step = 0; step < n / 32; ++step) {
        pivot_block<<<1, dim3(32, 32)>>>(paths, n, step);  // expect: pass-per-step
        pivot_row<<<n / 32, dim3(32, 32)>>>(paths, n, step);  // expect: pass-per-step
    }
}

// One thread of a block adds for all of them, at a place that the block's number chooses.
template <typename T>
__device__ void add_rows(const T values[], const int starts[], T sums[], int row, int width)
{
    T *const own = sums + (long)width * row;
    for (int c = 0; c < width; ++c) {
        T sum = 0;
        for (int i = starts[row] + threadIdx.x; i < starts[row + 1]; i += blockDim.x) sum += values[i] * c;
        for (int away = 16; away > 0; away /= 2) sum += __shfl_down_sync(0xffffffffu, sum, away);
        if (threadIdx.x == 0) atomicAdd(&own[c], sum);
    }
}

__global__ void rows_added(const float *__restrict__ values, const int *__restrict__ starts, float *sums,
                           const int *__restrict__ order, int rows, int width)
{
    for (int r = blockIdx.x; r < rows; r += gridDim.x) add_rows(values, starts, sums, order[r], width);  // expect: missing-cache-reuse, hint: one-load-in-flight, hint: unoverlapped-copy
}
