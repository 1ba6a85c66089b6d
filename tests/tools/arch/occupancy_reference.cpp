// Reads "major minor blocks-per-SM-fields..." lines and prints the CUDA runtime's own answer for each.
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  int major, minor, threads, registers;
  unsigned long shared, per_sm, per_block;
  int max_threads;
  while (std::scanf("%d %d %d %lu %lu %d %d %lu", &major, &minor, &max_threads, &per_sm, &per_block, &threads,
                    &registers, &shared) == 8) {
    cudaOccDeviceProp p;
    p.computeMajor = major;
    p.computeMinor = minor;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = max_threads;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.sharedMemPerBlock = 49152;
    p.sharedMemPerMultiprocessor = per_sm;
    p.sharedMemPerBlockOptin = per_block;
    p.reservedSharedMemPerBlock = major >= 8 ? 1024 : 0;
    p.numSms = 1;
    cudaOccFuncAttributes f;
    f.maxThreadsPerBlock = 1024;
    f.numRegs = registers;
    f.sharedSizeBytes = 0;
    f.partitionedGCConfig = PARTITIONED_GC_OFF;
    f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    f.maxDynamicSharedSizeBytes = per_block;
    f.numBlockBarriers = 0;
    cudaOccDeviceState s;
    s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &f, &s, threads, shared);
    std::printf("%d %d\n", status, status == 0 ? r.activeBlocksPerMultiprocessor : -1);
  }
}
