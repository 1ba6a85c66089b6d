// SPDX-License-Identifier: Apache-2.0
#include "rounding.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "parallel.h"

namespace warplens {
namespace {

constexpr std::size_t kBlock = 4096;
// No honest launch adds up more terms one after the other where the baseline's order is the scheduler's.
constexpr double kLongest = 4096;
// A launch that makes a result every few nanoseconds still has time for this many additions each.
constexpr double kShortest = 16;

float narrow(double value) { return static_cast<float>(std::min(value, double(FLT_MAX))); }

// Below the smallest normal number results may be flushed to zero.
double tiniest(Element element) {
    switch (element) {
        case Element::f64: return DBL_MIN;
        case Element::f32: return FLT_MIN;
        default: return 0;
    }
}

std::uint32_t format_of(Element element) { return element == Element::f16 ? 1 : element == Element::bf16 ? 2 : 0; }

// The size at which a unit in the last place is that of the value.
double power_below(double value) { return value && std::isfinite(value) ? std::exp2(std::ilogb(value)) : 0; }

double value_at(const Expected& e, std::size_t i) {
    return load(e.element, e.bytes.data() + i * element_size(e.element));
}

Scale scale_of(const Expected& e, std::size_t i, double value) {
    const double magnitude = e.magnitude.empty() ? 0 : e.magnitude[i], bend = e.bend.empty() ? 0 : e.bend[i];
    if (e.spread.empty()) return scale_by(value, magnitude, bend, e.pools.empty() ? nullptr : &e.pools[pool_of(value)]);
    Scale s = scale_by(value, magnitude, std::max(bend, double(e.spread[i])), nullptr);
    if (e.pools.empty()) return s;
    const Pool& pool = e.pools[pool_of(value)];
    s.magnitude = std::max(s.magnitude, double(pool.magnitude));
    // B holds the spread again, once per run it was made of: only what is well beyond it is the inputs' doing
    const double spread = std::max(double(e.spread[i]), double(pool.spread));
    auto beyond = [&](double bend) { return bend > 3 * spread ? bend : spread; };
    return {s.magnitude, std::max(beyond(bend), beyond(pool.bend))};
}

double roundoff_of(const Expected& e) { return unit_roundoff(e.widened ? Element::f32 : e.element); }

double walk(const Expected& e, const Tolerance& t) {
    const double length = e.spread.empty() ? t.length : std::min(t.length, kLongest);
    const double walked = t.factor * std::sqrt(std::max(length, kShortest));
    return roundoff_of(e) * (e.alike ? std::max(walked, std::min(t.terms, kLongest)) : walked);
}

// Every so many elements are looked at for what is common to many; shares no factor with a structure's fields.
std::size_t stride(std::size_t count) { return count / (1u << 20) * kFields + 1; }

// A sample of at most `most` values per pool, every one equally likely to be in it.
class Sampler {
   public:
    void add(std::size_t pool, float value) {
        auto& kept = kept_[pool];
        if (kept.size() < most) {
            kept.push_back(value);
        } else {
            state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
            const std::uint64_t at = (state_ >> 33) % seen_[pool];
            if (at < most) kept[at] = value;
        }
        ++seen_[pool];
    }
    float quantile(std::size_t pool, double share) {
        auto& kept = kept_[pool];
        if (kept.empty()) return 0;
        auto at = kept.begin() + static_cast<long>(static_cast<double>(kept.size()) * share);
        std::nth_element(kept.begin(), at, kept.end());
        return *at;
    }

