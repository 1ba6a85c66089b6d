// SPDX-License-Identifier: Apache-2.0
// How far results move when inputs do: what the bounds of floats are learned from, and learned anew.
#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "driver.h"

namespace warplens {
namespace {

// Of fewer results than that more is asked of each; where launches are slow there are fewer pairs, but not below these.
constexpr std::size_t kFewResults = 16384;
constexpr int kFewestPairs = 2;
// Who is out of bounds by less than so many times, and in no more than such a part of the results, is compared again
// with bounds that so many pairs of moves were learned from: their estimate of what a result was summed from is then
// less than a quarter of it in three of a million, where one pair's is in one of five.
constexpr double kSlight = 4, kFewOf = 1e-4;
constexpr int kMorePairs = 12;
// So often inputs are moved by their last bits, to see what rounding decides.
constexpr unsigned kTurns = 24;

// A few units in the last place.
double last_bits(Element element) {
    return element == Element::f64 ? 0x1p-50 : element == Element::f32 ? 0x1p-21 : element == Element::f16 ? 0x1p-9 : 0x1p-6;
}

// Where nothing is exactly at a border that the program's own inputs do not put there, nor is alike: there rounding is all
// that may decide otherwise.
bool may_be_rounding(const Variant& v) {
    return !v.own() && v.beside.empty() && (v.kind == Variant::signs || v.kind == Variant::moved || v.kind == Variant::mingled) && !v.alike();
}

}  // namespace

int Oracle::moved_pairs(bool own) const {
    // many results have many like them to learn from, of all sets of inputs together
    const int wanted = own || floats() < kFewResults ? pairs_for(floats()) : 1;
    const double share = 0.1 * budget_ / std::max(takes_, 1e-9);
    return wanted <= kFewestPairs || share > 2.0 * wanted ? wanted : std::max(kFewestPairs, static_cast<int>(share / 2));
}

// How far results move when every input moves a little, up and down: see `rounding.h`.
void Oracle::learn_rounding(Case& c) {
    if (!inputs_.floats().empty() && floats() && job_.option("perturb") != 0) {
        // on others what the kernel does not stand are they, whatever is asked of it there
        if (c.variant.own()) stage("moved inputs");
        move_inputs(c, 0, moved_pairs(c.variant.own()));
    }
    for (Expected& e : c.expected) settle(e, tolerance_);
    c.bounded = c.learned = true;
}

// Whether bounds are needed before any candidate is looked at: where the kernel's own results are not always the same, or
// its own inputs tell nothing, they decide which sets of inputs say something.
bool Oracle::needs_bounds() const {
    const auto& own = cases_[0].expected;
    auto varies = [](const Expected& e) { return !e.spread.empty() || e.unordered || !e.repeats; };
    return blind_ || !job_.option("lazily") || std::any_of(own.begin(), own.end(), varies);
}

bool Oracle::learns_bounds(const Case& of, const Outcome& first) {
    Case& c = cases_[static_cast<std::size_t>(&of - cases_.data())];
    if (first.bitwise || c.bounded || c.lies_there) return false;
    memory_.unbind();
    // whatever was written beyond what a launch's own start puts back; nobody is right by bounds that are not learned
    if (!recover()) throw Refused("unproven", "the program's memory could not be put back, so that other results cannot be compared");
    ask_again([&] { learn_rounding(c); });
    mute(c, sight(c));
    return true;
}

// What the original does not stand when it is asked for somebody's sake is no fault of theirs.
void Oracle::ask_again(const std::function<void()>& ask) {
    try {
        ask();
    } catch (const std::runtime_error& error) {
        throw Refused("unproven", std::string("its results differ, and the kernel, asked again for what it makes of it, ended with: ") + error.what());
    }
}

Outcome Oracle::compared(const Case& c, const std::function<Outcome()>& once) {
    Outcome outcome = once();
    for (const auto learns : {&Oracle::learns_bounds, &Oracle::learns_written, &Oracle::learns_more}) {
        const double started = now();
        const bool more = (this->*learns)(c, outcome);
        later_ += now() - started;
        if (more) outcome = once();
    }
    if (!may_be_rounding(c.variant) || outcome.state != std::string("wrong") || outcome.apart.empty() || outcome.apart.size() > kMostApart) return outcome;
    const double started = now();
    const bool right = rounding_decides(c, outcome);
    later_ += now() - started;
    return right ? Outcome() : once();
}

// Whether whole numbers that are others than the original's, floats being right beside them, are what its own become where
// what it starts from is another in its last bits: how often something was tried, or which of two came first.
bool Oracle::rounding_decides(const Case& c, const Outcome& first) {
    const Difference& d = first.difference;
    if (d.stray || d.nan || d.scale || d.elsewhere || d.as_floats || inputs_.floats().empty() || job_.option("perturb") == 0) return false;
    memory_.unbind();
    if (!recover()) return false;
    double move = 1;
    for (const Area& area : inputs_.floats()) move = std::min(move, last_bits(area.stretch.element));
    std::vector<bool> met(first.apart.size());
    for (unsigned turn = 0; turn < kTurns && std::count(met.begin(), met.end(), false); ++turn) {
        run_moved(c, move, job_.seed + 104729u * turn);
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            const std::uint8_t* now = nullptr;
            for (std::size_t i = 0; i < met.size(); ++i) {
                if (met[i] || first.apart[i].stretch != k) continue;
                if (!now) now = read_now(k);
                met[i] = !std::memcmp(now + first.apart[i].at, &first.apart[i].value, 4);
            }
        }
    }
    return !std::count(met.begin(), met.end(), false);
}

