// SPDX-License-Identifier: Apache-2.0
// Other values for what a launch is passed by value.
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

// An integer by value that counts as small: a radius, a mode, no length of what lies in memory.
constexpr std::int64_t kSmall = 64;
// Numbers that grow together need so many times the memory at most.
constexpr double kMostGrown = 3;
// Fewer than that leave threads of a warp without work.
constexpr std::uint64_t kWarp = 32;
// What versions by vectors and tiles go by.
constexpr std::int64_t kStep = 16;
// From here on one may be a length of rows or columns.
constexpr std::int64_t kFewLong = 8;
// Numbers of the text beyond that are no parts of a length.
constexpr std::int64_t kFarthest = 1 << 20;

// A float near what it was and of its sign; 0 and 1, which a kernel may leave out, are neither any more.
void move_value(Element element, std::uint8_t* at, std::mt19937_64& random) {
    const double value = load(element, at);
    if (!std::isfinite(value)) return;
    const double r = std::uniform_real_distribution<>(0.1, 0.3)(random) * (random() % 2 ? 1 : -1);
    store(element, at, value == 0 ? 0.4 + r : value * (1 + (value == 1 ? std::fabs(r) : r)));
}

// A float that is far from what it was: a temperature, a tolerance, a share.
void widen(Element element, std::uint8_t* at, std::mt19937_64& random) {
    constexpr double factors[] = {-1, 0x1p-6, 0x1p-3, 8, 64};
    store(element, at, load(element, at) * factors[random() % 5]);
}

// A length, a width or a step that is one less, or, where it may be a length of rows, `step` less, or half; what is zero stays, or is one: a flag.
// `turn` is how often all such numbers have had theirs.
void change(std::uint8_t* at, unsigned width, Variant::Kind kind, int turn, std::int64_t step, std::mt19937_64& random) {
    const std::int64_t value = integer_at(at, width);
    if (kind == Variant::more && value > 0 && value <= kSmall) {
        const std::int64_t grown = value + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(3 * value));
        std::memcpy(at, &grown, width);
    }
    if (kind == Variant::many && value > 0 && value <= kSmall) {
        const std::int64_t grown = value * (10 + static_cast<std::int64_t>(random() % 90));
        std::memcpy(at, &grown, width);
    }
    if (kind == Variant::few && value > 3 && value <= kHuge) {
        // less than what is looked at around each element, or than a warp
        const std::uint64_t most = turn % 2 == 0 ? 2 : value <= kSmall ? 3 : kWarp - 1;
        const std::int64_t fewer = 1 + static_cast<std::int64_t>(random() % most);
        std::memcpy(at, &fewer, width);
    }
    if (kind == Variant::below) {
        const std::int64_t negative = value > 1 && random() % 2 ? -value : -1;
        std::memcpy(at, &negative, width);
    }
    if (kind == Variant::none) std::memset(at, 0, width);
    if (kind == Variant::none || kind == Variant::more || kind == Variant::many || kind == Variant::below || kind == Variant::reshaped || kind == Variant::few) return;
    const std::int64_t raised = value ? value : 1, less = step > 1 ? (value >= std::max(kFewLong, 2 * step) ? value - step : value) : value > 0 ? value - 1 : value;
    const std::int64_t other = kind == Variant::raised ? raised : kind == Variant::halved ? value / 2 : less;
    std::memcpy(at, &other, width);
}

// Another number, one of four ways: of flags, modes and strides every other one up to four, of others mostly larger ones.
std::int64_t other_number(std::int64_t v, unsigned way, std::int64_t turn) {
    if (v > kHuge || v < -kHuge) return way % 2 ? v / 2 : v / 3 + turn;
    if (v < 0) return way % 2 ? -v : v - 1;
    if (v <= 4) return (v + 1 + way) % 5;
    const bool small = v <= kSmall;
    const std::int64_t larger[] = {small ? v + 1 : 2 * v, small ? 2 * v : v + 1, 3 * v, v + v / 2}, less[] = {small ? 0 : v / 64 + 1, v - 1, v / (small ? 2 : 16) + !small, v / 3};
    return way == 1 ? less[turn % 4] : larger[(way + turn) % 4];
}

