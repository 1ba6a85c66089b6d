// Blurs and halves a picture twice: the blur, two passes, is a graph of its own that another holds as child nodes,
// between copies and a host function.
#include <cstdio>

__global__ void blur_rows(const float *in, float *out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int d = -3; d <= 3; ++d) sum += in[y * width + min(max(x + d, 0), width - 1)];
    out[y * width + x] = sum / 7;
}

__global__ void blur_columns(const float *in, float *out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int d = -3; d <= 3; ++d) sum += in[min(max(y + d, 0), height - 1) * width + x];
    out[y * width + x] = sum / 7;
}

__global__ void halve(const float *in, float *out, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width / 2 && y < height / 2)
        out[y * (width / 2) + x] = 0.25f * (in[2 * y * width + 2 * x] + in[2 * y * width + 2 * x + 1] +
                                            in[(2 * y + 1) * width + 2 * x] + in[(2 * y + 1) * width + 2 * x + 1]);
}

struct Picture {
    float *values;
    int pixels;
};

int brightened = 0;

void CUDART_CB brighten(void *data) {
    const Picture &picture = *static_cast<Picture *>(data);
    for (int i = 0; i < picture.pixels; ++i) picture.values[i] += 0.125f;
    ++brightened;
}

template <class... Parameters, class... Arguments>
cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNode_t *after, void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... given) {
    void *arguments[] = {&given...};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(kernel);
    parameters.gridDim = grid;
    parameters.blockDim = block;
    parameters.kernelParams = arguments;
    cudaGraphNode_t node;
    cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &parameters);
    return node;
}

int main() {
    const int width = 2048, height = 1024, pixels = width * height;
    Picture picture = {nullptr, pixels};
    cudaMallocHost(&picture.values, pixels * sizeof(float));
    for (int i = 0; i < pixels; ++i) picture.values[i] = (i * 37 % 256) / 256.0f;
    float *image, *rows, *smooth, *small;
    for (float **field : {&image, &rows, &smooth, &small}) cudaMalloc(field, pixels * sizeof(float));
    const dim3 block(32, 8), grid(width / 32, height / 8);

    cudaGraph_t blur, whole;
    cudaGraphCreate(&blur, 0);
    cudaGraphNode_t first = add(blur, nullptr, blur_rows, grid, block, image, rows, width, height);
    add(blur, &first, blur_columns, grid, block, rows, smooth, width, height);

    cudaGraphCreate(&whole, 0);
    cudaHostNodeParams host = {};
    host.fn = brighten;
    host.userData = &picture;
    cudaGraphNode_t lighter, upload, once, back, again;
    cudaGraphAddHostNode(&lighter, whole, nullptr, 0, &host);
    cudaGraphAddMemcpyNode1D(&upload, whole, &lighter, 1, image, picture.values, pixels * sizeof(float), cudaMemcpyHostToDevice);
    cudaGraphAddChildGraphNode(&once, whole, &upload, 1, blur);
    cudaGraphAddMemcpyNode1D(&back, whole, &once, 1, image, smooth, pixels * sizeof(float), cudaMemcpyDeviceToDevice);
    if (cudaGraphAddChildGraphNode(&again, whole, &back, 1, blur) != cudaSuccess) return 1;
    add(whole, &again, halve, dim3(width / 64, height / 16), block, smooth, small, width, height);
    cudaGraphExec_t runnable;
    if (cudaGraphInstantiate(&runnable, whole, 0) != cudaSuccess) return 2;
    cudaGraphDestroy(blur);
    cudaGraphDestroy(whole);

    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; i < 3; ++i) cudaGraphLaunch(runnable, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) return 3;
    float value;
    if (cudaMemcpy(&value, small + 1000, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess) return 4;
    std::printf("%d times, %.5f\n", brightened, value);
    return 0;
}
