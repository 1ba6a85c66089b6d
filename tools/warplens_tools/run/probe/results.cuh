// SPDX-License-Identifier: Apache-2.0
// Results weighed where they lie: what differs, what was written, how far rounding moves them. For kernels.cu.
#pragma once

#include "bounds.h"

namespace weighed {

using warplens::Counts;
using warplens::Share;
using warplens::Weighing;

// A block's share of its threads' ones, of which there are `threads`; each kernel has `parts` of its own to join them in.
constexpr unsigned threads = 256;
__device__ inline void leave(const Share& mine, Share* parts, Share* out) {
    parts[threadIdx.x] = mine;
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] = warplens::joined(parts[threadIdx.x], parts[threadIdx.x + half]);
    }
    if (!threadIdx.x) out[blockIdx.x] = parts[0];
}

// What few threads have to say: no need to meet for it.
__device__ inline void count(u64 found, u64& all) {
    if (found) atomicAdd(&all, found);
}

#define WARPLENS_EACH(i, count) \
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)

// Elements of `width` bytes that differ from what lay there are written; how many never were is found.
template <class T>
__device__ void mark(const T* before, const T* after, unsigned char* written, u64 elements, Counts* all) {
    u64 never = 0;
    WARPLENS_EACH(i, elements) {
        if (before[i] != after[i]) written[i] = 1;
        never += !written[i];
    }
    count(never, all->found);
}

// Elements that differ from one, or from both of two.
template <class T>
__device__ void differ(const T* now, const T* one, const T* other, u64 elements, Counts* all) {
    u64 found = 0;
    WARPLENS_EACH(i, elements) found += now[i] != one[i] && now[i] != other[i];
    count(found, all->found);
}

// As `count_unclean`: all are found, and counted as large those that are finite; and the largest finite one.
template <class T>
__device__ void unclean(const T* data, u64 elements, double most, Counts* all) {
    u64 found = 0, large = 0;
    double largest = 0;
    WARPLENS_EACH(i, elements) {
        const double size = fabs(static_cast<double>(data[i]));
        found += !(size < most);
        large += !(size < most) && isfinite(size);
        if (isfinite(size)) largest = fmax(largest, size);
    }
    count(found, all->found);
    count(large, all->large);
    // of numbers that are not below zero the order is that of their bits
    if (largest > 0) atomicMax(&all->largest, static_cast<u64>(__double_as_longlong(largest)));
}

// As `poison` in compare.cpp: random bits with an exponent that makes them finite and of no telling size.
template <class T>
__device__ void poison(T* data, const unsigned char* written, u64 count, u64 seed, T kept, T exponent) {
    WARPLENS_EACH(i, count) if (written[i]) data[i] = static_cast<T>((static_cast<T>(mix(seed + i)) & kept) | exponent);
}

// The lowest bit of each word: an integer that is read after all, as an index, stays in its array.
__device__ inline void poison_bytes(unsigned char* data, const unsigned char* written, u64 count) {
    WARPLENS_EACH(i, count) if (written[i] && i % 4 == 0) data[i] ^= 1;
}

template <class T>
__device__ void outgrow(T* data, const unsigned char* written, u64 count, double wanted) {
    WARPLENS_EACH(i, count) if (written[i]) data[i] = static_cast<T>(copysign(wanted, static_cast<double>(data[i])));
}

template <class T>
__device__ void moved(const T* right, const T* up, const T* down, float* magnitude, float* bend, u64 count, double unit, int pairs, int first) {
    WARPLENS_EACH(i, count) {
        float a = first ? 0 : magnitude[i], b = first ? 0 : bend[i];
        warplens::add_pair(static_cast<double>(right[i]), static_cast<double>(up[i]), static_cast<double>(down[i]), unit, pairs, a, b);
        magnitude[i] = a, bend[i] = b;
    }
}

// Every so many, side by side.
template <class T>
__device__ void sample(const T* from, T* to, u64 step, u64 count) {
    WARPLENS_EACH(i, count) to[i] = from[i * step];
}

__device__ inline void at_least(float* place, float value) {
    // of numbers that are not below zero the order is that of their bits
    atomicMax(reinterpret_cast<unsigned*>(place), __float_as_uint(value));
}

