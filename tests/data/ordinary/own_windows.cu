// Elements that each thread goes through by rows and columns of its own: no chunks.
// Windows of the threads' own.
__global__ void pooled(const float *in, float *out, int w, int h, int size, int stride)
{
    int columns = (w - size) / stride + 1, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= columns * ((h - size) / stride + 1)) return;
    int left = i % columns * stride, top = i / columns * stride;
    int right = left + size < w ? left + size : w, below = top + size < h ? top + size : h;
    float sum = 0.0f;
    for (int y = top; y < below; y++)
        for (int x = left; x < right; x++) sum += in[y * w + x];
    out[i] = sum;
}

// Rows along x: the lanes lie under each other.
__global__ void averaged(const uchar4 *in, uchar4 *out, int w, int h, int root)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < h; i += blockDim.x * gridDim.x) {
        for (int j = blockIdx.y * blockDim.y + threadIdx.y; j < w; j += blockDim.y * gridDim.y) {
            unsigned sum = 0;
            for (int y = i * root; y < i * root + root; y++)
                for (int x = j * root; x < j * root + root; x++) sum += in[y * w * root + x].x;  // told: uncoalesced-global-read warning
            out[i * w + j] = make_uchar4(sum / root, 0, 0, 0);
        }
    }
}

int main()
{
    float *f = nullptr;
    uchar4 *pixels = nullptr;
    pooled<<<1 << 16, 256>>>(f, f, 8192, 8192, 3, 3);
    averaged<<<dim3(64, 64), dim3(16, 16)>>>(pixels, pixels, 4096, 4096, f != nullptr ? 2 : 3);
}
