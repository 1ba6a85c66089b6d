// How work is shared out among neighbouring threads, beside twins that share it better. A mark names what is expected on
// its line.

__device__ float element(const float *m, int plane, int place, int places)
{
    int at = plane;
    at *= places;
    at += place;
    return m[at];
}

// Channels last out of channels first.
__global__ void turned(float *__restrict__ out, const float *__restrict__ in, int channels, int places)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, rest = i;
    int channel = rest % channels;  // hint: integer-division
    rest /= channels;
    out[i] = element(in, channel, rest, places);  // expect: uncoalesced-in-call, expect: scalar-access
}

__global__ void kept(float *__restrict__ out, const float *__restrict__ in, int channels, int places)
{
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    for (int channel = 0; channel < channels; ++channel)
        out[channel * places + place] = element(in, channel, place, places);
}

// Four channels of a point, each of whose threads reads where the point is.
__global__ void moved(float *__restrict__ out, const float *__restrict__ in, const float *__restrict__ from, int channels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int channel = i % channels, point = i / channels;  // expect: alike-neighbours, hint: integer-division
    float x = from[3 * point], y = from[3 * point + 1], share = from[3 * point + 2];
    out[i] = share * in[(int)(64.0f * y + x) * channels + channel];
}

// Nine threads for each point, whose sums meet.
__global__ void taps_of_points(float *out, const float *__restrict__ in, int points)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int p = i % 65536;
    atomicAdd(&out[p], in[i]);  // expect: owned-sums
}

__global__ void points(float *__restrict__ out, const float *__restrict__ in)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int tap = 0; tap < 9; ++tap) sum += in[tap * 65536 + p];
    out[p] = sum;
}

void run(float *out, const float *in, int n)
{
    turned<<<2112, 256>>>(out, in, n, n);
    kept<<<2112, 256>>>(out, in, n, n);
    moved<<<2112, 256>>>(out, in, in + n, n);
    taps_of_points<<<2304, 256>>>(out, in, n);
    points<<<256, 256>>>(out, in);
}
