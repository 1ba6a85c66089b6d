// What is found here is written in the text: see tests/server/lsp/sample_service.py.
__global__ void scale(float *x, float a)
{
    float y = a * x[0];  // source: typed
    x[1] = y;            // binary: compiled
}

__global__ void shift(float *x)
{
    x[2] = x[3];
}
