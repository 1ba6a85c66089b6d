// SPDX-License-Identifier: Apache-2.0
// A whole run of the program with candidates in their kernels' places: some launches are compared with the baseline,
// from equal memory, and every launch is the candidate's own where its results shall stand.
#pragma once

#include <cupti.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "allocations.h"
#include "graph.h"
#include "job.h"
#include "launch.h"
#include "memory.h"
#include "plan.h"
#include "record.h"

namespace warplens {

class Accompaniment {
   public:
    // `hold` has other threads' driver calls wait until this one has returned.
    Accompaniment(const Job& job, const Allocations& allocations, Results& results, std::function<void()> hold);

    // Whether a candidate stands for that kernel.
    bool knows(const std::string& kernel) const;
    // At the launch's call: compares where it is due, puts the candidate in its place. Ends the process where the
    // candidate is wrong, faults or hangs.
    void entering(CUpti_CallbackId id, const CUpti_CallbackData* call, const std::string& kernel, Launch launch,
                  bool from_module, bool captured);
    // When that call has returned.
    void leaving(CUpti_CallbackId id, const CUpti_CallbackData* call);
    // A graph is launched, with such a node.
    void in_graph(const KernelNode& node);
    void finish();

   private:
    // One kernel, and the candidate in its place.
    struct Part {
        Part(const Job& whole, const Candidate& candidate);
        Job job;                                  // as for a visit of one launch of it
        const Candidate& candidate;
        Plan plan;
        std::unique_ptr<Loaded> loaded;
        std::set<std::vector<unsigned>> shapes;
        std::uint64_t seen = 0, compared = 0, replaced = 0, captured = 0;
        std::string left;                         // why the baseline's own launch stood somewhere; "" if nowhere
    };
    Part* part_of(const std::string& kernel);
    void begin();
    bool rehearse();
    void compare(Part& part, const Launch& launch);
    void stand(Part& part, CUpti_CallbackId id, const CUpti_CallbackData* call, const Launch& launch, bool captured);
    [[noreturn]] void give_up(const std::string& reason);

    const Job& job_;
    const Allocations& allocations_;
    Results& results_;
    std::function<void()> hold_;
    std::vector<std::unique_ptr<Part>> parts_;
    std::unique_ptr<Helpers> helpers_;
    std::unique_ptr<Memory> memory_;
    CUstream stream_ = nullptr;
    CUcontext context_ = nullptr;
    bool in_place_ = false;                       // the driver makes the launch that the call's parameters are changed to
    Part* pending_ = nullptr;                     // whose launch call has not returned
    CUstream pending_stream_ = nullptr;
    bool finished_ = false;
};

// In a thread that sets it, every launch call is made that launch instead.
extern thread_local const Launch* rehearsed;

}  // namespace warplens
