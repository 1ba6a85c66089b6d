// SPDX-License-Identifier: Apache-2.0
// The entry point that the CUDA driver calls in every process with CUDA_INJECTION64_PATH set.
#include <cupti.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <thread>

#include "accompany.h"
#include "allocations.h"
#include "calls.h"
#include "driver.h"
#include "executables.h"
#include "replay.h"
#include "survey.h"
#include "trace.h"
#include "visit.h"

namespace warplens {
namespace {

// One per process, never destroyed: callbacks may come until the very end.
struct Probe {
    Job job;
    Results results;
    Allocations allocations;
    Survey survey;
    CUpti_SubscriberHandle subscriber = nullptr;
    std::recursive_mutex mutex;              // held by a visit for good: other threads' calls wait at it
    std::set<CUfunction> module_functions;   // handles from cuModuleGetFunction
    Executables executables{[this](CUfunction handle) { return module_functions.count(handle) > 0; }};
    std::uint64_t seen = 0, captured = 0;    // launches of the kernel in question
    std::uint64_t matching = 0;              // of those, with the shape in question
    int captures = 0;                        // streams in capture now
    std::unique_ptr<Accompaniment> accompaniment;  // from the first launch of one of its kernels on
    bool held = false;                       // all of the driver's calls are followed for now
    bool elsewhere = false;                  // another process of the program is accompanied
    bool gated = false;                      // the card may not be used yet
};

Probe* probe = nullptr;
thread_local bool inside = false;            // calls the probe makes itself are not followed
thread_local bool accompanied = false;       // this thread's launch call holds the mutex until it returns

bool is_capture_begin(CUpti_CallbackId id) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture:
        case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz:
        case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2:
        case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz: return true;
#if CUDA_VERSION >= 12030
        case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph:
        case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz: return true;
#endif
        default: return false;
    }
}

bool is_capture_end(CUpti_CallbackId id) {
    return id == CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture || id == CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz;
}

std::string kernel_name(const CUpti_CallbackData* call, const Launch& launch, bool from_module) {
    if (call->symbolName) return call->symbolName;
    return name_of(loaded(launch.function, from_module));
}

bool has_shape(const Launch& launch) {
    const Job& job = probe->job;
    return !std::memcmp(launch.grid, job.grid, sizeof job.grid) && !std::memcmp(launch.block, job.block, sizeof job.block) &&
           launch.shared == job.shared;
}

bool is_graph_launch(CUpti_CallbackId id) {
    return id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
}

// A program may start others; one process visits.
bool claim() {
    const std::string path = probe->job.result + ".claim";
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    return file >= 0;
}

// Whether the launch of the right kernel and shape that is about to happen is the one in question.
bool is_due() {
    if (probe->matching < probe->job.launch) {
        ++probe->matching;
        return false;
    }
    // a synchronisation would break another stream's capture: the next launch has to do
    return probe->captures == 0 && claim();
}

