// SPDX-License-Identifier: Apache-2.0
// Of CUPTI what the judge's probe uses: callbacks of the driver's calls, records of kernels that ran.
#include <cupti.h>

#include <atomic>
#include <bitset>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "driver/card.h"

extern "C" void host_card_subscribe(card::Subscriber to);
extern "C" void host_card_note(bool wanted);
extern "C" bool host_card_take(card::Ran* to);
extern "C" void host_card_drain();

namespace {

CUpti_CallbackFunc function = nullptr;
void* given = nullptr;
std::bitset<4096> enabled;
std::atomic<bool> all{false};
std::atomic<std::uint32_t> correlation{0};
CUpti_BuffersCallbackRequestFunc give_buffer = nullptr;
CUpti_BuffersCallbackCompleteFunc take_buffer = nullptr;

void on_call(int cbid, const char* name, void* parameters, CUresult* result, bool enter, const char* symbol) {
    if (!function || (!all && !enabled[static_cast<std::size_t>(cbid)])) return;
    thread_local std::uint64_t held = 0;
    thread_local std::uint32_t number = 0;
    if (enter) number = ++correlation;
    CUpti_CallbackData data{};
    data.callbackSite = enter ? CUPTI_API_ENTER : CUPTI_API_EXIT;
    data.functionName = name;
    data.functionParams = parameters;
    data.functionReturnValue = result;
    data.symbolName = symbol;
    data.correlationData = &held;
    data.correlationId = number;
    data.contextUid = 1;
    function(given, CUPTI_CB_DOMAIN_DRIVER_API, static_cast<CUpti_CallbackId>(cbid), &data);
}

// Names are kept: records point at them.
const char* kept(const std::string& name) {
    static std::mutex mutex;
    static std::set<std::string> names;
    std::lock_guard<std::mutex> lock(mutex);
    return names.insert(name).first->c_str();
}

void fill(CUpti_ActivityKernel9& k, const card::Ran& ran) {
    k = {};
    k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    k.name = kept(ran.name);
    k.start = static_cast<std::uint64_t>(ran.start);
    k.end = static_cast<std::uint64_t>(ran.end);
    k.completed = k.end;
    k.gridX = static_cast<int>(ran.grid[0]), k.gridY = static_cast<int>(ran.grid[1]), k.gridZ = static_cast<int>(ran.grid[2]);
    k.blockX = static_cast<int>(ran.block[0]), k.blockY = static_cast<int>(ran.block[1]), k.blockZ = static_cast<int>(ran.block[2]);
    k.dynamicSharedMemory = static_cast<int>(ran.shared);
    k.registersPerThread = 32;
    k.correlationId = ++correlation;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data) {
    function = callback, given = data;
    *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&function);
    host_card_subscribe(on_call);
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
    host_card_subscribe(nullptr);
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id < enabled.size()) enabled[id] = on != 0;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableDomain(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return CUPTI_SUCCESS;
    all = on != 0;
    if (!on) enabled.reset();
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
    *text = "an error of the host card's CUPTI";
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetVersion(std::uint32_t* version) {
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t, const char** name) {
    *name = "a call";
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give, CUpti_BuffersCallbackCompleteFunc take) {
    give_buffer = give, take_buffer = take;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) host_card_note(true);
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) host_card_note(false);
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityFlushAll(std::uint32_t) {
    if (!give_buffer) return CUPTI_ERROR_NOT_INITIALIZED;
    host_card_drain();
    card::Ran ran;
    bool more = host_card_take(&ran);
    while (more) {
        std::uint8_t* buffer = nullptr;
        std::size_t size = 0, most = 0, valid = 0;
        give_buffer(&buffer, &size, &most);
        if (!buffer) return CUPTI_ERROR_OUT_OF_MEMORY;
        while (more && valid + sizeof(CUpti_ActivityKernel9) <= size) {
            fill(*reinterpret_cast<CUpti_ActivityKernel9*>(buffer + valid), ran);
            valid += sizeof(CUpti_ActivityKernel9);
            more = host_card_take(&ran);
        }
        take_buffer(nullptr, 0, buffer, size, valid);
    }
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
    auto* next = *record ? reinterpret_cast<std::uint8_t*>(*record) + sizeof(CUpti_ActivityKernel9) : buffer;
    if (next + sizeof(CUpti_ActivityKernel9) > buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(next);
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
    *dropped = 0;
    return CUPTI_SUCCESS;
}
