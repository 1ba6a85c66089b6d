// SPDX-License-Identifier: Apache-2.0
// The grids of a case: what the program would launch for it, and what other grids say of it.
#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace warplens {
namespace {

// So many blocks along an axis may be doubled.
constexpr std::size_t kMostGuessed = 40;
constexpr unsigned kMostHigh = 65535, kMostBlocks[] = {1u << 28, kMostHigh / 2, kMostHigh / 2};

}  // namespace

Launch Oracle::given(Launch launch) const {
    if (arguments_) launch.parameters = arguments_;
    if (prepared_ && has_own_rule(launch) && !prepared_->arguments.numbers.empty()) set_own_grid(*prepared_, launch);
    else if (grid_[0] && is_baselines(launch)) {
        std::copy(grid_, grid_ + 3, launch.grid);
        if (threads_) launch.block[0] = threads_;
    }
    return launch;
}

Candidate Oracle::placed(Candidate candidate) const {
    if (!candidate.by_rule) return candidate;
    // as the judge knows it (`UNTOLD_GRID` in job.py)
    if (rule_.empty() || candidate.rule.apply(inputs_.passed({}), candidate.grid) != GridRule::made)
        throw Refused("unproven", "the launch does not show by what rule its grid is made");
    return candidate;
}

// A candidate's grid for the arguments of a case, as its own host code would make it; else as the baseline's follows from
// them. Returns false where the baseline's rests on numbers that are others and nothing tells what the candidate's would be.
bool Oracle::set_own_grid(const Case& c, Launch& launch) const {
    // a rule that says nothing of these numbers leaves the baseline the program's grid, and so it does the candidate
    if (!rule_.empty() && !c.ruled) return true;
    const GridRule rule = launch.rule && c.ruled ? launch.rule->held_to(inputs_.passed({}), launch.grid) : GridRule();
    unsigned grid[3];
    if (!rule.empty()) {
        const GridRule::Fit fit = rule.apply(inputs_.passed(c.arguments), grid);
        // a rest that is left out where the baseline's host code leaves out none is what becomes of those numbers
        if (fit == GridRule::none || (fit == GridRule::rest && rule_.divides())) return false;
        std::copy(grid, grid + 3, launch.grid);
        return true;
    }
    const bool stays = c.ruled ? !rule_.tells_apart(inputs_.passed({}), inputs_.passed(c.arguments)) : !c.grid[0];
    return follow(launch, baseline_, c.arguments.numbers, job_.roomy) || stays;
}

bool Oracle::is_untold(const Case& c, const Launch& launch) const {
    const bool told = launch.rule && !launch.rule->held_to(inputs_.passed({}), launch.grid).empty();
    return !told && !c.arguments.numbers.empty() && !is_baselines(launch) && any_grid();
}

// Launches of such a candidate: in proportion to the numbers that were
// changed, along one axis or two to one of them, or to all, and no more than the numbers have grown: there is room for
// that. In place none grows.
std::vector<Launch> Oracle::guessed(const Case& c, const Launch& launch) const {
    std::vector<Launch> found;
    std::vector<double> ratios;
    double all = 1, grown = 1;
    for (const auto& [was, is] : c.arguments.numbers) {
        if (was <= 0 || is <= 0 || (is > was && job_.roomy <= 0)) continue;
        ratios.push_back(static_cast<double>(is) / static_cast<double>(was));
        all *= ratios.back();
        grown *= std::max(ratios.back(), 1.0);
    }
    if (ratios.size() > 1) ratios.push_back(all);
    auto add = [&](const Launch& to, unsigned axis, double ratio) {
        Launch other = to;
        const double blocks = std::ceil(launch.grid[axis] * ratio - 1e-9);
        other.grid[axis] = static_cast<unsigned>(std::min<double>(std::max(blocks, 1.0), 2.0 * kMostBlocks[axis]));
        auto same = [&](const Launch& o) { return std::equal(o.grid, o.grid + 3, other.grid); };
        if (found.size() < kMostGuessed && ratio <= grown && !same(launch) && std::none_of(found.begin(), found.end(), same)) found.push_back(other);
    };
    for (const double ratio : ratios)
        for (unsigned axis = 0; axis < 3; ++axis) add(launch, axis, ratio);
    // two axes, of which one at most grows
    const std::vector<Launch> single = found;
    for (const Launch& one : single)
        for (const double ratio : ratios)
            for (unsigned axis = 0; axis < 3; ++axis)
                if (one.grid[axis] == launch.grid[axis] && ratio < 1) add(one, axis, ratio);
    return found;
}

