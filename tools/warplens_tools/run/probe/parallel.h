// SPDX-License-Identifier: Apache-2.0
// Loops over large host buffers, on a few threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace warplens {

// So many items are worth a thread, which takes some 20 us to start: bytes that are copied, numbers that are worked on.
constexpr std::size_t kCopying = 1000000, kArithmetic = 16384;

// Calls work(begin, end, part) for disjoint ranges of [0, count), each a multiple of `grain` but the last;
// returns the number of parts, each of `worth` items at least.
template <class Work>
std::size_t in_parallel(std::size_t count, std::size_t grain, std::size_t most, Work work, std::size_t worth = kCopying) {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const std::size_t parts = std::min({std::min<std::size_t>(16, cores), most, count / worth + 1});
    const std::size_t share = (count / parts + grain) / grain * grain;
    std::vector<std::thread> workers;
    for (std::size_t part = 1; part < parts; ++part)
        workers.emplace_back([=] { work(std::min(count, part * share), std::min(count, (part + 1) * share), part); });
    work(0, std::min(count, share), std::size_t{0});
    for (std::thread& worker : workers) worker.join();
    return parts;
}

}  // namespace warplens
