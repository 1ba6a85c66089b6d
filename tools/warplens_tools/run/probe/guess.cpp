// SPDX-License-Identifier: Apache-2.0
#include "guess.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace warplens {
namespace {

// Bytes of a word, the longest record in words, and the fewest records that show a pattern.
constexpr std::size_t kWord = 4, kLongest = 16, kFewest = 4;
// What a program computes with lies within these, but for zero; small integers are denormal floats.
constexpr double kSmallest = 0x1p-40, kLargest = 0x1p40, kWideSmallest = 0x1p-200, kWideLargest = 0x1p200;
constexpr std::int64_t kSmallInteger = 1 << 24;

template <class T>
T at(const std::uint8_t* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

bool ordinary(double value, double smallest, double largest) {
    return value == 0 || (std::fabs(value) >= smallest && std::fabs(value) <= largest);
}

// What one word, or a pair of them, of every record may be.
class Column {
   public:
    Column(const std::uint8_t* bytes, std::size_t stride, std::size_t records) : bytes_(bytes), stride_(stride), records_(records) {}

    bool zero() const {
        return all<std::uint32_t>([](std::uint32_t x) { return x == 0; });
    }
    bool floats() const {
        return all<float>([](float x) { return ordinary(x, kSmallest, kLargest); });
    }
    bool integers() const {
        return all<std::int32_t>([](std::int32_t x) { return std::int64_t{x} < kSmallInteger && std::int64_t{x} > -kSmallInteger; });
    }
    bool doubles() const {
        return all<double>([](double x) { return ordinary(x, kWideSmallest, kWideLargest); });
    }
    bool pointers(const Leads& leads) const {
        bool any = false;
        const bool sound = all<CUdeviceptr>([&](CUdeviceptr x) {
            any = any || x;
            return !x || leads(x);
        });
        return sound && any;
    }

   private:
    template <class T, class Holds>
    bool all(Holds holds) const {
        for (std::size_t i = 0; i < records_; ++i)
            if (!holds(at<T>(bytes_ + i * stride_))) return false;
        return true;
    }
    const std::uint8_t* bytes_;
    std::size_t stride_, records_;
};

// False where some word is nothing throughout. Pairs lie at even words, as the compiler aligns them.
bool read_fields(const std::uint8_t* bytes, std::size_t words, std::size_t records, const Leads& leads, std::vector<Field>& fields) {
    const std::size_t stride = words * kWord;
    for (std::size_t w = 0; w < words; ++w) {
        const Column column(bytes + w * kWord, stride, records);
        const bool pair = w % 2 == 0 && words % 2 == 0 && w + 1 < words;
        if (pair && column.pointers(leads)) fields.push_back({w++ * kWord, Element::other, 0, true});
        else if (column.zero()) continue;
        else if (column.floats()) fields.push_back({w * kWord, Element::f32, 0, false});
        else if (column.integers()) fields.push_back({w * kWord, Element::integer, 4, false});
        else if (pair && column.doubles()) fields.push_back({w++ * kWord, Element::f64, 0, false});
        else return false;
    }
    return true;
}

}  // namespace

Records records_in(const std::uint8_t* bytes, std::size_t size, const Leads& leads) {
    const std::size_t all = size / kWord;
    for (std::size_t words = 1; words <= kLongest && words * kFewest <= all; ++words) {
        Records found{words * kWord, {}};
        if (read_fields(bytes, words, all / words, leads, found.fields)) return found;
    }
    return all && all <= kLongest * kFewest ? record_in(bytes, size, leads) : Records{};
}

Records record_in(const std::uint8_t* bytes, std::size_t size, const Leads& leads) {
    Records found{size, {}};
    if (size < kWord || size % kWord || !read_fields(bytes, size / kWord, 1, leads, found.fields)) return {};
    const bool floats = std::any_of(found.fields.begin(), found.fields.end(), [](const Field& f) { return f.element == Element::f32; });
    const bool others = std::any_of(found.fields.begin(), found.fields.end(), [](const Field& f) { return f.element != Element::f32; });
    for (std::size_t offset = 0; floats && !others && offset < size; offset += kWord)
        if (!at<std::uint32_t>(bytes + offset)) found.fields.push_back({offset, Element::f32, 0, false});
    return found;
}

}  // namespace warplens
