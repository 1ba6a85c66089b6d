// SPDX-License-Identifier: Apache-2.0
// The oracle's other half: how one run compares with what is right.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "oracle.h"

namespace warplens {
namespace {

// What a block leaves for others, in bytes.
constexpr std::size_t kLeftByBlock = 64;

}  // namespace

std::string Oracle::place(std::size_t block, std::size_t offset) const {
    const Block& b = memory_.blocks[block];
    if (!b.variable.empty()) return b.variable + " at byte " + std::to_string(offset);
    for (const Typed& t : inputs_.typed())
        if (t.block == block)
            return "the memory of parameter " + std::to_string(t.parameter) + " at byte " + std::to_string(offset);
    return "an allocation of " + std::to_string(b.bytes) + " bytes at byte " + std::to_string(offset);
}

Outcome Oracle::judge(const Difference& d, const Expected& e, const Stretch& s, bool lowered) const {
    Outcome outcome;
    outcome.difference = d;
    if (e.leftover) {
        // how far they may be off was learned of what lay there then
        outcome.state = "unproven";
        outcome.reason = "the kernel's own results follow from what other launches left in shared memory or registers, in " +
                         place(s.block, s.place(d.first == SIZE_MAX ? 0 : d.first));
        return outcome;
    }
    if (d.right()) return outcome;
    if (e.repeats && lowered && d.lowered()) {
        outcome.lowered = true;
        return outcome;
    }
    const std::string where = place(s.block, s.place(d.first == SIZE_MAX ? 0 : d.first));
    outcome.state = "wrong";
    if (!e.repeats && !e.unordered && !d.stray) {
        outcome.state = "unproven";
        outcome.reason = "the kernel's own results differ from run to run in " + where;
    } else if (d.as_floats) {
        outcome.state = "unproven";
        outcome.reason = "results of unknown type differ, within rounding if they are floats, in " + where;
    } else if (d.elsewhere) {
        outcome.state = "unproven";
        outcome.reason = "elements lie beyond where the kernel has ever put them, in " + where;
    } else if (d.stray) {
        outcome.reason = "writes where the kernel does not, in " + where;
    } else if (d.nan) {
        outcome.reason = "NaN or infinity where the kernel has none, or none where it has, in " + where;
    } else if (!job_.option("perturb") && !inputs_.floats().empty() && is_floating(e.element) && d.relative < kNear) {
        outcome.state = "unproven";
        outcome.reason = "results differ by little, and how far rounding moves the kernel's own could not be learned, in " + where;
    } else if (d.blind) {
        outcome.state = "unproven";
        outcome.reason = "results are of another size, but no larger than their rounding errors, in " + where;
    } else if (d.coarse && !d.wrong) {
        outcome.reason = "results are rounded more coarsely than the kernel's own in " + where;
    } else if (d.scale) {
        outcome.reason = "results are missing or of another size in " + where;
    } else {
        outcome.reason = "results differ in " + where;
    }
    return outcome;
}

bool Oracle::keeps_records(const Case& c, const std::vector<std::size_t>& record, const Reader& reader) {
    if (record.size() < 2) return true;
    std::vector<Bytes> now;
    std::vector<Column> right, got;
    for (std::size_t k : record) {
        const std::uint8_t* bytes = reader(k);
        now.emplace_back(bytes, bytes + stretches_[k].held());
        right.push_back(column(k, c.expected[k].bytes.data()));
        got.push_back(column(k, now.back().data()));
    }
    return same_rows(right, got);
}

bool Oracle::keeps_links(const Case& c, const Reader& reader) {
    for (const auto& [p, q] : links_) {
        const std::uint8_t* places = reader(p);
        const Bytes kept(places, places + stretches_[p].held());
        const Link right{column(p, c.expected[p].bytes.data()), column(q, c.expected[q].bytes.data())};
        // inputs on which the kernel's own lead nowhere say nothing
        if (same_ends(right, right) && !same_ends(right, {column(p, kept.data()), column(q, reader(q))})) return false;
    }
    return true;
}

// Memory that one launch's blocks use among themselves, as the source says, is no result where no launch starts from what
// lay there, and where it holds no more than a few numbers of each block: blocks that share the work otherwise leave
// others. On larger copies it is what it is in place.
void Oracle::find_unseen() {
    const std::size_t most = kLeftByBlock * baseline_.grid[0] * baseline_.grid[1] * baseline_.grid[2];
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        bool said = false, others = false;
        for (const Typed& t : inputs_.typed()) {
            if (t.block != stretches_[k].block) continue;
            const auto& given = job_.parameters;
            const bool here = std::any_of(given.begin(), given.end(), [&](const Parameter& p) { return p.index == t.parameter && p.scratch; });
            (here ? said : others) = true;
        }
        const bool in_place = k < pure_.size() && pure_[k] && memory_.blocks[stretches_[k].block].bytes <= most;
        unseen_.push_back(said && !others && (job_.roomy > 0 || in_place));
    }
}

