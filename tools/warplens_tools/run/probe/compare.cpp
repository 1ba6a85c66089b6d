// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>

#include "parallel.h"
#include "rounding.h"

namespace warplens {
namespace {

constexpr std::size_t kBlock = 4096;
// How much further than the baseline from what is more exact: another order of the same additions is not the same.
constexpr double kAsFar = 1.25;

double half_to_double(std::uint16_t bits) {
    const unsigned exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = mantissa * 0x1p-24;
    if (exponent) {
        const std::uint64_t wide = std::uint64_t{exponent == 31 ? 2047 : exponent + 1008} << 52 | std::uint64_t{mantissa} << 42;
        std::memcpy(&value, &wide, sizeof value);
    }
    return bits & 0x8000 ? -value : value;
}

// The largest finite value of a 16-bit type, which is computed in a wider one; 0 for others.
double largest(Element element) { return element == Element::f16 ? 65504 : element == Element::bf16 ? 0x1.fep127 : 0; }

template <class T>
T read(const std::uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

std::uint64_t mix(std::uint64_t x) {  // SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// Keeps random sign and mantissa bits but sets the exponent so that the value is finite and within [0.5, 4).
void make_ordinary(Element element, std::uint8_t* at, std::size_t size) {
    std::uint8_t* high = at + size - 1;
    if (element == Element::f16) {
        *high = static_cast<std::uint8_t>((*high & 0x83) | 0x3c);
        return;
    }
    *high = static_cast<std::uint8_t>((*high & 0x80) | 0x3f);
    at[size - 2] |= element == Element::f64 ? 0xe0 : 0x80;
}

// The part of the sum over elements that the scale check needs.
struct Norms {
    double expected = 0, got = 0, difference = 0;

    void add(double right, double value) {
        expected += right * right;
        got += value * value;
        difference += (value - right) * (value - right);
    }
    void add(const Norms& o) {
        expected += o.expected;
        got += o.got;
        difference += o.difference;
    }
};

struct Part {
    Difference difference;
    Norms norms;
    std::uint64_t compared = 0, coarse = 0;
    std::map<std::size_t, std::uint64_t> jumps;  // by pool
    double jump_ratio = 0;
    std::size_t first_jump = SIZE_MAX;

    void add(const Part& o) {
        difference.merge(o.difference);
        norms.add(o.norms);
        compared += o.compared;
        coarse += o.coarse;
        for (const auto& [pool, count] : o.jumps) jumps[pool] += count;
        jump_ratio = std::max(jump_ratio, o.jump_ratio);
        first_jump = std::min(first_jump, o.first_jump);
    }
};

void compare_element(const Expected& e, const std::uint8_t* got, const Manner& manner, std::size_t i, Part& part) {
    const std::size_t size = element_size(e.element), at = i * size;
    Difference& d = part.difference;
    const bool equal = !std::memcmp(e.bytes.data() + at, got + at, size);
    if (!(*e.written)[i]) {
        if (equal) return;
        ++d.stray;
        d.first = std::min(d.first, at);
        return;
    }
    const double right = load(e.element, e.bytes.data() + at), value = load(e.element, got + at);
    const bool follows = e.apart.empty() || !e.apart[i];
    if (e.odd && follows && !(e.told && std::isfinite(right))) {
        const bool lets = e.filtered && std::isfinite(right) && !std::isfinite(value);
        const bool hides = lets || (!std::isfinite(right) && std::isfinite(value));
        d.nan += hides;
        if (hides) d.first = std::min(d.first, at);
        return;
    }
    if (e.partial && (!(std::fabs(right) < large(e.element)) || (!e.magnitude.empty() && !(e.magnitude[i] < large(e.element))))) {
        // a result that was cut to what its type holds is no infinity; one that is nearly that large may become one
        const double most = largest(e.element), size_of = std::fabs(right);
        const bool lost = most > 0 && std::isfinite(right) && !std::isfinite(value) && (size_of == most || size_of < 0.98 * most);
        d.nan += lost;
        if (lost) d.first = std::min(d.first, at);
        return;
    }
    if (std::isfinite(right) && std::isfinite(value)) part.norms.add(right, value);
    ++part.compared;
    if (equal || (std::isnan(right) && std::isnan(value))) return;
    if (!std::isfinite(right) || !std::isfinite(value)) {
        ++d.nan;
        d.first = std::min(d.first, at);
        return;
    }
    const double off = std::fabs(value - right), size_of = std::fabs(right);
    if (off <= manner.sure * size_of && size_of > 0) {
        d.ratio = std::max(d.ratio, off / (manner.walk * size_of));
        return;
    }
    if (!e.reference.empty() && std::fabs(value - e.reference[i]) <= kAsFar * std::fabs(right - e.reference[i])) {
        d.ratio = std::max(d.ratio, 0x1p-10);
        return;
    }
    const Bound bound = bound_of(e, manner, i, right);
    const double ratio = ratio_of(off, bound);
    const Place place = place_of(off, ratio, bound);
    part.coarse += off > bound.coarse;
    if (place == Place::jump) {
        ++part.jumps[pool_of(right)];
        part.jump_ratio = std::max(part.jump_ratio, ratio);
        part.first_jump = std::min(part.first_jump, at);
        return;
    }
    d.ratio = std::max(d.ratio, ratio);
    if (place == Place::within) return;
    ++d.wrong;
    d.beyond += place == Place::beyond;
    d.first = std::min(d.first, at);
}

Part compare_range(const Expected& e, const std::uint8_t* got, const Tolerance& t, std::size_t begin,
                   std::size_t end) {
    Part part;
    if (is_floating(e.element)) {
        const Manner manner = manner_of(e, t);
        for (std::size_t i = begin; i < end; ++i) compare_element(e, got, manner, i, part);
        return part;
    }
    for (std::size_t i = begin; i < end; i += kBlock) {
        const std::size_t stop = std::min(end, i + kBlock);
        if (!std::memcmp(e.bytes.data() + i, got + i, stop - i)) continue;
        for (std::size_t j = i; j < stop; ++j) {
            if (e.bytes[j] == got[j]) continue;
            ++part.difference.wrong;
            ++part.difference.whole;
            ++part.difference.beyond;
            part.difference.first = std::min(part.difference.first, j);
        }
    }
    return part;
}

// More jumps than the baseline's own moves made are no rounding.
void judge_jumps(const Part& part, const Expected& e, Difference& d) {
    for (const auto& [pool, count] : part.jumps) {
        if (count <= jumps_allowed(e, pool)) continue;
        d.wrong += count;
        d.beyond += count;
        d.ratio = std::max(d.ratio, part.jump_ratio);
        d.first = std::min(d.first, part.first_jump);
    }
}

Difference finish(const Part& part, const Expected& e) {
    Difference d = part.difference;
    judge_jumps(part, e, d);
    d.coarse = part.coarse * 10 > part.compared;
    const Norms& n = part.norms;
    if (n.expected > 0) {
        d.relative = std::sqrt(n.difference / n.expected);
        const double scale = std::sqrt(n.got / n.expected);
        const bool off = d.ratio > 0 && (scale < 0.5 || scale > 2);
        // where no element is wrong by itself, the norm is of results that rounding alone may make zero
        (d.wrong ? d.scale : d.blind) = off;
    } else {
        d.relative = n.difference > 0 ? 1e30 : 0;
    }
    return d;
}

Part compare_parallel(const Expected& e, const std::uint8_t* got, const Tolerance& t) {
    std::array<Part, 16> parts;
    in_parallel(e.bytes.size() / element_size(e.element), kBlock, parts.size(),
                [&](std::size_t begin, std::size_t end, std::size_t part) { parts[part] = compare_range(e, got, t, begin, end); },
                is_floating(e.element) ? kArithmetic : kCopying);
    Part sum;
    for (const Part& part : parts) sum.add(part);
    return sum;
}

// Memory of unknown type that is not bitwise equal: would it be right as floats?
bool right_as_floats(const Expected& expected, const std::uint8_t* got, const Tolerance& tolerance) {
    for (Element element : {Element::f32, Element::f64}) {
        Expected typed;
        typed.element = element;
        const std::size_t size = element_size(element), count = expected.bytes.size() / size;
        if (!count || expected.bytes.size() % size) continue;
        typed.bytes.assign(expected.bytes.begin(), expected.bytes.begin() + static_cast<long>(count * size));
        typed.written = std::make_shared<std::vector<std::uint8_t>>(count, 1);
        Difference d = finish(compare_parallel(typed, got, tolerance), typed);
        if (d.right()) return true;
    }
    return false;
}

}  // namespace

double large(Element element) {
    switch (element) {
        case Element::f64: return 0x1p1022;
        case Element::f16: return 16384;
        default: return 0x1p126;
    }
}

Difference difference_of(const Share& share, const std::map<std::size_t, std::uint64_t>& jumps, const Expected& expected) {
    Part part;
    part.norms.expected = share.expected, part.norms.got = share.got, part.norms.difference = share.difference;
    part.compared = share.compared, part.coarse = share.coarse;
    part.difference.ratio = share.ratio, part.difference.wrong = share.wrong;
    part.jumps = jumps, part.jump_ratio = share.jump;
    return finish(part, expected);
}

void* large_or_small(std::size_t bytes) {
    constexpr std::size_t large = 2u << 20;
    if (bytes < 4 * large) {
        if (void* at = std::malloc(bytes)) return at;
        throw std::bad_alloc();
    }
    const std::size_t whole = (bytes + large - 1) / large * large;
    void* at = std::aligned_alloc(large, whole);
    if (!at) throw std::bad_alloc();
    madvise(at, whole, MADV_HUGEPAGE);
    return at;
}

Bytes copied(const Bytes& bytes) {
    Bytes to(bytes.size());
    in_parallel(bytes.size(), kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) { std::memcpy(&to[begin], &bytes[begin], end - begin); });
    return to;
}

std::size_t element_size(Element element) {
    switch (element) {
        case Element::f64: return 8;
        case Element::f32: return 4;
        case Element::f16:
        case Element::bf16: return 2;
        default: return 1;
    }
}

bool is_floating(Element element) { return element != Element::other && element != Element::integer; }

double load(Element element, const std::uint8_t* at) {
    switch (element) {
        case Element::f64: return read<double>(at);
        case Element::f32: return read<float>(at);
        case Element::f16: return half_to_double(read<std::uint16_t>(at));
        case Element::bf16: {
            const std::uint32_t bits = static_cast<std::uint32_t>(read<std::uint16_t>(at)) << 16;
            float value;
            std::memcpy(&value, &bits, sizeof value);
            return value;
        }
        default: return *at;
    }
}

static std::uint16_t half_bits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
    const float size = std::fabs(value);
    if (!(size < 65520)) return static_cast<std::uint16_t>(sign | (std::isnan(value) ? 0x7e00 : 0x7c00));
    if (size < 0x1p-14f) return static_cast<std::uint16_t>(sign | std::lrint(size * 0x1p24f));
    const int exponent = std::ilogb(size);
    return static_cast<std::uint16_t>(sign + ((exponent + 14) << 10) + std::lrint(std::ldexp(size, 10 - exponent)));
}

void store(Element element, std::uint8_t* at, double value) {
    const auto single = static_cast<float>(value);
    if (element == Element::f64) std::memcpy(at, &value, sizeof value);
    else if (element == Element::f32) std::memcpy(at, &single, sizeof single);
    else if (element == Element::f16) {
        const auto half = half_bits(single);
        std::memcpy(at, &half, sizeof half);
    } else if (element == Element::bf16) {
        std::uint32_t bits;
        std::memcpy(&bits, &single, sizeof bits);
        const auto upper = static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        std::memcpy(at, &upper, sizeof upper);
    }
}

void Difference::merge(const Difference& other) {
    ratio = std::max(ratio, other.ratio);
    relative = std::max(relative, other.relative);
    wrong += other.wrong;
    whole += other.whole;
    beyond += other.beyond;
    stray += other.stray;
    nan += other.nan;
    first = std::min(first, other.first);
    scale = scale || other.scale;
    blind = blind || other.blind;
    elsewhere = elsewhere || other.elsewhere;
    coarse = coarse || other.coarse;
    as_floats = as_floats || other.as_floats;
}

// Results of unknown width are words more often than single bytes.
std::size_t unit_of(const Expected& e) {
    if (e.whole && e.bytes.size() % e.whole == 0) return e.whole;
    return is_floating(e.element) ? element_size(e.element) : e.bytes.size() % 4 ? 1 : 4;
}

static std::uint64_t hash_of(const std::uint8_t* at, std::size_t bytes) {
    std::uint64_t hash = bytes > 8 ? bytes : 0;
    for (std::size_t from = 0; from < bytes; from += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at + from, std::min<std::size_t>(8, bytes - from));
        hash = mix(hash ^ word);
    }
    return hash;
}

