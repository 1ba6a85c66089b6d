// SPDX-License-Identifier: Apache-2.0
// What lies where results go, replaced by what no launch can live on: outputs that the baseline only writes.
#include <algorithm>
#include <cstring>
#include <utility>

#include "oracle.h"

namespace warplens {

// Outputs the baseline only writes give the same results whatever lay there before.
void Oracle::find_pure() {
    stage("poison");
    keep_originals();
    std::vector<bool> poisoned(stretches_.size(), true);
    for (std::size_t k = 0; k < stretches_.size(); ++k) poison_one(k);
    // the first try finds what is read; the second shows that the rest does not depend on it
    auto agree = [&] { return poisoned_runs_agree(poisoned) || poisoned_runs_agree(poisoned); };
    if (!agree() || (find_put_back(poisoned) && !agree()) || (find_added_to(poisoned) && !agree())) {
        for (std::size_t k = 0; k < stretches_.size(); ++k) put_original(k);
        poisoned.assign(stretches_.size(), false);
    }
    // handed on, not copied: it takes no more room than poisoning did, or than the expected results do
    for (std::size_t k = 0; job_.stays && k < stretches_.size(); ++k)
        lay_there_.push_back(poisoned[k] ? std::move(original_[k]) : Bytes());
    original_.clear();
    // what was poisoned is no longer as the program left it, whatever the baseline did to it on its own inputs
    memory_.restore(dirty_);
    keep_initial();
    for (std::size_t k = 0; k < stretches_.size(); ++k)
        if (poisoned[k]) pure_bytes_ += stretches_[k].held();
    pure_ = poisoned;
    on_card_ = nullptr;
    prepare(cases_[0]);
    run_once();
    const Sums first = std::exchange(cases_[0].after, sums());
    cases_[0].of_one_run = first == cases_[0].after;
}

// Of integers that a launch leaves as they were: a counter that its last block puts back comes to the same from one more,
// more often than not, and then results rest on who comes first. With a bit turned far up it does not. True where there are
// such; they are as the program left them then.
bool Oracle::find_put_back(std::vector<bool>& poisoned) {
    std::vector<bool> far(stretches_.size(), false);
    for (std::size_t k = 0; k < stretches_.size(); ++k) far[k] = poisoned[k] && !is_floating(stretches_[k].element) && turn_far(k);
    if (std::find(far.begin(), far.end(), true) == far.end()) return false;
    const std::vector<bool> right = rights_of_a_run();
    bool itself = false;
    for (std::size_t k = 0; k < far.size(); ++k) itself = itself || (far[k] && !right[k]);
    const bool any = std::find(right.begin(), right.end(), false) != right.end();
    for (std::size_t k = 0; k < far.size(); ++k) {
        if (!far[k]) continue;
        // where none of them shows it, it is one of them all the same
        if (any && (!right[k] || !itself)) poisoned[k] = false;
        poisoned[k] ? poison_one(k) : put_original(k);
    }
    return any;
}

// Of floats that a launch adds to what lies there: to a large sum a poison of no telling size is a rounding. What is larger
// than the results is not. True where there are such; they are as the program left them then.
bool Oracle::find_added_to(std::vector<bool>& poisoned) {
    std::vector<bool> asked(stretches_.size(), false);
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        asked[k] = poisoned[k] && is_floating(stretches_[k].element);
        if (asked[k]) outgrow_one(k);
    }
    const std::vector<bool> right = rights_of_a_run();
    bool any = false;
    for (std::size_t k = 0; k < asked.size(); ++k) {
        if (!asked[k]) continue;
        poisoned[k] = right[k];
        any = any || !right[k];
        poisoned[k] ? poison_one(k) : put_original(k);
    }
    return any;
}

bool Oracle::poisoned_runs_agree(std::vector<bool>& poisoned) {
    const std::vector<bool> right = rights_of_a_run();
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        if (right[k]) continue;
        poisoned[k] = false;
        put_original(k);
    }
    return std::find(right.begin(), right.end(), false) == right.end();
}

// Which stretches a run on the program's own inputs leaves as it should.
std::vector<bool> Oracle::rights_of_a_run() {
    prepare(cases_[0]);
    run_once();
    if (card_) card_->keep(OnCard::first);
    std::vector<bool> right;
    bool differ = false;
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        const Expected& e = cases_[0].expected[k];
        right.push_back((card_ ? card_->weigh(k, e, tolerance_, moved_, differ) : compare(e, read_now(k), tolerance_)).right());
    }
    return right;
}

// As the launch finds them, and on the card what it makes of them.
void Oracle::keep_originals() {
    // results that are others after all are nothing to go by there
    if (card_ && !compute_again(cases_[0])) card_.reset();
    if (card_) {
        moved_ = learn_on_card(cases_[0]);
        memory_.restore(dirty_);
        return card_->keep(OnCard::original);
    }
    memory_.restore(dirty_);
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        original_.emplace_back(stretches_[k].held());
        memory_.read_saved(stretches_[k], original_[k].data());
    }
}

void Oracle::put_original(std::size_t k) {
    if (card_) return card_->save(OnCard::original, k);
    memory_.write_saved(stretches_[k], original_[k].data());
}

void Oracle::poison_one(std::size_t k) {
    const std::uint64_t seed = job_.seed * 0x2545f4914f6cdd1dull + k * 0x9e3779b97f4a7c15ull;
    if (card_) return card_->poison(k, seed);
    Bytes filled = copied(original_[k]);
    warplens::poison(stretches_[k].element, filled.data(), *written_[k], seed);
    memory_.write_saved(stretches_[k], filled.data());
}

// Of integers that are written and stay what they were; whether there are any.
bool Oracle::turn_far(std::size_t k) {
    if (card_) return card_->turn_far(k);
    Bytes far(stretches_[k].held());
    memory_.read_saved(stretches_[k], far.data());
    bool any = false;
    for (std::size_t at = 0; at + 4 <= far.size(); at += 4) {
        const bool stays = (*written_[k])[at] && !std::memcmp(&original_[k][at], &cases_[0].expected[k].bytes[at], 4);
        if (stays) far[at + 3] ^= 0x40, any = true;
    }
    if (any) memory_.write_saved(stretches_[k], far.data());
    return any;
}

void Oracle::outgrow_one(std::size_t k) {
    if (card_) return card_->outgrow(k);
    Bytes far(stretches_[k].held());
    memory_.read_saved(stretches_[k], far.data());
    outgrow(cases_[0].expected[k], far.data(), *written_[k]);
    memory_.write_saved(stretches_[k], far.data());
}

}  // namespace warplens
