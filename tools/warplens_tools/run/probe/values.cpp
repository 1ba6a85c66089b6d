// SPDX-License-Identifier: Apache-2.0
// Other values for what a launch reads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compare.h"
#include "driver.h"
#include "inputs.h"

namespace warplens {
namespace {

// A variable of so many numbers may hold what others pass by value.
constexpr std::size_t kFewNumbers = 64;

}  // namespace

void Inputs::vary(const Area& area, const Variant& variant, std::uint64_t seed) {
    if (variant.kind == Variant::upper && area.width != 8) return;
    const bool anywhere = variant.kind == Variant::full || variant.kind == Variant::turned || variant.kind == Variant::upper || variant.kind == Variant::fields || variant.kind == Variant::brim;
    // no byte leads far, whatever it is
    if ((anywhere || variant.kind == Variant::asked) && look(area).index && !(anywhere && area.width == 1)) return;
    if ((variant.kind == Variant::turned || variant.kind == Variant::brim) && look(area).flag) return;
    if (variant.kind == Variant::brim && variant.scale == Variant::bytes_full && area.width != 1) return;
    if (variant.kind == Variant::fields && variant.scale >= Variant::spelled && area.width != 1) return;
    if (variant.kind == Variant::stepped && !look(area).ascends) return;
    std::uint64_t limit = variant.kind == Variant::asked ? given() : fewest();
    if (variant.kind == Variant::fields || variant.kind == Variant::brim || variant.kind == Variant::linked) limit = static_cast<std::uint64_t>(variant.scale);
    if (variant.kind == Variant::tagged && !(limit = tags_of(area))) return;
    const bool alone = variant.kind == Variant::asked && variant.target >= 0;
    memory_.vary(area.stretch, variant.kind, area.width, seed, limit, alone);
}

std::uint64_t Inputs::tags_of(const Area& area) const {
    std::size_t end = 0;
    const Typed* said = said_of(area.stretch.block, area.stretch.offset, end);
    const auto found = said && said->parameter >= 0 ? job_.tags.find(static_cast<std::size_t>(said->parameter)) : job_.tags.end();
    return found == job_.tags.end() ? 0 : found->second;
}

void Inputs::put(const Variant& variant, std::uint64_t seed, const Given& given) {
    lengths_.clear();
    for (const Word& word : words_) {
        if (!integral(word.field.element)) continue;
        const std::uint8_t* value = given.values.empty() ? by_value(word.parameter) : given.values[word.parameter].data();
        const std::int64_t length = integer_at(value + word.field.offset, word.field.width);
        const auto known = static_cast<std::uint64_t>(length);
        if (length > 1 && length < kHuge && std::find(lengths_.begin(), lengths_.end(), known) == lengths_.end()) lengths_.push_back(known);
    }
    put_one(variant, seed);
    for (const Variant& other : variant.beside) put_one(other, seed += 0x9e3779b97f4a7c15ull, &variant);
}

// `beside`: what has been put already; the one buffer that it was for stays as it is.
void Inputs::put_one(const Variant& variant, std::uint64_t seed, const Variant* beside) {
    const bool of_one = beside && beside->target >= 0 && !beside->by_value() && !beside->of_integers();
    auto next = [&] { return seed++ * 0x9e3779b97f4a7c15ull; };
    if (variant.kind == Variant::aliased && static_cast<std::size_t>(variant.target) < pairs_.size()) {
        const Pair& pair = pairs_[static_cast<std::size_t>(variant.target)];
        return memory_.copy_saved(pair.from, pair.to);
    }
    if (variant.kind == Variant::tables) return put_tables(seed);
    if (variant.own() || variant.of_other_values() || variant.kind == Variant::fewer || variant.kind == Variant::standing) return;
    if (variant.by_value()) {
        const bool redrawn = variant.kind == Variant::numbers;
        for (const Area& area : integers_) {
            constexpr Variant::Kind kinds[] = {Variant::plus, Variant::plus, Variant::more, Variant::raised, Variant::less};
            const Variant::Kind kind = redrawn ? kinds[next() % 5] : variant.kind;
            if (kind < Variant::scalars && area.variable && variant.target < 0 && area.stretch.bytes <= kFewNumbers * area.width)
                memory_.vary(area.stretch, kind, area.width, next(), 0);
        }
        return;
    }
    if (variant.kind == Variant::met || variant.kind == Variant::ranks || variant.kind == Variant::reached) return put_met(variant, seed);
    if (variant.of_integers()) {
        if (variant.kind == Variant::below && variant.target < 0) return;
        // what is asked for in one buffer has to stand in another, and what makes a sum full
        const bool shares = variant.kind == Variant::asked || variant.kind == Variant::brim;
        const std::uint64_t shared = shares ? next() & ~std::uint64_t{UINT32_MAX} : 0;
        for (std::size_t i = 0; i < integers_.size(); ++i) {
            std::uint64_t own = next();
            if (variant.kind == Variant::brim) own = (own & ~std::uint64_t{1}) | variant.is_other(integers_[i].group);
            if (variant.means(integers_[i].group, groups_of(integers_), job_.seed)) vary(integers_[i], variant, shared ? shared | (own & UINT32_MAX) : own);
        }
        return;
    }
    // columns that are empty in one buffer are so in others
    const std::uint64_t shared = variant.kind == Variant::striped ? next() & ~std::uint64_t{UINT32_MAX} : 0;
    const bool meets = variant.kind == Variant::infinities && variant.scale == Variant::meeting;
    const std::uint64_t same = meets ? next() : 0;
    for (std::size_t i = 0; i < floats_.size(); ++i) {
        const std::uint64_t own = next();
        if (of_one && beside->means(floats_[i].group, groups_of(floats_), job_.seed)) continue;
        if (variant.kind == Variant::striped || variant.means(floats_[i].group, groups_of(floats_), job_.seed)) put_floats(floats_[i], variant, meets ? same : shared ? shared | (own & UINT32_MAX) : own);
    }
}

void Inputs::put_floats(const Area& area, const Variant& variant, std::uint64_t seed) {
    if (variant.kind == Variant::mingled) return mingle(area, seed);
    if (variant.kind == Variant::moved) return memory_.move(area.stretch, variant.scale, variant.noise, seed);
    if (variant.kind == Variant::minus) {
        constexpr double below = -0.0;
        std::uint64_t stands = 0;
        std::memcpy(&stands, &below, sizeof stands);
        return memory_.vary(area.stretch, Variant::specials, 0, seed, stands);
    }
    if (variant.kind == Variant::endmost) {
        const double infinite = std::copysign(std::numeric_limits<double>::infinity(), variant.scale);
        std::uint64_t stands = 0;
        std::memcpy(&stands, &infinite, sizeof stands);
        return memory_.vary(area.stretch, Variant::endmost, 0, seed, stands);
    }
    const bool in_rows = variant.kind == Variant::blanks || variant.kind == Variant::voids;
    std::uint64_t period = variant.kind == Variant::striped ? (lengths_.empty() ? 0 : lengths_[(static_cast<std::size_t>(variant.target) + job_.seed) % lengths_.size()]) : in_rows ? row(seed) : 0;
    // what is no longer than one row has none
    const std::size_t size = element_size(area.stretch.element), count = area.stretch.bytes / (area.stretch.stride ? area.stretch.stride : size);
    if (in_rows && 2 * period > count) period = 0;
    std::uint64_t stands = 0;
    if (stand_in_ != 0 && variant.odd()) std::memcpy(&stands, &stand_in_, sizeof stands);
    memory_.vary(area.stretch, variant.kind, 0, seed, stands, period);
}

std::optional<Inputs::Met> Inputs::met(const Variant& variant) const {
    if (variant.kind != Variant::met && variant.kind != Variant::ranks && variant.kind != Variant::reached) return std::nullopt;
    const auto which = static_cast<std::size_t>(variant.target);
    if (which >= Variant::sentinels_from) {
        // those that are few come once more, in rows of other lengths
        const std::size_t of = job_.sentinels.size(), from = which - Variant::sentinels_from;
        if (!of || (variant.kind == Variant::met && from >= of)) return std::nullopt;
        return Met{false, 0, job_.sentinels[from % of]};
    }
    if (which >= words_.size()) return std::nullopt;
    const Word& word = words_[which];
    const std::uint8_t* at = by_value(word.parameter) + word.field.offset;
    if (integral(word.field.element)) return Met{true, static_cast<std::uint64_t>(integer_at(at, word.field.width)), 0};
    return is_floating(word.field.element) ? std::optional<Met>({false, 0, load(word.field.element, at)}) : std::nullopt;
}

// A number that is passed by value among those of its kind: at a threshold, not only above or below it; or a float that
// the kernel compares with, which stands for a value that is missing.
void Inputs::put_met(const Variant& variant, std::uint64_t seed) {
    const std::optional<Met> is = met(variant);
    if (!is || (variant.kind == Variant::reached && !is->whole)) return;
    std::uint64_t bits = is->integer;
    if (!is->whole) std::memcpy(&bits, &is->value, sizeof bits);
    for (const Area& area : is->whole ? integers_ : floats_) {
        // what is an index goes as far as it may, or one further
        if (area.variable || (is->whole && look(area).index != (variant.kind == Variant::reached))) continue;
        const std::uint64_t own = seed++ * 0x9e3779b97f4a7c15ull;
        memory_.vary(area.stretch, is->whole ? Variant::met : variant.kind, area.width, own, bits, variant.kind == Variant::ranks ? row(own) : 0);
    }
}

// Each entry leads nought to two elements further than the program's: what it leads to then begins anywhere, and elsewhere
// than the next one's. What is read stays as long, so that lengths have to be less.
void Inputs::put_tables(std::uint64_t seed) {
    for (const Table& table : tables_) {
        moved_.resize(table.entries.bytes / sizeof(CUdeviceptr));
        memory_.read_saved(table.entries, reinterpret_cast<std::uint8_t*>(moved_.data()));
        for (std::size_t i = 0; i < moved_.size(); ++i)
            if (moved_[i] && memory_.find(moved_[i])) moved_[i] += (seed + i) % 3 * table.step;
        memory_.write(table.entries, reinterpret_cast<const std::uint8_t*>(moved_.data()));
        check(cuCtxSynchronize(), "leading a table elsewhere");
    }
}

// As it is, negated, of mixed signs, or larger or smaller, whatever the next one is.
void Inputs::mingle(const Area& area, std::uint64_t seed) {
    constexpr double scales[] = {1, 1, -1, -0.5, 3, 0.01, 100};
    const std::size_t turn = seed >> 32, kinds = sizeof scales / sizeof scales[0];
    if (turn % (kinds + 1) == kinds) memory_.vary(area.stretch, Variant::signs, 0, seed, 0);
    else if (turn % (kinds + 1)) memory_.move(area.stretch, scales[turn % (kinds + 1)], 0.5, seed);
}

void Inputs::move(double move, std::uint64_t seed, const Variant& on) {
    const std::optional<Met> is = met(on);
    for (const Area& area : floats_) {
        const Stretch& s = area.stretch;
        // what was put at a threshold is meant to be there, as zeros are; not where all stands there anyway
        const bool kept = is && !is->whole && !mostly(area, is->value);
        memory_.move(s, 1, move, seed + s.block + (s.stride ? 0x9e3779b9ull * s.offset : 0), kept ? is->value : std::nan(""));
    }
}

bool Inputs::only_read(const Area& area) const {
    auto read = [&](const Typed& t) { return t.block == area.stretch.block && t.offset == area.stretch.offset && t.constant; };
    return !area.stretch.stride && !area.variable && std::any_of(typed_.begin(), typed_.end(), read);
}

void Inputs::keep_part(std::uint64_t part, std::uint64_t parts, std::size_t area) {
    for (std::size_t i = 0; i < floats_.size(); ++i)
        if ((area == all_areas || area == i) && only_read(floats_[i])) memory_.keep_part(floats_[i].stretch, part, parts);
}

std::vector<std::size_t> Inputs::largest_read() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < floats_.size(); ++i)
        if (only_read(floats_[i])) found.push_back(i);
    std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) { return floats_[a].stretch.bytes > floats_[b].stretch.bytes; });
    return found;
}

}  // namespace warplens
