// SPDX-License-Identifier: Apache-2.0
// Every kernel the program runs: launches, shapes and durations.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "launch.h"
#include "record.h"
#include "timer.h"

namespace warplens {

class Survey {
   public:
    void start();                                                    // throws std::runtime_error
    void launched(const std::string& name, const Launch& launch, bool captured);
    // By a graph; `obstacle` says why a visit cannot reach it there, "" if it can.
    void launched_by_graph(const std::string& name, const Launch& launch, const std::string& obstacle);
    // Kernels may run that no call tells of; says why.
    void hidden(const std::string& reason);
    void finish(Results& results);                                   // once, at the program's end

   private:
    struct Shape {
        std::uint64_t launches = 0, captured = 0, reachable = 0, timed = 0, in_graphs = 0;
        std::string obstacle;
        double total_ns = 0;
        std::vector<double> samples;                                 // the first ones
        std::vector<double> order;                                   // which calls for its kernel were its, from 0; the first ones
    };
    using Key = std::tuple<std::string, std::vector<unsigned>>;      // name; grid, block, shared
    void take(const std::vector<Activity>& finished);

    std::mutex mutex_;
    std::map<Key, Shape> shapes_;
    std::map<std::string, std::uint64_t> calls_;
    std::string hidden_;
    bool finished_ = false;
};

}  // namespace warplens
