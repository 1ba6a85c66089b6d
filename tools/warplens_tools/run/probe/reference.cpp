// SPDX-License-Identifier: Apache-2.0
// What long sums come to where they are added up in parts.
#include "oracle.h"

#include <algorithm>
#include <cmath>

namespace warplens {
namespace {

// Sums are looked at in so many parts, where there are no more than so many of them; in more where all roundings go one
// way, which parts make less more slowly.
constexpr std::uint64_t kParts = 16, kManyParts = 64;
// The first of so many parts holds no element at all.
constexpr std::uint64_t kNothing = 1ull << 62;
constexpr std::size_t kFewSums = 1u << 20;
// Where somebody is about to be called wrong: of so many results, in so many parts at least, each of so many inputs' in
// turn, in so many seconds.
constexpr std::size_t kFewReferred = 16u << 20, kMostReferred = 2;
constexpr std::uint64_t kFewestParts = 16;
constexpr double kReferring = 2;
// Where that time is over, as far off as so many times what the kernel's own inputs showed: both sides err.
constexpr double kAsFarOff = 2;
// How often the original is asked again before anybody is called wrong, and for how many seconds.
constexpr int kFewestAsked = 4, kMostAsked = 400;
constexpr double kAsking = 0.25;

}  // namespace

// The results where inputs are added up in so many parts: the floats that the launch only reads, those of one area or of
// all, are zero but for one part after another, and what they come to is added up exactly. What comes of zeros alone is
// in every part: what lay there before, where the launch adds to it. A sum, or a product's terms, is the same so;
// anything else is not, and shows it.
std::vector<std::vector<double>> Oracle::added_up(const Case& c, std::uint64_t parts, std::size_t area) {
    std::vector<std::vector<double>> sums(stretches_.size());
    auto add = [&](std::uint64_t part, std::uint64_t of, double share) {
        prepare(c);
        inputs_.keep_part(part, of, area);
        looked();
        run_once();
        for (std::size_t k = 0; k < stretches_.size(); ++k) {
            if (!is_floating(stretches_[k].element)) continue;
            const std::uint8_t* now = read_now(k);
            const std::size_t size = element_size(stretches_[k].element);
            sums[k].resize(stretches_[k].held() / size);
            for (std::size_t i = 0; i < sums[k].size(); ++i) sums[k][i] += share * load(stretches_[k].element, now + i * size);
        }
    };
    add(0, kNothing, 1 - static_cast<double>(parts));
    for (std::uint64_t part = 0; part < parts; ++part) add(part, parts, 1);
    return sums;
}

// Long sums of floats in one place are off by far more than their order tells: a sum that has grown large takes no more
// of small terms. In parts they are off by less, the less the more parts there are. It shows where their order varies,
// and, of sums in one order, on inputs far from zero, whose roundings all go one way; elsewhere it is asked when
// somebody is about to be called wrong.
void Oracle::learn_reference(Case& c) {
    const bool varies = std::any_of(c.expected.begin(), c.expected.end(), [](const Expected& e) { return !e.spread.empty(); });
    const bool grows = varies || c.variant.any([](const Variant& v) { return v.kind == Variant::shifted; });
    const std::uint64_t parts = varies ? kParts : kManyParts;
    const bool few = floats() <= kFewSums && takes_ * 1.5 * parts < 0.2 * budget_;
    if (!grows || !few || !job_.option("perturb") || c.variant.odd()) return;
    refer(c, parts, Inputs::all_areas);
}

void Oracle::refer(Case& c, std::uint64_t parts, std::size_t area) {
    results_.pulse();
    const auto some = added_up(c, parts / 2, area), more = added_up(c, parts, area);
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        Expected& e = c.expected[k];
        if (more[k].empty() || e.unordered || !e.reference.empty()) continue;
        double apart = 0, off = 0;
        const std::size_t size = element_size(e.element);
        for (std::size_t i = 0; i < more[k].size(); ++i) {
            apart += std::fabs(more[k][i] - some[k][i]);
            off += std::fabs(load(e.element, e.bytes.data() + i * size) - more[k][i]);
        }
        // that it is a sum shows in that twice the parts change it by no more than a share of what the whole is off by;
        // half of them may overflow where twice as many do not
        if (!std::isfinite(off) || !(apart <= 0.25 * off)) continue;
        e.reference = more[k];
        double size_of_all = 0;
        for (double value : more[k]) size_of_all += std::fabs(value);
        if (c.variant.own() && size_of_all > 0) off_ = std::max(off_, off / size_of_all);
    }
}

