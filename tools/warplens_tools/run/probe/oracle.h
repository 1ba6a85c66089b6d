// SPDX-License-Identifier: Apache-2.0
// What the baseline computes, so that a candidate's results can be told right from wrong.
//
// Expected results rest in pageable host memory before any candidate is loaded: the card cannot address them.
#pragma once

#include <cuda.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compare.h"
#include "driver.h"
#include "inputs.h"
#include "job.h"
#include "launch.h"
#include "memory.h"
#include "record.h"
#include "rounding.h"

namespace warplens {

// One set of inputs, and what the baseline makes of them.
struct Case {
    Variant variant;
    std::uint64_t seed = 0;
    std::vector<Expected> expected;  // one per stretch
    Sums after;
    bool idle = false;               // it changes no input: the program has none of its kind
    Given arguments;             // of the launch
    bool referenced = false;         // what its sums come to in parts was asked
};

// How one run compares.
struct Outcome {
    const char* state = "right";     // right, wrong, unproven
    std::string reason;
    Difference difference;
    bool bitwise = false;
    bool lowered = false;            // right only because a lower precision is allowed
};

class Oracle {
   public:
    // Runs the baseline as often as it takes. Throws Hung, DriverError, std::runtime_error.
    Oracle(const Job& job, const Launch& baseline, Memory& memory, CUstream stream, Results& results);

    const std::vector<Case>& cases() const { return cases_; }
    // Puts memory into the state a case starts from; asynchronous.
    void prepare(const Case& c);
    // The launch with the arguments of the case that was prepared last.
    Launch given(Launch launch) const;
    // Compares memory, as a run on that case left it. `known` are checksums that were found right before: a
    // launch that leaves the same is right again. Filled in where the outcome is right.
    Outcome verify(const Case& c, Sums* known = nullptr);
    // The outcome of the run that `verify` has just looked at, once it is known what sums come to in parts: asked where
    // somebody is about to be called wrong, since it takes many runs.
    Outcome reconsider(const Case& c, const Outcome& first);
    // Back to the initial state after a run that may have changed anything; false if that cannot be done.
    bool recover();
    // The chunks that runs on the program's own inputs change, which is what a timed launch needs put back.
    const Chunks& timed() const { return timed_; }
    double limit() const { return limit_; }  // seconds one launch may take
    Record summary() const;

   private:
    // Whether less than that share of the time for learning is spent.
    bool affords(double share) const { return now() - started_ < share * budget_; }
    void stage(const std::string& name) { results_.write(Record("stage").add("name", name).add("seconds", now() - started_)); }
    bool owns(const Chunks& chunks, const Chunks& own) const;
    Chunks filled_by_baseline();
    void mark_filled();
    double run_once();                          // seconds
    int repeats_of(const Case& own, int done) const;
    int moved_pairs(bool own) const;
    void find_records(const Case& own);
    Column column(std::size_t stretch, const std::uint8_t* bytes) const;
    Chunks written_by(Case& c);
    void find_written();
    void add_stretches(const Chunks& chunks);
    std::size_t add_stretch(std::size_t block, std::size_t at, std::size_t stop);
    std::size_t add_members(const Typed& said, std::size_t at, std::size_t stop);
    void add(const Stretch& stretch);
    void capture(Case& c);
    const std::uint8_t* read_now(std::size_t stretch);
    void learn_own();
    void learn_rounding(Case& c);
    void learn_reference(Case& c);
    std::vector<std::vector<double>> added_up(const Case& c, std::uint64_t parts, std::size_t area);
    void refer(Case& c, std::uint64_t parts, std::size_t area);
    using Reader = std::function<const std::uint8_t*(std::size_t stretch)>;
    Outcome weigh(const Case& c, const Chunks& differing, const Reader& got);
    bool keeps_records(const Case& c, const std::vector<std::size_t>& record, const Reader& reader);
    bool stays_inside(const Case& c);
    CUdeviceptr copied_elsewhere(const Block& block);
    void run_moved(const Case& c, double move, std::uint64_t seed);
    Sight sight(const Case& c) const;
    void find_pure();
    bool poisoned_runs_agree(const std::vector<Bytes>& original, std::vector<bool>& poisoned);
    void learn_variants();
    bool mostly_clean(const Case& c) const;
    void set_length(double seconds);
    std::string place(std::size_t block, std::size_t offset) const;
    Outcome judge(const Difference& d, const Expected& e, const Stretch& s, bool lowered) const;

    const Job& job_;
    const Launch& baseline_;
    Memory& memory_;
    CUstream stream_;
    Results& results_;
    Inputs inputs_;
    std::vector<Stretch> outputs_;  // what the source does not declare constant
    std::vector<Stretch> stretches_;
    std::size_t looked_at_ = 0;     // up to there in the last one's block
    std::vector<std::shared_ptr<std::vector<std::uint8_t>>> written_;  // per stretch, of floats
    std::vector<Case> cases_;
    Chunks dirty_, timed_, writable_;
    Sums initial_;
    Tolerance tolerance_;
    double limit_ = 0;
    double started_ = now(), budget_ = 0;  // seconds
    double referring_ = 0;          // seconds that asking what sums come to in parts has taken
    double takes_ = 0;              // seconds of one launch
    bool lowers_ = false;           // a lower precision is allowed, and there are inputs that it must not change
    bool blind_ = false;            // on every set of inputs rounding alone may change the results wholly
    std::size_t pure_bytes_ = 0, changed_bytes_ = 0;
    void** arguments_ = nullptr;    // of the case that was prepared last
    Bytes scratch_;
    std::map<std::size_t, CUdeviceptr> elsewhere_;  // by block: a copy that lies elsewhere, with room around it
    std::vector<Bytes> before_, up_;
    std::vector<Bytes> shuffled_;   // one repeat's, of the stretches that it held in another order
    std::vector<std::vector<std::size_t>> records_;  // stretches whose elements change places together
    std::vector<std::string> dropped_;
};

}  // namespace warplens
