// Threads that each go a way of their own, beside twins that go together. A mark names what is expected on its line.

// Each thread searches the sorted keys by itself.
__global__ void placed(int *__restrict__ out, const int *__restrict__ keys, const int *__restrict__ asked, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    int low = 0, high = n, key = asked[i];
    while (low < high) {  // expect: search-per-thread, expect: uneven-loops
        int middle = (low + high) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    out[i] = low;
}

// The keys of a block lie in a short stretch, whose place was found before.
__global__ void placed_in_a_stretch(int *__restrict__ out, const int *__restrict__ keys, const int *__restrict__ asked,
                                    const int *__restrict__ stretch)
{
    __shared__ int near[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x, first = stretch[blockIdx.x];
    near[threadIdx.x] = keys[first + threadIdx.x];
    __syncthreads();
    int key = asked[i], below = 0;
    for (int k = 0; k < 256; ++k) below += near[k] < key;
    out[i] = first + below;
}

// The two features of a chosen slot, one by one.
template <int kFeatures>
__global__ void features(float *__restrict__ out, const float *__restrict__ grid, const unsigned *__restrict__ slots, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int corner = 0; corner < 8; ++corner) {
        unsigned at = slots[corner * n + i] * kFeatures + 1;
        for (int c = 0; c < kFeatures; ++c) sum += grid[at + c];  // expect: element-gathers
    }
    out[i] = sum;
}

__global__ void features_in_vectors(float *__restrict__ out, const float2 *__restrict__ grid,
                                    const unsigned *__restrict__ slots, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int corner = 0; corner < 8; ++corner) {
        float2 both = grid[slots[corner * n + i]];  // expect: indirect-access
        sum += both.x + both.y;
    }
    out[i] = sum;
}

void run(int *out, const int *keys, float *sums, const float *grid, const unsigned *slots, int n)
{
    placed<<<(n + 255) / 256, 256>>>(out, keys, keys + n, n, n);
    placed_in_a_stretch<<<2112, 256>>>(out, keys, keys + n, keys + 2 * n);
    features<2><<<2112, 256>>>(sums, grid, slots, n);
    features_in_vectors<<<2112, 256>>>(sums, (const float2 *)grid, slots, n);
}
