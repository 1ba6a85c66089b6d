// SPDX-License-Identifier: Apache-2.0
#include "twin.h"

#include <algorithm>

#include "driver.h"

namespace warplens {
namespace {

// A mark is read each time that it is come to: a launch takes longer than the kernel's own.
constexpr double kSlower = 8;

}  // namespace

void Twin::run(const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results) {
    if (!asked() || !kernels_.why_not.empty()) return;
    for (Side* side : {&kernels_, &own_}) {
        if (side->twin.cubin.empty() || !side->why_not.empty() || left_ <= 0) continue;
        const double started = now();
        ask(*side, [&] { return run_all(side->twin, baseline, memory, oracle, scrub, stream, results); });
        memory.unbind();
        seconds_ += now() - started;
        left_ -= now() - started;
        if (!oracle.recover()) throw std::runtime_error(std::string("the snapshot was damaged by ") + side->words);
    }
}

// What a twin cannot be asked says nothing, but for what loses the card.
void Twin::ask(Side& side, const std::function<Found()>& run) {
    try {
        const Found found = run();
        side.marks.insert(found.begin(), found.end());
    } catch (const Hung&) {
        throw;
    } catch (const DriverError& error) {
        if (is_sticky(error.status)) throw;
        side.why_not = error.what();
    } catch (const std::runtime_error& error) {
        side.why_not = error.what();
    }
}

Twin::Found Twin::run_all(const Candidate& twin, const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results) {
    const double until = now() + left_;
    const bool own = &twin == &own_.twin;
    Loaded loaded(twin, baseline, memory);
    loaded.bind();
    memory.restore(memory.variables());
    memory.unbind();
    scrub.run(loaded.launch().function, baseline.function);
    Found found;
    for (const Case& c : oracle.cases()) {
        if (now() > until) break;
        // where nothing is said of the candidate, nothing is of its twin
        if (own && !oracle.means(c, loaded.launch())) continue;
        memory.unbind();
        loaded.bind();
        oracle.prepare(c);
        loaded.reset(stream);
        oracle.given(loaded.launch()).go(stream);
        wait(stream, kSlower * oracle.limit());
        results.pulse();
        // whether the candidate's results are right is asked of the candidate itself
        if (!own && oracle.verify(c).state == std::string("wrong")) throw std::runtime_error("it does not give the kernel's own results, on inputs " + c.variant.name);
        found[&c] = loaded.contents(variable_);
    }
    return found;
}

const Twin::Marks* Twin::Side::on(const Case& c) const {
    const auto found = marks.find(&c);
    return why_not.empty() && found != marks.end() ? &found->second : nullptr;
}

void Ran::add(const Twin& twin, const Case& c) {
    const auto join = [](Twin::Marks& all, const Twin::Marks* marks) {
        if (!marks) return 1u;
        all.resize(std::max(all.size(), marks->size()));
        for (std::size_t i = 0; i < marks->size(); ++i) all[i] = all[i] || (*marks)[i];
        return 0u;
    };
    unknown_ += join(marks_, twin.on(c));
    own_unknown_ += join(own_, twin.own_on(c));
}

std::string Ran::text() const {
    std::string digits;
    for (const std::uint8_t mark : marks_) digits += mark ? '1' : '0';
    if (own_unknown_ == 0)
        for (const std::uint8_t mark : own_) digits += mark ? '1' : '0';
    return digits;
}

}  // namespace warplens