Outcome Oracle::reconsider(const Case& of, const Outcome& first, Sums* known) {
    Case& c = cases_[static_cast<std::size_t>(&of - cases_.data())];
    const Difference& d = first.difference;
    const bool near = first.state == std::string("wrong") && !d.stray && !d.nan && d.relative < kNear;
    if (!near || c.variant.odd() || !job_.option("perturb")) return first;
    const Sums now = sums();
    Outcome again;
    if (!c.referenced && referring_ > kReferring) {
        // what the kernel is off by on the program's own inputs, it is off by on others like them
        again = first;
        if (!c.variant.own() && d.relative <= kAsFarOff * off_) {
            again = Outcome{};
            again.difference = d;
        }
    } else {
        again = in_parts(c, first, differing_from(c, now));
    }
    if (known && again.reason.empty()) *known = now;
    return again;
}

// A race that shows once in some hundred launches, and then in whoever is looked at just then, is the kernel's own.
Outcome Oracle::own_doing(const Case& c, const Outcome& first, const std::function<void()>& before) {
    if (first.state != std::string("wrong")) return first;
    memory_.unbind();
    // whatever it wrote beyond what a launch's own start puts back
    if (!recover()) return first;
    const double until = now() + kAsking;
    for (int asked = 0; asked < kMostAsked && (asked < kFewestAsked || now() < until); ++asked) {
        before();
        run_once();
        const Outcome own = verify(c);
        if (own.state != std::string("wrong")) continue;
        Outcome outcome = first;
        outcome.state = "unproven";
        outcome.by_chance = true;
        outcome.reason = "the kernel's own results differ from run to run: of the original, launched again on equal inputs, " + own.reason;
        return outcome;
    }
    return first;
}

// The outcome of the run that memory holds, by what its sums come to in parts; the one before where that cannot be asked.
Outcome Oracle::in_parts(Case& c, const Outcome& first, const Chunks& differing) {
    const double each = std::max(takes_, 1e-5) * 1.6;
    std::uint64_t parts = kManyParts;
    while (parts > kFewestParts && each * 1.5 * static_cast<double>(parts) > kReferring / 2) parts /= 2;
    if (each * 1.5 * static_cast<double>(parts) > kReferring || floats() > kFewReferred) return first;
    std::vector<Bytes> got(stretches_.size());
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        const std::uint8_t* now = read_now(k);
        got[k].assign(now, now + stretches_[k].held());
    }
    if (!c.referenced && !refer_all(c, parts)) return first;
    const Outcome again = weigh(c, differing, [&](std::size_t k) { return got[k].data(); });
    return again.reason.empty() ? again : first;
}

// By the largest inputs in turn, then by all; false where the baseline cannot be run for want of its own memory.
bool Oracle::refer_all(Case& c, std::uint64_t parts) {
    c.referenced = true;
    memory_.unbind();
    if (!recover()) return false;
    auto lacks = [&] {
        return std::any_of(c.expected.begin(), c.expected.end(), [](const Expected& e) { return is_floating(e.element) && e.reference.empty(); });
    };
    std::vector<std::size_t> areas = inputs_.largest_read();
    areas.resize(std::min(areas.size(), kMostReferred));
    areas.push_back(Inputs::all_areas);
    const double started = now();
    for (std::size_t area : areas)
        if (lacks() && now() - started < kReferring / 2) refer(c, parts, area);
    referring_ += now() - started;
    return true;
}

}  // namespace warplens
