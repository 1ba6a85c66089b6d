// SPDX-License-Identifier: Apache-2.0
#include "on_card.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "driver.h"

namespace warplens {
namespace {

// Left to the program and to candidates; of what is free beside it no more than a part is taken.
constexpr std::size_t kLeft = 1u << 30, kOf = 3;
constexpr std::size_t kAligned = 256;
// Threads of a block, as `results.cuh` has them, and blocks of a launch.
constexpr unsigned kThreads = 256, kMostBlocks = 1024;
// Elements of a sample: `sampling_step` looks at fewer.
constexpr std::size_t kSampled = 1u << 20;

std::size_t aligned(std::size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

unsigned blocks_for(std::uint64_t count) { return static_cast<unsigned>(std::clamp<std::uint64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks)); }

}  // namespace

OnCard::OnCard(const std::vector<Stretch>& stretches, Memory& memory, CUstream stream)
    : stretches_(stretches), memory_(memory), stream_(stream) {
    if (!lay_out() || !memory.saves_on_card() || !memory.helpers().has("warplens_mark_1")) return;
    const std::size_t floats = aligned(4 * float_count_), tables = aligned(kPools * sizeof(Pool)), shares = aligned(kMostBlocks * sizeof(Share));
    all_ = slots * slot_bytes_ + 2 * floats + element_bytes_ + 2 * tables + kAligned + shares + 8 * kSampled;
    std::size_t free = 0, total = 0;
    check(cuMemGetInfo(&free, &total), "cuMemGetInfo");
    if (free < kLeft || all_ > (free - kLeft) / kOf || cuMemAlloc(&room_, all_) != CUDA_SUCCESS) {
        room_ = 0;
        return;
    }
    magnitudes_ = room_ + slots * slot_bytes_;
    bends_ = magnitudes_ + floats;
    written_ = bends_ + floats;
    pools_ = written_ + element_bytes_;
    jumps_ = pools_ + tables;
    common_ = jumps_ + tables;
    shares_ = common_ + kAligned;
    sample_ = shares_ + shares;
}

OnCard::~OnCard() { give_back(room_); }

bool OnCard::lay_out() {
    for (const Stretch& s : stretches_) {
        Part part;
        part.size = element_size(s.element);
        const CUdeviceptr at = memory_.blocks[s.block].base + s.offset;
        if (s.stride || s.width || at % part.size) return false;
        part.bytes = s.held();
        part.count = part.bytes / part.size;
        part.at = slot_bytes_;
        part.element = element_bytes_;
        part.elements = float_count_;
        slot_bytes_ += aligned(part.bytes);
        element_bytes_ += aligned(part.count);
        if (is_floating(s.element)) float_count_ += part.count;
        parts_.push_back(part);
    }
    return true;
}

CUdeviceptr OnCard::memory(std::size_t k) const { return memory_.blocks[stretches_[k].block].at + stretches_[k].offset; }

void OnCard::keep(Slot slot) {
    for (std::size_t k = 0; k < parts_.size(); ++k) check(cuMemcpyDtoDAsync(in(slot, k), memory(k), parts_[k].bytes, stream_), "keeping results");
}

void OnCard::put(Slot slot) {
    for (std::size_t k = 0; k < parts_.size(); ++k) check(cuMemcpyDtoDAsync(memory(k), in(slot, k), parts_[k].bytes, stream_), "putting results back");
}

void OnCard::read(Slot slot, std::size_t k, std::uint8_t* to) { memory_.read_out(in(slot, k), to, parts_[k].bytes); }

void OnCard::clear() {
    // but for the masks, which say nothing that a launch of one's own does not
    check(cuMemsetD8Async(room_, 0x5a, slots * slot_bytes_ + 2 * aligned(4 * float_count_), stream_), "clearing results");
    check(cuMemsetD8Async(pools_, 0, all_ - (pools_ - room_), stream_), "clearing results");
}

void OnCard::set_written(std::size_t k, const std::vector<std::uint8_t>& mask) {
    check(cuMemcpyHtoD(written(k), mask.data(), parts_[k].count), "a mask");
}

void OnCard::read_written(std::size_t k, std::vector<std::uint8_t>& mask) { memory_.read_out(written(k), mask.data(), parts_[k].count); }

void OnCard::launch(CUfunction function, std::uint64_t count, void** arguments) {
    check(cuLaunchKernel(function, blocks_for(count), 1, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr), "weighing results");
}

// The last argument is where the counts lie, which all that `by` launches add to.
Counts OnCard::counted(const std::function<void()>& by) {
    check(cuMemsetD8Async(shares_, 0, sizeof(Counts), stream_), "counting results");
    by();
    Counts all;
    check(cuStreamSynchronize(stream_), "counting results");
    check(cuMemcpyDtoH(&all, shares_, sizeof all), "reading counts");
    return all;
}

void OnCard::count(const std::string& kernel, std::uint64_t count, std::vector<void*> arguments) {
    arguments.push_back(&shares_);
    launch(memory_.helpers().named("warplens_" + kernel), count, arguments.data());
}

std::uint64_t OnCard::mark(std::size_t k) {
    CUdeviceptr before = in(first, k), after = memory(k), mask = written(k);
    std::uint64_t count = parts_[k].count;
    return counted([&] { this->count("mark_" + std::to_string(parts_[k].size), count, {&before, &after, &mask, &count}); }).found;
}

void OnCard::save(Slot slot, std::size_t k) {
    check(cuMemcpyDtoDAsync(memory_.saved(stretches_[k]), in(slot, k), parts_[k].bytes, stream_), "changing the snapshot");
}

void OnCard::poison(std::size_t k, std::uint64_t seed) {
    save(original, k);
    CUdeviceptr data = memory_.saved(stretches_[k]), mask = written(k);
    std::uint64_t count = parts_[k].count;
    void* arguments[] = {&data, &mask, &count, &seed};
    launch(memory_.helpers().of("poison", stretches_[k].element), count, arguments);
}

bool OnCard::turn_far(std::size_t k) {
    CUdeviceptr data = memory_.saved(stretches_[k]), lay = in(original, k), becomes = in(right, k), mask = written(k);
    std::uint64_t words = parts_[k].bytes / 4;
    return counted([&] { count("turn_far", words, {&data, &lay, &becomes, &mask, &words}); }).found;
}

void OnCard::outgrow(std::size_t k) {
    const Element element = stretches_[k].element;
    const Counts counts = counted([&] { count_unclean(k, in(right, k)); });
    double largest;
    std::memcpy(&largest, &counts.largest, sizeof largest);
    CUdeviceptr data = memory_.saved(stretches_[k]), mask = written(k);
    std::uint64_t count = parts_[k].count;
    double wanted = std::min(4 * largest, large(element));
    void* arguments[] = {&data, &mask, &count, &wanted};
    launch(memory_.helpers().of("outgrow", element), count, arguments);
}

// How many of so many elements of so many bytes are neither of two others.
std::uint64_t OnCard::unlike(CUdeviceptr now, CUdeviceptr one, CUdeviceptr other, std::size_t bytes, std::uint64_t count) {
    return counted([&] { this->count("differ_" + std::to_string(bytes), count, {&now, &one, &other, &count}); }).found;
}

std::uint64_t OnCard::neither(std::size_t k) { return unlike(memory(k), in(right, k), in(first, k), parts_[k].size, parts_[k].count); }

std::uint64_t OnCard::differing(std::size_t k, Slot slot, std::size_t bytes) {
    return unlike(in(slot, k), in(right, k), in(right, k), 1, std::min(bytes, parts_[k].bytes));
}

std::uint64_t OnCard::differing_at(std::size_t k, CUdeviceptr block) {
    return unlike(block + stretches_[k].offset, in(right, k), in(right, k), 1, parts_[k].bytes);
}

void OnCard::count_unclean(std::size_t k, CUdeviceptr data) {
    const Element element = stretches_[k].element;
    std::uint64_t count = parts_[k].count;
    double most = large(element);
    this->count("unclean_" + Helpers::word_for(element), count, {&data, &count, &most});
}

Counts OnCard::unclean() {
    return counted([&] {
        for (std::size_t k = 0; k < parts_.size(); ++k)
            if (is_floating(stretches_[k].element)) count_unclean(k, memory(k));
    });
}

void OnCard::add_moved(std::size_t k, double move, int pairs, bool begins) {
    if (!is_floating(stretches_[k].element)) return;
    CUdeviceptr expected = in(right, k), high = in(up, k), low = memory(k), a = magnitude(k), b = bend(k);
    std::uint64_t count = parts_[k].count;
    double unit = unit_of_moves(move);
    int begun = begins;
    void* arguments[] = {&expected, &high, &low, &a, &b, &count, &unit, &pairs, &begun};
    launch(memory_.helpers().of("moved", stretches_[k].element), count, arguments);
}

void OnCard::read_sample(CUdeviceptr from, unsigned width, std::size_t step, std::size_t count, void* to) {
    std::uint64_t every = step, many = count;
    void* arguments[] = {&from, &sample_, &every, &many};
    launch(memory_.helpers().named("warplens_sample_" + std::to_string(width)), count, arguments);
    memory_.read_out(sample_, static_cast<std::uint8_t*>(to), count * width);
}

Expected OnCard::sampled(std::size_t k, const Expected& of) {
    const Part& part = parts_[k];
    const std::size_t step = sampling_step(part.count), count = (part.count + step - 1) / step;
    Expected some;
    some.element = of.element, some.widened = of.widened, some.alike = of.alike, some.precise = of.precise;
    some.bytes.resize(count * part.size);
    some.magnitude.resize(count);
    some.bend.resize(count);
    some.written = std::make_shared<std::vector<std::uint8_t>>(count);
    read_sample(in(right, k), static_cast<unsigned>(part.size), step, count, some.bytes.data());
    read_sample(magnitude(k), 4, step, count, some.magnitude.data());
    read_sample(bend(k), 4, step, count, some.bend.data());
    read_sample(written(k), 1, step, count, some.written->data());
    return some;
}

Weighing OnCard::weighing(std::size_t k, const Expected& e, const Tolerance& tolerance, bool moved) {
    Weighing w;
    w.right = in(right, k), w.got = in(first, k), w.written = written(k);
    w.count = parts_[k].count;
    w.manner = manner_of(e, tolerance);
    if (moved) w.magnitude = magnitude(k), w.bend = bend(k);
    check(cuMemsetD8Async(jumps_, 0, kPools * sizeof(Pool), stream_), "weighing results");
    w.jumps = jumps_;
    if (e.pools.empty()) return w;
    check(cuMemcpyHtoD(pools_, e.pools.data(), e.pools.size() * sizeof(Pool)), "weighing results");
    check(cuMemcpyHtoD(common_, e.common.data(), kFields * sizeof(float)), "weighing results");
    w.pools = pools_, w.common = common_;
    return w;
}

std::vector<Pool> OnCard::read_jumps() {
    std::vector<Pool> found(kPools);
    check(cuStreamSynchronize(stream_), "weighing results");
    check(cuMemcpyDtoH(found.data(), jumps_, kPools * sizeof(Pool)), "reading jumps");
    return found;
}

void OnCard::find_jumps(std::size_t k, Expected& e, const Tolerance& tolerance) {
    Weighing w = weighing(k, e, tolerance, true);
    void* arguments[] = {&w};
    launch(memory_.helpers().of("jumps", stretches_[k].element), w.count, arguments);
    const std::vector<Pool> found = read_jumps();
    for (std::size_t p = 0; p < kPools; ++p) e.pools[p].jump = found[p].jump, e.pools[p].jumps = found[p].jumps;
}

// Each block's share, joined.
Share OnCard::shared_out(Element element, Weighing& w) {
    void* arguments[] = {&w, &shares_};
    launch(memory_.helpers().of("weigh", element), w.count, arguments);
    std::vector<Share> shares(blocks_for(w.count));
    check(cuStreamSynchronize(stream_), "weighing results");
    check(cuMemcpyDtoH(shares.data(), shares_, shares.size() * sizeof(Share)), "reading shares");
    return std::accumulate(shares.begin(), shares.end(), Share(), joined);
}

Difference OnCard::weigh(std::size_t k, const Expected& e, const Tolerance& tolerance, bool moved, bool& elements_differ) {
    if (!is_floating(e.element)) {
        Difference d;
        d.wrong = differing(k, first);
        elements_differ = elements_differ || d.wrong;
        return d;
    }
    Weighing w = weighing(k, e, tolerance, moved);
    const Share share = shared_out(e.element, w);
    elements_differ = elements_differ || share.differing;
    std::map<std::size_t, std::uint64_t> jumps;
    if (share.jumps) {
        const std::vector<Pool> found = read_jumps();
        for (std::size_t p = 0; p < kPools; ++p)
            if (found[p].jumps) jumps[p] = found[p].jumps;
    }
    return difference_of(share, jumps, e);
}

}  // namespace warplens
