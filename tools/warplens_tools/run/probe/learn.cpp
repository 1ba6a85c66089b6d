// SPDX-License-Identifier: Apache-2.0
// What the baseline computes on the program's inputs and on others: its noise, its rounding, and which inputs say something.
#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "driver.h"

namespace warplens {
namespace {

// Where the baseline's repeats differ so many are made, but not of more results than that.
constexpr int kNoisyRepeats = 12;
constexpr std::size_t kManyResults = 4u << 20;
// Where launches are slow or memory is large repeats are fewer, but not below these.
constexpr int kFewestRepeats = 3;
// Of the time for learning, where bounds are not learned before they are asked for.
constexpr double kLazyShare = 0.5;
// Above these, few input sets beside the program's own have to do, and fewer.
constexpr std::size_t kLargeResult = 64u << 20, kHugeResult = 512u << 20;

}  // namespace

void Oracle::learn_own() {
    Case& own = cases_[0];
    capture(own);
    if (job_.option("fill")) {
        stage("fill");
        mark_filled(own);
    }
    for (int i = find_leftovers(own) ? 2 : 1; i < repeats_of(own, i); ++i) {
        prepare(own);
        run_once();
        const bool same = changed(own.after, sums()).empty();
        for (std::size_t k = 0; !same && k < stretches_.size(); ++k) {
            const std::uint8_t* again = read_now(k);
            add_repeat(own.expected[k], again);
            shuffled_.resize(stretches_.size());
            if (own.expected[k].unordered && shuffled_[k].empty()) shuffled_[k].assign(again, again + stretches_[k].held());
        }
    }
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        stretches_[k].whole = own.expected[k].whole;
        if (own.expected[k].unordered) find_bounds(own.expected[k]);
    }
    learn_rounding(own);
    for (Expected& e : own.expected)
        if (!e.spread.empty()) judge_spread(e, tolerance_);
    learn_reference(own);
    find_records(own);
    blind_ = sight(own).blind();
}

// Results that follow from what other launches left in shared memory and registers: they differ from the program's once
// that is another, and not while it stays. True where nothing differs, which then is one more repeat.
bool Oracle::find_leftovers(Case& own) {
    if (!forget_) return false;
    prepare(own);
    forget_();
    run_once();
    const Sums first = sums();
    if (changed(own.after, first).empty()) return true;
    std::vector<bool> differs;
    for (std::size_t k = 0; k < stretches_.size(); ++k)
        differs.push_back(std::memcmp(read_now(k), own.expected[k].bytes.data(), stretches_[k].held()) != 0);
    prepare(own);
    run_once();
    bool stays = changed(first, sums()).empty();
    if (stays) {
        // an order that launches fall into stays as well, and follows from nothing that is overwritten
        prepare(own);
        forget_();
        run_once();
        stays = !changed(first, sums()).empty();
    }
    for (std::size_t k = 0; stays && k < stretches_.size(); ++k)
        if (differs[k]) own.expected[k].leftover = true, own.expected[k].repeats = false;
    return false;
}

Column Oracle::column(std::size_t stretch, const std::uint8_t* bytes) const {
    const Stretch& s = stretches_[stretch];
    std::size_t width = s.whole ? s.whole : is_floating(s.element) ? element_size(s.element) : 4;
    for (const Area& area : inputs_.integers()) {
        const Stretch& integers = area.stretch;
        const bool inside = s.offset >= integers.offset && s.offset < integers.offset + integers.bytes;
        if (!s.whole && integers.block == s.block && inside && !integers.stride) width = area.width;
    }
    return {bytes, width, s.held() / width};
}

// Arrays that are appended to through one counter: their elements change places together from run to run.
void Oracle::find_records(const Case& own) {
    auto together = [&](const std::vector<std::size_t>& record) {
        std::vector<Column> first, again;
        for (std::size_t k : record) {
            first.push_back(column(k, own.expected[k].bytes.data()));
            again.push_back(column(k, shuffled_[k].data()));
        }
        return same_rows(first, again);
    };
    for (std::size_t k = 0; k < shuffled_.size(); ++k) {
        if (shuffled_[k].empty() || !own.expected[k].unordered) continue;
        bool found = false;
        for (auto& record : records_) {
            record.push_back(k);
            if ((found = together(record))) break;
            record.pop_back();
        }
        if (!found) records_.push_back({k});
    }
    find_links(own);
    shuffled_.clear();
}

