// SPDX-License-Identifier: Apache-2.0
// What the program's own contents say of a buffer: whether other values may stand there, and how long its rows are.
#include <algorithm>
#include <cstring>

#include "compare.h"
#include "driver.h"
#include "inputs.h"

namespace warplens {

// The elements of the smallest buffer: a value below that is in range wherever it is an index.
std::uint64_t Inputs::fewest() const {
    std::uint64_t fewest = UINT32_MAX;
    for (const Typed& t : typed_) {
        std::size_t end = 0;
        const Element element = type_at(t.block, t.offset, end);
        const std::size_t size = is_floating(element) ? element_size(element) : t.width ? t.width : 4;
        if (memory_.blocks[t.block].variable.empty()) fewest = std::min<std::uint64_t>(fewest, (end - t.offset) / size);
    }
    return std::max<std::uint64_t>(fewest, 2);
}

// Values that reach about as far as some buffer does are more likely its indices than anything else, or, where they reach
// to its end, places of rows.
bool Inputs::reaches_as_far(std::int64_t most) const {
    return std::any_of(typed_.begin(), typed_.end(), [&](const Typed& t) {
        std::size_t end = 0;
        const Element element = type_at(t.block, t.offset, end);
        const auto size = static_cast<std::int64_t>(is_floating(element) ? element_size(element) : t.width ? t.width : 4);
        const std::int64_t count = static_cast<std::int64_t>(end - t.offset) / size;
        return most <= count && 2 * most >= count;
    });
}

const Inputs::Look& Inputs::look(const Area& area) const {
    const auto found = looks_.find(&area);
    if (found != looks_.end()) return found->second;
    Stretch seen = area.stretch;
    seen.bytes = std::min(seen.bytes, kSeen);
    std::vector<std::uint8_t> bytes(seen.bytes);
    memory_.read_saved(seen, bytes.data());
    const std::size_t step = seen.stride ? seen.stride : area.width;
    std::int64_t most = 0, last = 0;
    bool flags = true, ascend = bytes.size() > area.width;
    for (std::size_t at = 0; at + area.width <= bytes.size(); at += step) {
        const std::int64_t value = integer_at(bytes.data() + at, area.width);
        flags = flags && (value == 0 || value == 1);
        ascend = ascend && value >= last;
        most = std::max(most, last = value);
    }
    std::size_t end = 0;
    const Typed* said = said_of(area.stretch.block, area.stretch.offset, end);
    const bool free = said && said->parameter >= 0 && job_.free.count(static_cast<std::size_t>(said->parameter));
    return looks_[&area] = {!free && reaches_as_far(most), flags, ascend && most > 0};
}

// Whether more than half of an area's floats, as far as they are looked at, are a value.
bool Inputs::mostly(const Area& area, double value) const {
    const auto found = mostly_.find({&area, value});
    if (found != mostly_.end()) return found->second;
    Stretch seen = area.stretch;
    seen.bytes = std::min(seen.bytes, kSeen);
    std::vector<std::uint8_t> bytes(seen.bytes), cut(sizeof value);
    memory_.read_saved(seen, bytes.data());
    const std::size_t size = element_size(seen.element), step = seen.stride ? seen.stride : size;
    store(seen.element, cut.data(), value);
    std::size_t same = 0, count = 0;
    for (std::size_t at = 0; at + size <= bytes.size(); at += step, ++count) same += !std::memcmp(bytes.data() + at, cut.data(), size);
    return mostly_[{&area, value}] = 2 * same > count;
}

// How long a row may be; 0: it is not known, or shall not be.
std::uint64_t Inputs::row(std::uint64_t seed) const {
    const std::size_t which = (seed >> 32) % (lengths_.size() + 1);
    return which < lengths_.size() ? lengths_[which] : 0;
}

// What the kernel compares with, on the card: how many, and each. Written anew each time: numbers that led a launch out of
// its memory may have led it there.
CUdeviceptr Inputs::given() {
    std::vector<std::int64_t> all = asked_;
    all.insert(all.begin(), static_cast<std::int64_t>(asked_.size()));
    if (!given_) check(cuMemAlloc(&given_, all.size() * sizeof all[0]), "cuMemAlloc");
    check(cuMemcpyHtoD(given_, all.data(), all.size() * sizeof all[0]), "cuMemcpyHtoD");
    return given_;
}

}  // namespace warplens
