// SPDX-License-Identifier: Apache-2.0
// What the baseline computes, so that a candidate's results can be told right from wrong.
//
// Expected results rest in pageable host memory before any candidate is loaded, where the card cannot address them, or as
// checksums by which they are known again once they are computed anew (`again.cpp`).
#pragma once

#include <cuda.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare.h"
#include "driver.h"
#include "inputs.h"
#include "job.h"
#include "launch.h"
#include "memory.h"
#include "on_card.h"
#include "record.h"
#include "rounding.h"

namespace warplens {

// One set of inputs, and what the baseline makes of them.
struct Case {
    Variant variant;
    std::uint64_t seed = 0;
    std::vector<Expected> expected;  // one per stretch
    Sums after;
    bool of_one_run = true;          // `after` is what was left by the run that gave what is expected
    bool idle = false;               // it changes no input: the program has none of its kind
    Given arguments;             // of the launch
    unsigned grid[3] = {0, 0, 0};    // 0: as the program's
    unsigned threads = 0;            // of a block along x; 0: as the program's
    bool slow = false;               // launches take far longer on it
    bool launched = true;            // whether the program could launch it with those arguments
    bool ruled = false;              // whether its grid is what the program would launch
    std::vector<std::vector<std::uint8_t>> standing;  // what lies where its results go; empty: nothing of its own
    bool referenced = false;         // what its sums come to in parts was asked
    int pairs = 0;                   // moves, up and down, that its bounds were learned from
    bool asked = false;              // the baseline was asked again where it writes
    bool bounded = false;            // its bounds were learned
    bool learned = false;            // on the host, result by result
    bool mute = false;               // rounding alone may change the results wholly: who differs there is not compared
    bool lies_there = false;         // what is expected is computed on the card where it is asked for, and not read yet
    std::uint64_t unclean[2] = {0, 0};  // as `count_unclean`, of all, and where NaN and infinity mean something
    Sight seen;                      // where its bounds were learned on the card
};

// A whole number of somebody's results that is another one: its stretch, where it lies there, and its 32 bits.
struct Apart {
    std::size_t stretch, at;
    std::uint32_t value;
};

// How one run compares.
struct Outcome {
    const char* state = "right";     // right, wrong, unproven
    std::string reason;
    Difference difference;
    bool bitwise = false;
    bool lowered = false;            // right only because a lower precision is allowed
    bool by_chance = false;          // the original does not always give its own results there
    std::vector<Apart> apart;        // where whole numbers alone are wrong, and few of them: these
};

class Oracle {
   public:
    // Runs the baseline as often as it takes. `forget` overwrites what launches leave on the card: inputs on which the
    // baseline then gives other results say nothing. Throws Hung, DriverError, std::runtime_error.
    Oracle(const Job& job, const Launch& baseline, Memory& memory, CUstream stream, Results& results, std::function<void()> forget = {});