// All together grow by no more than there is room for; `grown` is by how much they have.
void redraw(std::uint8_t* at, unsigned width, unsigned way, std::mt19937_64& random, double& grown, double most_grown) {
    const std::int64_t v = integer_at(at, width);
    std::int64_t is = other_number(v, way, static_cast<std::int64_t>(random() % 12));
    const std::int64_t most = (std::int64_t{1} << (8 * width - 2)) - 1;
    // by as much as there is room for, where it is more
    if (v > 0 && static_cast<double>(is) > most_grown * static_cast<double>(v)) is = static_cast<std::int64_t>(most_grown * static_cast<double>(v));
    const double by = v > 0 && is > v ? static_cast<double>(is) / static_cast<double>(v) : 1;
    if (is > most || grown * by > most_grown) return;
    grown *= by;
    std::memcpy(at, &is, width);
}

// One of as many bits as it has, but for its sign; not zero, by which it may divide.
void loosen(std::uint8_t* at, unsigned width, std::mt19937_64& random) {
    const std::uint64_t is = random() >> (64 - 8 * width + 1) | 1;
    std::memcpy(at, &is, width);
}

// The largest with a sign: what a kernel says of its numbers is mostly said of those.
void fill_up(std::uint8_t* at, unsigned width) {
    const std::uint64_t is = ~std::uint64_t{0} >> (64 - 8 * width + 1);
    std::memcpy(at, &is, width);
}

}  // namespace

// Whether one kind of inputs has another value for a number: those it has none for are not counted among its targets.
bool Inputs::suits(const Word& word, Variant::Kind kind) const {
    if (!integral(word.field.element)) return false;
    const std::int64_t was = integer_at(by_value(word.parameter) + word.field.offset, word.field.width);
    switch (kind) {
        case Variant::more:
        case Variant::many: return was > 0 && was <= kSmall;
        case Variant::few: return was > 3 && was <= kHuge;
        case Variant::raised: return was == 0;
        case Variant::less:
        case Variant::none: return was > 0;
        case Variant::below: return was >= 0 && was <= kSmall && job_.below.count(word.parameter);
        default: return true;
    }
}

// A small integer by value becomes, as often as not, one that the kernel asks for. It is below zero only where the kernel
// asks that number whether it is: a radius of less than nothing makes results by accident.
void Inputs::ask(const Word& word, std::uint8_t* at, Drawing& d) const {
    const unsigned width = word.field.width;
    const std::int64_t was = integer_at(at, width);
    if (was > kSmall || was < -kSmall || d.random() % 2) return;
    const std::int64_t is = asked_[d.random() % asked_.size()];
    // modes and counts, which lead nowhere far; two below zero make a length of what is none
    if (is < -1 || is > 4 * kSmall || (is < 0 && (d.below || (was >= 0 && !job_.below.count(word.parameter))))) return;
    d.below = d.below || is < 0;
    std::memcpy(at, &is, width);
}

// One small integer after another is each that the kernel asks for: a step at which something is done, an order.
void Inputs::meet(std::uint8_t* at, unsigned width, int own, const Drawing& d) const {
    const auto turn = static_cast<std::size_t>(d.variant.target - Variant::asks_from);
    std::vector<std::int64_t> usable;
    for (const std::int64_t value : asked_)
        if (value >= 0 && value <= 1024 && std::find(usable.begin(), usable.end(), value) == usable.end()) usable.push_back(value);
    if (d.small.empty()) return;
    const std::int64_t is = usable[turn % usable.size()];
    if (own == d.small[(turn / usable.size() + job_.seed) % d.small.size()]) std::memcpy(at, &is, width);
}

// One length after another is further than twice what is asked for: parts of so many, of which there are two and a rest.
void Inputs::pass(std::uint8_t* at, unsigned width, int own, const Drawing& d) const {
    std::vector<std::int64_t> usable;
    for (const std::int64_t value : asked_) {
        const auto near = [value](std::int64_t other) { return std::abs(other - value) <= 2; };
        const bool far = value >= static_cast<std::int64_t>(kWarp) && value <= kFarthest;
        if (far && std::none_of(usable.begin(), usable.end(), near)) usable.push_back(value);
    }
    const auto turn = static_cast<std::size_t>(d.variant.target), all = static_cast<std::size_t>(std::max(d.numbers, 1));
    if (static_cast<std::size_t>(own) != turn % all || turn / all >= usable.size()) return;
    const std::int64_t was = integer_at(at, width), is = 2 * usable[turn / all] + 3;
    if (width >= 4 && was > 0 && was < is) std::memcpy(at, &is, width);
}

