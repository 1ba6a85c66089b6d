// SPDX-License-Identifier: Apache-2.0
// Durations of single launches: CUPTI's activity timestamps, event pairs where there are none.
#pragma once

#include <cuda.h>

#include <functional>
#include <string>
#include <vector>

namespace warplens {

// One finished kernel as CUPTI recorded it.
struct Activity {
    std::string name;
    double start_ns = 0, duration_ns = 0;
    unsigned grid[3] = {0, 0, 0}, block[3] = {0, 0, 0}, shared = 0;
    bool in_graph = false;
};

namespace activities {
void start();                  // throws std::runtime_error when CUPTI refuses
void flush();                  // delivers all finished records
std::vector<Activity> take();  // what was delivered since the last call, in order of start
}  // namespace activities

class Timer {
   public:
    // Events span what a kernel launches; its own activity ends with its own threads.
    Timer(CUstream stream, bool from_events);

    // Runs `launch`, which puts exactly one kernel on the stream.
    void time(const std::function<void()>& launch);
    // Durations in ns of what was timed since the last call, in order; the stream must be idle.
    std::vector<double> collect();
    void discard();            // forget records of launches that were not timed
    const char* origin() const { return from_events_ ? "CUDA events" : "CUPTI activity"; }

   private:
    struct Bracket {
        CUevent begin, end;
    };
    std::vector<double> from_events();
    double empty_bracket();

    CUstream stream_;
    bool from_events_ = false;
    std::size_t timed_ = 0;
    std::vector<Bracket> brackets_;  // as many as were timed at once so far
    double empty_ns_ = -1;
};

}  // namespace warplens