    const std::vector<Case>& cases() const { return cases_; }
    // Puts memory into the state a case starts from; asynchronous.
    void prepare(const Case& c);
    // The launch with the arguments of the case that was prepared last, and the grid that the program would give it for
    // them: one of its own follows from lengths as the baseline's does.
    Launch given(Launch launch) const;
    // Whether the case says something of a launch: a smaller grid says nothing of one that has a grid of its own, and other
    // numbers nothing where the baseline's grid rests on them and the launch's own is not known.
    bool means(const Case& c, const Launch& launch) const;
    // Whether a launch has a grid of its own, the case's numbers are others, and nothing tells by which rule it follows.
    bool is_untold(const Case& c, const Launch& launch) const;
    // The outcome of a launch on the case, once it is known what comes of other grids that its host code might give it.
    Outcome by_another_grid(const Case& c, const Launch& launch, const Outcome& first, const std::function<Outcome(const Launch&)>& again);
    // Compares memory, as a run on that case left it. `known` are checksums that were found right before: a
    // launch that leaves the same is right again. Filled in where the outcome is right.
    Outcome verify(const Case& c, Sums* known = nullptr);
    // The outcome of the run that `verify` has just looked at, once it is known what sums come to in parts: asked where
    // somebody is about to be called wrong, since it takes many runs. `known` as for `verify`.
    Outcome reconsider(const Case& c, const Outcome& first, Sums* known = nullptr);
    // The outcome of a launch on the case, once all is learned of it that the outcome rests on: `once` prepares the case,
    // launches, and verifies.
    Outcome compared(const Case& c, const std::function<Outcome()>& once);
    // How often the original has been launched, and seconds of comparing in which it was at work.
    std::uint64_t launches() const { return launches_; }
    double later() const { return later_; }
    // Whether the bounds of that case are learned now, since somebody's results are not the very bits: on most sets of
    // inputs nobody's differ. Once for each case.
    bool learns_bounds(const Case& c, const Outcome& first);
    // Whether the bounds of that case were learned anew, of more moves, since somebody is about to be called wrong by little:
    // one or two moves see too little of some among many results. Once for each case.
    bool learns_more(const Case& c, const Outcome& first);
    // Whether the original, asked again on that very case, is now known to write in more places: somebody is about to be
    // called wrong for writing where it does not, and what it writes with the value that lies there is seen only where
    // another does. Once for each case.
    bool learns_written(const Case& c, const Outcome& first);
    // Back to the initial state after a run that may have changed anything; false if that cannot be done.
    bool recover();
    // Outputs are what the launch found, too: the program may look at them while what comes next runs.
    void hand_back();
    // The chunks that runs on the program's own inputs change, which is what a timed launch needs put back.
    const Chunks& timed() const { return timed_; }
    // Whether nobody sees what a launch leaves behind that parameter: the source says so, and the kernel, too, does
    // without what lay there.
    bool forgets(int parameter) const;
    // A candidate with its grid, where that is what its own rule gives for what the program passes. Throws Refused where
    // the baseline's launch shows no such rule to hold.
    Candidate placed(Candidate candidate) const;
    double limit() const { return limit_; }  // seconds one launch of a candidate may take
    // The same where the original, asked again on that case as often as there is time for, does not always give its own
    // results: then it says nothing of whoever was compared. `before` puts the card into the state that it was compared
    // in, memory and all.
    Outcome own_doing(const Case& c, const Outcome& first, const std::function<void()>& before);
    // With the cases of `further`, where the launch is looked at in more than one place.
    Record summary(const Oracle* further = nullptr) const;