// The next integer by value.
void Inputs::change_number(const Word& word, std::uint8_t* at, Drawing& d) const {
    const Variant& v = d.variant;
    const unsigned width = word.field.width;
    if (v.of_other_values() || !suits(word, v.kind)) return;
    const int own = d.number++, within = v.kind == Variant::numbers ? v.target % Variant::ways_of : v.target;
    // beside others, whichever number there is; a length may be short in two ways
    const int target = v.beside.empty() && v.kind != Variant::few ? within : within % std::max(d.numbers, 1);
    if (v.kind == Variant::asked) return v.target < 0 ? ask(word, at, d) : void();
    if (v.kind == Variant::past) return pass(at, width, own, d);
    if (v.target >= 0 && v.target < Variant::asks_from && target != own) return;
    if (v.kind == Variant::numbers && v.target >= Variant::asks_from) return meet(at, width, own, d);
    if (v.kind == Variant::high) return raise(at, width, d.random);
    if (v.kind == Variant::numbers) {
        const auto way = static_cast<unsigned>(v.target < 0 ? d.random() % 4 : v.target / Variant::ways_of);
        if (v.target >= 0 || d.random() % 2) redraw(at, width, way, d.random, d.grown, std::min(kMostGrown, job_.roomy + 1.0));
    } else if (v.kind != Variant::below || own == d.chosen) {
        change(at, width, v.kind, std::max(v.target, 0) / std::max(d.numbers, 1), static_cast<std::int64_t>(v.scale), d.random);
    }
}

// One of 64 bits that is larger than all memory, which makes it no length or place in it, needs all of them.
void Inputs::raise(std::uint8_t* at, unsigned width, std::mt19937_64& random) const {
    const std::int64_t was = integer_at(at, width);
    std::size_t all = 0;
    for (const Block& block : memory_.blocks) all += block.bytes;
    if (width != 8 || was <= 0 || was > kHuge || static_cast<std::size_t>(was) <= all) return;
    const std::int64_t is = was + (static_cast<std::int64_t>(1 + random() % 7) << 32);
    std::memcpy(at, &is, width);
}

// Of the lengths by value one becomes twice or four times as large, and another one less by as much: rows and columns of
// one matrix, all of which still lies where it was.
void Inputs::reshape(Given& made, int target, std::mt19937_64& random) const {
    std::vector<const Word*> lengths;
    for (const Word& word : words_)
        if (integral(word.field.element) && integer_at(made.values[word.parameter].data() + word.field.offset, word.field.width) >= kFewLong) lengths.push_back(&word);
    const std::size_t pairs = lengths.size() < 2 ? 0 : lengths.size() * (lengths.size() - 1);
    if (static_cast<std::size_t>(target) >= pairs) return;
    const std::size_t longer = static_cast<std::size_t>(target) % lengths.size(), step = 1 + static_cast<std::size_t>(target) / lengths.size();
    const std::int64_t factor = random() % 2 || (job_.roomy > 0 && job_.roomy < kMostGrown) ? 2 : 4;
    // what the grid covers cannot grow without it
    const Word& grown = *lengths[longer];
    const std::int64_t length = integer_at(made.values[grown.parameter].data() + grown.field.offset, grown.field.width);
    for (unsigned axis = 0; axis < 3; ++axis)
        if (!job_.roomy && covers(baseline_, axis, length)) return;
    for (const bool more : {true, false}) {
        const Word& word = *lengths[more ? longer : (longer + step) % lengths.size()];
        std::uint8_t* at = made.values[word.parameter].data() + word.field.offset;
        const std::int64_t was = std::min(integer_at(at, word.field.width), kHuge), is = more ? was * factor : was / factor;
        std::memcpy(at, &is, word.field.width);
        made.numbers.emplace_back(was, is);
    }
}

// One float by value after another: hardly another than it was, small and whole, as orders are, and what is asked for.
void Inputs::settle(Element element, std::uint8_t* at, int own, const Drawing& d) const {
    std::vector<double> values = {2, 1, -1, 0.5, 3, 4};
    values.insert(values.end(), job_.sentinels.begin(), job_.sentinels.end());
    constexpr int near = 2;
    const int all = near + static_cast<int>(values.size());
    const int reals = static_cast<int>(words_.size()) - number_count(), turn = d.variant.target;
    if (own != turn % std::max(reals, 1)) return;
    const int which = turn / std::max(reals, 1) % all;
    const double was = load(element, at);
    const double is = which < near ? was * (1 + (which ? -0x1p-13 : 0x1p-13)) : values[static_cast<std::size_t>(which - near)];
    if (which >= near || std::isfinite(was)) store(element, at, is);
}

