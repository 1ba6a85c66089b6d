// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <cupti.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace warplens::trace {
namespace {

constexpr std::size_t kBuffer = 4u << 20;
constexpr std::size_t kMost = 200000;  // activities kept, and as many calls

const CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                     CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME,
                                     CUPTI_ACTIVITY_KIND_DRIVER};

std::mutex mutex;
std::vector<Record> activities, calls;
std::uint64_t dropped = 0;
bool finished = false;

// The fields that every kind of record has under the same names.
template <class T>
Record activity(const char* kind, const T& a) {
    Record record("activity");
    record.add("kind", kind).add("start", std::uint64_t{a.start}).add("end", std::uint64_t{a.end});
    return record.add("device", std::uint64_t{a.deviceId}).add("correlation", std::uint64_t{a.correlationId});
}

Record kernel(const CUpti_ActivityKernel9& k) {
    Record record = activity("kernel", k);
    record.add("name", k.name);
    record.extent("grid", static_cast<unsigned>(k.gridX), static_cast<unsigned>(k.gridY), static_cast<unsigned>(k.gridZ));
    record.extent("block", static_cast<unsigned>(k.blockX), static_cast<unsigned>(k.blockY),
                  static_cast<unsigned>(k.blockZ));
    return record.add("registers", std::uint64_t{k.registersPerThread});
}

Record transfer(const CUpti_ActivityMemcpy5& m) {
    Record record = activity("transfer", m);
    record.add("bytes", std::uint64_t{m.bytes}).add("copy", std::uint64_t{m.copyKind});
    return record.add("source", std::uint64_t{m.srcKind}).add("target", std::uint64_t{m.dstKind});
}

Record call(const CUpti_ActivityAPI& c) {
    const bool runtime = c.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
    const char* name = nullptr;
    cuptiGetCallbackName(runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API, c.cbid, &name);
    Record record("call");
    record.add("start", std::uint64_t{c.start}).add("end", std::uint64_t{c.end}).add("name", name);
    return record.add("correlation", std::uint64_t{c.correlationId}).add("thread", std::uint64_t{c.threadId});
}

void keep(std::vector<Record>& into, Record record) {
    if (into.size() < kMost) into.push_back(std::move(record));
    else ++dropped;
}

// Later versions of the records only append fields.
void take(const CUpti_Activity& record) {
    switch (record.kind) {
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
            return keep(activities, kernel(reinterpret_cast<const CUpti_ActivityKernel9&>(record)));
        case CUPTI_ACTIVITY_KIND_MEMCPY:
            return keep(activities, transfer(reinterpret_cast<const CUpti_ActivityMemcpy5&>(record)));
        case CUPTI_ACTIVITY_KIND_MEMSET: {
            const auto& m = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
            return keep(activities, activity("memset", m).add("bytes", std::uint64_t{m.bytes}));
        }
        case CUPTI_ACTIVITY_KIND_RUNTIME:
        case CUPTI_ACTIVITY_KIND_DRIVER:
            return keep(calls, call(reinterpret_cast<const CUpti_ActivityAPI&>(record)));
        default: return;
    }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
    *size = *buffer ? kBuffer : 0;
    *most = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take(*record);
    std::free(buffer);
}

}  // namespace

void start() {
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
        throw std::runtime_error("CUPTI takes no activity buffers");
    for (CUpti_ActivityKind kind : kKinds)
        if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) throw std::runtime_error("CUPTI records no activities");
}

void finish(Results& results) {
    cuptiActivityFlushAll(0);
    std::uint32_t version = 0;
    cuptiGetVersion(&version);
    std::lock_guard<std::mutex> lock(mutex);
    if (finished) return;
    finished = true;
    for (const Record& record : activities) results.write(record);
    for (const Record& record : calls) results.write(record);
    results.write(Record("traced").add("cupti", std::uint64_t{version}).add("dropped", dropped));
}

}  // namespace warplens::trace
