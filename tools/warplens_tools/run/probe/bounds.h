// SPDX-License-Identifier: Apache-2.0
// The formulas of `rounding.h` for one result, the same for the host and for the probe's own kernels.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define WARPLENS_BOTH __host__ __device__ inline
#else
#define WARPLENS_BOTH inline
#endif

namespace warplens {

constexpr double kBySpread = 4, kCoarsely = 16, kByCommon = 8;
// Structures of 2, 3, 4, 6 and 12 fields repeat within it.
constexpr std::size_t kFields = 12;
// Which results share a pool: four powers of two.
constexpr std::size_t kPools = 528;
// A 16-bit result of arithmetic that is finer lies within half a unit of what it was rounded from, so that B, a half of
// three such, is half a unit at most. Beyond it the baseline's own arithmetic is as coarse as its results.
constexpr float kRough = 0.75f;

// What results of about the same size have in common.
struct Pool {
    float magnitude = 0, bend = 0;     // the median A, a quarter of it; the median B
    float spread = 0;                  // what nine in ten results' repeats stay below
    float jump = 0;                    // the largest B beyond a bound
    float rough = 0;                   // of 16-bit results: what nine in ten B are below, in units in the last place
    std::uint32_t jumps = 0;           // how many results B carries beyond their bound
};

struct Bound {
    double within = 0;                 // every result
    double coarse = 0;                 // nine in ten; infinite where nothing was learned
    double lowered = 0;                // every one of a candidate that may lower the precision; 0: none may
    double jump = 0;                   // few, see `jumps_allowed`
};

// A result's magnitude and noise, its own or what its pool has, whichever is more.
struct Scale {
    double magnitude, noise;
};

// What is the same for all results of a stretch.
struct Manner {
    double walk = 0, unit = 0;         // F u sqrt(L), or what stands in its place; u
    double tiniest = 0;                // below it results may be flushed to zero
    double lowered = 0;                // relative error of each term that an allowed lower precision may leave
    double sure = 0;                   // a relative error within which every result is right, and rounded finely
    std::uint32_t format = 0;          // of results of 16 bits: 1 half, 2 bfloat16
    std::uint32_t learned = 0;         // how coarsely all is rounded is judged
    std::uint32_t noisy = 0;           // the baseline's repeats differ
};

// Half a unit in the last place of a 16-bit result, which was rounded to it once.
WARPLENS_BOTH double rounding_of_result(std::uint32_t format, double value) {
    const double size = std::fabs(value);
    if (format == 1) return 0x1p-11 * (size > 0x1p-14 ? size : 0x1p-14);
    return format == 2 ? 0x1p-8 * size : 0;
}

WARPLENS_BOTH bool is_finite(double value) { return std::fabs(value) <= 1.7976931348623157e308; }
WARPLENS_BOTH double larger(double a, double b) { return a > b ? a : b; }

WARPLENS_BOTH std::size_t pool_of(double value) {
    if (value == 0 || !is_finite(value)) return 0;
    return static_cast<std::size_t>((std::ilogb(value) + 1080) / 4) + 1;
}

// Of a result that repeats do not change.
WARPLENS_BOTH Scale scale_by(double value, double magnitude, double bend, const Pool* pool) {
    const Scale own{larger(std::fabs(value), magnitude), bend};
    return pool ? Scale{larger(own.magnitude, pool->magnitude), larger(own.noise, pool->bend)} : own;
}

// `pool`: nullptr where nothing was learned; `common`: C of the result's field, 0 where there is none.
WARPLENS_BOTH Bound bound_by(const Manner& m, double value, const Scale& s, const Pool* pool, double common) {
    const double result = rounding_of_result(m.format, value), least = m.tiniest + kByCommon * m.unit * common;
    // of results that differ from run to run nine in ten stay within so many of their spreads, which are two to three
    // standard deviations
    const double noise = m.noisy ? 3 : kCoarsely;
    Bound bound;
    bound.within = m.walk * s.magnitude + kBySpread * (s.noise + result) + least;
    bound.coarse = m.learned ? kCoarsely * m.unit * s.magnitude + noise * s.noise + least : HUGE_VAL;
    if (result > 0) {
        // B holds the rounding of the results, which are one rounding off at most where the arithmetic is as fine
        const bool fine = m.learned && !m.noisy && pool && pool->rough < kRough;
        bound.coarse = fine ? kCoarsely * m.unit * s.magnitude + result + least : HUGE_VAL;
    }
    bound.lowered = m.lowered > 0 ? bound.within + 4 * m.lowered * s.magnitude : 0;
    // one of R+ and R- jumped, so B is half of it
    bound.jump = pool ? 4.0 * pool->jump : 0;
    return bound;
}

// Where a result lies that is finite and not within `Manner::sure`.
enum class Place { within, lowered, jump, beyond };
WARPLENS_BOTH Place place_of(double off, double ratio, const Bound& bound) {
    if (ratio <= 1) return Place::within;
    if (off <= bound.lowered) return Place::lowered;
    return off <= bound.jump ? Place::jump : Place::beyond;
}
WARPLENS_BOTH double ratio_of(double off, const Bound& bound) { return off == 0 ? 0 : bound.within > 0 ? off / bound.within : 1e30; }

// A root mean square that is grown one pair of moved runs at a time, and B; `unit` is 2 d rms(r).
WARPLENS_BOTH void add_pair(double value, double high, double low, double unit, int pairs, float& magnitude, float& bend) {
    if (!is_finite(value) || !is_finite(high) || !is_finite(low)) return;
    constexpr double most = 3.4028234663852886e38;
    const double a = (high - low) / unit, grown = std::sqrt(double(magnitude) * magnitude + a * a / pairs);
    const double bent = std::fabs((high - value) + (low - value)) / 2;
    magnitude = static_cast<float>(grown < most ? grown : most);
    bend = static_cast<float>(larger(bend, bent < most ? bent : most));
}

// What the card says of one stretch, or a block of threads of a part of it.
struct Share {
    double expected = 0, got = 0, difference = 0;  // sums of squares
    double ratio = 0, jump = 0;        // the largest in units of its bound; of those that jumped
    std::uint64_t compared = 0, coarse = 0, wrong = 0, differing = 0, jumps = 0;
};

WARPLENS_BOTH Share joined(const Share& a, const Share& b) {
    Share both;
    both.expected = a.expected + b.expected;
    both.got = a.got + b.got;
    both.difference = a.difference + b.difference;
    both.ratio = larger(a.ratio, b.ratio);
    both.jump = larger(a.jump, b.jump);
    both.compared = a.compared + b.compared;
    both.coarse = a.coarse + b.coarse;
    both.wrong = a.wrong + b.wrong;
    both.differing = a.differing + b.differing;
    both.jumps = a.jumps + b.jumps;
    return both;
}

// What kernels count that have no more to say of a stretch.
struct Counts {
    unsigned long long found = 0, large = 0, largest = 0;  // `largest`: the bits of a double
};

// The arguments of the kernels that weigh: device addresses, 0 for what there is not.
struct Weighing {
    std::uint64_t right = 0, got = 0, magnitude = 0, bend = 0, written = 0, pools = 0, common = 0, jumps = 0;
    std::uint64_t count = 0;
    Manner manner;
};

}  // namespace warplens