// Costs, orders and thresholds that are larger or smaller than one another here: of each two small numbers first they change
// places, then both are the less.
void Inputs::oppose(Given& made, int target) const {
    std::vector<std::pair<const Word*, std::int64_t>> small;
    for (const Word& word : words_) {
        const std::int64_t value = integral(word.field.element) ? integer_at(made.values[word.parameter].data() + word.field.offset, word.field.width) : 0;
        if (value > 0 && value <= kSmall) small.emplace_back(&word, value);
    }
    auto set = [&](const auto& number, std::int64_t is) {
        const auto& [word, was] = number;
        if (is == was) return;
        std::memcpy(made.values[word->parameter].data() + word->field.offset, &is, word->field.width);
        made.numbers.emplace_back(was, is);
    };
    int turn = 0;
    for (std::size_t i = 0; i < small.size(); ++i)
        for (std::size_t k = i + 1; k < small.size(); ++k) {
            if (small[i].second == small[k].second) continue;
            const bool equal = turn + 1 == target;
            if (turn == target || equal) {
                const std::int64_t least = std::min(small[i].second, small[k].second);
                set(small[i], equal ? least : small[k].second);
                return set(small[k], equal ? least : small[i].second);
            }
            turn += 2;
        }
}

// A mode that this program never has.
void Inputs::turn_bit(Given& made, int target) const {
    if (target < 0 || static_cast<std::size_t>(target) >= job_.masks.size()) return;
    const auto& [parameter, bits] = job_.masks[static_cast<std::size_t>(target)];
    if (parameter >= made.values.size() || made.values[parameter].size() > sizeof bits) return;
    auto& value = made.values[parameter];
    const auto width = static_cast<unsigned>(value.size());
    const std::int64_t was = integer_at(value.data(), width), is = was ^ bits;
    std::memcpy(value.data(), &is, width);
    made.numbers.emplace_back(was, is);
}

// A number past the ends of the kernel's own arrays is none that it has results for: it is the largest instead, or, where
// the program has that one, any less, half of them in the steps that versions by vectors and tiles go by.
void Inputs::stay_within(Given& made, std::mt19937_64& random) const {
    for (const Parameter& p : job_.parameters) {
        if (!p.scalar || p.most <= 0 || p.fields.size() || static_cast<std::size_t>(p.index) >= made.values.size()) continue;
        auto& value = made.values[static_cast<std::size_t>(p.index)];
        const auto width = static_cast<unsigned>(value.size());
        const std::int64_t was = integer_at(by_value(static_cast<std::size_t>(p.index)), width), drawn = integer_at(value.data(), width);
        if (drawn <= p.most || was > p.most) continue;
        std::int64_t is = was < p.most ? p.most : 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.most));
        if (is > kStep && random() % 2) is -= is % kStep;
        std::memcpy(value.data(), &is, width);
        for (auto& [before, after] : made.numbers)
            if (before == was && after == drawn) after = is;
    }
}

