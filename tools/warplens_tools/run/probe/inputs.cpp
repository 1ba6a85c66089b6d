// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "compare.h"
#include "driver.h"

namespace warplens {
namespace {

// Of memory of unknown type as many parts are looked at; each begins where records of every length do.
constexpr std::size_t kParts = 4, kCommon = 720720 * 4;
constexpr std::size_t kTable = 65536;
constexpr std::size_t kMostSpare = 256u << 20;

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

}  // namespace

std::int64_t integer_at(const std::uint8_t* at, unsigned width) {
    std::int64_t value = 0;
    std::memcpy(&value, at, width);
    const unsigned unused = 64 - 8 * width;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused) >> unused;
}

Inputs::~Inputs() {
    give_back(given_);
    give_back(spare_);
}

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
    group(floats_);
    group(integers_);
    find_pairs();
}

void Inputs::find_parameters() {
    for (std::size_t index = 0; index < places_.size(); ++index) {
        auto of = [&](const Parameter& p) { return static_cast<std::size_t>(p.index) == index; };
        const auto found = std::find_if(job_.parameters.begin(), job_.parameters.end(), of);
        const Parameter* p = found == job_.parameters.end() ? nullptr : &*found;
        if (job_.unread.count(index)) continue;
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
    if (first == optional_.end() && nulls_.empty()) return;
    const Element element = first == optional_.end() ? nulls_[0].field.element : (*first)->element;
    const unsigned width = first == optional_.end() ? nulls_[0].field.width : (*first)->width;
    std::size_t bytes = 4096;
    for (const Block& block : memory_.blocks) bytes = std::max(bytes, block.bytes / 8 * 8);
    if (bytes > kMostSpare || cuMemAlloc(&spare_, bytes) != CUDA_SUCCESS) return;
    const std::size_t size = is_floating(element) ? element_size(element) : std::max(width, 1u);
    std::vector<std::uint8_t> values(bytes);
    for (std::size_t at = 0; at + size <= bytes; at += size) {
        if (is_floating(element)) store(element, &values[at], 0.5 + static_cast<double>(at / size % 13) / 8);
        else values[at] = at / size % 3 != 0;
    }
    if (cuMemcpyHtoD(spare_, values.data(), bytes) == CUDA_SUCCESS) return;
    cuMemFree(spare_);
    spare_ = 0;
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

GridRule::Values Inputs::passed(const Given& given) const {
    return [this, &given](std::size_t index) -> std::optional<std::int64_t> {
        if (index >= places_.size() || !baseline_.parameters) return std::nullopt;
        const std::size_t bytes = places_[index].bytes;
        if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return std::nullopt;
        const std::uint8_t* at = index < given.values.size() ? given.values[index].data() : by_value(index);
        return integer_at(at, static_cast<unsigned>(bytes));
    };
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
        if (!address) {
            nulls_.push_back({index, field});
            continue;
        }
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
    const std::size_t step = is_floating(p.element) ? element_size(p.element) : p.width;
    if (p.constant && step) tables_.push_back({table, step});
    for (CUdeviceptr entry : entries) {
        if (!entry || !memory_.find(entry)) continue;
        add_type(entry, p.element, p.index, p.constant, p.width, {p.stride, p.fields}, p.whole);
        typed_.back().table = true;
    }
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

// What all entries of one table lead to is one buffer as any other.
void Inputs::group(std::vector<Area>& areas) const {
    std::size_t groups = 0;
    std::map<int, std::size_t> of_table;
    for (Area& area : areas) {
        std::size_t end = 0;
        const Typed* said = said_of(area.stretch.block, area.stretch.offset, end);
        area.table = said && said->table ? said->parameter : -1;
        const auto known = of_table.find(area.table);
        area.group = area.table >= 0 && known != of_table.end() ? known->second : groups++;
        if (area.table >= 0) of_table[area.table] = area.group;
    }
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

void Inputs::find_pairs() {
    auto said = [&](const Lead& lead, std::size_t& end) -> const Typed* {
        const Block* block = memory_.find(lead.address);
        if (!block || lead.offset || !block->variable.empty()) return nullptr;
        const auto index = static_cast<std::size_t>(block - memory_.blocks.data());
        const Typed* t = said_of(index, lead.address - block->base, end);
        return t && t->offset == lead.address - block->base && t->parameter == static_cast<int>(lead.parameter) ? t : nullptr;
    };
    for (std::size_t i = 0; i < leads_.size(); ++i)
        for (std::size_t o = 0; o < leads_.size(); ++o) {
            std::size_t end = 0, other_end = 0;
            const Typed *in = said(leads_[i], end), *out = said(leads_[o], other_end);
            // what is read where loaded numbers lead is read before or after others write there, by chance
            if (job_.gathered.count(leads_[i].parameter)) continue;
            if (!in || !out || !in->constant || out->constant || in->block == out->block || in->element == Element::other) continue;
            const std::size_t bytes = end - in->offset;
            if (in->element != out->element || in->width != out->width || bytes != other_end - out->offset) continue;
            pairs_.push_back({i, o, {in->block, in->offset, bytes, in->element}, {out->block, out->offset, bytes, out->element}});
        }
}

std::vector<Stretch> Inputs::outputs() const {
    std::vector<Stretch> found;
    for (const Typed& t : typed_) {
        if (t.constant || (t.element == Element::other && t.records.fields.empty())) continue;
        std::size_t end = 0;
        const Element element = type_at(t.block, t.offset, end);
        const std::size_t bytes = end - t.offset;
        if (t.element != Element::other) found.push_back({t.block, t.offset, bytes, element});
        // of a structure what is no pointer, which nothing but its own value may replace
        for (const Field& field : t.records.fields)
            if (!field.pointer && field.element != Element::other && field.offset < bytes)
                found.push_back({t.block, t.offset + field.offset, bytes - field.offset, field.element, t.records.stride});
    }
    return found;
}

}  // namespace warplens
