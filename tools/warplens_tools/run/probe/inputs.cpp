// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "compare.h"
#include "driver.h"

namespace warplens {
namespace {

// Of memory of unknown type so much is looked at, in as many parts; each begins where records of every length do.
constexpr std::size_t kSeen = 4u << 20, kParts = 4, kCommon = 720720 * 4;
// A variable of so many numbers may hold what others pass by value.
constexpr std::size_t kFewNumbers = 64;
constexpr std::size_t kTable = 65536;
constexpr std::size_t kMostSpare = 256u << 20;
// An integer by value that counts as small: a radius, a mode, no length of what lies in memory.
constexpr std::int64_t kSmall = 64;
// From here on one may be a length of rows or columns.
constexpr std::int64_t kFewLong = 8;

bool integral(Element element) { return element == Element::integer; }

std::int64_t integer_at(const std::uint8_t* at, unsigned width) {
    std::int64_t value = 0;
    std::memcpy(&value, at, width);
    const unsigned unused = 64 - 8 * width;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused) >> unused;
}

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

// What 16-bit integers hold all of which are ordinary numbers of such a type, of many sizes; else `other`.
Element disguised(const std::vector<std::uint8_t>& bytes) {
    std::size_t brain = 0, half = 0, zeros = 0, negative = 0, count = bytes.size() / 2;
    bool seen[256] = {};
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t value;
        std::memcpy(&value, bytes.data() + 2 * i, sizeof value);
        const unsigned size = value & 0x7fffu;
        zeros += size == 0;
        negative += value >> 15;
        brain += size >= 0x2b80 && size < 0x5400;
        half += size >= 0x0c00 && size < 0x6400;
        seen[size >> 7] = true;
    }
    const auto sizes = std::count(seen, seen + 256, true);
    if (count < 256 || zeros * 2 > count || sizes < 6) return Element::other;
    if (brain + zeros == count) return Element::bf16;
    return half + zeros == count && negative * 8 > count && sizes > 16 ? Element::f16 : Element::other;
}

// A length, a width or a step that is one less, or half; what is zero stays, or is one: a flag.
void change(std::uint8_t* at, unsigned width, Variant::Kind kind, std::mt19937_64& random) {
    const std::int64_t value = integer_at(at, width);
    if (kind == Variant::more && value > 0 && value <= kSmall) {
        const std::int64_t grown = value + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(3 * value));
        std::memcpy(at, &grown, width);
    }
    if (kind == Variant::many && value > 0 && value <= kSmall) {
        const std::int64_t grown = value * (10 + static_cast<std::int64_t>(random() % 90));
        std::memcpy(at, &grown, width);
    }
    // no length, which nobody takes below zero
    if (kind == Variant::below && value >= 0 && value <= kSmall) {
        const std::int64_t negative = value > 1 && random() % 2 ? -value : -1;
        std::memcpy(at, &negative, width);
    }
    if (kind == Variant::more || kind == Variant::many || kind == Variant::below || kind == Variant::reshaped) return;
    const std::int64_t raised = value ? value : 1, less = value > 0 ? value - 1 : value;
    const std::int64_t other = kind == Variant::raised ? raised : kind == Variant::halved ? value / 2 : less;
    std::memcpy(at, &other, width);
}

}  // namespace

Inputs::Inputs(const Job& job, const Launch& baseline, Memory& memory)
    : job_(job), baseline_(baseline), memory_(memory), places_(signature(baseline.function)), asked_(job.constants) {
    asked_.insert(asked_.end(), {0, 1, -1});
    find_parameters();
    find_variables();
    auto place = [](const Typed& t) { return std::pair(t.block, t.offset); };
    std::stable_sort(typed_.begin(), typed_.end(), [&](const Typed& a, const Typed& b) { return place(a) < place(b); });
    // what a structure leads to, where no parameter leads there too
    const std::vector<Typed> direct = typed_;
    for (const Typed& t : direct) {
        std::size_t end = 0;
        type_at(t.block, t.offset, end);
        follow(t, end - t.offset);
    }
    std::stable_sort(typed_.begin(), typed_.end(), [&](const Typed& a, const Typed& b) { return place(a) < place(b); });
    find_areas();
}

void Inputs::find_parameters() {
    for (std::size_t index = 0; index < places_.size(); ++index) {
        auto of = [&](const Parameter& p) { return static_cast<std::size_t>(p.index) == index; };
        const auto found = std::find_if(job_.parameters.begin(), job_.parameters.end(), of);
        const Parameter* p = found == job_.parameters.end() ? nullptr : &*found;
        if (!p || p->scalar) find_by_value(index, p);
        else if (const CUdeviceptr address = pointer_argument(baseline_, places_, index)) {
            find_pointer(*p, address);
            leads_.push_back({index, 0, address});
        }
        if (p && p->optional && !p->scalar) optional_.push_back(p);
    }
    find_spare();
}