   private:
    // What lies behind allocations' ends and between them; and what no float of any type is, on every other set of inputs.
    static constexpr unsigned char kTail = 0x5a, kNoNumber = 0xff;
    static constexpr unsigned kFewer = 61;        // a smaller grid is about such a part of it
    // However slow launches are, so many sets of inputs are looked at, the program's own among them.
    static constexpr std::size_t kFewestCases = 3;
    // Results that are no further off than such a part of them may be so by rounding.
    static constexpr double kNear = 0.1;
    // Of so many whole numbers at most it is asked whether rounding decides about them.
    static constexpr std::size_t kMostApart = 64;
    // Whether less than that share of the time for learning is spent.
    bool affords(double share) const { return now() - started_ < share * budget_; }
    void stage(const std::string& name) { results_.write(Record("stage").add("name", name).add("seconds", now() - started_)); }
    bool owns(const Chunks& chunks, const Chunks& own) const;
    Chunks filled_by_baseline(const Case& c);
    void mark_filled(const Case& c);
    void mark_turned(const Case& c, bool filled);
    void mark_run(const Case& c, const std::function<void()>& change);
    bool is_whole(std::size_t stretch) const;   // it is known to be written throughout
    std::vector<std::size_t> sparse(bool filled) const;  // stretches of floats that are not; of what can be `filled`, too
    Chunks turned_by_baseline(const Case& c);
    void turn_outputs(unsigned bits);
    Sums looked();                              // checksums; the next restore puts back what they show
    bool meets_by_chance() const;
    void begin_on_card();
    static bool is_simple(const Case& c);
    void capture_on_card(Case& c);
    void mark_on_card();
    void read_masks();
    bool compute_again(Case& c);
    void read_results(Case& c);
    bool has_results(Case& c);
    bool learn_on_card(Case& c);                // whether moved runs tell of each result
    std::optional<Outcome> right_on_card(Case& c);
    Outcome weigh_on_card(const Case& c, const Chunks& differing);
    void take_home(Case& c);
    void forget_results();
    double how_far() const;                     // inputs are moved, relative
    void run_pairs(Case& c, int from, int pairs, const std::function<void()>& up, const std::function<void(double, int)>& down);
    static void mute(Case& c, const Sight& seen);
    Expected unread(std::size_t stretch) const;
    double run_once();                          // seconds
    int repeats_of(const Case& own, int done) const;
    int moved_pairs(bool own) const;
    void find_records(const Case& own);
    Column column(std::size_t stretch, const std::uint8_t* bytes) const;
    Chunks written_by(Case& c);
    void find_written();
    Chunks looked_at(const Chunks& chunks);
    void add_stretches(const Chunks& chunks);
    std::size_t add_stretch(std::size_t block, std::size_t at, std::size_t stop, const Typed* said);
    std::size_t add_members(const Typed& said, std::size_t at, std::size_t stop);
    void add(const Stretch& stretch);
    void capture(Case& c);
    bool find_leftovers(Case& own);
    const std::uint8_t* read_now(std::size_t stretch);
    void learn_own();
    void learn_rounding(Case& c);
    bool needs_bounds() const;
    void ask_again(const std::function<void()>& ask);
    void move_inputs(Case& c, int from, int pairs);
    void learn_reference(Case& c);
    std::vector<std::vector<double>> added_up(const Case& c, std::uint64_t parts, std::size_t area);
    void refer(Case& c, std::uint64_t parts, std::size_t area);
    bool refer_all(Case& c, std::uint64_t parts);
    Outcome in_parts(Case& c, const Outcome& first, const Chunks& differing);
    Chunks differing_from(const Case& c, const Sums& now) const;
    using Reader = std::function<const std::uint8_t*(std::size_t stretch)>;
    Outcome weigh(const Case& c, const Chunks& differing, const Reader& got);
    void find_links(const Case& own);
    static void find_wholes(std::size_t stretch, const Expected& e, const std::uint8_t* got, std::vector<Apart>& apart);
    bool rounding_decides(const Case& c, const Outcome& first);
    bool keeps_links(const Case& c, const Reader& reader);
    bool keeps_records(const Case& c, const std::vector<std::size_t>& record, const Reader& reader);
    bool stays_inside(Case& c);
    bool stays_behind_fronts(const Case& c);
    void set_grid(Case& c) const;
    void set_grid_by_rule(Case& c, Launch& launch) const;
    void set_narrower(Case& c) const;
    bool set_own_grid(const Case& c, Launch& launch) const;
    bool has_own_rule(const Launch& launch) const;
    std::vector<Launch> guessed(const Case& c, const Launch& launch) const;
    bool is_baselines(const Launch& launch) const;
    bool any_grid() const;
    unsigned blocks(const Case& c, unsigned axis) const;
    void set_blocks(unsigned axis, unsigned blocks);
    void find_guarded();
    bool is_covered(const Case& c);
    bool with_grid(const Case& c, unsigned axis, unsigned blocks);
    bool parts_stand(Case& c, unsigned axis);
    bool is_apart(Case& c);
    CUdeviceptr copied_elsewhere(const Block& block, CUdeviceptr lead);
    CUdeviceptr copy_of(const Stretch& s, const std::map<CUdeviceptr, CUdeviceptr>& copies) const;
    void run_moved(const Case& c, double move, std::uint64_t seed);
    Sight sight(const Case& c) const;
    void count_unclean_of(Case& c) const;
    void keep_initial();
    void surround(unsigned char value);
    Sums sums();                               // with what is nobody's as it always is
    void find_pure();
    void find_unseen();
    void add_standing();
    bool find_put_back(std::vector<bool>& poisoned);
    bool find_added_to(std::vector<bool>& poisoned);
    bool poisoned_runs_agree(std::vector<bool>& poisoned);
    std::vector<bool> rights_of_a_run();
    void keep_originals();
    void put_original(std::size_t stretch);
    void poison_one(std::size_t stretch);
    bool turn_far(std::size_t stretch);
    void outgrow_one(std::size_t stretch);
    Outcome run_elsewhere(const Case& c);
    void learn_variants();
    void drop(std::size_t index);              // a case that says nothing
    bool changes_nothing(const Case& c) const;
    void cut(std::size_t from);                // all cases from there on: there is no time for them
    bool as_own(const Case& c) const;
    bool mostly_clean(const Case& c) const;
    void find_apart(Case& c);
    void set_length(double seconds);
    std::size_t floats() const;                // among the results
    std::string place(std::size_t block, std::size_t offset) const;
    Outcome judge(const Difference& d, const Expected& e, const Stretch& s, bool lowered) const;

