#include "compare.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "parallel.h"

namespace warplens {
namespace {

constexpr std::size_t kBlock = 4096;

double half_to_double(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                   : exponent == 0 ? std::ldexp(mantissa, -24)
                                   : std::ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

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
};

struct Part {
    Difference difference;
    Norms norms;
};

double bound_of(const Expected& e, std::size_t i, double value, const Tolerance& t) {
    const double magnitude = e.magnitude.empty() ? 0 : e.magnitude[i];
    const double walk = t.factor * unit_roundoff(e.element) * std::sqrt(t.length);
    double bound = walk * std::max(std::fabs(value), magnitude);
    if (!e.spread.empty()) bound += 4.0 * e.spread[i];
    if (e.element == Element::f16) bound += 4 * 0x1p-11 * std::max(std::fabs(value), 0x1p-14);
    if (e.element == Element::bf16) bound += 4 * 0x1p-8 * std::fabs(value);
    return bound;
}

void compare_element(const Expected& e, const std::uint8_t* got, const Tolerance& t, std::size_t i, Part& part) {
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
    if (std::isfinite(right) && std::isfinite(value)) {
        part.norms.expected += right * right;
        part.norms.got += value * value;
        part.norms.difference += (value - right) * (value - right);
    }
    if (equal || (std::isnan(right) && std::isnan(value))) return;
    if (!std::isfinite(right) || !std::isfinite(value)) {
        ++d.nan;
        d.first = std::min(d.first, at);
        return;
    }
    const double bound = bound_of(e, i, right, t), off = std::fabs(value - right);
    const double ratio = off == 0 ? 0 : bound > 0 ? off / bound : 1e30;
    d.ratio = std::max(d.ratio, ratio);
    if (ratio <= 1) return;
    ++d.wrong;
    d.first = std::min(d.first, at);
}

Part compare_range(const Expected& e, const std::uint8_t* got, const Tolerance& t, std::size_t begin,
                   std::size_t end) {
    Part part;
    if (is_floating(e.element)) {
        for (std::size_t i = begin; i < end; ++i) compare_element(e, got, t, i, part);
        return part;
    }
    for (std::size_t i = begin; i < end; i += kBlock) {
        const std::size_t stop = std::min(end, i + kBlock);
        if (!std::memcmp(e.bytes.data() + i, got + i, stop - i)) continue;
        for (std::size_t j = i; j < stop; ++j) {
            if (e.bytes[j] == got[j]) continue;
            ++part.difference.wrong;
            part.difference.first = std::min(part.difference.first, j);
        }
    }
    return part;
}

// The elements in ascending order of their bits.
std::vector<std::uint64_t> sorted(Element element, const std::uint8_t* bytes, std::size_t size) {
    // results of unknown width are words more often than single bytes
    const std::size_t unit = is_floating(element) ? element_size(element) : size % 4 ? 1 : 4;
    std::vector<std::uint64_t> values(size / unit, 0);
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], bytes + i * unit, unit);
    std::sort(values.begin(), values.end());
    return values;
}

Difference finish(const Part& part) {
    Difference d = part.difference;
    const Norms& n = part.norms;
    if (n.expected > 0) {
        d.relative = std::sqrt(n.difference / n.expected);
        const double scale = std::sqrt(n.got / n.expected);
        d.scale = d.ratio > 0 && (scale < 0.5 || scale > 2);
    } else {
        d.relative = n.difference > 0 ? 1e30 : 0;
    }
    return d;
}

Part compare_parallel(const Expected& e, const std::uint8_t* got, const Tolerance& t) {
    std::array<Part, 16> parts;
    in_parallel(e.bytes.size() / element_size(e.element), kBlock, parts.size(),
                [&](std::size_t begin, std::size_t end, std::size_t part) { parts[part] = compare_range(e, got, t, begin, end); });
    Part sum;
    for (const Part& part : parts) {
        sum.difference.merge(part.difference);
        sum.norms.expected += part.norms.expected;
        sum.norms.got += part.norms.got;
        sum.norms.difference += part.norms.difference;
    }
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
        Difference d = finish(compare_parallel(typed, got, tolerance));
        if (d.right()) return true;
    }
    return false;
}

}  // namespace

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

