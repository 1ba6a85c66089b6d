// SPDX-License-Identifier: Apache-2.0
// Whether a launch stays in the memory that it was given.
#include "oracle.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "driver.h"

namespace warplens {
namespace {

// Around copies of the program's memory, and how much of it.
constexpr unsigned char kAround = 0x7b;
constexpr std::size_t kPage = 2u << 20, kMostAround = 256u << 20, kLeftFree = 1u << 30;

// In rooms what lies behind a buffer is its own kind.
std::size_t room_around(const Block& block, bool roomy) { return roomy ? kPage : std::min((block.bytes + kPage) / kPage * kPage, kMostAround); }

}  // namespace

void Oracle::Elsewhere::clear() {
    for (const auto& [lead, there] : at) give_back(there);
    at.clear();
}

// A copy of a block as it is, with as much around it as it is long, for what leads there; 0 where there is no room for one.
CUdeviceptr Oracle::copied_elsewhere(const Block& block, CUdeviceptr lead) {
    const std::size_t around = room_around(block, job_.roomy > 0), all = block.bytes + 2 * around;
    CUdeviceptr& there = elsewhere_.at[lead];
    std::size_t free = 0, total = 0;
    check(cuMemGetInfo(&free, &total), "cuMemGetInfo");
    if (!there && (all + kLeftFree > free || cuMemAlloc(&there, all) != CUDA_SUCCESS)) return there = 0;
    check(cuMemsetD8Async(there, kAround, all, stream_), "filling what is around a copy");
    check(cuMemcpyDtoDAsync(there + around, block.at, block.bytes, stream_), "copying a block");
    return there + around;
}

// Before what a pointer leads to there is room in larger copies alone: whoever writes there has left the program's memory,
// and says nothing. Of the case that `capture` has just looked at.
bool Oracle::stays_behind_fronts(const Case& c) {
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
        const Stretch& s = stretches_[k];
        const std::size_t front = memory_.blocks[s.block].front, before = front - std::min(front, s.offset);
        if (before && card_ && card_->differing(k, OnCard::first, before)) return false;
        if (before && !card_ && !s.stride && !before_[k].empty() && std::memcmp(before_[k].data(), c.expected[k].bytes.data(), std::min(before, s.held()))) return false;
    }
    return true;
}

// Whether the results rest on memory that the launch was given alone: the same comes of copies that lie elsewhere, with
// something else before and behind them. Numbers that are changed may lead a kernel into its neighbours. Buffers that
// share an allocation have a copy each: what is written over another one there is in no launch of the program's.
bool Oracle::stays_inside(Case& c) {
    if (!c.variant.leads() || !baseline_.parameters) return true;
    if (card_ && !has_results(c)) return false;
    prepare(c);
    std::map<CUdeviceptr, CUdeviceptr> copies;  // by where the parameter leads to
    for (const Inputs::Lead& lead : inputs_.leads()) {
        const Block* block = memory_.find(lead.address);
        if (!block || !block->variable.empty() || copies.count(lead.address)) continue;
        const CUdeviceptr copy = copied_elsewhere(*block, lead.address);
        // nothing tells where there is no room
        if (!copy) return true;
        copies[lead.address] = copy;
    }
    const Given given = inputs_.moved_elsewhere(c.arguments, [&](CUdeviceptr address) {
        const auto found = copies.find(address);
        return found == copies.end() ? address : found->second + (address - memory_.find(address)->base);
    });
    Launch launch = this->given(baseline_);
    launch.parameters = const_cast<void**>(given.pointers.data());
    launch.go(stream_);
    wait(stream_, limit_);
    bool same = true;
    for (std::size_t k = 0; same && k < stretches_.size(); ++k) {
        const Stretch& s = stretches_[k];
        const CUdeviceptr copy = copy_of(s, copies);
        if (!copy) continue;
        if (card_ && !card_->differing_at(k, copy)) continue;
        if (c.lies_there) read_results(c);
        read_masks();
        scratch_.resize(std::max(scratch_.size(), s.held()));
        memory_.read_at(copy, s, scratch_.data());
        same = compare(c.expected[k], scratch_.data(), tolerance_).right();
    }
    looked();
    return same;
}

// Where a stretch's block lies in the copy that is of the last pointer before it, or of the block's first; 0: nowhere.
CUdeviceptr Oracle::copy_of(const Stretch& s, const std::map<CUdeviceptr, CUdeviceptr>& copies) const {
    const Block& block = memory_.blocks[s.block];
    auto after = copies.upper_bound(block.base + s.offset);
    if (after != copies.begin() && std::prev(after)->first >= block.base) return std::prev(after)->second;
    return after != copies.end() && after->first < block.base + block.bytes ? after->second : 0;
}

}  // namespace warplens