// Places in an array that changes order from run to run change with it, and lead to what they led to.
void Oracle::find_links(const Case& own) {
    for (std::size_t p = 0; p < shuffled_.size(); ++p)
        for (std::size_t q = 0; q < shuffled_.size(); ++q) {
            if (p == q || shuffled_[p].empty() || shuffled_[q].empty() || is_floating(stretches_[p].element)) continue;
            const Link first{column(p, own.expected[p].bytes.data()), column(q, own.expected[q].bytes.data())};
            const Link again{column(p, shuffled_[p].data()), column(q, shuffled_[q].data())};
            if (first.places.width == 4 && ends_differ(first) && same_ends(first, again)) links_.emplace_back(p, q);
        }
}

// How many repeats there shall be, after so many.
int Oracle::repeats_of(const Case& own, int done) const {
    const auto asked = static_cast<int>(job_.option("repeats"));
    if (done >= kFewestRepeats && !affords(0.5)) return done;
    // few repeats say little of a noise that is there
    const bool noisy = std::any_of(own.expected.begin(), own.expected.end(),
                                   [](const Expected& e) { return !e.spread.empty() || e.unordered; });
    return done >= kFewestRepeats && noisy && floats() <= kManyResults ? std::max(asked, kNoisyRepeats) : asked;
}

Sight Oracle::sight(const Case& c) const {
    if (c.lies_there) return c.seen;
    Sight all;
    for (const Expected& e : c.expected) {
        const Sight here = sight_of(e, tolerance_);
        all.all += here.all;
        all.hidden += here.hidden;
    }
    return all;
}

// Whether results that are written may be taken for unwritten ones: of few digits, in stretches not written throughout.
bool Oracle::meets_by_chance() const {
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
        const bool narrow = is_floating(stretches_[i].element) && element_size(stretches_[i].element) == 2;
        if (narrow && !is_whole(i)) return true;
    }
    return false;
}

// Whether half of the results at least are ordinary numbers.
bool Oracle::mostly_clean(const Case& c) const {
    std::uint64_t count = 0, unclean = 0;
    for (const Expected& e : c.expected) {
        // what 16-bit results are cut to says something, too
        if (!is_floating(e.element) || element_size(e.element) == 2) continue;
        count += e.bytes.size() / element_size(e.element);
        unclean += count_unclean(e.element, e.bytes.data(), e.bytes.size());
    }
    return 2 * unclean <= count;
}

// Results that are the same whatever stands in the places of NaN and infinities, large or small, follow from none of them:
// what a mask leaves out, it leaves out. They are compared as on any inputs.
void Oracle::find_apart(Case& c) {
    constexpr double stands[] = {0x1p14, -0x1p14, 0.375};
    for (const double value : stands) {
        inputs_.stand_in(value);
        prepare(c);
        looked();
        run_once();
        looked();
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            Expected& e = c.expected[k];
            if (!is_floating(e.element) || !e.spread.empty() || e.unordered) continue;
            e.apart.resize(e.bytes.size() / element_size(e.element), 1);
            keep_apart(e, read_now(k), e.apart);
        }
    }
    inputs_.stand_in(0);
    prepared_ = nullptr;
}

// Where half of what is only written stands there as it will be: whoever takes what is there for done finds the rest wrong.
void Oracle::add_standing() {
    auto is = [](const Variant& v) { return v.kind == Variant::standing; };
    const auto wanted = std::find_if(job_.variants.begin(), job_.variants.end(), is);
    if (wanted == job_.variants.end() || !pure_bytes_ || pure_bytes_ > kLargeResult) return;
    Case c;
    c.variant = *wanted;
    c.standing.resize(stretches_.size());
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        const Stretch& s = stretches_[k];
        const Expected& e = cases_[0].expected[k];
        if (!pure_[k] || s.stride || !e.repeats || e.unordered) continue;
        std::vector<std::uint8_t>& mixed = c.standing[k];
        mixed.resize(s.held());
        memory_.read_saved(s, mixed.data());
        std::mt19937_64 random(job_.seed + k);
        const std::size_t size = element_size(s.element), each = size * (size < 4 ? 4 / size : 1);
        for (std::size_t at = 0; at + each <= mixed.size(); at += each)
            if (random() % 2) std::memcpy(&mixed[at], &e.bytes[at], each);
    }
    prepared_ = nullptr;
    cases_.insert(cases_.begin() + 1, std::move(c));
}

// Whether results are those of the program's own inputs.
bool Oracle::as_own(const Case& c) const {
    for (std::size_t k = 0; k < stretches_.size(); ++k)
        if (!compare(cases_[0].expected[k], c.expected[k].bytes.data(), tolerance_).right()) return false;
    return true;
}

void Oracle::count_unclean_of(Case& c) const {
    for (const bool mean : {false, true}) {
        c.unclean[mean] = 0;
        for (const Expected& e : c.expected) c.unclean[mean] += count_unclean(e.element, e.bytes.data(), e.bytes.size(), mean);
    }
}

