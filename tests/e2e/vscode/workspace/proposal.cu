// Made faster, and judged, by tests/server/lsp/sample_service.py.
__global__ void scale(float *a)
{
    a[0] = 1;
    a[1] = a[0];  // source: typed
}
// sleep: 98.5
// judge: 98.5