// Results that B carries beyond what else bounds them, by pool: as `find_jumps`.
template <class T>
__device__ void find_jumps(const Weighing& w) {
    const T* right = reinterpret_cast<const T*>(w.right);
    const auto* written = reinterpret_cast<const unsigned char*>(w.written);
    const auto *magnitude = reinterpret_cast<const float*>(w.magnitude), *bend = reinterpret_cast<const float*>(w.bend), *common = reinterpret_cast<const float*>(w.common);
    const auto* pools = reinterpret_cast<const warplens::Pool*>(w.pools);
    auto* jumps = reinterpret_cast<warplens::Pool*>(w.jumps);
    WARPLENS_EACH(i, w.count) {
        const double value = static_cast<double>(right[i]), own = bend[i];
        if (2 * own <= w.manner.walk * fabs(value) || !written[i]) continue;
        const u64 pool = warplens::pool_of(value);
        const warplens::Scale scale = warplens::scale_by(value, magnitude[i], 0, &pools[pool]);
        if (2 * own <= warplens::bound_by(w.manner, value, scale, &pools[pool], common[i % warplens::kFields]).within) continue;
        // a jump may also change a result's pool: its neighbours are asked as well
        for (u64 p = pool ? pool - 1 : 0; p <= pool + 1 && p < warplens::kPools; ++p) {
            at_least(&jumps[p].jump, bend[i]);
            atomicAdd(&jumps[p].jumps, 1u);
        }
    }
}

// As `compare_element`, of results that are compared whatever they are.
template <class T>
__device__ void weigh_one(const Weighing& w, u64 i, Share& mine) {
    const T* rights = reinterpret_cast<const T*>(w.right);
    const T* gots = reinterpret_cast<const T*>(w.got);
    const double right = static_cast<double>(rights[i]), value = static_cast<double>(gots[i]);
    const bool equal = [&] {
        const auto *a = reinterpret_cast<const unsigned char*>(rights + i), *b = reinterpret_cast<const unsigned char*>(gots + i);
        for (unsigned byte = 0; byte < sizeof(T); ++byte)
            if (a[byte] != b[byte]) return false;
        return true;
    }();
    mine.differing += !equal;
    if (!reinterpret_cast<const unsigned char*>(w.written)[i]) {
        mine.wrong += !equal;
        return;
    }
    const bool finite = warplens::is_finite(right) && warplens::is_finite(value);
    if (finite) {
        mine.expected += right * right;
        mine.got += value * value;
        mine.difference += (value - right) * (value - right);
    }
    ++mine.compared;
    if (equal || (isnan(right) && isnan(value))) return;
    if (!finite) {
        ++mine.wrong;
        return;
    }
    const double off = fabs(value - right), size = fabs(right);
    if (off <= w.manner.sure * size && size > 0) {
        mine.ratio = fmax(mine.ratio, off / (w.manner.walk * size));
        return;
    }
    const u64 pool_number = warplens::pool_of(right);
    const auto* pool = w.pools ? reinterpret_cast<const warplens::Pool*>(w.pools) + pool_number : nullptr;
    const double magnitude = w.magnitude ? reinterpret_cast<const float*>(w.magnitude)[i] : 0, bend = w.bend ? reinterpret_cast<const float*>(w.bend)[i] : 0;
    const double common = w.common ? reinterpret_cast<const float*>(w.common)[i % warplens::kFields] : 0;
    const warplens::Bound bound = warplens::bound_by(w.manner, right, warplens::scale_by(right, magnitude, bend, pool), pool, common);
    const double ratio = warplens::ratio_of(off, bound);
    const warplens::Place place = warplens::place_of(off, ratio, bound);
    mine.coarse += off > bound.coarse;
    if (place == warplens::Place::jump) {
        atomicAdd(&reinterpret_cast<warplens::Pool*>(w.jumps)[pool_number].jumps, 1u);
        ++mine.jumps;
        mine.jump = fmax(mine.jump, ratio);
        return;
    }
    mine.ratio = fmax(mine.ratio, ratio);
    mine.wrong += place != warplens::Place::within;
}

