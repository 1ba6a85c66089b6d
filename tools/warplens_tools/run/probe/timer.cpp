// SPDX-License-Identifier: Apache-2.0
#include "timer.h"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "driver.h"
#include "stats.h"

namespace warplens {
namespace {

constexpr std::size_t kBuffer = 4u << 20;

std::mutex records_mutex;
std::vector<Activity> records;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
    *size = *buffer ? kBuffer : 0;
    *most = 0;
}

void add(const CUpti_ActivityKernel9& k) {
    Activity a;
    a.name = k.name ? k.name : "";
    a.start_ns = static_cast<double>(k.start);
    a.duration_ns = static_cast<double>(k.end - k.start);
    const int grid[3] = {k.gridX, k.gridY, k.gridZ}, block[3] = {k.blockX, k.blockY, k.blockZ};
    std::copy(grid, grid + 3, a.grid);
    std::copy(block, block + 3, a.block);
    a.shared = static_cast<unsigned>(k.dynamicSharedMemory);
    a.in_graph = k.graphId != 0;
    std::lock_guard<std::mutex> lock(records_mutex);
    records.push_back(std::move(a));
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        const bool kernel =
            record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL;
        // later versions of the record only append fields
        if (kernel) add(*reinterpret_cast<CUpti_ActivityKernel9*>(record));
    }
    std::free(buffer);
}

// The probe's own kernels run between the timed ones.
bool is_own(const Activity& a) { return a.name.compare(0, 9, "warplens_") == 0; }

}  // namespace

namespace activities {

void start() {
    static bool registered = false;
    if (!registered && cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
        throw std::runtime_error("CUPTI takes no activity buffers");
    registered = true;
    if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
        throw std::runtime_error("CUPTI records no kernels");
}

void flush() { cuptiActivityFlushAll(0); }

std::vector<Activity> take() {
    std::vector<Activity> all;
    {
        std::lock_guard<std::mutex> lock(records_mutex);
        all.swap(records);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Activity& a, const Activity& b) { return a.start_ns < b.start_ns; });
    return all;
}

}  // namespace activities

Timer::Timer(CUstream stream, bool from_events) : stream_(stream), from_events_(from_events) {
    if (from_events_) return;
    try {
        activities::start();
    } catch (const std::runtime_error&) {
        from_events_ = true;
    }
}

void Timer::discard() {
    activities::flush();
    activities::take();
    timed_ = 0;
}

void Timer::time(const std::function<void()>& launch) {
    if (timed_ == brackets_.size()) {
        Bracket bracket{};
        check(cuEventCreate(&bracket.begin, CU_EVENT_DEFAULT), "cuEventCreate");
        check(cuEventCreate(&bracket.end, CU_EVENT_DEFAULT), "cuEventCreate");
        brackets_.push_back(bracket);
    }
    const Bracket& bracket = brackets_[timed_++];
    if (from_events_) check(cuEventRecord(bracket.begin, stream_), "cuEventRecord");
    launch();
    if (from_events_) check(cuEventRecord(bracket.end, stream_), "cuEventRecord");
}

std::vector<double> Timer::collect() {
    if (from_events_) return from_events();
    activities::flush();
    std::vector<double> durations;
    for (const Activity& a : activities::take())
        if (!is_own(a)) durations.push_back(a.duration_ns);
    const bool complete = durations.size() == timed_;
    timed_ = 0;
    if (complete) return durations;
    from_events_ = true;  // this batch is lost, the next ones are timed by events
    return {};
}

double Timer::empty_bracket() {
    std::vector<double> spans;
    for (int i = 0; i < 21; ++i) {
        const Bracket& b = brackets_[0];
        float ms = 0;
        check(cuEventRecord(b.begin, stream_), "cuEventRecord");
        check(cuEventRecord(b.end, stream_), "cuEventRecord");
        check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
        check(cuEventElapsedTime(&ms, b.begin, b.end), "cuEventElapsedTime");
        spans.push_back(ms * 1e6);
    }
    return median(spans);
}

std::vector<double> Timer::from_events() {
    std::vector<double> durations;
    for (std::size_t i = 0; i < timed_; ++i) {
        float ms = 0;
        check(cuEventElapsedTime(&ms, brackets_[i].begin, brackets_[i].end), "cuEventElapsedTime");
        durations.push_back(ms * 1e6);
    }
    timed_ = 0;
    if (empty_ns_ < 0 && !durations.empty()) empty_ns_ = empty_bracket();
    for (double& duration : durations) duration = std::max(1.0, duration - empty_ns_);
    return durations;
}

}  // namespace warplens
