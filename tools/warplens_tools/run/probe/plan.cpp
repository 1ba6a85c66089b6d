// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <algorithm>

namespace warplens {
namespace {

// However dear one comparison is, so many are made.
constexpr std::uint64_t kLeast = 4;

}  // namespace

bool Plan::due(std::uint64_t launch) const {
    if (!known_) return true;
    return all_ ? !exhausted() : chosen_.count(launch) > 0;
}

void Plan::took(double seconds) {
    spent_ += seconds;
    if (known_) return;
    known_ = true;
    // the first comparison also pays for what is loaded and allocated once
    const auto affordable = static_cast<std::uint64_t>(std::min(budget_ / std::max(seconds, 1e-6), 1e9));
    all_ = affordable >= launches_;
    if (!all_) choose(std::max(affordable, kLeast));
}

void Plan::choose(std::uint64_t count) {
    std::uniform_int_distribution<std::uint64_t> start(1, std::max<std::uint64_t>(launches_, 2) - 1), run(2, 3);
    count = std::min(count, launches_ - std::min<std::uint64_t>(launches_, 1));
    // a start may hit what is chosen already: after enough of them it is no matter
    for (std::uint64_t turn = 0; turn < 8 * count && chosen_.size() < count; ++turn) {
        const std::uint64_t first = start(random_), length = run(random_);
        for (std::uint64_t i = first; i < std::min(first + length, launches_); ++i) chosen_.insert(i);
    }
}

}  // namespace warplens
