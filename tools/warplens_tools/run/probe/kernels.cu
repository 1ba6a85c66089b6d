// SPDX-License-Identifier: Apache-2.0
// The probe's own kernels, loaded from a cubin beside the user's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using u64 = unsigned long long;

__device__ inline u64 mix(u64 x) {  // the finalizer of SplitMix64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// Buffers whose chunks are numbered through, as in memory.h.
struct Buffers {
    u64 base[64], bytes[64], first[64], count;
};

// One keyed 64-bit checksum per chunk of 64 KiB, of whole words where the buffer is aligned, else of bytes.
// Whoever does not know the key cannot make other contents with the same sum.
extern "C" __global__ void warplens_checksum(const __grid_constant__ Buffers buffers, u64 key, u64* sums) {
    constexpr u64 chunk = 65536;
    const u64 number = buffers.first[0] + blockIdx.x;
    u64 which = 0;
    while (which + 1 < buffers.count && buffers.first[which + 1] <= number) ++which;
    const auto base = reinterpret_cast<const unsigned char*>(buffers.base[which]);
    key += buffers.first[which];
    const u64 begin = (number - buffers.first[which]) * chunk, end = min(begin + chunk, buffers.bytes[which]);
    u64 sum = 0;
    const u64 words_end = reinterpret_cast<u64>(base) % 8 ? begin : end / 8 * 8;
    for (u64 at = begin + threadIdx.x * 8ull; at < words_end; at += blockDim.x * 8ull)
        sum += mix(*reinterpret_cast<const u64*>(base + at) ^ mix(key + at));
    for (u64 at = words_end + threadIdx.x; at < end; at += blockDim.x) sum += mix(base[at] ^ mix(key + at));
    __shared__ u64 parts[32];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += parts[warp];
    sums[number] = sum;
}

extern "C" __global__ void warplens_set(unsigned char* base, u64 bytes, unsigned char value) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < bytes; i += u64(gridDim.x) * blockDim.x) base[i] = value;
}

// The same value to seven bits, below them a pattern that a rounding or cut to half, bfloat16 or TF32 takes off:
// always downwards, so that it does not average out in a sum.
__device__ inline float filled(float x) {
    return __uint_as_float((__float_as_uint(x) & 0xffff0000u) | 0x6fffu);
}
__device__ inline double filled(double x) {  // likewise, for a rounding to float
    return __longlong_as_double((__double_as_longlong(x) & ~0x1fffffffll) | 0x0fffffffll);
}
template <class T>
__device__ T filled(T x) {
    return x;
}

// The value to five bits, which every format holds: what it is summed or multiplied with, a lower precision of the
// inputs changes nothing.
template <class T>
__device__ T shortened(T x) {
    return static_cast<T>(__uint_as_float(__float_as_uint(static_cast<float>(x)) & 0xfff80000u));
}
template <>
__device__ inline double shortened(double x) {
    return __longlong_as_double(__double_as_longlong(x) & ~0xffffffffffffll);
}

// A small move of a 16-bit number in steps of two units in its last place, which the numbers around it hold too: as far
// up as down, and nothing is rounded.
template <class T>
__device__ T stepped(double value, double by, int bits, int least) {
    const double step = exp2(static_cast<double>(max(ilogb(value), least) - bits + 1));
    return static_cast<T>(value + rint(by / step) * step);
}
template <class T>
__device__ T scaled(double value, double scale, double move) {
    return static_cast<T>(value * scale * (1 + move));
}
constexpr double kSmallMove = 0.05;
template <>
__device__ inline __half scaled(double value, double scale, double move) {
    if (scale == 1 && fabs(move) < kSmallMove) return stepped<__half>(value, value * move, 10, -14);
    return static_cast<__half>(value * scale * (1 + move));
}
template <>
__device__ inline __nv_bfloat16 scaled(double value, double scale, double move) {
    if (scale == 1 && fabs(move) < kSmallMove) return stepped<__nv_bfloat16>(value, value * move, 7, -126);
    return static_cast<__nv_bfloat16>(value * scale * (1 + move));
}