bool Oracle::forgets(int parameter) const {
    bool led = false;
    for (const Typed& t : inputs_.typed())
        for (std::size_t k = 0; t.parameter == parameter && k < stretches_.size(); ++k) {
            if (stretches_[k].block != t.block) continue;
            if (!unseen_[k]) return false;
            led = true;
        }
    return led;
}

// The words of results that are no floats and differ; of more than are looked at one more.
void Oracle::find_wholes(std::size_t stretch, const Expected& e, const std::uint8_t* got, std::vector<Apart>& apart) {
    for (std::size_t at = 0; at + 4 <= e.bytes.size() && apart.size() <= kMostApart; at += 4) {
        if (!std::memcmp(&e.bytes[at], got + at, 4)) continue;
        std::uint32_t value = 0;
        std::memcpy(&value, got + at, sizeof value);
        apart.push_back({stretch, at, value});
    }
}

// Results that are not bitwise equal; `got` gives a stretch's contents, until it is asked for another's.
Outcome Oracle::weigh(const Case& c, const Chunks& differing, const Reader& got) {
    Outcome worst;
    read_masks();
    // where results differ from run to run these may be expected, and what another run left is not
    bool differs_only_outside = c.of_one_run, fixed = true;
    const bool lowered = lowers_ && !c.variant.shortened();
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        const Stretch& s = stretches_[i];
        const std::size_t first = memory_.blocks[s.block].first_chunk + s.offset / kChunk;
        const std::size_t last = memory_.blocks[s.block].first_chunk + (s.offset + s.bytes - 1) / kChunk;
        auto found = std::lower_bound(differing.begin(), differing.end(), first);
        if (found == differing.end() || *found > last) continue;
        const std::uint8_t* bytes = got(i);
        if (i < unseen_.size() && unseen_[i]) {
            differs_only_outside = differs_only_outside && !std::memcmp(bytes, c.expected[i].bytes.data(), s.held());
            continue;
        }
        const Outcome here = judge(compare(c.expected[i], bytes, tolerance_), c.expected[i], s, lowered);
        worst.difference.merge(here.difference);
        // what changes places from run to run may be anything anywhere
        fixed = fixed && !(here.difference.wrong && (c.expected[i].unordered || !c.expected[i].repeats));
        if (here.difference.whole) find_wholes(i, c.expected[i], bytes, worst.apart);
        worst.lowered = worst.lowered || here.lowered;
        differs_only_outside = differs_only_outside && !c.expected[i].unordered &&
                               !std::memcmp(bytes, c.expected[i].bytes.data(), s.held());
        const bool worse = here.state == std::string("wrong") ? worst.state != std::string("wrong")
                                                              : worst.state == std::string("right");
        if (here.reason.empty() || !worse) continue;
        worst.state = here.state;
        worst.reason = here.reason;
    }
    // not beside anything else that is wrong
    if (!fixed || worst.difference.wrong != worst.difference.whole) worst.apart.clear();
    for (const auto& record : records_) {
        if (!worst.reason.empty() || keeps_records(c, record, got)) continue;
        const Stretch& s = stretches_[record.back()];
        worst.state = "wrong";
        worst.reason = "results that belong together are apart, in " + place(s.block, s.offset);
        worst.difference.wrong = 1;
    }
    if (worst.reason.empty() && !keeps_links(c, got)) {
        worst.state = "wrong";
        worst.reason = "places lead to other results than the kernel's, in " + place(stretches_[links_[0].first].block, stretches_[links_[0].first].offset);
        worst.difference.wrong = 1;
    }
    if (worst.reason.empty() && !worst.difference.ratio && differs_only_outside) {
        worst.state = "wrong";
        worst.reason = "writes beyond the end of an allocation";
        worst.difference.stray = 1;
    }
    return worst;
}