// Memory for pointers that are null and shall not be: as large as any of the program's, ordinary numbers.
void Inputs::find_spare() {
    auto null = [&](const Parameter* p) { return !pointer_argument(baseline_, places_, static_cast<std::size_t>(p->index)); };
    const auto first = std::find_if(optional_.begin(), optional_.end(), null);
    if (first == optional_.end()) return;
    std::size_t bytes = 4096;
    for (const Block& block : memory_.blocks) bytes = std::max(bytes, block.bytes / 8 * 8);
    if (bytes > kMostSpare || cuMemAlloc(&spare_, bytes) != CUDA_SUCCESS) return;
    const Element element = (*first)->element;
    const std::size_t size = is_floating(element) ? element_size(element) : std::max((*first)->width, 1u);
    std::vector<std::uint8_t> values(bytes);
    for (std::size_t at = 0; at + size <= bytes; at += size) {
        if (is_floating(element)) store(element, &values[at], 0.5 + static_cast<double>(at / size % 13) / 8);
        else values[at] = at / size % 3 != 0;
    }
    if (cuMemcpyHtoD(spare_, values.data(), bytes) != CUDA_SUCCESS) spare_ = 0;
}

Given Inputs::moved_elsewhere(const Given& given, const std::function<CUdeviceptr(CUdeviceptr)>& to) const {
    Given made;
    if (!baseline_.parameters) return made;
    made.values = given.values;
    for (std::size_t i = made.values.size(); i < places_.size(); ++i) made.values.emplace_back(by_value(i), by_value(i) + places_[i].bytes);
    for (const Lead& lead : leads_) {
        CUdeviceptr address = 0;
        std::uint8_t* at = made.values[lead.parameter].data() + lead.offset;
        std::memcpy(&address, at, sizeof address);
        if (address != lead.address) continue;  // it is null now
        address = to(address);
        std::memcpy(at, &address, sizeof address);
    }
    for (auto& value : made.values) made.pointers.push_back(value.data());
    return made;
}

void Inputs::find_pointer(const Parameter& p, CUdeviceptr address) {
    const Block* block = memory_.find(address);
    if (!block) return;
    if (p.table) add_table(*block, address, p);
    else add_type(address, p.element, p.index, p.constant, p.width, {p.stride, p.fields}, p.whole);
}

const std::uint8_t* Inputs::by_value(std::size_t index) const {
    return baseline_.parameters ? static_cast<const std::uint8_t*>(baseline_.parameters[index]) : nullptr;
}

// A number, or a structure whose fields the source gives, else its contents.
void Inputs::find_by_value(std::size_t index, const Parameter* p) {
    const std::uint8_t* bytes = by_value(index);
    const std::size_t size = places_[index].bytes;
    if (!bytes) return;
    std::vector<Field> fields;
    if (p && p->stride == size) fields = p->fields;
    else if (p && p->element == Element::integer && p->width == size) fields = {{0, p->element, p->width, false}};
    else if (p && is_floating(p->element) && element_size(p->element) == size) fields = {{0, p->element, 0, false}};
    else if (!p || p->element == Element::other)
        fields = record_in(bytes, size, [&](CUdeviceptr address) { return memory_.find(address) != nullptr; }).fields;
    // an enumeration, a flag of a type that the source names otherwise
    if (!p && fields.empty() && (size == 1 || size == 2 || size == 4)) fields = {{0, Element::integer, static_cast<unsigned>(size), false}};
    for (const Field& field : fields) {
        if (!field.pointer) {
            words_.push_back({index, field});
            continue;
        }
        CUdeviceptr address = 0;
        std::memcpy(&address, bytes + field.offset, sizeof address);
        if (!address) continue;
        add_type(address, field.element, static_cast<int>(index), true, field.width, {});
        leads_.push_back({index, field.offset, address});
    }
}

void Inputs::find_variables() {
    for (const Block& block : memory_.blocks) {
        if (block.variable.empty()) continue;
        const auto known = job_.held.find(block.variable);
        const Parameter p = known == job_.held.end() ? Parameter{} : known->second;
        add_type(block.base, p.element, -1, true, p.width, {p.stride, p.fields}, p.whole);
    }
}