// Elements lie `stride` bytes apart: side by side, or one member of all structures.
template <class T>
__device__ T& element(T* data, u64 i, u64 stride) {
    return *reinterpret_cast<T*>(reinterpret_cast<u64>(data) + i * stride);
}

template <class T>
__device__ void move_inputs(T* data, u64 count, double scale, double noise, u64 seed, u64 stride, double kept) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        const double uniform = double(mix(seed + i) >> 11) * 0x1p-52 - 1;  // [-1, 1)
        T& here = element(data, i, stride);
        const double value = static_cast<double>(here);
        // 0, infinity and NaN stay what they are: they often mean something (padding, a mask)
        if (value != 0 && isfinite(value) && value != static_cast<double>(static_cast<T>(kept)))
            here = scale   ? scaled<T>(value, scale, noise * uniform)
                   : noise ? shortened(here)
                           : filled(here);
    }
}

#define WARPLENS_MOVE(name, type)                                                                             \
    extern "C" __global__ void name(type* data, u64 count, double scale, double noise, u64 seed, u64 stride,  \
                                    double kept) {                                                            \
        move_inputs(data, count, scale, noise, seed, stride, kept);                                           \
    }
WARPLENS_MOVE(warplens_move_f64, double)
WARPLENS_MOVE(warplens_move_f32, float)
WARPLENS_MOVE(warplens_move_f16, __half)
WARPLENS_MOVE(warplens_move_bf16, __nv_bfloat16)

// Other contents of the same kind, so that whatever a launch writes there is seen.
template <class T>
__device__ void fill_outputs(T* data, u64 count, u64 stride) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        T& here = element(data, i, stride);
        const double value = static_cast<double>(here);
        here = static_cast<T>(isfinite(value) ? -1.25 * value - 1 : 1.0);
    }
}

#define WARPLENS_FILL(name, type) \
    extern "C" __global__ void name(type* data, u64 count, u64 stride) { fill_outputs(data, count, stride); }
WARPLENS_FILL(warplens_fill_f64, double)
WARPLENS_FILL(warplens_fill_f32, float)
WARPLENS_FILL(warplens_fill_f16, __half)
WARPLENS_FILL(warplens_fill_bf16, __nv_bfloat16)

// Turns bits of the lowest byte of each element: an integer that is an index stays in its array, a float stays nearly
// what it is.
extern "C" __global__ void warplens_turn(unsigned char* data, u64 count, u64 stride, unsigned bits) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
        element(data, i, stride) ^= bits;
}

// Other inputs of a buffer's own making; `source` holds its contents as they were, so that every value depends on
// them, the place and the seed alone. `kind` as in job.h: 0 for redrawn, 1 permuted, 2 mixed signs, 3 filled zeros,
// 4 spikes, 5 runs of zeros, 6 NaN, 7 zeros and ones, 8 nearly all one value, 9 below a limit, 10 of the
// type's full range, 11 one less, 12 halved, 13 a half of zeros, 14 and 15 zeros, 16 repeated, 17 one for zero, 18 far from zero,
// 19 more, 20 of given ones, 21 with -1 among them, 22 infinities, 23 four values, 24 small ones one larger, 25 runs of NaN, 26 one in sixteen what `limit` holds, 27 runs of it,
// 28 columns of zeros, 29 other signs, 30 rising by little, 31 very large and very small, 32 a few far larger, 33 with other upper halves,
// 34 a few others, 35 nearly the same several times, 36 halfway between whole numbers, 37 bit fields that are alike, or in
// order, 38 around zero, 39 with bits of `limit`, 42 no more than they were, 43 runs of what `limit` holds and half of it.
// `period` is the length of a row where it is known. Redrawn and permuted values are the buffer's own: an index stays in its
// array.
__device__ inline double uniform(u64 bits) { return double(bits >> 11) * 0x1p-53; }  // [0, 1)

