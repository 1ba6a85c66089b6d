// SPDX-License-Identifier: Apache-2.0
// Times a candidate against the baseline, interleaved.
#pragma once

#include <cuda.h>

#include <random>
#include <string>
#include <vector>

#include "job.h"
#include "launch.h"
#include "memory.h"
#include "oracle.h"
#include "scrub.h"
#include "timer.h"

namespace warplens {

// Durations in ns by round. `again` is the baseline a second time in the same round: the A/A control.
struct Samples {
    std::vector<double> baseline, candidate, again;
    int checked = 0;        // timed launches whose results were compared
    Outcome outcome;        // of those: the worst
    Sums right;             // checksums that a right launch of the candidate left

    double speedup() const;  // the baseline's median, of both turns, over the candidate's; NaN of no rounds
    std::string json(const std::string& cache, const std::string& inputs) const;
};

class Trial {
   public:
    Trial(const Job& job, const Launch& baseline, Memory& memory, Oracle& oracle, Scrub& scrub, CUstream stream, Results& results);

    // Baseline launches until the clocks are up; their durations in ns, the last ones.
    std::vector<double> warm_up();
    // `loaded` null times the baseline alone. Throws Hung, DriverError.
    // On the program's own inputs, or another case's. With a `bar`, a speedup, only until it is clear on which side of it
    // the candidate is, or a quarter of the time is over.
    Samples run(Loaded* loaded, bool flushed, const Case* varied = nullptr, double bar = 0);
    const char* origin() const { return timer_.origin(); }

   private:
    const Case& timed_case() const { return varied_ ? *varied_ : oracle_.cases()[0]; }
    enum Slot { first, candidate, second };
    void put_back(Loaded* loaded, bool flushed, bool examined);
    void round(Loaded* loaded, bool flushed, Samples& samples);
    bool check_timed(Loaded* loaded, bool flushed, Samples& samples);

    const Job& job_;
    const Launch& baseline_;
    Memory& memory_;
    Oracle& oracle_;
    Scrub& scrub_;
    CUstream stream_;
    Results& results_;
    Timer timer_;
    const Case* varied_ = nullptr;
    std::mt19937_64 random_;
    CUdeviceptr flush_ = 0;
    std::size_t flush_bytes_ = 0;
    unsigned flush_value_ = 0;
};

}  // namespace warplens