// Whoever is right with one of them is right: its host code may well make it. Of whom that is not known it is not known
// either that it is wrong.
Outcome Oracle::by_another_grid(const Case& c, const Launch& launch, const Outcome& first, const std::function<Outcome(const Launch&)>& again) {
    if (!is_untold(c, launch)) return first;
    double grown = 1;
    for (const auto& [was, is] : c.arguments.numbers) {
        if (was > 0 && is <= 0) return {};  // of nothing host code may launch no blocks at all
        if (was > 0 && is > was) grown *= static_cast<double>(is) / static_cast<double>(was);
    }
    // as many more blocks, each with as much more: where there is no room for both nothing can be tried
    if (grown * grown > 1 + job_.roomy) return {};
    std::vector<Launch> guesses = guessed(c, launch);
    // the number that was changed may be another one than the grid follows
    const Launch made = given(launch);
    if (!std::equal(made.grid, made.grid + 3, launch.grid)) guesses.insert(guesses.begin(), launch);
    for (const Launch& other : guesses) {
        if (Outcome outcome = again(other); outcome.reason.empty()) return outcome;
    }
    Outcome open = first;
    open.state = "unproven";
    open.reason += ", where nothing tells how its grid follows from them";
    return open;
}

bool Oracle::is_baselines(const Launch& launch) const {
    return std::equal(launch.grid, launch.grid + 3, baseline_.grid) && std::equal(launch.block, launch.block + 3, baseline_.block);
}

// Clusters and waiting for one another rest on the number of blocks.
bool Oracle::any_grid() const { return !baseline_.cooperative && baseline_.attributes.empty(); }

unsigned Oracle::blocks(const Case& c, unsigned axis) const { return c.grid[0] ? c.grid[axis] : baseline_.grid[axis]; }

// Two rules may give the same grid for the program's numbers, and others for others.
bool Oracle::has_own_rule(const Launch& launch) const { return launch.rule || !is_baselines(launch); }

bool Oracle::means(const Case& c, const Launch& launch) const {
    if (c.variant.kind == Variant::fewer) return is_baselines(launch);
    Launch made = launch;
    return c.arguments.numbers.empty() || !has_own_rule(launch) || set_own_grid(c, made);
}

// A smaller grid, or, in rooms, the one that the program would launch for other lengths.
void Oracle::set_grid(Case& c) const {
    Launch launch = baseline_;
    if (c.variant.kind == Variant::fewer) {
        // half of it, a part that divides nothing, or one along another axis
        const auto k = static_cast<unsigned>(c.variant.target);
        if (k >= Variant::narrower) return set_narrower(c);
        unsigned& blocks = launch.grid[k < 2 ? 0 : std::min(k - 1, 2u)];
        blocks = k == 1 ? blocks / kFewer + 1 : (blocks + 1) / 2;
    } else if (!rule_.empty()) {
        set_grid_by_rule(c, launch);
    } else if (job_.roomy) {
        follow(launch, baseline_, c.arguments.numbers, true);
    }
    const bool may = any_grid() && launch.grid[1] <= kMostHigh && launch.grid[2] <= kMostHigh;
    c.ruled = c.ruled && may;
    if (may && !is_baselines(launch)) std::copy(launch.grid, launch.grid + 3, c.grid);
}