template <class T>
struct Source {
    const T* data;
    u64 count, stride, limit, period;
    __device__ const T& operator[](u64 i) const { return element(data, i, stride); }
};

// A permutation of [0, count): multiplying by a prime that no shorter count is a multiple of, and turning.
__device__ inline u64 permuted(u64 i, u64 count, u64 seed) {
    constexpr u64 prime = 4294967291ull;  // the largest below 2^32; longer buffers keep within their first part
    const u64 n = count < prime ? count : prime - 1;
    return i < n ? (i * prime + seed % n) % n : i;
}

template <class T>
__device__ T signed_value(T x, u64 bits) { return bits >> 63 ? static_cast<T>(-static_cast<double>(x)) : x; }

template <class T>
__device__ T filled_zero(const Source<T>& source, u64 i, u64 seed) {
    if (static_cast<double>(source[i]) != 0) return source[i];
    for (u64 turn = 0; turn < 8; ++turn) {
        const T other = source[mix(seed + i * 8 + turn) % source.count];
        if (static_cast<double>(other) != 0 && isfinite(static_cast<double>(other))) return other;
    }
    return static_cast<T>(0.5 + uniform(mix(seed ^ i)));
}

// Rows, where their length is known; else runs, each long enough for whole rows where there is room for many.
template <class T>
__device__ u64 run_of(const Source<T>& source, u64 shortest, u64 longer) {
    if (source.period) return source.period;
    u64 run = shortest << 2 * longer;
    while (run > 1 && run * 8 > source.count) run /= 2;
    return run;
}

// Of half of all rows that are left out, one element stays.
template <class T>
__device__ bool stays(const Source<T>& source, u64 i, u64 bits) {
    return source.period && bits >> 32 & 1 && i % source.period == (bits & 0x7fffffff) % source.period;
}

// Half of all runs.
template <class T>
__device__ T blanked(const Source<T>& source, u64 i, u64 seed) {
    const u64 bits = mix(seed + i / run_of(source, 64, seed % 5));
    return bits >> 63 && !stays(source, i, bits) ? static_cast<T>(0.0) : source[i];
}

// One run in four, and one at least.
template <class T>
__device__ bool is_void(const Source<T>& source, u64 i, u64 seed) {
    const u64 run = run_of(source, 256, seed % 4), bits = mix(seed + i / run);
    return (bits >> 62 == 0 || i / run == 1) && !stays(source, i, bits);
}

// One column in eight and one at least that all buffers of a seed's upper half share, and as many of each one's own.
template <class T>
__device__ bool is_striped(const Source<T>& source, u64 i, u64 seed) {
    if (!source.period) return false;
    const u64 column = i % source.period, shared = seed >> 32;
    return mix(shared + column) % 8 == 0 || mix(seed + column) % 8 == 0 || column == shared % source.period;
}

// One in 64 is so large that its square overflows, or so small that it vanishes, and one as large as a quotient's divisor
// may be; no sum of them all overflows.
template <class T>
__device__ T vast(const Source<T>& source, u64 i, u64 seed) {
    const u64 bits = mix(seed + i);
    const bool largest = i == seed % source.count;
    if (bits % 64 && !largest) return source[i];
    const double value = static_cast<double>(source[i]), kept = value != 0 && isfinite(value) ? value : 1;
    const int least = sizeof(T) == 8 ? 512 : 64, places = static_cast<int>(bits >> 20 & 0xffff) % (least - 2 - (64 - __clzll(source.count)));
    const int exponent = largest ? 2 * least - 2 : bits >> 63 ? least + places : -least - places;
    return static_cast<T>(scalbn(kept, exponent - ilogb(kept)));
}
template <>
__device__ inline __half vast(const Source<__half>& source, u64 i, u64) { return source[i]; }


// Most of those that are not so large that all are whole.
template <class T>
__device__ T halfway(T x, u64 bits) {
    const double value = static_cast<double>(x);
    return bits >> 62 && fabs(value) < (sizeof(T) == 2 ? 128 : 1 << 20) ? static_cast<T>(floor(value) + 0.5) : x;
}

