// SPDX-License-Identifier: Apache-2.0
#include "rooms.h"

#include <algorithm>

#include "compare.h"
#include "driver.h"

namespace warplens {
namespace {

// Of each allocation so many times as much lies behind its copy, small ones at least so much, where that fits; before it
// as much again, but no more than that. Half as much and less still has lengths that are no multiples, and one step more.
constexpr double kTimes[] = {3, 2, 1, 0.5, 0.25};
constexpr std::size_t kSmallest = 64u << 10, kMostBefore = 1u << 20, kAligned = 512;
// All copies together; the card's memory is shared with the program and what candidates need. Each is saved, and once
// more where it is asked whether a launch stays inside.
constexpr std::size_t kMost = 768u << 20, kLeftFree = 1u << 30, kCopies = 3;
// What no parameter leads to is watched beside them unless it is more than that: it is, at the program's own sizes.
constexpr std::size_t kMostBeside = 64u << 20;
// What lies behind results are numbers of their kind and sign, but not the results.
constexpr double kOtherScale = 0.9, kOtherMove = 0.05;
// Dynamic shared memory grows with what it is made for.
constexpr unsigned kSharedTimes = 4;

std::size_t aligned(std::size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }
std::size_t before(const Block& block) { return aligned(std::min(block.bytes, kMostBefore)); }
std::size_t behind(const Block& block, double times) {
    return aligned(std::max(static_cast<std::size_t>(times * static_cast<double>(block.bytes)), kSmallest));
}

}  // namespace

unsigned Rooms::shared_for(CUfunction function, unsigned bytes) {
    if (!bytes) return 0;
    CUdevice device;
    int most = 0, fixed = 0;
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    check(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device), "cuDeviceGetAttribute");
    check(cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), "cuFuncGetAttribute");
    const auto room = static_cast<unsigned>(std::max(most - fixed, 0)) / 16 * 16;
    const unsigned grown = std::max(bytes, std::min(kSharedTimes * bytes, room));
    if (cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(grown)) != CUDA_SUCCESS) return bytes;
    return grown;
}

std::unique_ptr<Rooms> Rooms::around(const Job& job, const Launch& baseline, Memory& memory) {
    if (!baseline.parameters) return nullptr;
    const Inputs inputs(job, baseline, memory);
    std::vector<const Block*> led;
    for (const Inputs::Lead& lead : inputs.leads()) {
        const Block* block = memory.find(lead.address);
        if (block && block->variable.empty() && std::find(led.begin(), led.end(), block) == led.end()) led.push_back(block);
    }
    std::size_t free = 0, total = 0;
    check(cuMemGetInfo(&free, &total), "cuMemGetInfo");
    for (const double times : kTimes) {
        std::size_t all = 0;
        for (const Block* block : led) all += before(*block) + aligned(block->bytes) + behind(*block, times);
        if (led.empty() || all > kMost || kCopies * all + kMostBeside + kLeftFree > free) continue;
        // others on the card may have taken what was free: a smaller one may do
        std::unique_ptr<Rooms> made(new Rooms());
        if (made->copy_all(memory, led, times)) return made->lead(inputs, baseline, memory), std::move(made);
    }
    return nullptr;
}

bool Rooms::copy_all(const Memory& memory, const std::vector<const Block*>& led, double times) {
    times_ = times;
    std::size_t beside = 0;
    for (const Block& block : memory.blocks) {
        const bool is_led = std::find(led.begin(), led.end(), &block) != led.end();
        beside += is_led || !block.variable.empty() ? 0 : block.bytes;
        if (!is_led && block.variable.empty() && beside > kMostBeside) continue;
        if (!is_led) blocks_.push_back(block);
        else if (!copy(block, behind(block, times))) return false;
    }
    check(cuCtxSynchronize(), "filling rooms");
    return true;
}

void Rooms::lead(const Inputs& inputs, const Launch& baseline, const Memory& memory) {
    launch_ = baseline;
    given_ = inputs.moved_elsewhere(Given(), [&](CUdeviceptr address) {
        const Block* block = memory.find(address);
        for (const Copy& copy : copies_)
            if (block && block->base == copy.of) return copy.at + (address - copy.of);
        return address;
    });
    launch_.parameters = given_.pointers.data();
    launch_.shared = shared_for(baseline.function, baseline.shared);
}

// The results lie there already, over and over: whoever writes them once more would leave no trace.
void Rooms::renew(const Job& job, Memory& memory) const {
    const Inputs inputs(job, launch_, memory);
    std::uint64_t seed = job.seed;
    for (Stretch s : inputs.outputs()) {
        const Block& block = memory.blocks[s.block];
        for (const Copy& copy : copies_) {
            if (copy.at < block.base || copy.at >= block.base + block.bytes || !is_floating(s.element)) continue;
            const std::size_t size = element_size(s.element), end = s.offset + s.bytes;
            const std::size_t used = static_cast<std::size_t>(copy.at - block.base) + copy.bytes;
            const std::size_t from = used <= s.offset ? s.offset : s.offset + (used - s.offset + size - 1) / size * size;
            if (from + size > end) continue;
            s.offset = from, s.bytes = (end - from) / size * size;
            memory.move(s, kOtherScale, kOtherMove, seed++);
        }
    }
    memory.renew(memory.blocks);
}

Rooms::~Rooms() {
    for (CUdeviceptr at : owned_) give_back(at);
}

// The room is filled with the block's own contents, over and over, as far as whole elements go: a pitch or a stride leads
// to ordinary numbers wherever it leads.
bool Rooms::copy(const Block& block, std::size_t behind) {
    const std::size_t front = before(block), all = front + aligned(block.bytes) + behind;
    CUdeviceptr there = 0;
    if (cuMemAlloc(&there, all) != CUDA_SUCCESS) return false;
    owned_.push_back(there);
    check(cuMemcpyDtoDAsync(there + front, block.base, block.bytes, nullptr), "copying a block");
    // what is there already is doubled
    for (std::size_t held = block.bytes; front + held < all;) {
        const std::size_t more = std::min(held, all - front - held);
        check(cuMemcpyDtoDAsync(there + front + held, there + front, more, nullptr), "filling a room");
        held += more;
    }
    const std::size_t whole = std::min(block.bytes, front);
    check(cuMemcpyDtoDAsync(there + front - whole, there + front + block.bytes - whole, whole, nullptr), "filling a room");
    if (front > whole) check(cuMemsetD8Async(there, 0, front - whole, nullptr), "filling a room");
    copies_.push_back({block.base, there + front, block.bytes});
    Block room;
    room.base = there, room.bytes = all, room.front = front;
    blocks_.push_back(room);
    return true;
}

}  // namespace warplens