double Oracle::how_far() const {
    double move = 0;
    for (const Area& area : inputs_.floats()) move = std::max(move, input_move(area.stretch.element));
    for (const Stretch& s : stretches_)
        if (is_floating(s.element)) move = std::max(move, input_move(s.element));
    return move;
}

// As many pairs of moves as bring those of a case from one number to another: `up` takes what memory holds then, and
// `down`, which is told how far and which pair, what it holds after the other one.
void Oracle::run_pairs(Case& c, int from, int pairs, const std::function<void()>& up, const std::function<void(double, int)>& down) {
    const double move = how_far();
    for (int i = from; i < pairs; ++i) {
        const std::uint64_t seed = job_.seed + 7919u * static_cast<unsigned>(i);
        run_moved(c, move, seed);
        up();
        run_moved(c, -move, seed);
        down(move, i);
    }
    c.pairs = pairs;
}

void Oracle::move_inputs(Case& c, int from, int pairs) {
    up_.resize(stretches_.size());
    auto keep = [&] {
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            if (!is_floating(stretches_[k].element)) continue;
            up_[k].resize(stretches_[k].held());
            memory_.read(stretches_[k], up_[k].data());
        }
    };
    run_pairs(c, from, pairs, keep, [&](double move, int) {
        for (std::size_t k = 0; k < stretches_.size(); ++k)
            if (is_floating(stretches_[k].element)) add_moved(c.expected[k], up_[k].data(), read_now(k), move, pairs);
    });
}

// What is NaN is not looked at for its size.
void Oracle::mute(Case& c, const Sight& seen) { c.mute = !c.variant.odd() && seen.blind(); }

bool Oracle::learns_more(const Case& of, const Outcome& first) {
    if (of.lies_there) return false;
    Case& c = cases_[static_cast<std::size_t>(&of - cases_.data())];
    const Difference& d = first.difference;
    const bool slight = first.state == std::string("wrong") && d.wrong && !d.stray && !d.nan && !d.scale && !d.elsewhere && d.ratio < kSlight && static_cast<double>(d.wrong) < kFewOf * static_cast<double>(floats()) + 1;
    if (!slight || !c.pairs || c.pairs >= kMorePairs || c.variant.odd()) return false;
    memory_.unbind();
    // whatever was written beyond what a launch's own start puts back
    if (!recover()) return false;
    for (Expected& e : c.expected) expect_pairs(e, c.pairs, kMorePairs);
    move_inputs(c, c.pairs, kMorePairs);
    for (Expected& e : c.expected) settle(e, tolerance_);
    return true;
}

void Oracle::run_moved(const Case& c, double move, std::uint64_t seed) {
    prepare(c);
    inputs_.move(move, seed, c.variant);
    // what moving changes is put back by the next restore
    looked();
    run_once();
}

}  // namespace warplens
