// Walks whose next place data choose: every lane goes a way of its own, though no address is made of its number. A mark
// names what is expected on its line.
struct Node {
    int left, right;
    float split;
    int axis;
};

__global__ void sorted_in(int *__restrict__ leaf, const Node *__restrict__ tree, const float *__restrict__ point, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = 0;
    while (tree[at].left >= 0)  // expect: uneven-loops
        at = point[i + n * tree[at].axis] < tree[at].split ? tree[at].left : tree[at].right;  // expect: dependent-loads, expect: indirect-access
    leaf[i] = at;
}

// The same element for all lanes of the block, another in each iteration.
__global__ void weighed(float *__restrict__ out, const float2 *__restrict__ sources, const float *__restrict__ at, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own = at[i], sum = 0.0f;
    for (int j = 0; j < n; ++j) {
        float apart = sources[j].x - own;  // expect: missing-cache-reuse
        sum += sources[j].y * __expf(-apart * apart);
    }
    out[i] = sum;
}

void run(int *leaf, const Node *tree, const float *point, float *out, const float2 *sources, int n)
{
    sorted_in<<<n / 256, 256>>>(leaf, tree, point, n);
    weighed<<<n / 256, 256>>>(out, sources, point, n);
}