// What stands first of two to four, within four units in the last place: differences that rounding decides.
template <class T>
__device__ T nearly(const Source<T>& source, u64 i, u64 seed) {
    const double value = static_cast<double>(source[i - i % (2 + seed % 3)]);
    const int steps = static_cast<int>(mix(seed + i) >> 40 & 7) - 4;
    return static_cast<T>(value * (1 + steps * (sizeof(T) == 8 ? 0x1p-52 : sizeof(T) == 4 ? 0x1p-23 : 0x1p-10)));
}

// No number: of a float any that is none, since code that takes it apart may mind which.
template <class T>
__device__ T no_number(u64) { return static_cast<T>(__longlong_as_double(0x7ff8000000000000ll)); }
template <>
__device__ inline float no_number(u64 bits) { return __uint_as_float(0x7f800001u | (static_cast<unsigned>(bits >> 32) & 0x807fffffu)); }

// One in 8192, of few one in 512, and one at least; or, in their places, what `limit` holds.
template <class T>
__device__ T special(const Source<T>& source, u64 i, u64 seed, bool infinite) {
    const u64 bits = mix(seed + i);
    // of few there are more among them, so that they meet zeros in other buffers
    if (bits % (source.count > (1u << 18) ? 8192 : 512) && i != seed % source.count) return source[i];
    if (source.limit) return static_cast<T>(__longlong_as_double(static_cast<long long>(source.limit)));
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    return !infinite ? no_number<T>(bits) : static_cast<T>(bits >> 63 ? infinity : -infinity);
}

// One element in 256 is a thousand to ten thousand times larger; of 16-bit types, which hold less, 16 to 64 times.
// None is made larger than 2^14, which half still holds: an allowed lower precision must not overflow on it.
template <class T>
__device__ T spiked(T x, u64 bits) {
    if (bits % 256) return x;
    const double value = static_cast<double>(x), r = uniform(mix(bits));
    const double spike = value * (sizeof(T) == 2 ? exp2(4 + 2 * r) : exp10(3 + r));
    const double most = fmax(0x1p14, fabs(value));
    return static_cast<T>(fmin(fmax(spike, -most), most));
}

// Less by one of its like: about half below zero, and some between one below it and zero. Vectors stay what they are.
template <class T>
__device__ T centred(const Source<T>& source, u64 i, u64 seed) {
    const u64 vectors = source.count / 4;
    const u64 other = vectors ? mix(seed) % vectors * 4 + i % 4 : 0;
    const double zero = static_cast<double>(source[other]);
    return isfinite(zero) ? static_cast<T>(static_cast<double>(source[i]) - zero) : source[i];
}

// Of runs of 64 a third stays, half of another third is what `limit` holds, and all of the rest: whatever part of a row
// one thread has, there are rows in which that part is nothing else, and the row is.
template <class T>
__device__ T endmost(const Source<T>& source, u64 i, u64 seed) {
    const u64 run = mix(seed + i / 64) % 3;
    const bool stands = run == 2 || (run == 1 && mix(seed ^ i) >> 63);
    return stands ? static_cast<T>(__longlong_as_double(static_cast<long long>(source.limit))) : source[i];
}