double unit_roundoff(Element element) { return element == Element::f64 ? 0x1p-53 : 0x1p-24; }

// Large against the rounding of the inputs and of the arithmetic, small against 1.
double input_move(Element element) {
    switch (element) {
        case Element::f64: return 0x1p-30;
        case Element::f32: return 0x1p-14;
        case Element::f16: return 0x1p-7;
        default: return 0x1p-5;
    }
}

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

void Difference::merge(const Difference& other) {
    ratio = std::max(ratio, other.ratio);
    relative = std::max(relative, other.relative);
    wrong += other.wrong;
    stray += other.stray;
    nan += other.nan;
    first = std::min(first, other.first);
    scale = scale || other.scale;
    as_floats = as_floats || other.as_floats;
}

Difference compare(const Expected& expected, const std::uint8_t* got, const Tolerance& tolerance) {
    if (expected.unordered) {
        Difference d;
        d.wrong = sorted(expected.element, expected.bytes.data(), expected.bytes.size()) !=
                  sorted(expected.element, got, expected.bytes.size());
        return d;
    }
    Difference d = finish(compare_parallel(expected, got, tolerance));
    if (expected.element == Element::other && d.wrong) d.as_floats = right_as_floats(expected, got, tolerance);
    return d;
}

void add_repeat(Expected& e, const std::uint8_t* run) {
    if (!std::memcmp(e.bytes.data(), run, e.bytes.size())) return;
    const bool permuted = sorted(e.element, e.bytes.data(), e.bytes.size()) == sorted(e.element, run, e.bytes.size());
    e.unordered = permuted && (e.unordered || (e.repeats && e.spread.empty()));
    if (!is_floating(e.element)) {
        e.repeats = false;
        return;
    }
    const std::size_t size = element_size(e.element), count = e.bytes.size() / size;
    if (e.spread.empty()) e.spread.assign(count, 0);
    std::atomic<bool> repeats{true};
    in_parallel(count, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) {
            const double first = load(e.element, e.bytes.data() + i * size), again = load(e.element, run + i * size);
            if (std::isfinite(first) && std::isfinite(again))
                e.spread[i] = std::max(e.spread[i], static_cast<float>(std::fabs(again - first)));
            else if (std::isnan(first) != std::isnan(again) || std::isinf(first) != std::isinf(again))
                repeats = false;
        }
    });
    e.repeats = e.repeats && repeats;
}

void judge_spread(Expected& e, const Tolerance& tolerance) {
    Expected alone = e;
    alone.spread.clear();
    for (std::size_t i = 0; i < e.spread.size(); ++i) {
        // rounding of a reordered sum stays near its bound; another order of the elements does not
        if (e.spread[i] <= 4 * bound_of(alone, i, load(e.element, e.bytes.data() + i * element_size(e.element)), tolerance))
            continue;
        e.repeats = false;
        return;
    }
    e.unordered = false;
}

void add_moved(Expected& e, const std::uint8_t* run, int total) {
    if (!is_floating(e.element)) return;
    const std::size_t size = element_size(e.element), count = e.bytes.size() / size;
    if (e.magnitude.empty()) e.magnitude.assign(count, 0);
    // r uniform in [-1, 1] has variance 1/3
    const double unit = input_move(e.element) / std::sqrt(3.0);
    in_parallel(count, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) {
            const double first = load(e.element, e.bytes.data() + i * size), moved = load(e.element, run + i * size);
            if (!std::isfinite(first) || !std::isfinite(moved)) continue;
            const double a = (moved - first) / unit;
            // root mean square, grown one run at a time
            e.magnitude[i] = static_cast<float>(std::sqrt(double(e.magnitude[i]) * e.magnitude[i] + a * a / total));
        }
    });
}

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

std::uint64_t count_unclean(Element element, const std::uint8_t* bytes, std::size_t size) {
    if (!is_floating(element)) return 0;
    const std::size_t unit = element_size(element);
    std::atomic<std::uint64_t> unclean{0};
    in_parallel(size / unit, kBlock, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        std::uint64_t here = 0;
        for (std::size_t i = begin; i < end; ++i) here += !std::isfinite(load(element, bytes + i * unit));
        unclean += here;
    });
    return unclean;
}

}  // namespace warplens