void open_visit() {
    // other threads' calls wait from here on, whichever they are
    cuptiEnableDomain(1, probe->subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    if (probe->executables.leaves_memory()) probe->allocations.add_opaque("memory that a graph allocates");
}

void enable_calls();

bool names_candidate(const std::string& kernel) {
    const auto& all = probe->job.candidates;
    return std::any_of(all.begin(), all.end(), [&](const Candidate& c) { return c.kernel == kernel; });
}

// Other threads' calls wait for what is held, whichever they are.
void hold_others() {
    cuptiEnableDomain(1, probe->subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    probe->held = true;
}

void accompany(CUpti_CallbackId id, const CUpti_CallbackData* call, const std::string& name, const Launch& launch,
               bool from_module, bool captured) {
    if (!probe->accompaniment) {
        if (probe->elsewhere || !names_candidate(name)) return;
        probe->elsewhere = !claim();
        if (probe->elsewhere) return;
        probe->accompaniment =
            std::make_unique<Accompaniment>(probe->job, probe->allocations, probe->results, hold_others);
    }
    if (!probe->accompaniment->knows(name)) return;
    probe->mutex.lock();  // until the call returns
    accompanied = true;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    probe->accompaniment->entering(id, call, name, launch, from_module, captured);
    cuThreadExchangeStreamCaptureMode(&mode);
}

void after_accompanied(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    if (!accompanied) return;
    accompanied = false;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    probe->accompaniment->leaving(id, call);
    cuThreadExchangeStreamCaptureMode(&mode);
    if (probe->held) {
        cuptiEnableDomain(0, probe->subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
        enable_calls();
        probe->held = false;
    }
    probe->mutex.unlock();
}

void on_launch(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    Launch launch = launch_of(id, call);
    const bool from_module = probe->module_functions.count(launch.function) > 0;
    const std::string name = kernel_name(call, launch, from_module);
    const bool captured = is_capturing(launch.stream);
    if (probe->job.mode == "survey") return probe->survey.launched(name, launch, captured);
    if (probe->job.mode == "accompany") return accompany(id, call, name, launch, from_module, captured || probe->captures);
    if (name != probe->job.kernel) return;
    ++(captured ? probe->captured : probe->seen);
    if (captured || !has_shape(launch) || !is_due()) return;
    open_visit();
    visit(probe->job, launch, from_module, probe->allocations, probe->results);
}

[[noreturn]] void visit_node(const Nodes& nodes, std::size_t place, CUstream stream) {
    KernelNode kernel = std::get<KernelNode>(nodes[place].work);
    std::vector<void*> pointers = kernel.arguments.pointers();
    kernel.launch.parameters = pointers.data();
    kernel.launch.stream = stream;
    open_visit();
    visit(probe->job, kernel.launch, true, probe->allocations, probe->results,
          [&] { return replay_before(nodes, place, stream, probe->job.option("baseline_limit")); });
}

void on_graph_launch(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    const auto* p = static_cast<const cuGraphLaunch_params*>(call->functionParams);
    const bool own_default = id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz && !p->hStream;
    const CUstream stream = own_default ? CU_STREAM_PER_THREAD : p->hStream;
    if (is_capturing(stream)) return;  // it becomes another graph's child
    const Executable& executable = *probe->executables.find(p->hGraph);
    const bool surveying = probe->job.mode == "survey";
    if (surveying && !executable.hidden.empty()) probe->survey.hidden(executable.hidden);
    for (std::size_t i = 0; i < executable.nodes.size() && executable.refusal.empty(); ++i) {
        const auto* kernel = std::get_if<KernelNode>(&executable.nodes[i].work);
        if (kernel && probe->accompaniment) probe->accompaniment->in_graph(*kernel);
        const std::string& obstacle = executable.obstacles[i];
        if (!kernel || !executable.nodes[i].enabled) continue;
        if (surveying) probe->survey.launched_by_graph(kernel->name, kernel->launch, obstacle);
        if (surveying || kernel->name != probe->job.kernel || !obstacle.empty()) continue;
        ++probe->seen;
        if (has_shape(kernel->launch) && is_due()) visit_node(executable.nodes, i, stream);
    }
}

// Whether a call leaves the card as it is for whoever measures there now: it asks, or makes a context.
bool leaves_card_alone(const char* name) {
    for (const char* beginning : {"cuInit", "cuDriverGet", "cuDevice", "cuCtx", "cuGet"})
        if (!std::strncmp(name, beginning, std::strlen(beginning))) return true;
    return false;
}

// Waits until the card is this program's: what it does before, starting, reading files, making its context, is done
// while another has the card. Whoever was asked ends this process if it ends itself.
void wait_at_gate() {
    probe->results.write(Record("arrived"));
    while (access(probe->job.gate.c_str(), F_OK)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    probe->gated = false;
    cuptiEnableDomain(0, probe->subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
    enable_calls();
}

// The program goes no further without the probe: what it was to say would be missed, not known to be missing.
[[noreturn]] void give_up(const std::exception& error) {
    probe->results.write(Record("failed").add("reason", error.what()));
    std::fprintf(stderr, "warplens: %s\n", error.what());
    _exit(3);
}

void follow(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    std::lock_guard<std::recursive_mutex> lock(probe->mutex);
    const bool enter = call->callbackSite == CUPTI_API_ENTER;
    if (probe->gated && !leaves_card_alone(call->functionName)) wait_at_gate();
    if (is_launch(id)) {
        if (enter) on_launch(id, call);
        else after_accompanied(id, call);
    } else if (is_graph_launch(id)) {
        if (enter) on_graph_launch(id, call);
    } else if (id == CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction) {
        const auto* p = static_cast<const cuModuleGetFunction_params*>(call->functionParams);
        if (!enter && p->hfunc) probe->module_functions.insert(*p->hfunc);
    } else if (is_capture_begin(id)) {
        if (enter) ++probe->captures;
    } else if (is_capture_end(id)) {
        if (!enter && probe->captures) --probe->captures;
    } else {
        probe->executables.follow(id, call);
        probe->allocations.follow(id, call);
    }
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
    const auto* call = static_cast<const CUpti_CallbackData*>(data);
    if (rehearsed) {
        if (is_launch(id) && call->callbackSite == CUPTI_API_ENTER) substitute(id, call, *rehearsed);
        return;
    }
    if (inside) return;
    inside = true;
    // whoever calls is the driver: no exception leaves here
    try {
        follow(id, call);
    } catch (const std::exception& error) {
        give_up(error);
    }
    inside = false;
}

void at_exit() {
    inside = true;
    if (probe->job.mode == "survey") return probe->survey.finish(probe->results);
    if (probe->job.mode == "trace") return trace::finish(probe->results);
    if (probe->elsewhere) return;
    if (probe->accompaniment) return probe->accompaniment->finish();
    probe->results.write(Record("never").add("seen", probe->seen).add("captured", probe->captured).add("matching", probe->matching));
}

// No orphan keeps the card when whoever asked is gone.
void watch(long parent) {
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(parent), 0));
    if (handle < 0) return;
    std::thread([handle] {
        pollfd entry{handle, POLLIN, 0};
        while (poll(&entry, 1, -1) < 0) {}
        _exit(1);
    }).detach();
}

void must(CUptiResult result, const char* what) {
    if (result == CUPTI_SUCCESS) return;
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    throw std::runtime_error(std::string(what) + ": " + (text ? text : "unknown error"));
}

void enable_calls() {
    auto enable = [](CUpti_CallbackId id) {
        must(cuptiEnableCallback(1, probe->subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id), "CUPTI gives no callback");
    };
    for (CUpti_CallbackId id : launch_calls()) enable(id);
    for (CUpti_CallbackId id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; ++id)
        if (is_capture_begin(id) || is_capture_end(id) || is_graph_launch(id)) enable(id);
    for (CUpti_CallbackId id : Executables::watched()) enable(id);
    enable(CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction);
    if (probe->job.mode == "survey") return;
    for (CUpti_CallbackId id : Allocations::watched()) enable(id);
}

void subscribe() {
    if (probe->job.mode == "trace") return trace::start();
    must(cuptiSubscribe(&probe->subscriber, on_call, nullptr), "CUPTI takes no subscriber");
    enable_calls();
    if (probe->job.mode == "survey") return probe->survey.start();
    probe->gated = !probe->job.gate.empty();
    if (probe->gated) must(cuptiEnableDomain(1, probe->subscriber, CUPTI_CB_DOMAIN_DRIVER_API), "CUPTI gives no callbacks");
}

}  // namespace
}  // namespace warplens

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    using namespace warplens;
    const char* path = std::getenv("WARPLENS_JOB");
    if (!path || probe) return 1;
    probe = new Probe;
    try {
        probe->job = read_job(path);
        probe->results.open(probe->job.result);
        if (probe->job.parent) watch(probe->job.parent);
        subscribe();
        std::atexit(at_exit);
    } catch (const std::exception& error) {
        give_up(error);
    }
    return 1;
}