// Of the chunks that are looked at and those that nothing may write, the ones that a run has left otherwise.
Chunks Oracle::differing_from(const Case& c, const Sums& now) const {
    const Chunks all = changed(c.after, now);
    Chunks seen;
    std::set_difference(all.begin(), all.end(), unread_.begin(), unread_.end(), std::back_inserter(seen));
    return seen;
}

Outcome Oracle::verify(const Case& c, Sums* known) {
    // numbers that lead a launch elsewhere need not lead each there: what it wrote is no input of the next
    const Sums sums = looked();
    const Chunks differing = differing_from(c, sums);
    Outcome worst;
    worst.bitwise = differing.empty();
    if (worst.bitwise || (known && *known == sums)) return worst;
    for (std::size_t chunk : differing) {
        if (std::binary_search(writable_.begin(), writable_.end(), chunk)) continue;
        const Block& block = memory_.block_of(chunk);
        const std::string where = place(static_cast<std::size_t>(&block - memory_.blocks.data()), (chunk - block.first_chunk) * kChunk);
        const bool too = std::binary_search(writes_too_.begin(), writes_too_.end(), chunk);
        worst.state = too ? "unproven" : "wrong";
        worst.reason = too ? "the kernel writes there what is there already, so that other results cannot be compared, in " + where
                           : "writes where the kernel does not, in " + where;
        worst.difference.stray = 1;
        return worst;
    }
    if (c.mute) return worst;
    worst = card_ && is_simple(c) ? weigh_on_card(c, differing) : weigh(c, differing, [&](std::size_t k) { return read_now(k); });
    if (known && worst.reason.empty() && c.bounded) *known = sums;
    return worst;
}

Record Oracle::summary(const Oracle* further) const {
    std::string names, dropped, skipped;
    auto add = [](std::string& to, const std::string& name) { to += (to.empty() ? "" : ",") + quoted(name); };
    for (const Case& c : cases_) add(names, c.variant.name);
    for (const std::string& name : dropped_) add(dropped, name);
    // the first of the others is the program's own once more
    for (std::size_t i = 1; further && i < further->cases_.size(); ++i) add(names, further->cases_[i].variant.name);
    for (std::size_t i = 0; further && i < further->dropped_.size(); ++i) add(dropped, further->dropped_[i]);
    for (const Oracle* each : {this, further})
        for (std::size_t i = 0; each && i < each->skipped_.size(); ++i) add(skipped, each->skipped_[i]);
    if (!further && !job_.rooms.empty()) add(skipped, "on larger copies of its memory");
    Record record("baseline");
    record.raw("cases", "[" + names + "]").raw("dropped", "[" + dropped + "]");
    record.raw("skipped", "[" + skipped + "]");
    record.add("changed_bytes", std::uint64_t{changed_bytes_}).add("pure_bytes", std::uint64_t{pure_bytes_});
    return record.add("blind", blind_);
}

}  // namespace warplens