template <class T>
__device__ T varied(const Source<T>& source, u64 i, unsigned kind, u64 seed) {
    const u64 bits = mix(seed + i);
    if (kind == 38) return centred(source, i, seed);
    if (kind == 43) return endmost(source, i, seed);
    if (kind == 3) return filled_zero(source, i, seed);
    if (kind == 5) return blanked(source, i, seed);
    if (kind == 27) return is_void(source, i, seed) ? static_cast<T>(__longlong_as_double(static_cast<long long>(source.limit))) : source[i];
    if (kind == 26) return bits % 16 ? source[i] : static_cast<T>(__longlong_as_double(static_cast<long long>(source.limit)));
    if (kind == 25) return !is_void(source, i, seed) ? source[i] : source.limit ? static_cast<T>(__longlong_as_double(static_cast<long long>(source.limit))) : no_number<T>(bits);
    if (kind == 28) return is_striped(source, i, seed) ? static_cast<T>(0.0) : source[i];
    if (kind == 31) return vast(source, i, seed);
    if (kind == 35) return nearly(source, i, seed);
    if (kind == 36) return halfway(source[i], bits);
    if (kind == 6 || kind == 22) return special(source, i, seed, kind == 22);
    if (kind == 23) return source[mix(seed + bits % 4) % source.count];
    if (kind == 13) return (i * 2 < source.count) == bool(seed >> 63) ? static_cast<T>(0.0) : source[i];
    if (kind == 14) return static_cast<T>(0.0);
    if (kind == 18) return static_cast<T>(static_cast<double>(source[i]) + 1000);
    return kind == 2 ? signed_value(source[i], bits) : spiked(source[i], bits);
}

// One less than what is above zero, as it is where the type is signed.
template <class T>
__device__ T lessened(T value, bool half) {
    if (half) return value / 2;
    return value && !(value >> (8 * sizeof(T) - 1)) ? value - 1 : value;
}

// Keys of which a part is the same in all or in most, or that are in order: few bits set, the lower half alone or the upper
// one alone drawn, four bits the same in all, rising, falling; with their neighbours' values now and then.
template <class T>
__device__ T in_fields(u64 i, u64 count, u64 way, u64 seed) {
    const u64 drawn = mix(seed + i), same = mix(seed ^ 0x5bd1e995), half = 4 * sizeof(T);
    const u64 lower = (u64{1} << half) - 1, field = u64{15} << same % (2 * half / 4) * 4;
    // without its sign, of which order may be another one
    const u64 step = (static_cast<T>(-1) >> 1) / (count ? count : 1), place = i - (drawn >> 60 == 0 && i);
    switch (way) {
        case 0: return static_cast<T>(drawn & mix(drawn) & mix(drawn + 1) & mix(drawn + 2) & mix(drawn + 3));
        case 1: return static_cast<T>((drawn & lower) | (same & ~lower));
        case 2: return static_cast<T>((drawn & ~lower) | (same & lower));
        case 3: return static_cast<T>((drawn & ~field) | (same & field));
        case 4: return static_cast<T>(place * step);
        default: return static_cast<T>((count - 1 - place) * step);
    }
}

// Text as others write it: letters of the other case, all of a stretch or a few, neighbours in each other's place, and
// here and there the character before or behind.
template <class T>
__device__ T spelled(const Source<T>& source, u64 i, u64 way, u64 seed) {
    const auto is = [&](u64 at, bool digits) {
        const T upper = source[at] & static_cast<T>(~0x20);
        return (upper >= 'A' && upper <= 'Z') || (digits && source[at] >= '0' && source[at] <= '9');
    };
    if (way == 6) {
        const bool all = mix((seed >> 32) + i / 64) % 4 == 0;
        return is(i, false) && (all || mix(seed + i) % 8 == 0) ? source[i] ^ T(0x20) : source[i];
    }
    if (way == 8) {
        const u64 drawn = mix(seed + i);
        return static_cast<T>(drawn % 8 ? source[i] : source[i] + (drawn >> 63 ? 1 : -1));
    }
    const u64 odd = seed & 1, pair = (i + odd) / 2, other = ((i + odd) ^ 1) - odd;
    const bool turns = other < source.count && mix(seed + pair) % 4 == 0 && is(i, true) && is(other, true);
    return source[turns ? other : i];
}

// Limbs through which carries go far: in runs zero or all ones, in every other buffer the other one, so that their sums are
// all ones; a few, or more of them, that are zero, one or all ones whatever the others are. Else all of them the largest, or the lowest.
template <class T>
__device__ T at_brim(u64 i, u64 way, u64 seed) {
    constexpr T full = static_cast<T>(-1), lowest = static_cast<T>(T(1) << (8 * sizeof(T) - 1));
    if (way && way < 5) return way < 3 ? full : way == 3 ? lowest : static_cast<T>(full >> 1);
    const u64 own = mix(seed + i), common = mix((seed >> 32) + i / 64);
    if (own % (common >> 32 & 1 ? 64 : 8) == 0) return static_cast<T>(own >> 32 & 1 ? 1 : own >> 33 & 1 ? full : 0);
    return (common ^ seed) & 1 ? full : T(0);
}