void Inputs::add_type(CUdeviceptr address, Element element, int parameter, bool constant, unsigned width, Records records, std::size_t whole) {
    const Block* block = memory_.find(address);
    if (!block) return;
    typed_.push_back({static_cast<std::size_t>(block - memory_.blocks.data()), static_cast<std::size_t>(address - block->base),
                      element, parameter, constant, width, std::move(records), whole ? whole : width > 1 ? width : 0});
}

// Every pointer in a table leads to elements of the table's type.
void Inputs::add_table(const Block& block, CUdeviceptr address, const Parameter& p) {
    Stretch table{static_cast<std::size_t>(&block - memory_.blocks.data()), static_cast<std::size_t>(address - block.base), 0, Element::other};
    std::vector<CUdeviceptr> entries(std::min((block.bytes - table.offset) / sizeof(CUdeviceptr), kTable));
    table.bytes = entries.size() * sizeof(CUdeviceptr);
    memory_.read_saved(table, reinterpret_cast<std::uint8_t*>(entries.data()));
    for (CUdeviceptr entry : entries)
        if (entry) add_type(entry, p.element, p.index, p.constant, p.width, {p.stride, p.fields}, p.whole);
}

Records Inputs::guessed(const Stretch& stretch) const {
    auto leads = [&](CUdeviceptr address) { return memory_.find(address) != nullptr; };
    std::vector<std::uint8_t> bytes;
    const std::size_t parts = stretch.bytes > kSeen ? kParts : 1, each = std::min(stretch.bytes, kSeen / parts);
    Records found;
    for (std::size_t part = 0; part < parts; ++part) {
        Stretch seen = stretch;
        seen.offset += part * (stretch.bytes / parts) / kCommon * kCommon;
        seen.bytes = each;
        bytes.resize(each);
        memory_.read_saved(seen, bytes.data());
        Records here = records_in(bytes.data(), bytes.size(), leads);
        auto same = [](const Field& a, const Field& b) { return a.offset == b.offset && a.element == b.element; };
        if (part && (here.stride != found.stride || !std::equal(here.fields.begin(), here.fields.end(), found.fields.begin(), found.fields.end(), same)))
            return {};
        found = std::move(here);
    }
    return found;
}

// The pointers in structures: those of the first few.
void Inputs::follow(const Typed& typed, std::size_t bytes) {
    if (typed.element != Element::other || bytes < sizeof(CUdeviceptr)) return;
    Stretch stretch{typed.block, typed.offset, bytes, Element::other};
    const Records records = typed.records.fields.empty() ? guessed(stretch) : typed.records;
    for (const Field& field : records.fields) {
        for (std::size_t at = field.offset; field.pointer && at + 8 <= std::min<std::size_t>(bytes, 64 * records.stride); at += records.stride) {
            CUdeviceptr address = 0;
            stretch.offset = typed.offset + at;
            stretch.bytes = sizeof address;
            memory_.read_saved(stretch, reinterpret_cast<std::uint8_t*>(&address));
            auto starts = [&](const Typed& t) { return memory_.blocks[t.block].base + t.offset == address; };
            if (address && std::none_of(typed_.begin(), typed_.end(), starts))
                add_type(address, field.element, typed.parameter, true, field.width, {});
        }
    }
}

const Typed* Inputs::said_of(std::size_t block, std::size_t offset, std::size_t& end) const {
    end = memory_.blocks[block].bytes;
    const Typed* here = nullptr;
    bool clash = false;
    for (const Typed& t : typed_) {
        if (t.block != block) continue;
        if (here && t.offset > offset && t.offset != here->offset) {
            end = std::min(end, t.offset);
            break;
        }
        clash = here && here->offset == t.offset && here->element != t.element;
        here = &t;
    }
    return clash ? nullptr : here;
}

Element Inputs::type_at(std::size_t block, std::size_t offset, std::size_t& end) const {
    const Typed* here = said_of(block, offset, end);
    if (!here || !is_floating(here->element)) return here ? here->element : Element::other;
    const std::size_t size = element_size(here->element);
    if (here->offset % size) return Element::other;
    if (offset % size == 0 && end - offset >= size) {
        end = offset + (end - offset) / size * size;
        return here->element;
    }
    return Element::other;  // a last part of an element
}

void Inputs::add_area(const Stretch& stretch, unsigned width) {
    const bool variable = !memory_.blocks[stretch.block].variable.empty();
    if (is_floating(stretch.element)) floats_.push_back({stretch, 0, variable});
    else if (integral(stretch.element) && width && stretch.offset % width == 0) integers_.push_back({stretch, width, variable});
}