bool same_elements(std::size_t unit, const std::uint8_t* a, const std::uint8_t* b, std::size_t size) {
    std::atomic<std::uint64_t> difference{0};
    in_parallel(size / unit, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        std::uint64_t here = 0;
        for (std::size_t i = begin; i < end; ++i)
            if (std::memcmp(a + i * unit, b + i * unit, unit)) here += hash_of(a + i * unit, unit) - hash_of(b + i * unit, unit);
        difference += here;
    });
    return !difference && !std::memcmp(a + size / unit * unit, b + size / unit * unit, size % unit);
}

// The elements of both in one order, whatever it is.
static bool same_sorted(std::size_t unit, const std::uint8_t* a, const std::uint8_t* b, std::size_t size) {
    if (unit <= 8) {
        auto values = [&](const std::uint8_t* bytes) {
            std::vector<std::uint64_t> found(size / unit, 0);
            for (std::size_t i = 0; i < found.size(); ++i) std::memcpy(&found[i], bytes + i * unit, unit);
            std::sort(found.begin(), found.end());
            return found;
        };
        return values(a) == values(b);
    }
    auto sorted = [&](const std::uint8_t* bytes) {
        std::vector<const std::uint8_t*> at(size / unit);
        for (std::size_t i = 0; i < at.size(); ++i) at[i] = bytes + i * unit;
        std::sort(at.begin(), at.end(), [&](const std::uint8_t* x, const std::uint8_t* y) { return std::memcmp(x, y, unit) < 0; });
        return at;
    };
    const auto first = sorted(a), second = sorted(b);
    return std::equal(first.begin(), first.end(), second.begin(),
                      [&](const std::uint8_t* x, const std::uint8_t* y) { return !std::memcmp(x, y, unit); });
}

