// Lanes whose distance is what the kernel loads from one place. A mark names what is expected on its line.
#define NAMED(kernel) kernel##_of_lattice

__global__ void NAMED(filled)(float *__restrict__ grid, const unsigned *__restrict__ width, const unsigned *__restrict__ first)
{
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, u = blockIdx.y, n = blockIdx.z;
    grid[first[n] + t * (width[n] + 1) + u] = 0.0f;  // expect: uncoalesced-global-write
}

__global__ void NAMED(filled_in_order)(float *__restrict__ grid, const unsigned *__restrict__ width, const unsigned *__restrict__ first)
{
    unsigned u = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y, n = blockIdx.z;
    grid[first[n] + t * (width[n] + 1) + u] = 0.0f;
}

void run(float *grid, const unsigned *width, const unsigned *first, int t, int u, int n)
{
    NAMED(filled)<<<dim3(t / 256, u, n), 256>>>(grid, width, first);
    NAMED(filled_in_order)<<<dim3(u / 256, t, n), 256>>>(grid, width, first);
}