// Links that lead to an end: each to the place before its own, up to the first of a row of them, or to one of a few before
// it, or to any behind it. What is below zero leads nowhere and stays.
template <class T>
__device__ T linked(const Source<T>& source, u64 i, u64 way, u64 bits) {
    constexpr u64 row = 256, few = 64;
    if (source[i] >> (8 * sizeof(T) - 1)) return source[i];
    if (way == 0) return static_cast<T>(i % row ? i - 1 : i);
    if (way == 1) return static_cast<T>(i ? i - 1 - bits % (i < few ? i : few) : i);
    return static_cast<T>(i + 1 < source.count ? i + 1 + bits % (source.count - 1 - i) : i);
}

template <class T>
__device__ T varied_integer(const Source<T>& source, u64 i, unsigned kind, u64 seed) {
    const u64 bits = mix(seed + i);
    switch (kind) {
        case 0: return source[bits % source.count];
        case 1: return source[permuted(i, source.count, seed)];
        case 7: return bits >> 62 ? source[i] : static_cast<T>(bits & 1);
        case 8: return bits >> 60 ? source[mix(seed) % source.count] : source[i];
        case 9: return static_cast<T>(bits % source.limit);
        case 10: return static_cast<T>(bits);
        case 15: return 0;
        case 16: {
            // two to four times, here and there far more often: rows that are longer than any; what stood first, last
            // or between
            const u64 part = mix(seed + i / 256), many = part >> 62 ? 2 + seed % 3 : 16u << 2 * ((part >> 8) % 3);
            const u64 begin = i - i % many, at = begin + (seed >> 8) % many;
            return source[at < source.count ? at : source.count - 1];
        }
        case 34: return bits % 16 ? source[i] : source[mix(bits) % source.count];
        case 17: return source[i] ? source[i] : 1;
        case 19: return source[i] > 0 && source[i] <= 64 ? static_cast<T>(source[i] * 2 + 1) : source[i];
        case 20: {
            // `limit` is where they stand: how many, and each
            const long long* given = reinterpret_cast<const long long*>(source.limit);
            const bool few = seed >> 62 & 1;
            if (few != (bits >> 62 == 0)) return source[i];
            // four symbols, the same for all buffers of one seed's upper half: two that are asked for, and each with a
            // bit turned
            // or, in one buffer alone, all that are asked for
            const u64 symbol = source.period ? (bits >> 8) % (2 * given[0]) : bits % 4;
            const u64 pair = source.period ? symbol / 2 | mix(seed) << 60 : mix((seed >> 32) + symbol / 2);
            const u64 turned = symbol % 2 ? 1ull << (pair >> 60) % 8 : 0;
            return static_cast<T>(static_cast<u64>(given[1 + (source.period ? symbol / 2 : pair % given[0])]) ^ turned);
        }
        case 26: return bits % 16 ? source[i] : static_cast<T>(source.limit);
        case 29: return bits >> 63 ? static_cast<T>(0 - source[i]) : source[i];
        // counts, mostly, of which the last ones may lead no further
        case 32: return 2 * i < source.count && bits >> 60 == 0 && source[i] > 0 && source[i] <= 64 ? static_cast<T>(source[i] * (2 + bits % 15)) : source[i];
        case 30: {
            const u64 most = 1 + seed % 3, risen = static_cast<u64>(source[0]) + i * most + bits % (most + 1);
            return static_cast<T>(risen < source[source.count - 1] ? risen : source[source.count - 1]);
        }
        case 37:
            if (source.limit >= 6) return spelled(source, i, source.limit, seed);
            return in_fields<T>(i, source.count, source.limit, seed);
        case 40: return at_brim<T>(i, source.limit, seed);
        case 41: return linked(source, i, source.limit, bits);
        case 39: return bits >> 62 ? source[i] : static_cast<T>(source[i] | (bits & source.limit));
        // numbers of fewer bits, shorter lengths: what lies below zero stays
        case 42: return source[i] >> (8 * sizeof(T) - 1) ? source[i] : static_cast<T>(bits % (u64{source[i]} + 1));
        case 24: return source[i] <= 64 ? static_cast<T>(source[i] + 1) : source[i];
        // keys that share all that 32 bits hold
        case 33: return bits >> 62 ? source[i] : static_cast<T>(source[bits % 2 ? i : mix(bits) % source.count] ^ u64{1} << (33 + bits / 2 % 28));
        case 21: return bits >> 62 ? source[i] : static_cast<T>(-1);
        default: return lessened(source[i], kind == 12);
    }
}