   private:
    static constexpr std::size_t most = 1024;
    std::vector<std::vector<float>> kept_ = std::vector<std::vector<float>>(kPools);
    std::vector<std::uint64_t> seen_ = std::vector<std::uint64_t>(kPools, 0);
    std::uint64_t state_ = 1;
};

using Jumps = std::vector<Pool>;

void add_jump(Jumps& jumps, std::size_t pool, float bend) {
    // a jump may also change a result's pool: its neighbours are asked as well
    for (std::size_t p = std::max<std::size_t>(pool, 1) - 1; p <= std::min(pool + 1, kPools - 1); ++p) {
        jumps[p].jump = std::max(jumps[p].jump, bend);
        ++jumps[p].jumps;
    }
}

// Counts the results that B carries beyond what else bounds them.
void find_jumps(Expected& e, const Tolerance& t) {
    Floats own = std::move(e.bend);
    e.bend.clear();
    std::vector<Jumps> found(16, Jumps(kPools));
    const Manner manner = manner_of(e, t);
    in_parallel(own.size(), kBlock, found.size(), [&](std::size_t begin, std::size_t end, std::size_t part) {
        for (std::size_t i = begin; i < end; ++i) {
            const double value = value_at(e, i);
            if (2 * own[i] <= manner.walk * std::fabs(value) || !(*e.written)[i]) continue;
            if (2 * own[i] > bound_of(e, manner, i, value).within) add_jump(found[part], pool_of(value), own[i]);
        }
    }, kArithmetic);
    for (const Jumps& jumps : found)
        for (std::size_t p = 0; p < kPools; ++p) {
            e.pools[p].jump = std::max(e.pools[p].jump, jumps[p].jump);
            e.pools[p].jumps += jumps[p].jumps;
        }
    e.bend = std::move(own);
}

}  // namespace

double unit_roundoff(Element element) { return element == Element::f64 ? 0x1p-53 : 0x1p-24; }

// Large against the rounding of the inputs and of the arithmetic, small against 1.
double input_move(Element element) {
    switch (element) {
        case Element::f64: return 0x1p-30;
        case Element::f32: return 0x1p-14;
        case Element::f16: return 0x1p-9;
        default: return 0x1p-6;
    }
}

Manner manner_of(const Expected& e, const Tolerance& t) {
    Manner m;
    m.walk = walk(e, t);
    m.unit = roundoff_of(e);
    m.tiniest = tiniest(e.element);
    m.lowered = t.lowered;
    m.sure = std::min(m.walk, kCoarsely * m.unit);
    m.format = format_of(e.element);
    m.learned = e.precise && !e.pools.empty();
    m.noisy = !e.spread.empty();
    return m;
}

Bound bound_of(const Expected& e, const Manner& m, std::size_t i, double value) {
    const Pool* pool = e.pools.empty() ? nullptr : &e.pools[pool_of(value)];
    return bound_by(m, value, scale_of(e, i, value), pool, e.common.empty() ? 0 : e.common[i % kFields]);
}

std::uint64_t jumps_allowed(const Expected& e, std::size_t pool) {
    if (e.pools.empty()) return 0;
    // the moves are some hundred times as large as roundings, and there were two to twelve of them
    const std::uint64_t seen = e.pools[pool].jumps;
    return seen / 8 + std::min<std::uint64_t>(seen, 2);
}

void add_repeat(Expected& e, const std::uint8_t* run) {
    if (!std::memcmp(e.bytes.data(), run, e.bytes.size())) return;
    const bool before = e.unordered || (e.repeats && e.spread.empty());
    bool permuted = before && same_elements(unit_of(e), e.bytes.data(), run, e.bytes.size());
    if (before && !permuted && e.whole) {
        // the kernel itself does not keep them together
        e.whole = 0;
        permuted = same_elements(unit_of(e), e.bytes.data(), run, e.bytes.size());
    }
    e.unordered = permuted;
    if (permuted) add_order(e, run);
    if (!is_floating(e.element)) {
        e.repeats = false;
        return;
    }
    const std::size_t size = element_size(e.element), count = e.bytes.size() / size;
    if (e.spread.empty()) e.spread.assign(count, 0);
    std::atomic<bool> repeats{true};
    in_parallel(count, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) {
            const double first = value_at(e, i), again = load(e.element, run + i * size);
            if (std::isfinite(first) && std::isfinite(again))
                e.spread[i] = std::max(e.spread[i], narrow(std::fabs(again - first)));
            else if (std::isnan(first) != std::isnan(again) || std::isinf(first) != std::isinf(again))
                repeats = false;
        }
    }, kArithmetic);
    e.repeats = e.repeats && repeats;
}

