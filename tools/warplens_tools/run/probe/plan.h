// SPDX-License-Identifier: Apache-2.0
// Which launches of a kernel are compared while its program runs on.
#pragma once

#include <cstdint>
#include <random>
#include <set>

namespace warplens {

// The first one, whose cost says how many the budget allows: all of them, or runs of two and three that follow each
// other, anywhere. Whoever does not know the seed cannot tell which.
class Plan {
   public:
    // `launches` are expected; `budget` in seconds.
    Plan(std::uint64_t launches, double budget, std::uint64_t seed) : launches_(launches), budget_(budget), random_(seed) {}

    bool due(std::uint64_t launch) const;  // counted from 0, in the order in which they are made
    void took(double seconds);             // one comparison
    bool exhausted() const { return spent_ > 2 * budget_; }
    bool all() const { return all_; }

   private:
    void choose(std::uint64_t count);

    std::uint64_t launches_;
    double budget_, spent_ = 0;
    std::mt19937_64 random_;
    bool known_ = false, all_ = false;
    std::set<std::uint64_t> chosen_;
};

}  // namespace warplens
