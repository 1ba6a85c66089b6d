// SPDX-License-Identifier: Apache-2.0
// The kernel's twin, which marks what of it runs: on each set of inputs that candidates are compared on, it says which of
// its blocks some thread came to. So does the twin of the one candidate of a visit that has one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "job.h"
#include "launch.h"
#include "memory.h"
#include "oracle.h"
#include "scrub.h"

namespace warplens {

class Twin {
   public:
    using Marks = std::vector<std::uint8_t>;

    // `twin` and `own`, the candidate's, are loaded as candidates are, before any of them; nothing is run where the job has
    // none.
    Twin(const Candidate& twin, const Candidate& own, const std::string& variable, double seconds) : kernels_{twin, "the kernel's twin", {}, {}}, own_{own, "a candidate's twin", {}, {}}, variable_(variable), left_(seconds) {}

    // One launch on each set of inputs, until there is no time left. What it cannot be asked says nothing, but for a launch
    // that faults or does not come back, which ends the visit as one of the kernel's own does.
    void run(const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results);

    // What ran on a set of inputs; nullptr where that is not known.
    const Marks* on(const Case& c) const { return kernels_.on(c); }
    // The same of the candidate's.
    const Marks* own_on(const Case& c) const { return own_.on(c); }
    // Why nothing is known; empty where something is.
    const std::string& why_not() const { return kernels_.why_not; }
    double seconds() const { return seconds_; }
    bool asked() const { return !kernels_.twin.cubin.empty(); }

   private:
    using Found = std::map<const Case*, Marks>;
    Found run_all(const Candidate& twin, const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results);
    struct Side {
        const Candidate& twin;
        const char* words;
        std::string why_not;
        Found marks;
        const Marks* on(const Case& c) const;
    };
    void ask(Side& side, const std::function<Found()>& run);

    Side kernels_, own_;
    std::string variable_;
    double left_, seconds_ = 0;
};

// What ran on the sets of inputs that a candidate was compared on.
class Ran {
   public:
    void add(const Twin& twin, const Case& c);
    // As digits, one a mark: the kernel's, and then the candidate's if they are known of each set.
    std::string text() const;
    // Sets of inputs of which it is not known.
    unsigned unknown() const { return unknown_; }

   private:
    Twin::Marks marks_, own_;
    unsigned unknown_ = 0, own_unknown_ = 0;
};

}  // namespace warplens
