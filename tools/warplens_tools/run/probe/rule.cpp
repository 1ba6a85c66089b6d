// SPDX-License-Identifier: Apache-2.0
#include "rule.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

namespace warplens {
namespace {

using Number = std::int64_t;
using Operation = std::optional<Number> (*)(Number, Number);

constexpr Number kMost[] = {(Number{1} << 31) - 1, 65535, 65535};
// Beyond it no length is one.
constexpr Number kLargest = Number{1} << 46;

const std::map<std::string, Operation>& operations() {
    static const std::map<std::string, Operation> table = {
        {"+", [](Number a, Number b) -> std::optional<Number> { return a + b; }},
        {"-", [](Number a, Number b) -> std::optional<Number> { return a - b; }},
        {"*", [](Number a, Number b) -> std::optional<Number> { return !a || std::abs(b) <= kLargest / std::abs(a) ? std::optional(a * b) : std::nullopt; }},
        {"/", [](Number a, Number b) { return b ? std::optional(a / b) : std::nullopt; }},
        {"%", [](Number a, Number b) { return b ? std::optional(a % b) : std::nullopt; }},
        {"up", [](Number a, Number b) { return b ? std::optional((a + b - 1) / b) : std::nullopt; }},
        {"<<", [](Number a, Number b) { return a >= 0 && b >= 0 && b < 16 ? std::optional(a << b) : std::nullopt; }},
        {">>", [](Number a, Number b) { return b >= 0 && b < 63 ? std::optional(a >> b) : std::nullopt; }},
        {"min", [](Number a, Number b) -> std::optional<Number> { return std::min(a, b); }},
        {"max", [](Number a, Number b) -> std::optional<Number> { return std::max(a, b); }},
    };
    return table;
}

bool is_number(const std::string& word) { return !word.empty() && std::all_of(word.begin(), word.end(), ::isdigit) && word.size() < 16; }

// "p2,4": the larger of those that are known, since host code gave them one variable.
std::optional<Number> passed(const std::string& word, const GridRule::Values& values) {
    std::optional<Number> most;
    std::istringstream listed(word.substr(1));
    for (std::string index; std::getline(listed, index, ',');) {
        const auto value = values(std::stoul(index));
        if (!value) return std::nullopt;
        most = std::max(most.value_or(*value), *value);
    }
    return most;
}

}  // namespace

void GridRule::along(unsigned axis, const std::string& words) {
    std::istringstream line(words);
    for (std::string word; line >> word;) {
        const bool parameter = word.size() > 1 && word[0] == 'p' && word.find_first_not_of("0123456789,", 1) == std::string::npos;
        if (!parameter && word != "?" && !is_number(word) && !operations().count(word))
            throw std::runtime_error("no word of a rule for grids: " + word);
        axes_[axis].push_back(word);
    }
}

std::optional<Number> GridRule::value(unsigned axis, const Values& values, std::vector<bool>& exact) const {
    std::vector<Number> stack;
    exact.clear();
    for (const std::string& word : axes_[axis]) {
        const auto operation = operations().find(word);
        std::optional<Number> found;
        if (operation != operations().end()) {
            if (stack.size() < 2) return std::nullopt;
            const Number right = stack.back();
            stack.pop_back();
            if (word == "/" || word == ">>") {
                const Number by = word == "/" ? right : right >= 0 && right < 63 ? Number{1} << right : 0;
                exact.push_back(by && stack.back() % by == 0);
            }
            found = operation->second(stack.back(), right);
            stack.pop_back();
        } else {
            found = word == "?" ? factor_[axis] : word[0] == 'p' ? passed(word, values) : Number{std::stoll(word)};
        }
        if (!found || *found > kLargest || *found < -kLargest) return std::nullopt;
        stack.push_back(*found);
    }
    return stack.size() == 1 ? std::optional(stack[0]) : std::nullopt;
}

GridRule GridRule::held_to(const Values& values, const unsigned grid[3]) const {
    GridRule settled = *this;
    for (unsigned axis = 0; axis < 3 && !empty(); ++axis) {
        std::vector<bool>& exact = settled.exact_[axis];
        const auto once = value(axis, values, exact);
        if (!once || *once <= 0 || grid[axis] % *once) return {};
        const bool open = std::count(axes_[axis].begin(), axes_[axis].end(), "?") == 1;
        settled.factor_[axis] = open ? grid[axis] / *once : 1;
        if (settled.value(axis, values, exact) != Number{grid[axis]}) return {};
    }
    return settled;
}

GridRule::Fit GridRule::apply(const Values& values, unsigned grid[3]) const {
    Fit fit = made;
    for (unsigned axis = 0; axis < 3; ++axis) {
        std::vector<bool> exact;
        const auto found = value(axis, values, exact);
        if (!found || *found < 1 || *found > kMost[axis]) return none;
        // one that was held to no launch knows of no divisions that leave none
        for (std::size_t i = 0; i < std::min(exact.size(), exact_[axis].size()); ++i)
            if (exact_[axis][i] && !exact[i]) fit = rest;
        grid[axis] = static_cast<unsigned>(*found);
    }
    return fit;
}

bool GridRule::divides() const {
    return std::any_of(exact_, exact_ + 3, [](const std::vector<bool>& axis) { return std::find(axis.begin(), axis.end(), true) != axis.end(); });
}

bool GridRule::tells_apart(const Values& first, const Values& second) const {
    auto differs = [&](const std::string& word) { return word[0] == 'p' && passed(word, first) != passed(word, second); };
    return std::any_of(axes_, axes_ + 3, [&](const std::vector<std::string>& words) { return std::any_of(words.begin(), words.end(), differs); });
}

}  // namespace warplens
