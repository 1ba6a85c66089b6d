// Loops that wait for their own load in every iteration, and twins that do not. A mark names what is expected on its line.

__global__ void column_maxima(float *__restrict__ out, const float *__restrict__ in, int rows, int columns)
{
    int row = blockDim.x * blockIdx.x + threadIdx.x, column = threadIdx.y;
    float top = 0.0f;
    while (column < columns) {
        top = fmaxf(top, in[row + column * rows]);  // hint: one-load-in-flight
        column += blockDim.y;
    }
    out[row + threadIdx.y * rows] = top;
}

// The compiler unrolls a counted loop, and its loads go ahead.
__global__ void column_maxima_unrolled(float *__restrict__ out, const float *__restrict__ in, int rows, int columns)
{
    int row = blockDim.x * blockIdx.x + threadIdx.x;
    float top = 0.0f;
    for (int column = 0; column < columns; ++column) top = fmaxf(top, in[row + column * rows]);
    out[row] = top;
}

// A chain: the next address is what the load before brought.
__global__ void steps_of(int *__restrict__ out, const int *__restrict__ next)
{
    int own = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
    for (int i = own; i >= 0; i = next[i]) ++steps;  // expect: dependent-loads, expect: uneven-loops
    out[own] = steps;
}

void run(float *out, const float *in, int *steps, const int *next, int n, int m)
{
    column_maxima<<<n / 32, dim3(32, 8)>>>(out, in, n, m);
    column_maxima_unrolled<<<n / 256, 256>>>(out, in, n, m);
    steps_of<<<n / 256, 256>>>(steps, next);
}