// As many threads in twice as many blocks, where the program chooses a block's size as it runs; where it rounds it
// nowhere, too, as many blocks of whole warps that are no power of two, or of 25 threads for 64.
void Oracle::set_narrower(Case& c) const {
    const auto way = static_cast<unsigned>(c.variant.target) - Variant::narrower;
    const bool even = baseline_.block[0] % 64 == 0 && baseline_.block[1] * baseline_.block[2] == 1;
    if (job_.option("any_block") < (way ? 2 : 1) || !even || !any_grid() || baseline_.grid[0] > kMostBlocks[0]) {
        c.launched = false;
        return;
    }
    std::copy(baseline_.grid, baseline_.grid + 3, c.grid);
    constexpr unsigned of_64[] = {32, 48, 25};
    c.grid[0] *= way ? 1 : 2;
    c.threads = baseline_.block[0] / 64 * of_64[std::min(way, 2u)];
}

// What the program would launch for other numbers. More blocks than it launches have their memory in rooms alone.
void Oracle::set_grid_by_rule(Case& c, Launch& launch) const {
    if (c.arguments.numbers.empty()) return;
    unsigned grid[3];
    const GridRule::Fit fit = rule_.apply(inputs_.passed(c.arguments), grid);
    c.launched = fit != GridRule::none;
    // a grid that leaves some of the numbers out is no launch of theirs: the program's own covers as many
    c.ruled = fit == GridRule::made;
    for (unsigned axis = 0; axis < 3 && c.ruled; ++axis) c.launched = c.launched && (job_.roomy || grid[axis] <= launch.grid[axis]);
    if (c.launched && c.ruled) std::copy(grid, grid + 3, launch.grid);
}

// So many blocks along an axis, for the case that was prepared last.
void Oracle::set_blocks(unsigned axis, unsigned blocks) {
    if (!grid_[0]) std::copy(baseline_.grid, baseline_.grid + 3, grid_);
    grid_[axis] = blocks;
}

// Whether the case's results are those that memory of so many blocks along an axis gives.
bool Oracle::with_grid(const Case& c, unsigned axis, unsigned blocks) {
    prepare(c);
    set_blocks(axis, blocks);
    run_once();
    const bool same = verify(c).state == std::string("right");
    looked();
    return same;
}

// Whoever is guarded against blocks that have nothing to do shows by more of them whether a grid is enough.
void Oracle::find_guarded() {
    if (!job_.roomy || !any_grid()) return;
    stage("rooms with more blocks");
    for (unsigned axis = 0; axis < 3; ++axis) apart_[axis] = parts_stand(cases_[0], axis);
    for (unsigned axis = 0; axis < 3; ++axis)
        guarded_[axis] = baseline_.grid[axis] <= kMostBlocks[axis] && with_grid(cases_[0], axis, 2 * baseline_.grid[axis]);
}

// Whether what half of the blocks write is what all of them leave there.
bool Oracle::parts_stand(Case& c, unsigned axis) {
    if (blocks(c, axis) < 2 || (card_ && !has_results(c))) return false;
    prepare(c);
    if (card_) card_->keep(OnCard::first);
    for (std::size_t k = 0; !card_ && k < stretches_.size(); ++k) {
        before_[k].resize(stretches_[k].held());
        memory_.read(stretches_[k], before_[k].data());
    }
    set_blocks(axis, (blocks(c, axis) + 1) / 2);
    run_once();
    bool stand = true;
    for (std::size_t k = 0; stand && k < stretches_.size(); ++k) {
        const std::size_t size = element_size(stretches_[k].element);
        stand = card_ ? !card_->neither(k) : same_as_one_of(size, stretches_[k].held(), read_now(k), c.expected[k].bytes.data(), before_[k].data());
    }
    looked();
    return stand;
}

// Rows longer than their pitch are written over one another: who comes last is chance.
bool Oracle::is_apart(Case& c) {
    for (unsigned axis = 0; axis < 3; ++axis)
        if (apart_[axis] && blocks(c, axis) > 1 && !parts_stand(c, axis)) return false;
    return true;
}

// Numbers that have the launch do more than its grid makes it do say nothing: how much of it is done is the baseline's own.
bool Oracle::is_covered(const Case& c) {
    for (unsigned axis = 0; axis < 3; ++axis) {
        const unsigned all = blocks(c, axis);
        if (guarded_[axis] && all <= kMostBlocks[axis] && !with_grid(c, axis, 2 * all)) return false;
    }
    return true;
}

}  // namespace warplens
