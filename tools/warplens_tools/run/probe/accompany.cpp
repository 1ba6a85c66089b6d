// SPDX-License-Identifier: Apache-2.0
#include "accompany.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "blocks.h"
#include "calls.h"
#include "driver.h"
#include "oracle.h"

namespace warplens {

thread_local const Launch* rehearsed = nullptr;

namespace {

enum Exit { unusable = 3, stopped = 4 };
// Shapes whose first launch is compared whatever the plan says.
constexpr std::size_t kShapes = 32;

std::vector<unsigned> shape_of(const Launch& l) {
    return {l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2], l.shared};
}

// The stream that the call means by none.
CUstream stream_of(CUpti_CallbackId id, CUstream stream) {
    const bool own = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz ||
                     id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz;
    return own && !stream ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace

Accompaniment::Part::Part(const Job& whole, const Candidate& of)
    : job(whole), candidate(of),
      plan(of.launches, whole.option("compare_seconds"), whole.seed ^ std::hash<std::string>()(of.kernel)) {
    job.kernel = of.kernel;
    job.parameters = of.parameters;
    job.candidates.clear();
    job.launch = 0;
    job.stays = true;
}

Accompaniment::Accompaniment(const Job& job, const Allocations& allocations, Results& results, std::function<void()> hold)
    : job_(job), allocations_(allocations), results_(results), hold_(std::move(hold)) {
    for (const Candidate& candidate : job.candidates) parts_.push_back(std::make_unique<Part>(job, candidate));
}

Accompaniment::Part* Accompaniment::part_of(const std::string& kernel) {
    auto is = [&](const std::unique_ptr<Part>& part) { return part->job.kernel == kernel; };
    auto found = std::find_if(parts_.begin(), parts_.end(), is);
    return found == parts_.end() ? nullptr : found->get();
}

bool Accompaniment::knows(const std::string& kernel) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part->job.kernel == kernel; });
}

void Accompaniment::give_up(const std::string& reason) {
    results_.write(Record("failed").add("reason", reason));
    _exit(unusable);
}

// Once, in the context of the first launch.
void Accompaniment::begin() {
    check(cuCtxGetCurrent(&context_), "cuCtxGetCurrent");
    helpers_ = std::make_unique<Helpers>(job_.helpers);
    check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    memory_ = std::make_unique<Memory>(std::vector<Block>{}, *helpers_, stream_, job_.seed * 2 + 1);
    in_place_ = job_.option("stands") && rehearse();
}

// Launches one helper under a callback that asks for another, and looks which ran. In a thread of its own: this one
// is in a callback, where the driver may make calls without telling.
bool Accompaniment::rehearse() {
    CUdeviceptr data = 0;
    check(cuMemAlloc(&data, 64), "cuMemAlloc");
    check(cuMemsetD8Async(data, 0, 64, stream_), "cuMemsetD8Async");
    std::uint64_t count = 4, stride = 4;
    unsigned bits = 1;
    void* arguments[] = {&data, &count, &stride, &bits};
    Launch asked, other;
    asked.function = helpers_->of("fill", Element::f32);
    other.function = helpers_->named("warplens_turn");
    asked.parameters = arguments;
    CUresult status = CUDA_SUCCESS;
    std::thread([&] {
        rehearsed = &other;
        status = cuCtxSetCurrent(context_);
        if (status == CUDA_SUCCESS)
            status = cuLaunchKernel(asked.function, 1, 1, 1, 1, 1, 1, 0, stream_, arguments, nullptr);
    }).join();
    check(status, "the rehearsal");
    unsigned first = 0;
    wait(stream_, job_.option("baseline_limit"));
    check(cuMemcpyDtoH(&first, data, sizeof first), "the rehearsal");
    check(cuMemFree(data), "cuMemFree");
    return first == 1;  // what turning a bit makes of zeros; filled floats would be -1
}