#define WARPLENS_VARY(name, type, how)                                                                        \
    extern "C" __global__ void name(type* data, u64 count, const type* from, unsigned kind, u64 seed, u64 stride, \
                                    u64 limit, u64 period) {                                                  \
        const Source<type> source{from, count, stride, limit, period};                                        \
        for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) \
            element(data, i, stride) = how(source, i, kind, seed);                                            \
    }
WARPLENS_VARY(warplens_vary_f64, double, varied)
WARPLENS_VARY(warplens_vary_f32, float, varied)
WARPLENS_VARY(warplens_vary_f16, __half, varied)
WARPLENS_VARY(warplens_vary_bf16, __nv_bfloat16, varied)
WARPLENS_VARY(warplens_vary_i8, unsigned char, varied_integer)
WARPLENS_VARY(warplens_vary_i16, unsigned short, varied_integer)
WARPLENS_VARY(warplens_vary_i32, unsigned, varied_integer)
WARPLENS_VARY(warplens_vary_i64, u64, varied_integer)

// Leaves nothing of what an earlier launch had in shared memory: as many blocks as fit, each with all it may have.
extern "C" __global__ void warplens_scrub_shared(unsigned words, unsigned pattern, unsigned* sink) {
    extern __shared__ unsigned shared[];
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = pattern + i;
    __syncthreads();
    if (shared[threadIdx.x % (words ? words : 1)] == ~pattern && words > 1u << 30) *sink = 1;
}

// Likewise in local memory, a thread's first bytes of it.
template <unsigned kWords>
__device__ void scrub_local(unsigned pattern, unsigned* sink) {
    volatile unsigned local[kWords];
    for (unsigned i = 0; i < kWords; ++i) local[i] = pattern + i;
    if (local[threadIdx.x % kWords] == pattern - 1) *sink = 1;
}
extern "C" __global__ void warplens_scrub_local_256(unsigned pattern, unsigned* sink) { scrub_local<64>(pattern, sink); }
extern "C" __global__ void warplens_scrub_local_1024(unsigned pattern, unsigned* sink) { scrub_local<256>(pattern, sink); }
extern "C" __global__ void warplens_scrub_local_4096(unsigned pattern, unsigned* sink) { scrub_local<1024>(pattern, sink); }

// And in registers: a block of as many threads as leave each some 250 has a multiprocessor's whole file. All are needed
// from one turn to the next, of which the compiler does not know how many there are.
extern "C" __global__ void __launch_bounds__(256, 1) warplens_scrub_registers(unsigned pattern, unsigned turns, unsigned* sink) {
    constexpr unsigned count = 240;
    unsigned held[count];
#pragma unroll
    for (unsigned i = 0; i < count; ++i) held[i] = pattern + i * threadIdx.x;
    for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (unsigned i = 0; i < count; ++i) held[i] = held[i] * 3 + held[(i * 7 + 5) % count];
    }
    unsigned all = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) all ^= held[i];
    if (all == ~pattern && turns > 1u << 30) *sink = 1;
}

#include "results.cuh"
