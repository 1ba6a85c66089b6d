// SPDX-License-Identifier: Apache-2.0
// How many blocks host code launches a kernel with, as a rule of the numbers that it passes: see `grid_rule.py`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace warplens {

class GridRule {
   public:
    // An integer that is passed by value, by its parameter's index.
    using Values = std::function<std::optional<std::int64_t>(std::size_t)>;

    // Throws std::runtime_error for words that are none of the rule's.
    void along(unsigned axis, const std::string& words);
    bool empty() const { return axes_[0].empty() && axes_[1].empty() && axes_[2].empty(); }
    // The rule with what its text does not tell, as that grid shows it; an empty one where it does not give the grid.
    // Divisions that leave no rest there, as in `n / 256` blocks, are for lengths that leave none.
    GridRule held_to(const Values& values, const unsigned grid[3]) const;
    // What becomes of a launch: it is made; its divisions leave a rest, so that its blocks are not all of the numbers; or it
    // has no blocks, or more than a card takes.
    enum Fit { made, rest, none };
    // Whether it divides, without a rest, and so is for such lengths alone; of a rule that was held to a launch.
    bool divides() const;
    // The grid for those values; without the rest where there is one.
    Fit apply(const Values& values, unsigned grid[3]) const;
    // Whether it names a number that is another in the second than in the first, even where both give the same grid.
    bool tells_apart(const Values& first, const Values& second) const;

   private:
    // With which of its divisions, in their order, leave no rest.
    std::optional<std::int64_t> value(unsigned axis, const Values& values, std::vector<bool>& exact) const;

    std::vector<std::string> axes_[3];
    std::vector<bool> exact_[3];          // by division
    std::int64_t factor_[3] = {1, 1, 1};  // what stands for `?`
};

}  // namespace warplens