void Inputs::find_areas() {
    for (std::size_t b = 0; b < memory_.blocks.size(); ++b)
        for (std::size_t at = 0, end = 0; at < memory_.blocks[b].bytes; at = end) {
            const Element element = type_at(b, at, end);
            if (is_floating(element)) add_area({b, at, end - at, element}, 0);
        }
    std::pair<std::size_t, std::size_t> last(SIZE_MAX, 0);
    for (const Typed& t : typed_) {
        std::size_t end = 0;
        const Element element = type_at(t.block, t.offset, end);
        if (is_floating(element) || element != t.element || last == std::pair(t.block, t.offset)) continue;
        last = {t.block, t.offset};
        const std::size_t bytes = end - t.offset;
        if (integral(element)) {
            if (t.width && bytes >= t.width) add_area({t.block, t.offset, bytes / t.width * t.width, element}, t.width);
            if (t.width == 2 && t.offset % 2 == 0) {
                std::vector<std::uint8_t> seen(std::min(bytes / 2 * 2, kSeen));
                memory_.read_saved({t.block, t.offset, seen.size(), element}, seen.data());
                const Element kind = disguised(seen);
                if (is_floating(kind)) add_area({t.block, t.offset, bytes / 2 * 2, kind}, 0);
            }
            continue;
        }
        const Records records = t.records.fields.empty() ? guessed({t.block, t.offset, bytes, element}) : t.records;
        for (const Field& field : records.fields) {
            const std::size_t size = integral(field.element) ? field.width : element_size(field.element);
            if (field.pointer || bytes < field.offset + size) continue;
            add_area({t.block, t.offset + field.offset, bytes - field.offset, field.element, records.stride}, field.width);
        }
    }
}

std::vector<Stretch> Inputs::outputs() const {
    std::vector<Stretch> found;
    for (const Typed& t : typed_) {
        // a structure may hold pointers, which nothing but their own value may replace
        if (t.constant || t.element == Element::other) continue;
        std::size_t end = 0;
        const Element element = type_at(t.block, t.offset, end);
        found.push_back({t.block, t.offset, end - t.offset, element});
    }
    return found;
}

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

// Values that reach about as far as some buffer does are more likely its indices than anything else.
bool Inputs::is_index(const Area& area) const {
    Stretch seen = area.stretch;
    seen.bytes = std::min(seen.bytes, kSeen);
    std::vector<std::uint8_t> bytes(seen.bytes);
    memory_.read_saved(seen, bytes.data());
    const std::size_t step = seen.stride ? seen.stride : area.width;
    std::int64_t most = 0;
    for (std::size_t at = 0; at + area.width <= bytes.size(); at += step) most = std::max(most, integer_at(bytes.data() + at, area.width));
    return std::any_of(typed_.begin(), typed_.end(), [&](const Typed& t) {
        std::size_t end = 0;
        const Element element = type_at(t.block, t.offset, end);
        const auto size = static_cast<std::int64_t>(is_floating(element) ? element_size(element) : t.width ? t.width : 4);
        const std::int64_t count = static_cast<std::int64_t>(end - t.offset) / size;
        return most < count && 2 * most >= count;
    });
}

// What the kernel compares with, on the card: how many, and each.
CUdeviceptr Inputs::given() {
    if (given_) return given_;
    std::vector<std::int64_t> all = asked_;
    all.insert(all.begin(), static_cast<std::int64_t>(asked_.size()));
    check(cuMemAlloc(&given_, all.size() * sizeof all[0]), "cuMemAlloc");
    check(cuMemcpyHtoD(given_, all.data(), all.size() * sizeof all[0]), "cuMemcpyHtoD");
    return given_;
}

void Inputs::vary(const Area& area, const Variant& variant, std::uint64_t seed) {
    if ((variant.kind == Variant::full || variant.kind == Variant::asked) && is_index(area)) return;
    memory_.vary(area.stretch, variant.kind, area.width, seed, variant.kind == Variant::asked ? given() : fewest());
}

