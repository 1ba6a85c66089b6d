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
    void finish(Results& results);                                   // once, at the program's end

   private:
    struct Shape {
        std::uint64_t launches = 0, captured = 0, timed = 0, in_graphs = 0;
        double total_ns = 0;
        std::vector<double> samples;                                 // the first ones
    };
    using Key = std::tuple<std::string, std::vector<unsigned>>;      // name; grid, block, shared
    void take(const std::vector<Activity>& finished);

    std::mutex mutex_;
    std::map<Key, Shape> shapes_;
    bool finished_ = false;
};

}  // namespace warplens
