// A library that a Python script loads, as it does an extension: no `main`, the kernel's code comes with dlopen.
__device__ unsigned images;
static __constant__ float exponent = 0.4545f;

__global__ void correct(const float* in, float* out, int n) {
    const int i = threadIdx.x * gridDim.x + blockIdx.x;
    if (i < n) out[i] = powf(in[i], exponent);
    if (i == 0) ++images;
}

extern "C" int correct_image(const float* host_in, float* host_out, int n) {
    float *in, *out;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemcpy(in, host_in, n * sizeof(float), cudaMemcpyHostToDevice);
    for (int i = 0; i < 4; ++i) correct<<<(n + 255) / 256, 256>>>(in, out, n);
    const cudaError_t status = cudaMemcpy(host_out, out, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(in);
    cudaFree(out);
    return status;
}