void judge_spread(Expected& e, const Tolerance& t) {
    // B is at least the spread, so it cannot say what of the spread is rounding
    Expected alone;
    alone.element = e.element;
    const Manner manner = manner_of(alone, t);
    std::atomic<bool> repeats{e.repeats};
    in_parallel(e.spread.size(), kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end && repeats; ++i) {
            // rounding of a reordered sum stays near its bound; another order of the elements does not
            const double summed = e.unordered || e.magnitude.empty() ? 0 : e.magnitude[i];
            if (e.spread[i] > 4 * bound_of(alone, manner, i, std::max(std::fabs(value_at(e, i)), summed)).within) repeats = false;
        }
    }, kArithmetic);
    e.repeats = repeats;
    if (e.repeats) e.unordered = false;
}

double growth(const Expected& from, const Expected& to) {
    double before = 0, after = 0;
    for (std::size_t i = 0; is_floating(from.element) && i < from.written->size(); i += stride(from.written->size())) {
        const double a = value_at(from, i), b = value_at(to, i);
        if (!std::isfinite(a) || !std::isfinite(b)) continue;
        before += a * a;
        after += b * b;
    }
    return before > 0 && std::isfinite(after) ? std::sqrt(after / before) : 1;
}

void add_moved(Expected& e, const std::uint8_t* up, const std::uint8_t* down, double move, int pairs) {
    if (!is_floating(e.element)) return;
    const std::size_t size = element_size(e.element), count = e.bytes.size() / size;
    const bool first = e.magnitude.empty();
    e.magnitude.resize(count);
    e.bend.resize(count);
    const double unit = unit_of_moves(move);
    in_parallel(count, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) {
            if (first) e.magnitude[i] = e.bend[i] = 0;
            add_pair(value_at(e, i), load(e.element, up + i * size), load(e.element, down + i * size), unit, pairs, e.magnitude[i], e.bend[i]);
        }
    }, kArithmetic);
}

void expect_pairs(Expected& e, int pairs, int more) {
    const auto part = static_cast<float>(std::sqrt(double(pairs) / more));
    for (float& value : e.magnitude) value *= part;
}

int pairs_for(std::size_t results) { return results < 1024 ? 6 : results < 16u << 20 ? 2 : 1; }

std::size_t sampling_step(std::size_t count) { return stride(count); }

// r uniform in [-1, 1] has variance 1/3
double unit_of_moves(double move) { return 2 * move / std::sqrt(3.0); }

void settle(Expected& e, const Tolerance& t) {
    if (e.bend.empty()) return;
    pool_up(e);
    find_jumps(e, t);
}

void pool_up(Expected& e) {
    Sampler magnitudes, bends, sizes, spreads, rough;
    const std::size_t step = stride(e.bend.size());
    for (std::size_t i = 0; i < e.bend.size(); i += step) {
        if (!(*e.written)[i]) continue;
        const double value = value_at(e, i);
        if (std::isfinite(value)) sizes.add(i % kFields, narrow(std::fabs(value)));
        const std::size_t pool = pool_of(value);
        magnitudes.add(pool, e.magnitude[i]);
        bends.add(pool, e.bend[i]);
        const double unit = 2 * rounding_of_result(format_of(e.element), power_below(value));
        if (unit > 0) rough.add(pool, narrow(e.bend[i] / unit));
        if (!e.spread.empty()) spreads.add(pool, e.spread[i]);
    }
    e.pools.assign(kPools, {});
    e.common.clear();
    for (std::size_t p = 0; p < kPools; ++p) {
        e.pools[p].magnitude = magnitudes.quantile(p, 0.5) / 4;
        e.pools[p].bend = bends.quantile(p, 0.5);
        e.pools[p].rough = rough.quantile(p, 0.9);
        e.pools[p].spread = spreads.quantile(p, 0.9);
    }
    for (std::size_t field = 0; field < kFields; ++field) e.common.push_back(sizes.quantile(field, 0.9));
}

Sight sight_of(const Expected& e, const Tolerance& t) {
    Sight sight;
    // what changes places is compared as it is, wherever it lies
    if (!is_floating(e.element) || e.unordered) return sight;
    const Manner manner = manner_of(e, t);
    for (std::size_t i = 0; i < e.written->size(); i += stride(e.written->size())) {
        const double value = value_at(e, i);
        if (!(*e.written)[i] || !std::isfinite(value)) continue;
        sight.all += value * value;
        if (std::fabs(value) <= bound_of(e, manner, i, value).within) sight.hidden += value * value;
    }
    return sight;
}

}  // namespace warplens