static const std::uint8_t* end_of(const Link& link, std::size_t i) {
    std::uint32_t place;
    std::memcpy(&place, link.places.bytes + 4 * i, sizeof place);
    return place < link.rows.count ? link.rows.bytes + place * link.rows.width : nullptr;
}

bool ends_differ(const Link& link) {
    const std::uint8_t* first = link.places.count ? end_of(link, 0) : nullptr;
    for (std::size_t i = 1; first && i < link.places.count; ++i) {
        const std::uint8_t* other = end_of(link, i);
        if (other && std::memcmp(first, other, link.rows.width)) return true;
    }
    return false;
}

bool same_ends(const Link& a, const Link& b) {
    for (std::size_t i = 0; i < std::min(a.places.count, b.places.count); ++i) {
        const std::uint8_t *one = end_of(a, i), *other = end_of(b, i);
        if (!one || !other || std::memcmp(one, other, a.rows.width)) return false;
    }
    return true;
}

Difference compare(const Expected& expected, const std::uint8_t* got, const Tolerance& tolerance) {
    if (expected.odd && !expected.told && !is_floating(expected.element)) return {};
    if (expected.unordered) {
        Difference d;
        const std::size_t unit = unit_of(expected), count = expected.bytes.size() / unit;
        d.wrong = !same_sorted(unit, expected.bytes.data(), got, expected.bytes.size());
        for (std::size_t k = 0; !d.wrong && !d.elsewhere && k <= expected.bounds.size() && !expected.bounds.empty(); ++k) {
            const std::size_t from = (k ? expected.bounds[k - 1] : 0) * unit;
            const std::size_t to = (k < expected.bounds.size() ? expected.bounds[k] : count) * unit;
            d.elsewhere = !same_sorted(unit, expected.bytes.data() + from, got + from, to - from);
            if (d.elsewhere) d.first = from;
        }
        return d;
    }
    Difference d = finish(compare_parallel(expected, got, tolerance), expected);
    if (expected.element == Element::other && d.wrong) d.as_floats = right_as_floats(expected, got, tolerance);
    return d;
}