// Of what is passed by value, what one kind of inputs makes of it.
void Inputs::change_words(Given& made, const Variant& variant, std::mt19937_64& random) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const int integers = static_cast<int>(std::count_if(words_.begin(), words_.end(), [&](const Word& w) { return suits(w, variant.kind); }));
    int real = 0;  // the next float
    Drawing drawing{variant, random, integers, static_cast<int>(random() % static_cast<unsigned>(std::max(integers, 1)))};
    int next = 0;
    for (const Word& word : words_) {
        if (!suits(word, variant.kind)) continue;
        const std::int64_t value = integer_at(made.values[word.parameter].data() + word.field.offset, word.field.width);
        if (value >= -kSmall && value <= kSmall) drawing.small.push_back(next);
        ++next;
    }
    for (const Word& word : words_) {
        std::uint8_t* at = made.values[word.parameter].data() + word.field.offset;
        if (integral(word.field.element)) {
            const std::int64_t was = integer_at(at, word.field.width);
            if (variant.kind == Variant::brim) {
                if (job_.loose.count(word.parameter) && variant.scale != Variant::bytes_full && variant.scale != Variant::lowest) fill_up(at, word.field.width);
            } else if (variant.kind == Variant::loose) {
                if (job_.loose.count(word.parameter) && (variant.target < 0 || variant.target == drawing.number++)) loosen(at, word.field.width, random);
            } else if (variant.kind != Variant::masked && variant.kind != Variant::against) {
                change_number(word, at, drawing);
            }
            const std::int64_t is = integer_at(at, word.field.width);
            if (is != was) made.numbers.emplace_back(was, is);
        } else if (is_floating(word.field.element)) {
            if (variant.kind == Variant::scalars) move_value(word.field.element, at, random);
            if (variant.kind == Variant::nulls) std::memset(at, 0, element_size(word.field.element));
            if (variant.kind == Variant::wide) widen(word.field.element, at, random);
            if (variant.kind == Variant::settled) settle(word.field.element, at, drawing.real++, drawing);
            if (variant.kind == Variant::endless && variant.target == real++) store(word.field.element, at, random() % 4 ? infinity : -infinity);
        }
    }
    if (variant.kind == Variant::reshaped) reshape(made, variant.target, random);
    if (variant.kind == Variant::toggled) toggle(made, variant.target);
    if (variant.kind == Variant::aliased) alias(made, variant.target);
    if (variant.kind == Variant::masked) turn_bit(made, variant.target);
    if (variant.kind == Variant::against) oppose(made, variant.target);
    stay_within(made, random);
}

// What is read lies where the results go to: its contents, too, are there then.
void Inputs::alias(Given& made, int target) const {
    if (static_cast<std::size_t>(target) >= pairs_.size()) return;
    const Pair& pair = pairs_[static_cast<std::size_t>(target)];
    const CUdeviceptr address = leads_[pair.out].address;
    std::memcpy(made.values[leads_[pair.in].parameter].data(), &address, sizeof address);
}

// Pointers that the kernel asks for, or that are null within structures: null where they are not, and else not.
void Inputs::toggle(Given& made, int target) const {
    for (std::size_t i = 0; i < optional_.size(); ++i) {
        auto& value = made.values[static_cast<std::size_t>(optional_[i]->index)];
        if (value.size() != sizeof spare_ || (target >= 0 && target != static_cast<int>(i))) continue;
        CUdeviceptr address = 0;
        std::memcpy(&address, value.data(), sizeof address);
        address = address ? 0 : spare_;
        std::memcpy(value.data(), &address, sizeof address);
    }
    for (std::size_t i = 0; i < nulls_.size() && spare_; ++i)
        if (target < 0 || target == static_cast<int>(optional_.size() + i))
            std::memcpy(made.values[nulls_[i].parameter].data() + nulls_[i].field.offset, &spare_, sizeof spare_);
}

int Inputs::number_count() const {
    return static_cast<int>(std::count_if(words_.begin(), words_.end(), [](const Word& w) { return integral(w.field.element); }));
}

bool Inputs::varies(const Variant& v) const {
    if (v.kind == Variant::fewer || v.kind == Variant::standing) return true;
    if (v.kind == Variant::aliased) return static_cast<std::size_t>(v.target) < pairs_.size();
    if (v.kind == Variant::tables) return !tables_.empty();
    if (v.kind == Variant::toggled) return !optional_.empty() || !nulls_.empty();
    if (v.of_other_values()) return std::any_of(words_.begin(), words_.end(), [](const Word& w) { return is_floating(w.field.element); });
    if (v.by_value()) return number_count() > 0;
    return v.of_integers() ? !integers_.empty() : !floats_.empty();
}

Given Inputs::arguments(const Variant& variant, std::uint64_t seed) const {
    Given made;
    auto of_arguments = [](const Variant& v) { return v.of_numbers() && !(v.kind == Variant::below && v.target >= 0); };
    if (!variant.any(of_arguments) || !baseline_.parameters) return made;
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < places_.size(); ++i) made.values.emplace_back(by_value(i), by_value(i) + places_[i].bytes);
    const auto before = made.values;
    if (of_arguments(variant)) change_words(made, variant, random);
    for (const Variant& other : variant.beside)
        if (other.of_other_values()) change_words(made, other, random);
    if (made.values == before) return {};
    for (auto& value : made.values) made.pointers.push_back(value.data());
    return made;
}

}  // namespace warplens