// How the baseline compares with itself where what it was not given is another.
Outcome Oracle::run_elsewhere(const Case& c) {
    prepare(c);
    // what lies behind allocations' ends: results that follow from it were read out of bounds
    surround(static_cast<unsigned char>(~kTail));
    // and what a longer row reads of shared memory that no thread of this launch has written
    if (forget_) forget_();
    run_once();
    surround(kTail);
    return verify(c);
}

void Oracle::learn_variants() {
    add_standing();
    std::size_t bytes = 0;
    for (const Stretch& s : stretches_) bytes += s.held();
    // of large results as many as the time for learning is worth: every candidate is compared on each
    const auto more = static_cast<std::size_t>(std::min(budget_, 1e3) * (bytes > kHugeResult ? 0.5 : 2));
    const std::size_t most = bytes > kLargeResult ? (bytes > kHugeResult ? 2 : 3) + more : cases_.size();
    if (cases_.size() > most && !card_) cut(most);
    // of NaN and infinity in results those count that the inputs' zeros do not explain: a row of zeros that is divided
    // by its sum is NaN whatever the order it was added up in
    count_unclean_of(cases_[0]);
    for (std::size_t i = 0; i < stretches_.size(); ++i)
        changed_bytes_ += element_size(stretches_[i].element) *
                          static_cast<std::size_t>(std::count(written_[i]->begin(), written_[i]->end(), 1));
    // what is learned later, once somebody's results are other bits, takes as long again and more
    const double share = needs_bounds() ? 1 : kLazyShare;
    std::size_t home = 1;
    for (std::size_t i = 1; i < cases_.size();) {
        if ((i >= kFewestCases && !affords(share)) || (i > 1 && !affords(3))) {
            cut(i);
            break;
        }
        Case& c = cases_[i];
        stage("variant " + c.variant.name);
        capture(c);
        if (!card_) count_unclean_of(c);
        // what is kept on the host is as much as there is room for
        if (card_ && !c.lies_there && ++home > most) {
            c.slow = true;
            drop(i);
            continue;
        }
        if (!stays_behind_fronts(c)) {
            drop(i);
            continue;
        }
        // other numbers lead to elements that no other inputs do, and 16-bit results meet what lay there now and then
        if (job_.option("fill") && meets_by_chance()) mark_filled(c);
        // in and out in one place is nothing that the kernel minds, or it says nothing
        if (c.variant.kind == Variant::aliased && !as_own(c)) {
            drop(i);
            continue;
        }
        // as many blocks as one likes give the program's results, or it is not that kind of kernel
        if (c.variant.kind == Variant::fewer && verify(cases_[0]).state != std::string("right")) {
            drop(i);
            continue;
        }
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            // repeats of the program's own inputs speak for all; their spread grows with the results
            const Expected& own = cases_[0].expected[k];
            const double grown = own.spread.empty() ? 1 : growth(own, c.expected[k]);
            c.expected[k].repeats = own.repeats;
            c.expected[k].leftover = own.leftover;
            c.expected[k].unordered = own.unordered;
            // one spike's place in the order decides how much of the rest is lost, in the baseline too
            c.expected[k].alike = c.variant.alike();
            c.expected[k].precise = !c.variant.spiky() && !c.variant.alike();
            for (float value : own.spread) c.expected[k].spread.push_back(static_cast<float>(std::min(value * grown, 1e38)));
        }
        if (needs_bounds()) learn_rounding(c);
        learn_reference(c);
        Outcome again = run_elsewhere(c);
        if (!again.bitwise && !c.bounded && !c.lies_there) {
            learn_rounding(c);
            again = run_elsewhere(c);
        }
        // inputs on which rounding alone may change the results wholly tell nothing, unless the program's own do too
        const bool seen = !c.bounded || !sight(c).blind();
        // what infinities beside zeros make is no such row: which of both it is may rest on the order
        const bool mean = c.variant.empties() && !c.variant.odd();
        const bool clean = c.unclean[mean] <= cases_[0].unclean[mean];
        const bool odd = c.variant.odd() && !clean, partial = !clean && !odd && mostly_clean(c);
        for (Expected& e : c.expected) {
            e.odd = odd, e.partial = partial, e.told = odd && job_.tells_nan;
            e.filtered = odd && is_floating(e.element) && !count_unclean(e.element, e.bytes.data(), e.bytes.size());
        }
        if ((clean || odd || partial) && (seen || blind_ || odd) && again.state == std::string("right") && stays_inside(c) && is_covered(c) && is_apart(c)) {
            if (odd) find_apart(c);
            blind_ = blind_ && !seen;
            ++i;
        } else {
            drop(i);
        }
    }
    for (const Case& c : cases_) lowers_ = lowers_ || c.variant.shortened();
    elsewhere_.clear();
    forget_results();
    if (card_) read_masks();
}

}  // namespace warplens