// A place is crossed in a repeat where what lies before it is not the same elements.
void add_order(Expected& e, const std::uint8_t* run) {
    const std::size_t unit = unit_of(e), count = e.bytes.size() / unit;
    e.crossed.resize(count);
    ++e.orders;
    std::uint64_t apart = 0;
    for (std::size_t i = 0; i < count; ++i) {
        e.crossed[i] += apart != 0;
        const std::uint8_t *one = e.bytes.data() + i * unit, *other = run + i * unit;
        if (std::memcmp(one, other, unit)) apart += hash_of(one, unit) - hash_of(other, unit);
    }
}

// Buckets, say: a place that no repeat has crossed, while nearly all have crossed nearly every place around it.
void find_bounds(Expected& e) {
    constexpr std::size_t near = 32, far = 160;
    constexpr std::uint16_t least = 8;
    if (e.orders < least || e.crossed.size() < 2 * far) return;
    std::vector<std::uint32_t> often(e.crossed.size() + 1, 0);
    for (std::size_t i = 0; i < e.crossed.size(); ++i) often[i + 1] = often[i] + (10 * e.crossed[i] >= 8 * e.orders);
    for (std::size_t i = far; i + far <= e.crossed.size(); ++i) {
        if (e.crossed[i]) continue;
        const std::uint32_t before = often[i - near] - often[i - far], after = often[i + far] - often[i + near];
        if (10 * before >= 9 * (far - near) && 10 * after >= 9 * (far - near)) e.bounds.push_back(i);
    }
}

