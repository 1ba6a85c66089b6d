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
    if (!asked() || !why_not_.empty() || left_ <= 0) return;
    const double started = now();
    try {
        run_all(baseline, memory, oracle, scrub, stream, results);
    } catch (const Hung&) {
        throw;
    } catch (const DriverError& error) {
        if (is_sticky(error.status)) throw;
        why_not_ = error.what();
    } catch (const std::runtime_error& error) {
        why_not_ = error.what();
    }
    memory.unbind();
    seconds_ += now() - started;
    left_ -= now() - started;
    if (!oracle.recover()) throw std::runtime_error("the snapshot was damaged by the kernel's twin");
}

void Twin::run_all(const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results) {
    const double until = now() + left_;
    Loaded loaded(twin_, baseline, memory);
    loaded.bind();
    memory.restore(memory.variables());
    memory.unbind();
    scrub.run(loaded.launch().function, baseline.function);
    std::map<const Case*, Marks> found;
    for (const Case& c : oracle.cases()) {
        if (now() > until) break;
        memory.unbind();
        loaded.bind();
        oracle.prepare(c);
        loaded.reset(stream);
        oracle.given(loaded.launch()).go(stream);
        wait(stream, kSlower * oracle.limit());
        results.pulse();
        if (oracle.verify(c).state == std::string("wrong")) throw std::runtime_error("it does not give the kernel's own results, on inputs " + c.variant.name);
        found[&c] = loaded.contents(variable_);
    }
    marks_.insert(found.begin(), found.end());
}

const Twin::Marks* Twin::on(const Case& c) const {
    const auto found = marks_.find(&c);
    return why_not_.empty() && found != marks_.end() ? &found->second : nullptr;
}

void Ran::add(const Twin& twin, const Case& c) {
    const Twin::Marks* marks = twin.on(c);
    if (!marks) {
        ++unknown_;
        return;
    }
    marks_.resize(std::max(marks_.size(), marks->size()));
    for (std::size_t i = 0; i < marks->size(); ++i) marks_[i] = marks_[i] || (*marks)[i];
}

std::string Ran::text() const {
    std::string digits;
    for (const std::uint8_t mark : marks_) digits += mark ? '1' : '0';
    return digits;
}

}  // namespace warplens
