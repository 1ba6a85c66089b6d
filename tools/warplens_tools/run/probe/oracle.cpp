// SPDX-License-Identifier: Apache-2.0
#include "oracle.h"

#include <algorithm>
#include <random>

#include "driver.h"

namespace warplens {
Oracle::Oracle(const Job& job, const Launch& baseline, Memory& memory, CUstream stream, Results& results, std::function<void()> forget)
    : job_(job), baseline_(baseline), memory_(memory), stream_(stream), results_(results), forget_(std::move(forget)), inputs_(job, baseline, memory) {
    tolerance_.factor = job.option("tolerance_factor");
    tolerance_.lowered = job.option("lowered");
    limit_ = drawn_limit_ = job.option("baseline_limit");
    budget_ = job.option("learn_seconds");
    keep_initial();
    cases_.emplace_back();
    cases_[0].variant.name = "own";
    std::mt19937_64 random(job.seed);
    for (const Variant& variant : job.variants) {
        if (variant.kind == Variant::standing) continue;
        cases_.emplace_back();
        cases_.back().variant = variant;
        cases_.back().seed = random();
    }
    rule_ = job.rule.held_to(inputs_.passed({}), baseline.grid);
    for (Case& c : cases_) {
        c.arguments = inputs_.arguments(c.variant, c.seed);
        set_grid(c);
    }
    if (job.option("fill")) outputs_ = inputs_.outputs();
    find_written();
    learn_own();
    begin_on_card();
    find_guarded();
    if (job_.option("poison")) find_pure();
    find_unseen();
    learn_variants();
}

void Oracle::prepare(const Case& c) {
    memory_.restore(dirty_);
    // other numbers may have led the kernel there: that says nothing of the next run. Who reads beyond the end and has it
    // count nothing, as zero times what lies there, is told by what is no number
    surround(c.variant.own() || c.seed % 2 ? kTail : kNoNumber);
    arguments_ = c.arguments.pointers.empty() ? nullptr : const_cast<void**>(c.arguments.pointers.data());
    prepared_ = &c;
    std::copy(c.grid, c.grid + 3, grid_);
    threads_ = c.threads;
    inputs_.put(c.variant, c.seed, c.arguments);
    for (std::size_t k = 0; k < c.standing.size(); ++k)
        if (!c.standing[k].empty()) memory_.write(stretches_[k], c.standing[k].data());
}

void Oracle::drop(std::size_t index) {
    const Case& c = cases_[index];
    if (!c.idle) (c.slow ? skipped_ : dropped_).push_back(c.variant.name);
    prepared_ = on_card_ = nullptr;
    cases_.erase(cases_.begin() + static_cast<long>(index));
}

void Oracle::cut(std::size_t from) {
    for (std::size_t i = from; i < cases_.size(); ++i)
        if (!changes_nothing(cases_[i])) skipped_.push_back(cases_[i].variant.name);
    prepared_ = on_card_ = nullptr;
    cases_.resize(from);
}

// One number that is not there, or cannot be another, alone or beside others: nothing needs be run to see that.
bool Oracle::changes_nothing(const Case& c) const {
    const Variant& v = c.variant;
    if (v.beside.empty()) return v.by_value() && v.target >= 0 && c.arguments.pointers.empty();
    const bool numbers = v.by_value() && !v.of_other_values();
    return (numbers && c.arguments.numbers.empty()) || std::none_of(v.beside.begin(), v.beside.end(), [&](const Variant& b) { return inputs_.varies(b); });
}

double Oracle::run_once() {
    const double started = now();
    ++launches_;
    given(baseline_).go(stream_);
    // what has hung on other inputs says nothing by itself; on its own it would be lost whole
    wait(stream_, prepared_ && prepared_->variant.own() ? limit_ : drawn_limit_);
    results_.pulse();
    return now() - started;
}

// What the launch finds, with what lies behind allocations' ends as it always is: it may have written there.
void Oracle::keep_initial() {
    surround(kTail);
    initial_ = memory_.checksums();
}

// Gaps are large, and stay what they are while nobody wants others.
void Oracle::surround(unsigned char value) {
    memory_.fill_tails(value, value != around_);
    around_ = value;
}

Sums Oracle::sums() {
    if (around_ != kTail) surround(kTail);
    return memory_.checksums();
}

Sums Oracle::looked() {
    Sums now = sums();
    dirty_ = merged(dirty_, changed(initial_, now));
    return now;
}

void Oracle::hand_back() {
    for (std::size_t k = 0; k < lay_there_.size(); ++k)
        if (!lay_there_[k].empty()) memory_.write_saved(stretches_[k], lay_there_[k].data());
    memory_.restore(dirty_);
    wait(stream_, limit_);
}

bool Oracle::recover() {
    surround(kTail);
    memory_.restore(dirty_);
    Chunks left = changed(initial_, memory_.checksums());
    if (left.empty()) return true;
    memory_.restore(left);
    return changed(initial_, memory_.checksums()).empty();
}

}  // namespace warplens