static std::vector<std::uint64_t> rows_of(const std::vector<Column>& columns) {
    std::size_t count = SIZE_MAX;
    for (const Column& c : columns) count = std::min(count, c.count);
    std::vector<std::uint64_t> rows(columns.empty() ? 0 : count, 0);
    for (const Column& c : columns)
        for (std::size_t i = 0; i < count; ++i) {
            rows[i] = mix(rows[i] ^ hash_of(c.bytes + i * c.width, c.width));
        }
    std::sort(rows.begin(), rows.end());
    return rows;
}

bool same_rows(const std::vector<Column>& a, const std::vector<Column>& b) { return rows_of(a) == rows_of(b); }

void mark_written(std::vector<std::uint8_t>& written, Element element, const std::uint8_t* before,
                  const std::uint8_t* after) {
    const std::size_t size = element_size(element);
    in_parallel(written.size(), kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i)
            if (std::memcmp(before + i * size, after + i * size, size)) written[i] = 1;
    });
}

void poison(Element element, std::uint8_t* bytes, const std::vector<std::uint8_t>& written, std::uint64_t seed) {
    const std::size_t unit = element_size(element);
    in_parallel(written.size(), kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) {
            std::uint8_t* at = bytes + i * unit;
            if (!written[i]) continue;
            if (!is_floating(element)) {
                // the lowest bit of each word: an integer that is read after all, as an index, stays in its array
                if (i % 4 == 0) *at ^= 1;
                continue;
            }
            std::uint64_t bits = mix(seed + i);
            std::memcpy(at, &bits, unit);
            make_ordinary(element, at, unit);
        }
    });
}

void outgrow(const Expected& expected, std::uint8_t* bytes, const std::vector<std::uint8_t>& written) {
    const Element element = expected.element;
    const std::size_t unit = element_size(element);
    std::array<double, 16> largest_of{};
    in_parallel(written.size(), kBlock, largest_of.size(), [&](std::size_t begin, std::size_t end, std::size_t part) {
        double most = 0;
        for (std::size_t i = begin; i < end; ++i) {
            const double size = std::fabs(load(element, expected.bytes.data() + i * unit));
            if (std::isfinite(size)) most = std::max(most, size);
        }
        largest_of[part] = most;
    }, kArithmetic);
    const double wanted = std::min(4 * *std::max_element(largest_of.begin(), largest_of.end()), large(element));
    in_parallel(written.size(), kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i)
            if (written[i]) store(element, bytes + i * unit, std::copysign(wanted, load(element, bytes + i * unit)));
    }, kArithmetic);
}

bool same_as_one_of(std::size_t unit, std::size_t size, const std::uint8_t* now, const std::uint8_t* one, const std::uint8_t* other) {
    std::atomic<bool> same{true};
    in_parallel(size / unit, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t from = begin; from < end && same; from += kBlock) {
            const std::size_t to = std::min(end, from + kBlock);
            if (!std::memcmp(now + from * unit, one + from * unit, (to - from) * unit)) continue;
            for (std::size_t at = from * unit; at < to * unit; at += unit)
                if (std::memcmp(now + at, one + at, unit) && std::memcmp(now + at, other + at, unit)) same = false;
        }
    }, kArithmetic);
    return same;
}

void keep_apart(const Expected& expected, const std::uint8_t* now, std::vector<std::uint8_t>& apart) {
    const std::size_t unit = element_size(expected.element);
    in_parallel(apart.size(), kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i)
            apart[i] = apart[i] && !std::memcmp(now + i * unit, &expected.bytes[i * unit], unit) && std::isfinite(load(expected.element, now + i * unit));
    }, kArithmetic);
}

std::uint64_t count_unclean(Element element, const std::uint8_t* bytes, std::size_t size, bool mean) {
    if (!is_floating(element)) return 0;
    const std::size_t unit = element_size(element);
    const double most = large(element);
    std::atomic<std::uint64_t> unclean{0};
    in_parallel(size / unit, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        std::uint64_t here = 0;
        for (std::size_t i = begin; i < end; ++i) {
            const double size_of = std::fabs(load(element, bytes + i * unit));
            here += !(size_of < most) && !(mean && !std::isfinite(size_of));
        }
        unclean += here;
    }, kArithmetic);
    return unclean;
}

}  // namespace warplens
