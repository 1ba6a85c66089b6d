// SPDX-License-Identifier: Apache-2.0
#include "visit.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>

#include "blocks.h"
#include "driver.h"
#include "instead.h"
#include "oracle.h"
#include "rooms.h"
#include "scrub.h"
#include "stats.h"
#include "trial.h"
#include "twin.h"

namespace warplens {
namespace {

// Above so many ns, bringing all of L2 back in, which takes tens of microseconds, is no part of a kernel's time.
constexpr double kSlow = 10e6;

// What a candidate is timed in. A gain that is claimed in one cache state must hold on other inputs in the same.
struct State {
    const char* name;
    bool flushed, varied;
};
constexpr State kStates[] = {
    {"program", false, false}, {"flushed", true, false}, {"varied", false, true}, {"varied flushed", true, true}};

// How often a candidate is launched on inputs on which the original itself does not always come to the same.
constexpr int kOften = 20;
// Of the sets of inputs, those that a candidate is compared on before it is timed against a bar.
constexpr std::ptrdiff_t kFirstCases = 3;

// Of the time for learning, for what the launch makes of larger memory.
constexpr double kRoomShare = 1;

enum Exit { done = 0, unusable = 3, stopped = 4 };

Record opening(const Memory& memory, const Allocations& allocations, std::size_t nodes, double silent) {
    std::string opaque;
    for (const char* kind : allocations.opaque()) opaque += (opaque.empty() ? "" : ",") + quoted(kind);
    return Record("opened").add("silent_seconds", silent).add("bytes", std::uint64_t{memory.bytes()}).add("graph_nodes", std::uint64_t{nodes}).raw("opaque", "[" + opaque + "]");
}

void add_difference(Record& record, const Outcome& outcome, bool compared) {
    const Difference& d = outcome.difference;
    record.add("state", outcome.state).add("reason", outcome.reason).add("bitwise", compared && outcome.bitwise);
    record.add("error_ratio", d.ratio).add("relative_error", d.relative).add("lowered", outcome.lowered);
    record.add("wrong", d.wrong).add("stray", d.stray).add("nan", d.nan);
}

CUstream new_stream() {
    CUstream stream = nullptr;
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

class Visit {
   public:
    Visit(const Job& job, const Launch& baseline, const Allocations& allocations, Results& results, std::size_t nodes)
        : job_(job), baseline_(baseline), results_(results), helpers_(job.helpers), stream_(new_stream()), scrub_(helpers_, stream_) {
        const double started = now();
        std::vector<Block> blocks = blocks_of(allocations, baseline.function, job.globals);
        const std::vector<Block> gaps = gaps_of(blocks);
        blocks.insert(blocks.end(), gaps.begin(), gaps.end());
        check(cuCtxSynchronize(), "filling gaps");
        memory_ = std::make_unique<Memory>(std::move(blocks), helpers_, stream_, job.seed * 2 + 1);
        if (!job.rooms.empty()) rooms_ = Rooms::around(job, baseline, *memory_);
        results_.write(opening(*memory_, allocations, nodes, job.option("baseline_limit")).add("seconds", now() - started));
    }

    void learn() {
        const double started = now();
        forget_ = [this] { scrub_.run(baseline_.function, baseline_.function); };
        oracle_ = std::make_unique<Oracle>(job_, baseline_, *memory_, stream_, results_, forget_);
        trial_ = std::make_unique<Trial>(job_, baseline_, *memory_, *oracle_, scrub_, stream_, results_);
        const double own = now();
        learn_rooms();
        const double learned = now();
        see_what_runs();
        const double seen = now();
        const auto samples = job_.option("time") ? trial_->warm_up() : std::vector<double>{};
        slow_ = !samples.empty() && median(samples) > kSlow;
        results_.write(oracle_->summary(roomy_.get())
                           .add("origin", trial_->origin())
                           .add("learn_seconds", learned - started)
                           .add("room_seconds", learned - own)
                           .add("twin_seconds", twin_.seconds())
                           .add("twin", twin_.why_not())
                           .add("warm_up_seconds", now() - seen));
    }

    // Which blocks of the kernel run on the sets of inputs, before any candidate is loaded.
    void see_what_runs() {
        // what was learned may have led the kernel anywhere
        if (!twin_.asked()) return put_back();
        results_.write(Record("stage").add("name", "twin").add("seconds", 0.0));
        put_back();
        twin_.run(baseline_, *memory_, *oracle_, scrub_, stream_, results_);
        if (roomy_) {
            put_back();
            twin_.run(rooms_->launch(), *room_memory_, *roomy_, scrub_, stream_, results_);
        }
        put_back();
    }

    // The launch on larger copies of its memory, if there are any: the program's state is put back for it and after it.
    void learn_rooms() {
        if (!rooms_) return;
        put_back();
        results_.write(Record("stage").add("name", "rooms").add("seconds", 0.0));
        room_job_ = job_;
        room_job_.roomy = rooms_->times();
        room_job_.variants = job_.rooms;
        room_job_.launch = 0;
        for (Parameter& p : room_job_.parameters) p.scratch = p.scratch && oracle_->forgets(p.index);
        room_job_.options["poison"] = 0;
        room_job_.options["learn_seconds"] *= kRoomShare;
        try {
            room_memory_ = std::make_unique<Memory>(rooms_->blocks(), helpers_, stream_, job_.seed * 2 + 3);
            rooms_->renew(room_job_, *room_memory_);
            roomy_ = std::make_unique<Oracle>(room_job_, rooms_->launch(), *room_memory_, stream_, results_, forget_);
        } catch (const DriverError& error) {
            if (is_sticky(error.status)) throw;
        } catch (const Hung&) {
            throw;
        } catch (const std::runtime_error&) {
            // a launch that cannot be repeated there
        }
        if (roomy_ && (roomy_->cases().size() < 2 || !roomy_->recover())) roomy_.reset();
        // nothing is judged there: the card's memory is the program's and the candidates'
        if (!roomy_) room_memory_.reset(), rooms_.reset();
        put_back();
    }

    void judge(const Candidate& candidate) {
        // a round is waited for as three launches
        results_.write(Record("begin").add("candidate", candidate.id).add("silent_seconds", 4 * oracle_->limit()));
        Record record("result");
        record.add("candidate", candidate.id);
        bool lost = false;
        try {
            measure(candidate, record);
        } catch (const Refused& refused) {
            record.add("state", refused.state).add("reason", refused.what());
        } catch (const Hung& hung) {
            record.add("state", "hung").add("reason", hung.what() + where());
            lost = true;
        } catch (const DriverError& error) {
            lost = is_sticky(error.status);
            record.add("state", lost ? "crashed" : "illegal").add("reason", error.what() + where());
        }
        memory_->unbind();
        results_.write(record);
        if (lost) _exit(stopped);
        if (!oracle_->recover()) {
            results_.write(Record("damaged").add("candidate", candidate.id));
            _exit(stopped);
        }
    }

   private:
    // One launch, the memory that it works on, and what is right there.
    struct World {
        const Launch& baseline;
        Memory& memory;
        Oracle& oracle;
    };
    World own() { return {baseline_, *memory_, *oracle_}; }

    // The set of inputs that was looked at last, in words; "" for the program's own.
    std::string where() const {
        const std::string there = looking_at_ ? looking_at_->variant.name : "own";
        return there == "own" ? "" : ", on inputs " + there + (looking_at_roomy_ ? ", with more memory than the program has" : "");
    }

    // The program's memory, whatever a run has done to it.
    void put_back() {
        if (!oracle_->recover()) throw std::runtime_error("the snapshot was damaged");
    }

    // A module loaded afresh has no memory of what was asked of it; its twins get the program's contents.
    std::unique_ptr<Loaded> load(const Candidate& candidate, World in) {
        auto loaded = std::make_unique<Loaded>(candidate, in.baseline, in.memory);
        loaded->bind();
        in.memory.restore(in.memory.variables());
        in.memory.unbind();
        scrub_.run(loaded->launch().function, in.baseline.function);
        return loaded;
    }

    // `as`: in another grid than the one that is its own there.
    Outcome once(World in, Loaded& loaded, const Case& c, const Launch* as = nullptr) {
        in.memory.unbind();
        loaded.bind();
        in.oracle.prepare(c);
        loaded.reset(stream_);
        Launch launch = in.oracle.given(loaded.launch());
        if (as) std::copy(as->grid, as->grid + 3, launch.grid);
        launch.go(stream_);
        wait(stream_, in.oracle.limit());
        return in.oracle.verify(c);
    }

    // One run for each of those sets of inputs; stops at the first that is not right.
    Outcome right(World in, Loaded& loaded, const std::function<bool(const Case&)>& meant) {
        Outcome worst;
        worst.bitwise = true;
        for (const Case& c : in.oracle.cases()) {
            if (!meant(c) || !in.oracle.means(c, loaded.launch())) continue;
            looking_at_ = &c;
            looking_at_roomy_ = &in.oracle == roomy_.get();
            results_.pulse();
            if (now() > compared_until_) return too_long(worst);
            const double later = in.oracle.later();
            Outcome outcome = in.oracle.compared(c, [&] { return once(in, loaded, c); });
            compared_until_ += in.oracle.later() - later;
            if (!outcome.reason.empty()) outcome = in.oracle.reconsider(c, outcome);
            if (!outcome.reason.empty())
                outcome = in.oracle.by_another_grid(c, loaded.launch(), outcome, [&](const Launch& other) { return once(in, loaded, c, &other); });
            outcome = in.oracle.own_doing(c, outcome, [&] {
                scrub_.run(loaded.launch().function, in.baseline.function);
                in.oracle.prepare(c);
            });
            // where places were drawn, which may overlap, whoever once comes to the same is right: the original does not always
            for (int again = 0; outcome.by_chance && c.variant.leads() && again < kOften && now() < compared_until_; ++again) {
                scrub_.run(loaded.launch().function, in.baseline.function);
                const double before = in.oracle.later();
                const Outcome other = once(in, loaded, c);
                compared_until_ += in.oracle.later() - before;
                if (other.reason.empty()) outcome = other;
            }
            // no launch of the program's has it so, and nothing forbids one
            if (c.variant.remote() && outcome.state == std::string("wrong")) outcome.state = "unproven";
            outcome.difference.ratio = std::max(outcome.difference.ratio, worst.difference.ratio);
            outcome.difference.relative = std::max(outcome.difference.relative, worst.difference.relative);
            outcome.bitwise = outcome.bitwise && worst.bitwise;
            outcome.lowered = outcome.lowered || worst.lowered;
            if (!outcome.reason.empty() && c.variant.name != "own") outcome.reason += ", on inputs " + c.variant.name;
            worst = outcome;
            if (twin_.asked()) ran_.add(twin_, c);
            if (!outcome.reason.empty()) break;
        }
        in.memory.unbind();
        looking_at_ = nullptr;
        return worst;
    }

    // The same on larger copies of the memory, by a module that is loaded for them.
    Outcome right_in_rooms(const Candidate& candidate) {
        const World in{rooms_->launch(), *room_memory_, *roomy_};
        Candidate grown = candidate;
        std::unique_ptr<Loaded> loaded;
        try {
            loaded = load(grown, in);
        } catch (const Refused&) {
            return {};  // shared memory as large as the kernel's there leaves none for its own
        }
        const Launch& launch = loaded->launch();
        // shared memory of its own grows as the kernel's
        if (launch.shared && launch.shared != in.baseline.shared) {
            grown.shared = Rooms::shared_for(launch.function, launch.shared);
            grown.shapes.clear();
            std::copy(launch.grid, launch.grid + 3, grown.grid);
            std::copy(launch.block, launch.block + 3, grown.block);
            loaded.reset();
            loaded = load(grown, in);
        }
        Outcome outcome;
        try {
            outcome = right(in, *loaded, [](const Case&) { return true; });
        } catch (const DriverError& error) {
            // a grid that the card does not launch says nothing
            if (is_sticky(error.status)) throw;
        }
        if (!outcome.reason.empty()) outcome.reason += ", with more memory than the program has";
        loaded.reset();
        if (!roomy_->recover()) throw std::runtime_error("larger copies of the program's memory were damaged");
        return outcome;
    }

    // A set of inputs to time a launch on beside the program's own, another one for each candidate; nullptr if there is
    // none. Not those on which being wrong proves nothing: in a timed launch nothing else can be tried.
    const Case* other_inputs(const Launch& launch) {
        std::vector<const Case*> like, others;
        for (const Case& c : oracle_->cases()) {
            if (&c == &oracle_->cases()[0] || !c.standing.empty() || c.variant.kind == Variant::fewer || c.variant.kind == Variant::aliased) continue;
            if (!oracle_->means(c, launch) || oracle_->is_untold(c, launch)) continue;
            if (c.variant.ordinary()) like.push_back(&c);
            // other lengths may be no whole vectors or tiles: what is gained there says nothing of the program's own
            if (!c.variant.uneven() && c.arguments.numbers.empty()) others.push_back(&c);
        }
        const auto& from = like.empty() ? others : like;
        return from.empty() ? nullptr : from[random_() % from.size()];
    }

    // Whether a gain may be claimed from these.
    bool may_gain(const Samples& samples) const {
        const double sift = job_.option("sift");
        return sift <= 0 || !(samples.speedup() <= 1 + sift);
    }

    // Whether a candidate that is right on the first few sets of inputs is faster than the bar. Where it is not, or is not
    // right, `record` says all that is to be said of it: nothing more could make it the best.
    bool beats_bar(const Candidate& candidate, std::unique_ptr<Loaded>& loaded, const Case* unseen, Record& record) {
        const double started = now();
        const Case* own_case = &oracle_->cases()[0];
        Outcome outcome = right(own(), *loaded, [&](const Case& c) { return &c != unseen && &c - own_case < kFirstCases; });
        const double compared = now();
        bool beats = outcome.reason.empty();
        std::string timings;
        if (beats) {
            loaded.reset();
            loaded = load(candidate, own());
            put_back();
            const Samples samples = trial_->run(loaded.get(), false, nullptr, bar_);
            if (!samples.outcome.reason.empty()) outcome = samples.outcome;
            beats = outcome.reason.empty() && samples.speedup() > bar_ * (1 + job_.option("sift"));
            timings = samples.json("program", "own");
            if (!beats && outcome.reason.empty()) outcome.state = "provisional";
        }
        if (beats && !job_.option("sifts")) {
            memory_->unbind();
            loaded.reset();
            put_back();
            loaded = load(candidate, own());
            return true;
        }
        add_difference(record, outcome, true);
        record.add("right_seconds", compared - started);
        record.raw("timings", "[" + timings + "]").add("timing_seconds", now() - compared);
        return false;
    }

    // What lies so deep in local memory nothing overwrites between launches.
    void refuse_local(CUfunction function) const {
        int bytes = 0, own = 0;
        check(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function), "cuFuncGetAttribute");
        check(cuFuncGetAttribute(&own, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, baseline_.function), "cuFuncGetAttribute");
        if (bytes > Scrub::most_local && bytes > own)
            throw Refused("unproven", "it has " + std::to_string(bytes) + " bytes of local memory a thread, and what a launch leaves in more than " +
                                          std::to_string(Scrub::most_local) + " is there for the next one");
    }

    Outcome too_long(Outcome so_far) const {
        so_far.state = "unproven";
        so_far.reason = "comparing it takes longer than " + std::to_string(static_cast<int>(job_.option("compare_seconds"))) + " s";
        memory_->unbind();
        return so_far;
    }

    void measure(const Candidate& given, Record& record) {
        const double started = now();
        const Candidate candidate = oracle_->placed(given);
        compared_until_ = started + job_.option("compare_seconds");
        looking_at_ = nullptr;
        ran_ = Ran();
        auto loaded = load(candidate, own());
        refuse_local(loaded->launch().function);
        const double ready = now();
        // what it is timed on beside the program's own inputs it has not seen before
        const Case* unseen = job_.option("time") && !job_.option("sifts") ? other_inputs(loaded->launch()) : nullptr;
        record.add("load_seconds", ready - started);
        if (bar_ > 0 && !beats_bar(candidate, loaded, unseen, record)) return;
        Outcome outcome = right(own(), *loaded, [&](const Case& c) { return &c != unseen; });
        if (roomy_ && outcome.reason.empty()) {
            loaded.reset();
            put_back();
            const Outcome there = right_in_rooms(candidate);
            if (!there.reason.empty()) outcome = there;
            put_back();
            loaded = load(candidate, own());
        }
        const double compared = now();
        record.add("right_seconds", compared - ready);
        std::string timings;
        bool gains[] = {false, false};  // in the program's cache state, and flushed
        double gained = 0;
        for (const State& state : kStates) {
            const bool flushed = state.flushed;
            const Case* varied = state.varied ? unseen : nullptr;
            if (!outcome.reason.empty() || !job_.option("time")) break;
            if ((flushed && (slow_ || !job_.option("flush_cache"))) || (!varied && state.varied)) continue;
            // what gains nothing on the program's own inputs has nothing to show on others
            if (varied && !gains[flushed]) continue;
            loaded.reset();
            loaded = load(candidate, own());
            put_back();
            const Samples samples = trial_->run(loaded.get(), flushed, varied);
            if (!samples.outcome.reason.empty()) outcome = samples.outcome;
            if (!varied) gains[flushed] = may_gain(samples);
            if (!varied && !flushed) gained = samples.speedup();
            timings += (timings.empty() ? "" : ",") + samples.json(state.name, varied ? varied->variant.name : "own");
        }
        if (outcome.reason.empty() && job_.option("time")) {
            // nobody is called faster whose results were not all compared again, in a search when it is confirmed; for
            // others the new ones have to do
            const bool all = bar_ <= 0 && (gains[false] || gains[true]);
            compared_until_ = now() + job_.option("compare_seconds");
            const Outcome after = right(own(), *loaded, [&](const Case& c) { return all || &c == unseen || &c == &oracle_->cases()[0]; });
            if (!after.reason.empty()) (outcome = after).reason += ", after timing";
        }
        // who comes after it has to beat it
        if (bar_ > 0 && outcome.reason.empty() && gains[false]) bar_ = std::max(bar_, gained);
        add_difference(record, outcome, true);
        record.raw("timings", "[" + timings + "]").add("timing_seconds", now() - compared);
        if (twin_.asked()) record.add("ran", ran_.text()).add("ran_unknown", std::uint64_t{ran_.unknown()});
    }

    const Job& job_;
    const Launch& baseline_;
    Results& results_;
    Helpers helpers_;
    CUstream stream_;
    std::mt19937_64 random_{job_.seed};
    bool slow_ = false;
    double compared_until_ = 0;
    const Case* looking_at_ = nullptr;  // while it is compared
    bool looking_at_roomy_ = false;     // on larger copies of the memory
    double bar_ = job_.option("time") ? job_.option("bar") : 0;  // the speedup to beat for a look in full; 0 for none
    Scrub scrub_;
    std::function<void()> forget_;
    std::unique_ptr<Memory> memory_, room_memory_;
    std::unique_ptr<Rooms> rooms_;
    Job room_job_;
    std::unique_ptr<Oracle> oracle_, roomy_;
    std::unique_ptr<Trial> trial_;
    Twin twin_{job_.twin, job_.own_twin, job_.marks, job_.twin.cubin.empty() ? 0 : job_.option("twin_seconds")};
    Ran ran_;                   // of the candidate that is judged
};

// Of the card's memory, what nobody has: this process gives its own back only while it ends, which takes a while.
double free_share() {
    std::size_t free = 0, total = 0;
    return cuMemGetInfo(&free, &total) == CUDA_SUCCESS && total ? static_cast<double>(free) / static_cast<double>(total) : 0;
}

[[noreturn]] void give_up(Results& results, const std::string& reason) {
    results.write(Record("failed").add("reason", reason));
    _exit(unusable);
}

}  // namespace

void visit(const Job& job, Launch launch, bool from_module, const Allocations& allocations, Results& results,
           const std::function<std::size_t()>& approach) {
    try {
        // another stream of this thread may be in capture without forbidding others their calls
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        cuThreadExchangeStreamCaptureMode(&mode);
        check(cuCtxSynchronize(), "the program's own work before the launch");
        const std::size_t nodes = approach ? approach() : 0;
        launch.function = loaded(launch.function, from_module);
        if (!job.instead.empty()) stand_in(launch, job, allocations);
        Visit here(job, launch, allocations, results, nodes);
        here.learn();
        for (const Candidate& candidate : job.candidates) here.judge(candidate);
        results.write(Record("closed").add("free_share", free_share()));
    } catch (const Hung&) {
        give_up(results, "the kernel itself ran past its time limit when it was launched again");
    } catch (const std::exception& error) {
        give_up(results, error.what());
    }
    _exit(done);
}

}  // namespace warplens