void Inputs::put(const Variant& variant, std::uint64_t seed) {
    auto next = [&] { return seed++ * 0x9e3779b97f4a7c15ull; };
    if (variant.own() || variant.of_other_values()) return;
    if (variant.by_value()) {
        for (const Area& area : integers_)
            if (variant.kind < Variant::scalars && area.variable && variant.target < 0 && area.stretch.bytes <= kFewNumbers * area.width)
                memory_.vary(area.stretch, variant.kind, area.width, next(), 0);
        return;
    }
    if (variant.of_integers()) {
        if (variant.kind == Variant::below && variant.target < 0) return;
        // what is asked for in one buffer has to stand in another
        const std::uint64_t shared = variant.kind == Variant::asked ? next() & ~std::uint64_t{UINT32_MAX} : 0;
        for (std::size_t i = 0; i < integers_.size(); ++i) {
            const std::uint64_t own = next();
            if (variant.target < 0 || variant.target == static_cast<int>(i)) vary(integers_[i], variant, shared ? shared | (own & UINT32_MAX) : own);
        }
        return;
    }
    for (std::size_t i = 0; i < floats_.size(); ++i) {
        const Area& area = floats_[i];
        if (variant.target >= 0 && variant.target != static_cast<int>(i)) continue;
        if (variant.kind == Variant::moved) memory_.move(area.stretch, variant.scale, variant.noise, next());
        else memory_.vary(area.stretch, variant.kind, 0, next(), 0);
    }
}

void Inputs::move(double move, std::uint64_t seed) {
    for (const Area& area : floats_) {
        const Stretch& s = area.stretch;
        memory_.move(s, 1, move, seed + s.block + (s.stride ? 0x9e3779b9ull * s.offset : 0));
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

// A small integer by value becomes, as often as not, one that the kernel asks for.
void Inputs::ask(std::uint8_t* at, unsigned width, std::mt19937_64& random) const {
    const std::int64_t was = integer_at(at, width);
    if (was > kSmall || was < -kSmall || random() % 2) return;
    const std::int64_t is = asked_[random() % asked_.size()];
    // modes and counts, which lead nowhere far
    if (is >= -1 && is <= 4 * kSmall) std::memcpy(at, &is, width);
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
    const std::int64_t factor = random() % 2 ? 2 : 4;
    // what the grid covers cannot grow without it
    const Word& grown = *lengths[longer];
    const std::int64_t length = integer_at(made.values[grown.parameter].data() + grown.field.offset, grown.field.width);
    for (unsigned axis = 0; axis < 3; ++axis)
        if (covers(baseline_, axis, length)) return;
    for (const bool more : {true, false}) {
        const Word& word = *lengths[more ? longer : (longer + step) % lengths.size()];
        std::uint8_t* at = made.values[word.parameter].data() + word.field.offset;
        const std::int64_t was = integer_at(at, word.field.width), is = more ? was * factor : was / factor;
        std::memcpy(at, &is, word.field.width);
        made.numbers.emplace_back(was, is);
    }
}

Given Inputs::arguments(const Variant& variant, std::uint64_t seed) const {
    Given made;
    const bool of_buffers = variant.kind == Variant::below && variant.target >= 0;
    if (!variant.of_numbers() || of_buffers || !baseline_.parameters) return made;
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < places_.size(); ++i) made.values.emplace_back(by_value(i), by_value(i) + places_[i].bytes);
    const auto before = made.values;
    int number = 0;
    for (const Word& word : words_) {
        std::uint8_t* at = made.values[word.parameter].data() + word.field.offset;
        if (integral(word.field.element)) {
            const bool meant = variant.target < 0 || variant.target == number++;
            const bool of_floats = variant.of_other_values();
            const std::int64_t was = integer_at(at, word.field.width);
            if (variant.kind == Variant::asked) ask(at, word.field.width, random);
            else if (!of_floats && meant) change(at, word.field.width, variant.kind, random);
            const std::int64_t is = integer_at(at, word.field.width);
            if (is != was) made.numbers.emplace_back(was, is);
        } else if (is_floating(word.field.element)) {
            if (variant.kind == Variant::scalars) move_value(word.field.element, at, random);
            if (variant.kind == Variant::nulls) std::memset(at, 0, element_size(word.field.element));
            if (variant.kind == Variant::wide) widen(word.field.element, at, random);
        }
    }
    if (variant.kind == Variant::reshaped) reshape(made, variant.target, random);
    for (std::size_t i = 0; variant.kind == Variant::toggled && i < optional_.size(); ++i) {
        auto& value = made.values[static_cast<std::size_t>(optional_[i]->index)];
        if (value.size() != sizeof spare_ || (variant.target >= 0 && variant.target != static_cast<int>(i))) continue;
        CUdeviceptr address = 0;
        std::memcpy(&address, value.data(), sizeof address);
        address = address ? 0 : spare_;
        std::memcpy(value.data(), &address, sizeof address);
    }
    if (made.values == before) return {};
    for (auto& value : made.values) made.pointers.push_back(value.data());
    return made;
}

}  // namespace warplens
