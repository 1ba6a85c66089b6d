// Drives the trace with handmade activity records in place of CUPTI, and writes what it writes.
//   trace_test RESULT REPEATS
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "trace.h"

namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
std::vector<std::vector<std::uint8_t>> pending;  // records of any size
std::size_t next = 0;

template <class T>
T& add() {
    pending.emplace_back(sizeof(T));
    return *reinterpret_cast<T*>(pending.back().data());
}

template <class T>
T& timed(CUpti_ActivityKind kind, std::uint64_t start, std::uint64_t end, std::uint32_t correlation) {
    T& record = add<T>();
    record.kind = kind;
    record.start = start;
    record.end = end;
    record.correlationId = correlation;
    return record;
}

constexpr std::uint64_t kEpoch = 1763700000123456789ull;  // nanoseconds that a double cannot hold

void program() {
    auto& outer = timed<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME, kEpoch, kEpoch + 900, 7);
    outer.cbid = 1;
    outer.threadId = 11;
    auto& inner = timed<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER, kEpoch + 100, kEpoch + 800, 8);
    inner.cbid = 2;
    inner.threadId = 11;
    auto& wait = timed<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME, kEpoch + 1000, kEpoch + 6000, 9);
    wait.cbid = 3;
    wait.threadId = 11;
    auto& copy = timed<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY, kEpoch + 200, kEpoch + 700, 6);
    copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    copy.bytes = 4096;
    auto& set = timed<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, kEpoch + 700, kEpoch + 800, 5);
    set.bytes = 128;
    auto& kernel = timed<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kEpoch + 2000, kEpoch + 5000, 8);
    kernel.name = "_Z5saxpyifPKfPf";
    kernel.gridX = 64;
    kernel.gridY = kernel.gridZ = 1;
    kernel.blockX = 256;
    kernel.blockY = kernel.blockZ = 1;
    kernel.registersPerThread = 24;
    auto& elsewhere = timed<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kEpoch, kEpoch + 10, 1);
    elsewhere.deviceId = 1;
    elsewhere.name = "_Z5otherv";
}

}  // namespace

extern "C" {
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
    request = r;
    complete = c;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityFlushAll(uint32_t) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0;
    request(&buffer, &size, &most);
    complete(nullptr, 0, buffer, size, size);
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t*, size_t, CUpti_Activity** record) {
    if (next == pending.size()) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(pending[next++].data());
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t cbid, const char** name) {
    static const char* names[] = {"", "cudaLaunchKernel_v7000", "cuLaunchKernel", "cudaDeviceSynchronize_v3020"};
    *name = names[cbid];
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetVersion(uint32_t* version) {
    *version = 26;
    return CUPTI_SUCCESS;
}
}

int main(int, char** arguments) {
    for (int n = std::atoi(arguments[2]); n > 0; --n) program();
    warplens::Results results;
    results.open(arguments[1]);
    warplens::trace::start();
    warplens::trace::finish(results);
    warplens::trace::finish(results);
}
