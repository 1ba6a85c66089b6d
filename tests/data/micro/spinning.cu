// Loops that wait for an atomic to succeed, beside an update that does not wait. A mark names what is expected on its line.

__global__ void pushed_under_locks(int *next, int *heads, int *locks, const int *buckets, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int bucket = buckets[i];
    for (int lane = 0; lane < 32; ++lane)
        if (threadIdx.x % 32 == lane) {
            while (atomicCAS(&locks[bucket], 0, 1) != 0) {}  // expect: global-atomic-contention, expect: lone-thread-loop
            __threadfence();
            next[i] = heads[bucket];
            heads[bucket] = i;
            __threadfence();
            atomicExch(&locks[bucket], 0);
        }
}

__global__ void pushed(int *__restrict__ next, int *heads, const int *__restrict__ buckets, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) next[i] = atomicExch(&heads[buckets[i]], i);
}

void run(int *next, int *heads, int *locks, const int *buckets, int n)
{
    pushed_under_locks<<<n / 256, 256>>>(next, heads, locks, buckets, n);
    pushed<<<n / 256, 256>>>(next, heads, buckets, n);
}
