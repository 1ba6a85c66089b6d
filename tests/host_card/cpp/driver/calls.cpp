// SPDX-License-Identifier: Apache-2.0
// Every entry point: what a subscriber sees of it, then the work. The generated file holds one wrapper each.
#include <cuda.h>
#include <cupti.h>

#include <cstdio>
#include <deque>
#include <mutex>

#include "card.h"

namespace card {
namespace {

std::atomic<Subscriber> subscriber{nullptr};
std::mutex mutex;
std::deque<Ran> ran;
std::atomic<bool> noting{false};

}  // namespace

CUresult called(int cbid, const char* name, void* parameters, const char* symbol, const std::function<CUresult()>& work) {
    const Subscriber to = subscriber;
    if (!to) return work();
    CUresult result = CUDA_SUCCESS;
    to(cbid, name, parameters, &result, true, symbol);
    result = work();
    to(cbid, name, parameters, &result, false, symbol);
    return result;
}

void note(Ran one) {
    if (!noting) return;
    std::lock_guard<std::mutex> lock(mutex);
    ran.push_back(std::move(one));
}

}  // namespace card

#define EXPORT extern "C" __attribute__((visibility("default")))

// For libcupti, and nobody else.
EXPORT void host_card_subscribe(card::Subscriber to) { card::subscriber = to; }
EXPORT void host_card_note(bool wanted) { card::noting = wanted; }
EXPORT bool host_card_take(card::Ran* to) {
    std::lock_guard<std::mutex> lock(card::mutex);
    if (card::ran.empty()) return false;
    *to = std::move(card::ran.front());
    card::ran.pop_front();
    return true;
}
EXPORT void host_card_drain() { card::drain(); }

#include "calls_generated.inc"