void Accompaniment::entering(CUpti_CallbackId id, const CUpti_CallbackData* call, const std::string& kernel,
                             Launch launch, bool from_module, bool captured) {
    Part* part = part_of(kernel);
    if (!part) return;
    try {
        if (!captured && !context_) begin();
        CUcontext context = nullptr;
        check(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
        const bool ready = context == context_ && (part->loaded || !captured);
        if (!ready) {
            part->left = captured ? "it was captured before it was ever launched" : "it ran in another context";
            ++(captured ? part->captured : part->seen);
            return;
        }
        launch.function = loaded(launch.function, from_module);
        if (!captured) compare(*part, launch);
        stand(*part, id, call, launch, captured);
        ++(captured ? part->captured : part->seen);
    } catch (const Hung&) {
        give_up("the kernel itself ran past its time limit when it was launched again");
    } catch (const std::exception& error) {
        give_up(error.what());
    }
}

void Accompaniment::compare(Part& part, const Launch& launch) {
    const bool other = part.shapes.size() < kShapes && !part.shapes.count(shape_of(launch)) && !part.plan.exhausted();
    if (part.loaded && !other && !part.plan.due(part.seen)) return;
    part.shapes.insert(shape_of(launch));
    const double started = now();
    hold_();
    check(cuCtxSynchronize(), "the program's own work before the launch");
    memory_->renew(blocks_of(allocations_, launch.function, part.job.globals));
    Record record("compared");
    record.add("candidate", part.candidate.id).add("kernel", part.job.kernel).add("launch", part.seen);
    record.extent("grid", launch.grid[0], launch.grid[1], launch.grid[2]);
    record.extent("block", launch.block[0], launch.block[1], launch.block[2]);
    part.job.seed += 2;
    Oracle oracle(part.job, launch, *memory_, stream_, results_);
    results_.write(Record("begin").add("candidate", part.candidate.id).add("silent_seconds", oracle.limit()));
    bool over = true;
    try {
        if (!part.loaded) part.loaded = std::make_unique<Loaded>(part.candidate, launch, *memory_);
        part.loaded->adapt(launch);
        Outcome outcome;
        outcome.bitwise = true;
        for (const Case& c : oracle.cases()) {
            auto once = [&] {
                part.loaded->bind();
                // its twins of the program's variables hold what an earlier launch, or loading, left there
                memory_->restore(memory_->variables());
                oracle.prepare(c);
                part.loaded->reset(stream_);
                oracle.given(part.loaded->launch()).go(stream_);
                wait(stream_, oracle.limit());
                return oracle.verify(c);
            };
            outcome = oracle.compared(c, once);
            if (!outcome.reason.empty()) outcome = oracle.reconsider(c, outcome);
            outcome = oracle.own_doing(c, outcome, [&] { oracle.prepare(c); });
            memory_->unbind();
            if (!outcome.reason.empty()) break;
        }
        over = !outcome.reason.empty();
        record.add("state", outcome.state).add("reason", outcome.reason).add("bitwise", outcome.bitwise);
        record.add("error_ratio", outcome.difference.ratio).add("relative_error", outcome.difference.relative);
    } catch (const Refused& refused) {
        record.add("state", refused.state).add("reason", refused.what());
    } catch (const Hung& hung) {
        record.add("state", "hung").add("reason", hung.what());
    } catch (const DriverError& error) {
        record.add("state", is_sticky(error.status) ? "crashed" : "illegal").add("reason", error.what());
    }
    results_.write(record.add("seconds", now() - started));
    if (over) _exit(stopped);
    ++part.compared;
    if (!oracle.recover()) give_up("the snapshot was damaged");
    oracle.hand_back();
    part.plan.took(now() - started);
}

// The call's own launch becomes the candidate's, with the program's variables in its module.
void Accompaniment::stand(Part& part, CUpti_CallbackId id, const CUpti_CallbackData* call, const Launch& launch, bool captured) {
    if (!job_.option("stands")) return;
    const auto& shapes = part.candidate.shapes;
    const bool fits = shapes.empty() || std::any_of(shapes.begin(), shapes.end(), [&](const auto& s) { return has_shape(launch, s.first); });
    if (!fits) {
        part.left = "it has a shape for which the candidate has no geometry";
        return;
    }
    if (!in_place_ && captured) {
        part.left = "it was captured into a graph, which the driver cannot be given another kernel for";
        return;
    }
    part.loaded->adapt(launch);
    pending_ = &part;
    pending_stream_ = stream_of(id, launch.stream);
    if (in_place_) {
        part.loaded->carry_in(pending_stream_);
        substitute(id, call, part.loaded->launch());
        return;
    }
    // the baseline's launch goes ahead and is undone afterwards
    hold_();
    check(cuCtxSynchronize(), "the program's own work before the launch");
    memory_->renew(blocks_of(allocations_, launch.function, part.job.globals));
}

void Accompaniment::leaving(CUpti_CallbackId, const CUpti_CallbackData* call) {
    if (!pending_) return;
    Part& part = *pending_;
    pending_ = nullptr;
    try {
        if (*static_cast<const CUresult*>(call->functionReturnValue) != CUDA_SUCCESS) return;
        ++part.replaced;
        if (!in_place_) {
            check(cuCtxSynchronize(), "the launch");
            Chunks all;
            for (const Block& block : memory_->blocks)
                for (std::size_t i = 0; i < block.chunks(); ++i) all.push_back(block.first_chunk + i);
            memory_->restore(all);
            wait(stream_, job_.option("baseline_limit"));
            part.loaded->carry_in(pending_stream_);
            part.loaded->launch().go(pending_stream_);
        }
        part.loaded->carry_out(pending_stream_);
    } catch (const std::exception& error) {
        give_up(error.what());
    }
}

void Accompaniment::in_graph(const KernelNode& node) {
    Part* part = part_of(node.name);
    const bool own = part && part->loaded && part->loaded->launch().function == node.launch.function;
    if (part && !own) part->left = "a graph launches it by a node that no launch call made";
}

void Accompaniment::finish() {
    if (finished_) return;
    finished_ = true;
    for (const auto& part : parts_) {
        Record record("accompanied");
        record.add("candidate", part->candidate.id).add("kernel", part->job.kernel).add("launches", part->seen);
        record.add("captured", part->captured).add("compared", part->compared).add("replaced", part->replaced);
        record.add("shapes", std::uint64_t{part->shapes.size()}).add("left", part->left);
        results_.write(record.add("in_place", in_place_));
    }
    results_.write(Record("closed"));
}

}  // namespace warplens