template <class T>
__device__ void weigh(const Weighing& w, Share* parts, Share* out) {
    Share mine;
    WARPLENS_EACH(i, w.count) weigh_one<T>(w, i, mine);
    leave(mine, parts, out);
}

}  // namespace weighed

#define WARPLENS_RESULTS(name, type)                                                                                        \
    extern "C" __global__ void warplens_unclean_##name(const type* data, u64 count, double most, warplens::Counts* all) {    \
        weighed::unclean(data, count, most, all);                                                                           \
    }                                                                                                                       \
    extern "C" __global__ void warplens_moved_##name(const type* right, const type* up, const type* down, float* magnitude,  \
                                                     float* bend, u64 count, double unit, int pairs, int first) {           \
        weighed::moved(right, up, down, magnitude, bend, count, unit, pairs, first);                                        \
    }                                                                                                                       \
    extern "C" __global__ void warplens_jumps_##name(const __grid_constant__ warplens::Weighing w) {                         \
        weighed::find_jumps<type>(w);                                                                                       \
    }                                                                                                                       \
    extern "C" __global__ void warplens_weigh_##name(const __grid_constant__ warplens::Weighing w, warplens::Share* out) {   \
        __shared__ warplens::Share parts[weighed::threads];                                                                 \
        weighed::weigh<type>(w, parts, out);                                                                                \
    }
WARPLENS_RESULTS(f64, double)
WARPLENS_RESULTS(f32, float)
WARPLENS_RESULTS(f16, __half)
WARPLENS_RESULTS(bf16, __nv_bfloat16)

#define WARPLENS_POISON(name, type, bits, kept, exponent)                                                                  \
    extern "C" __global__ void warplens_poison_##name(bits* data, const unsigned char* written, u64 count, u64 seed) {       \
        weighed::poison<bits>(data, written, count, seed, kept, exponent);                                                  \
    }                                                                                                                       \
    extern "C" __global__ void warplens_outgrow_##name(type* data, const unsigned char* written, u64 count, double wanted) { \
        weighed::outgrow(data, written, count, wanted);                                                                     \
    }
WARPLENS_POISON(f64, double, u64, 0x80ffffffffffffffull, 0x3fe0000000000000ull)
WARPLENS_POISON(f32, float, unsigned, 0x80ffffffu, 0x3f800000u)
WARPLENS_POISON(f16, __half, unsigned short, 0x83ff, 0x3c00)
WARPLENS_POISON(bf16, __nv_bfloat16, unsigned short, 0x80ff, 0x3f80)
extern "C" __global__ void warplens_poison_bytes(unsigned char* data, const unsigned char* written, u64 count, u64) {
    weighed::poison_bytes(data, written, count);
}

// A bit far up in words that are written and are, after a launch, what they were.
extern "C" __global__ void warplens_turn_far(unsigned char* data, const unsigned char* lay, const unsigned char* becomes,
                                             const unsigned char* written, u64 words, warplens::Counts* all) {
    u64 found = 0;
    WARPLENS_EACH(i, words) {
        bool stays = written[4 * i];
        for (unsigned byte = 0; byte < 4; ++byte) stays = stays && lay[4 * i + byte] == becomes[4 * i + byte];
        if (!stays) continue;
        data[4 * i + 3] ^= 0x40;
        ++found;
    }
    weighed::count(found, all->found);
}

#define WARPLENS_WIDTH(bytes, type)                                                                                        \
    extern "C" __global__ void warplens_mark_##bytes(const type* before, const type* after, unsigned char* written, u64 count, \
                                                     warplens::Counts* all) {                                               \
        weighed::mark(before, after, written, count, all);                                                                  \
    }                                                                                                                       \
    extern "C" __global__ void warplens_differ_##bytes(const type* now, const type* one, const type* other, u64 count,       \
                                                       warplens::Counts* all) {                                             \
        weighed::differ(now, one, other, count, all);                                                                       \
    }                                                                                                                       \
    extern "C" __global__ void warplens_sample_##bytes(const type* from, type* to, u64 step, u64 count) {                    \
        weighed::sample(from, to, step, count);                                                                             \
    }
WARPLENS_WIDTH(1, unsigned char)
WARPLENS_WIDTH(2, unsigned short)
WARPLENS_WIDTH(4, unsigned)
WARPLENS_WIDTH(8, u64)
