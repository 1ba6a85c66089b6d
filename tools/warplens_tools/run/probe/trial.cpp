// SPDX-License-Identifier: Apache-2.0
#include "trial.h"

#include <algorithm>
#include <cmath>

#include "driver.h"
#include "stats.h"

namespace warplens {
namespace {

// Rounds of a slow kernel: the least of which a median's interval says anything.
constexpr std::size_t kFewest = 5;
// Rounds after which a candidate that is so far behind the bar in each of them, in log of the ratio, is let go: the
// noise of one round is a tenth of that.
constexpr std::size_t kFewestBehind = 2;
constexpr double kFarBehind = 0.25;
// Of slow kernels: rounds after which a candidate is on one side of the bar or the other.
constexpr std::size_t kFewestSifted = 3;
// Beyond so many standard errors and half a percent more nothing is gained by further rounds.
constexpr double kSure = 4, kAlike = 0.005;

// Whether it is clear on which side of a bar, a speedup, the candidate is.
bool is_clear(const Samples& samples, double bar) {
    const std::size_t n = samples.baseline.size();
    if (n < kFewestBehind) return false;
    bool far = true;
    for (std::size_t i = 0; i < n; ++i) far = far && std::log(samples.candidate[i] / samples.baseline[i]) + std::log(bar) > kFarBehind;
    if (far) return true;
    const double ahead = std::log(median(samples.baseline) / median(samples.candidate)) - std::log(bar);
    return n >= kFewest && std::fabs(ahead) > kAlike + kSure * ratio_error(samples.baseline, samples.candidate);
}

}  // namespace

double Samples::speedup() const {
    std::vector<double> both(baseline);
    both.insert(both.end(), again.begin(), again.end());
    return median(both) / median(candidate);
}

std::string Samples::json(const std::string& cache, const std::string& inputs) const {
    Record record("timing");
    record.add("cache", cache).add("inputs", inputs).add("baseline", baseline).add("candidate", candidate);
    return record.add("again", again).add("checked", std::uint64_t(checked)).json();
}

Trial::Trial(const Job& job, const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results)
    : job_(job), baseline_(baseline), memory_(memory), oracle_(oracle), scrub_(scrub), stream_(stream), results_(results),
      timer_(stream, job.option("events") != 0),
      random_(job.seed ^ 0x2545f4914f6cdd1dull) {
    CUdevice device;
    int l2 = 0;
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    check(cuDeviceGetAttribute(&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device), "cuDeviceGetAttribute");
    flush_bytes_ = 2 * static_cast<std::size_t>(l2);
    if (flush_bytes_ && cuMemAlloc(&flush_, flush_bytes_) != CUDA_SUCCESS) flush_bytes_ = 0;
}

// Every timed launch, the baseline's too, starts from the same memory: what the last one wrote is put back (pure
// outputs to their poison), so that no launch can live on what an earlier one left.
void Trial::put_back(Loaded* loaded, bool flushed, bool examined) {
    if (varied_) oracle_.prepare(*varied_);
    else memory_.restore(oracle_.timed());
    // on other inputs, nothing that a launch left on the card is there for the next: a gain that lives on it is none;
    // on the program's own, every other launch that is compared must do without, and none knows which
    if (varied_ || (examined && random_() % 2)) scrub_.run(loaded ? loaded->launch().function : baseline_.function, baseline_.function);
    if (loaded) loaded->reset(stream_);
    if (flushed && flush_bytes_)
        check(cuMemsetD8Async(flush_, static_cast<unsigned char>(++flush_value_), flush_bytes_, stream_), "flushing");
}

std::vector<double> Trial::warm_up() {
    timer_.discard();
    std::vector<double> last;
    const double until = now() + job_.option("warm_up_seconds");
    do {
        for (int i = 0; i < 5; ++i) {
            put_back(nullptr, false, false);
            timer_.time([&] { baseline_.go(stream_); });
        }
        wait(stream_, 5 * oracle_.limit());
        for (double ns : timer_.collect()) last.push_back(ns);
    } while (now() < until);
    if (last.size() > 50) last.erase(last.begin(), last.end() - 50);
    return last;
}

// False where that took launches of the baseline's own: the round's times are lost among theirs.
bool Trial::check_timed(Loaded* loaded, bool flushed, Samples& samples) {
    wait(stream_, oracle_.limit());
    loaded->bind();
    const Case& c = timed_case();
    const std::uint64_t launches = oracle_.launches();
    Outcome outcome = oracle_.verify(c, &samples.right);
    ++samples.checked;
    // another round shows whether it is right by what is known now
    if (oracle_.learns_bounds(c, outcome) || oracle_.learns_written(c, outcome)) return oracle_.prepare(c), false;
    if (outcome.reason.empty()) return oracle_.launches() == launches;
    const bool asks = !c.referenced;
    outcome = oracle_.reconsider(c, outcome, &samples.right);
    const bool asked = asks && c.referenced;
    // what was asked has changed inputs too
    if (asked) oracle_.prepare(c);
    if (outcome.reason.empty() || !samples.outcome.reason.empty()) return !asked;
    outcome = oracle_.own_doing(c, outcome, [&] { put_back(nullptr, flushed, true); });
    oracle_.prepare(c);
    outcome.reason += ", in a timed launch";
    if (varied_) outcome.reason += " on inputs " + varied_->variant.name;
    samples.outcome = outcome;
    return false;
}

void Trial::round(Loaded* loaded, bool flushed, Samples& samples) {
    std::vector<Slot> order = {first, candidate, second};
    std::shuffle(order.begin(), order.end(), random_);
    if (!loaded) order.erase(std::find(order.begin(), order.end(), candidate));
    bool examine = std::uniform_real_distribution<>()(random_) < job_.option("checked_share");
    examine = loaded && (examine || samples.candidate.empty());
    bool timed = true;
    for (Slot slot : order) {
        Loaded* now_running = slot == candidate ? loaded : nullptr;
        if (now_running) now_running->bind();
        else memory_.unbind();
        put_back(now_running, flushed, now_running && examine);
        const Launch launch = oracle_.given(now_running ? now_running->launch() : baseline_);
        timer_.time([&] { launch.go(stream_); });
        if (now_running && examine) timed = check_timed(loaded, flushed, samples);
    }
    memory_.unbind();
    wait(stream_, 3 * oracle_.limit());
    results_.pulse();
    if (!timed) return timer_.discard();
    const std::vector<double> durations = timer_.collect();
    if (durations.size() != order.size()) return;  // the timer has just fallen back to events
    for (std::size_t i = 0; i < order.size(); ++i) {
        auto& list = order[i] == first ? samples.baseline : order[i] == second ? samples.again : samples.candidate;
        list.push_back(durations[i]);
    }
}

Samples Trial::run(Loaded* loaded, bool flushed, const Case* varied, double bar) {
    Samples samples;
    varied_ = varied;
    oracle_.prepare(timed_case());
    timer_.discard();
    // whether a gain holds on other inputs too need not be known as finely as the gain, nor on which side of a bar it is
    const bool roughly = varied || bar > 0;
    const double share = roughly ? 0.25 : 1;
    const double started = now(), until = started + share * job_.option("timing_seconds");
    const double last = started + share * job_.option("timing_seconds_most");
    const auto least = static_cast<std::size_t>((roughly ? 0.5 : 1) * job_.option("rounds_min"));
    const auto most = std::max(least, static_cast<std::size_t>(share * job_.option("rounds_max")));
    const double clear = job_.option("clear");
    Samples unused;
    round(loaded, flushed, unused);  // brings code and translations in
    samples.outcome = unused.outcome;
    samples.right = unused.right;
    for (std::size_t rounds = 0; rounds < 4 * most && samples.baseline.size() < most; ++rounds) {
        round(loaded, flushed, samples);
        const std::size_t n = samples.baseline.size();
        if (!samples.outcome.reason.empty()) break;
        if (n >= least && now() > until) break;
        if (n >= (bar > 0 ? kFewestSifted : kFewest) && now() > last) break;
        if (bar > 0 && is_clear(samples, bar)) break;
        if (n % 5) continue;
        const auto& other = loaded ? samples.candidate : samples.again;
        const double error = ratio_error(samples.baseline, other);
        const double slower = std::log(median(other) / median(samples.baseline));
        // before a winner is confirmed, that of much faster and slower ones need not be known finely
        if (clear > 0 && n >= kFewest && std::fabs(slower) > clear + 8 * error) break;
        if (n < least) continue;
        if (error < job_.option("precision")) break;
        // nor that of what is clearly slower
        if (slower > 0.05 + 8 * error) break;
    }
    varied_ = nullptr;
    return samples;
}

}  // namespace warplens
