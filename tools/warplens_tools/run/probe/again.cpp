// SPDX-License-Identifier: Apache-2.0
// What the baseline computes, computed again where it is asked for: on the card, where it is compared with what a
// candidate has left there. All that is kept of it are its checksums, and they tell whether it is the same.
//
// Who is not right so is compared on the host, by what is read then: it has the last word, and the words for it.
#include <algorithm>
#include <cstring>

#include "driver.h"
#include "oracle.h"

namespace warplens {
namespace {

// How often the baseline is launched before its results are said to be others.
constexpr int kMostAgain = 8;

}  // namespace

// Once it is known that the baseline's own results are always the same, and how they lie.
void Oracle::begin_on_card() {
    // what is handed back in the end rests at home
    if (!is_simple(cases_[0]) || needs_bounds() || job_.stays || job_.option("lazily") < 2) return;
    card_ = std::make_unique<OnCard>(stretches_, memory_, stream_);
    if (!card_->ready()) return card_.reset();
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        card_->set_written(k, *written_[k]);
        whole_.push_back(!std::memchr(written_[k]->data(), 0, written_[k]->size()));
    }
}

// Results that are always the same, and are compared by no more than their size and how far moving inputs moves them.
bool Oracle::is_simple(const Case& c) {
    return std::all_of(c.expected.begin(), c.expected.end(), [](const Expected& e) {
        return e.repeats && !e.leftover && !e.unordered && e.spread.empty() && e.reference.empty() && e.apart.empty() && !e.odd && !e.partial;
    });
}

// As `capture`, with all of it left on the card, and as it lies there what is clean.
void Oracle::capture_on_card(Case& c) {
    prepare(c);
    card_->keep(OnCard::first);
    run_once();
    c.after = looked();
    card_->keep(OnCard::right);
    on_card_ = &c;
    mark_on_card();
    c.expected.clear();
    for (std::size_t k = 0; k < stretches_.size(); ++k) c.expected.push_back(unread(k));
    const Counts counts = card_->unclean();
    c.unclean[false] = counts.found, c.unclean[true] = counts.large;
    c.lies_there = true;
    // these are compared with others' results, or by what parts of them come to
    const bool alone = c.variant.any([](const Variant& v) { return v.kind == Variant::aliased || v.kind == Variant::shifted; });
    const bool mean = c.variant.empties() && !c.variant.odd();
    if (alone || c.unclean[mean] > cases_[0].unclean[mean]) read_results(c);
}

// What differs from what lay there first is written, in all sets of inputs alike.
void Oracle::mark_on_card() {
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        if (whole_[k]) continue;
        whole_[k] = !card_->mark(k);
        masks_away_ = true;
    }
}

void Oracle::read_masks() {
    if (!masks_away_) return;
    for (std::size_t k = 0; k < stretches_.size(); ++k) card_->read_written(k, *written_[k]);
    masks_away_ = false;
}

// The baseline's results on a case, now in memory and beside it; false where they are not what they were.
bool Oracle::compute_again(Case& c) {
    on_card_ = nullptr;
    prepare(c);
    run_once();
    if (!differing_from(c, looked()).empty()) return false;
    card_->keep(OnCard::right);
    on_card_ = &c;
    return true;
}

// Onto the host, from where they were computed last.
void Oracle::read_results(Case& c) {
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        c.expected[k].bytes.resize(stretches_[k].held());
        card_->read(OnCard::right, k, c.expected[k].bytes.data());
    }
    c.lies_there = false;
    read_masks();
}

bool Oracle::has_results(Case& c) { return on_card_ == &c || compute_again(c); }

// What results were summed from, by pairs of moved runs; what has been learned of their like is learned once.
bool Oracle::learn_on_card(Case& c) {
    if (inputs_.floats().empty() || !floats() || job_.option("perturb") == 0) return c.bounded = true, false;
    const int pairs = c.pairs ? c.pairs : moved_pairs(c.variant.own());
    run_pairs(c, 0, pairs, [&] { card_->keep(OnCard::up); }, [&](double move, int pair) {
        for (std::size_t k = 0; k < stretches_.size(); ++k) card_->add_moved(k, move, pairs, pair == 0);
    });
    if (c.bounded) return true;
    Sight all;
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        Expected& e = c.expected[k];
        if (!is_floating(e.element)) continue;
        Expected some = card_->sampled(k, e);
        pool_up(some);
        e.pools = some.pools, e.common = some.common;
        card_->find_jumps(k, e, tolerance_);
        some.pools = e.pools;
        const Sight here = sight_of(some, tolerance_);
        all.all += here.all, all.hidden += here.hidden;
    }
    c.bounded = true;
    c.seen = all;
    mute(c, all);
    return true;
}

// Of what a candidate has left, which lies in its slot: nothing where the host is asked.
std::optional<Outcome> Oracle::right_on_card(Case& c) {
    const bool moved = learn_on_card(c);
    Outcome outcome;
    if (c.mute) return outcome;
    bool differ = false;
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        if (k < unseen_.size() && unseen_[k]) {
            differ = differ || card_->differing(k, OnCard::first);
            continue;
        }
        const Difference d = card_->weigh(k, c.expected[k], tolerance_, moved, differ);
        if (!d.right()) return std::nullopt;
        outcome.difference.merge(d);
    }
    // it differs only behind an allocation's end, or in what is not looked at
    return differ ? std::optional<Outcome>(outcome) : std::nullopt;
}

// What the host compares by.
void Oracle::take_home(Case& c) {
    if (c.lies_there) {
        // moved runs have left others
        if (!compute_again(c)) return;
        read_results(c);
    }
    if (c.learned) return;
    learn_rounding(c);
    mute(c, sight(c));
}

Outcome Oracle::weigh_on_card(const Case& of, const Chunks& differing) {
    Case& c = cases_[static_cast<std::size_t>(&of - cases_.data())];
    const double started = now();
    card_->keep(OnCard::first);
    const Bindings candidates = memory_.bindings();
    memory_.unbind();
    bool same = compute_again(c);
    // a race that shows once in many launches
    for (int again = 1; !same && again < kMostAgain; ++again) same = compute_again(c);
    std::optional<Outcome> found = same ? right_on_card(c) : std::nullopt;
    if (same && !found) take_home(c);
    // memory as the candidate has left it
    prepare(c);
    memory_.bind(candidates);
    card_->put(OnCard::first);
    forget_results();
    later_ += now() - started;
    if (found) return *found;
    c.bounded = c.learned;
    if (!c.lies_there) return weigh(c, differing, [&](std::size_t k) { return read_now(k); });
    Outcome open;
    open.state = "unproven";
    open.reason = "the kernel's own results, computed again, are others than before";
    return open;
}

// Before anybody else runs.
void Oracle::forget_results() {
    if (!card_) return;
    card_->clear();
    on_card_ = nullptr;
}

}  // namespace warplens
