// SPDX-License-Identifier: Apache-2.0
// Streams and events: one thread does the work of all streams in the order of the calls.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "card.h"

namespace card {
namespace {

struct Queue {
    std::mutex mutex;
    std::condition_variable more, done;
    std::deque<std::function<void()>> waiting;
    u64 given = 0, finished = 0;
    std::atomic<CUresult> status{CUDA_SUCCESS};
    bool started = false;
};
Queue& queue() {
    static Queue* made = new Queue;  // the worker outlives everything
    return *made;
}
thread_local bool worker = false;

void work() {
    worker = true;
    Queue& q = queue();
    for (;;) {
        std::function<void()> next;
        {
            std::unique_lock<std::mutex> lock(q.mutex);
            q.more.wait(lock, [&] { return !q.waiting.empty(); });
            next = std::move(q.waiting.front());
            q.waiting.pop_front();
        }
        if (q.status == CUDA_SUCCESS) next();
        std::lock_guard<std::mutex> lock(q.mutex);
        ++q.finished;
        q.done.notify_all();
    }
}

Stream defaults[3];  // legacy, its explicit name, per thread

}  // namespace

std::int64_t nanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
bool in_queue() { return worker; }
CUresult sticky() { return queue().status; }
void set_sticky(CUresult status) {
    CUresult none = CUDA_SUCCESS;
    queue().status.compare_exchange_strong(none, status);
}

Stream* stream_of(CUstream stream) {
    const auto number = reinterpret_cast<std::uintptr_t>(stream);
    return number < 3 ? &defaults[number] : reinterpret_cast<Stream*>(stream);
}

u64 enqueue(CUstream stream, std::function<void()> next) {
    Queue& q = queue();
    std::lock_guard<std::mutex> lock(q.mutex);
    if (!q.started) q.started = true, std::thread(work).detach();
    q.waiting.push_back(std::move(next));
    stream_of(stream)->last = ++q.given;
    q.more.notify_one();
    return q.given;
}

CUresult wait_for(u64 ticket) {
    Queue& q = queue();
    std::unique_lock<std::mutex> lock(q.mutex);
    q.done.wait(lock, [&] { return q.finished >= ticket; });
    return q.status;
}

CUresult drain() {
    u64 given;
    {
        std::lock_guard<std::mutex> lock(queue().mutex);
        given = queue().given;
    }
    return wait_for(given);
}

CUresult state_of(u64 ticket) {
    Queue& q = queue();
    std::lock_guard<std::mutex> lock(q.mutex);
    if (q.status != CUDA_SUCCESS) return q.status;
    return q.finished >= ticket ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

}  // namespace card

using namespace card;

DRIVER(cuStreamCreate)(CUstream* stream, unsigned flags) {
    auto* made = new Stream;
    made->flags = flags;
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
}
DRIVER(cuStreamCreateWithPriority)(CUstream* stream, unsigned flags, int) { return impl_cuStreamCreate(stream, flags); }
DRIVER(cuStreamDestroy_v2)(CUstream) { return sticky(); }
DRIVER(cuStreamQuery)(CUstream stream) { return state_of(stream_of(stream)->last); }
DRIVER(cuStreamSynchronize)(CUstream stream) { return wait_for(stream_of(stream)->last); }
DRIVER(cuStreamWaitEvent)(CUstream, CUevent, unsigned) { return sticky(); }
DRIVER(cuStreamGetFlags)(CUstream stream, unsigned* flags) {
    *flags = stream_of(stream)->flags;
    return CUDA_SUCCESS;
}
DRIVER(cuStreamGetPriority)(CUstream, int* priority) {
    *priority = 0;
    return CUDA_SUCCESS;
}
DRIVER(cuStreamIsCapturing)(CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
DRIVER(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode) {
    thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::swap(own, *mode);
    return CUDA_SUCCESS;
}
DRIVER(cuCtxSynchronize)() { return drain(); }
DRIVER(cuLaunchHostFunc)(CUstream stream, CUhostFn function, void* with) {
    enqueue(stream, [=] { function(with); });
    return sticky();
}

DRIVER(cuEventCreate)(CUevent* event, unsigned) {
    *event = reinterpret_cast<CUevent>(new Event);
    return CUDA_SUCCESS;
}
DRIVER(cuEventDestroy_v2)(CUevent event) {
    const CUresult status = drain();
    delete reinterpret_cast<Event*>(event);
    return status;
}
DRIVER(cuEventRecord)(CUevent event, CUstream stream) {
    auto* e = reinterpret_cast<Event*>(event);
    e->ticket = enqueue(stream, [e] { e->at = nanoseconds(); });
    return sticky();
}
DRIVER(cuEventRecordWithFlags)(CUevent event, CUstream stream, unsigned) { return impl_cuEventRecord(event, stream); }
DRIVER(cuEventQuery)(CUevent event) { return state_of(reinterpret_cast<Event*>(event)->ticket); }
DRIVER(cuEventSynchronize)(CUevent event) { return wait_for(reinterpret_cast<Event*>(event)->ticket); }
DRIVER(cuEventElapsedTime_v2)(float* ms, CUevent from, CUevent to) {
    auto *a = reinterpret_cast<Event*>(from), *b = reinterpret_cast<Event*>(to);
    if (!a->ticket || !b->ticket) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult status = state_of(std::max<u64>(a->ticket, b->ticket)); status != CUDA_SUCCESS) return status;
    *ms = static_cast<float>(static_cast<double>(b->at - a->at) * 1e-6);
    return CUDA_SUCCESS;
}
DRIVER(cuEventElapsedTime)(float* ms, CUevent from, CUevent to) { return impl_cuEventElapsedTime_v2(ms, from, to); }