    const Job& job_;
    const Launch& baseline_;
    Memory& memory_;
    CUstream stream_;
    Results& results_;
    std::function<void()> forget_;
    Inputs inputs_;
    std::vector<Stretch> outputs_;  // what the source does not declare constant
    std::vector<Stretch> stretches_;
    std::size_t looked_at_ = 0;     // up to there in the last one's block
    std::vector<std::shared_ptr<std::vector<std::uint8_t>>> written_;  // per stretch, of floats
    std::vector<Case> cases_;
    std::unique_ptr<OnCard> card_;  // where results are compared on the card
    std::vector<bool> whole_;       // then: stretches that are known to be written throughout
    bool masks_away_ = false;       // the card knows more of what is written than `written_`
    const Case* on_card_ = nullptr; // whose results lie there
    Chunks dirty_, timed_, writable_, unread_;
    Chunks writes_too_;             // beyond what is writable: where the baseline writes what lies there
    Sums initial_;
    unsigned char around_ = kTail;  // what lies around the program's memory
    Tolerance tolerance_;
    double limit_ = 0, drawn_limit_ = 0;  // of one launch, and of one of the kernel's on inputs that are not its own
    double started_ = now(), budget_ = 0;  // seconds
    double off_ = 0;                // of the kernel's own results, by what its sums come to in parts, relative
    double later_ = 0;              // seconds of learning since candidates were looked at
    std::uint64_t launches_ = 0;
    double referring_ = 0;          // seconds that asking what sums come to in parts has taken
    double takes_ = 0;              // seconds of one launch
    bool lowers_ = false;           // a lower precision is allowed, and there are inputs that it must not change
    bool blind_ = false;            // on every set of inputs rounding alone may change the results wholly
    std::vector<bool> pure_;        // stretches that are only written
    std::vector<bool> unseen_;      // stretches of which nobody sees what a launch leaves there
    std::size_t pure_bytes_ = 0, changed_bytes_ = 0;
    void** arguments_ = nullptr;    // of the case that was prepared last
    unsigned grid_[3] = {0, 0, 0};  // and its grid
    unsigned threads_ = 0;          // and its block's length
    const Case* prepared_ = nullptr;
    GridRule rule_;                 // of the baseline's grid; empty where there is none
    bool guarded_[3] = {false, false, false};  // along these axes more blocks change nothing
    bool apart_[3] = {false, false, false};  // and no block changes another's results
    Bytes scratch_;
    // By what leads there: a copy of its block that lies elsewhere, with room around it.
    struct Elsewhere {
        std::map<CUdeviceptr, CUdeviceptr> at;
        ~Elsewhere() { clear(); }
        void clear();
    } elsewhere_;
    std::vector<Bytes> before_, up_;
    std::vector<Bytes> original_;   // while outputs are poisoned, of those that are not on the card
    std::vector<Bytes> lay_there_;  // before they were poisoned, where that is put back in the end
    bool moved_ = false;            // then: whether moved runs tell of each result
    std::vector<Bytes> shuffled_;   // one repeat's, of the stretches that it held in another order
    std::vector<std::vector<std::size_t>> records_;  // stretches whose elements change places together
    std::vector<std::pair<std::size_t, std::size_t>> links_;  // stretches of which the first's elements are places in the second
    std::vector<std::string> dropped_, skipped_;  // by name: what says nothing, and what there was no time for
};

}  // namespace warplens
