// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include "driver.h"

namespace warplens {
namespace {

// The card's allocator rounds up to 512 bytes; what lies behind an allocation's end is mapped but nobody's.
void add_slack(std::vector<Block>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        unsigned kind = 0;
        if (cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, blocks[i].base) != CUDA_SUCCESS ||
            kind != CU_MEMORYTYPE_DEVICE)
            continue;
        const CUdeviceptr end = blocks[i].base + blocks[i].bytes, rounded = (end + 511) / 512 * 512;
        const bool alone = i + 1 == blocks.size() || blocks[i + 1].base >= rounded;
        // a last chunk must hold it, so that chunks stay those of the allocation
        if (alone && (blocks[i].bytes % kChunk || rounded == end)) blocks[i].slack = rounded - end;
    }
}

// What the driver maps at a time.
constexpr CUdeviceptr kPage = 2u << 20;
// More pieces than that cost every checksum launches of their own.
constexpr std::size_t kMostGaps = 24, kSmallestGap = 512;

bool shares_page(const std::vector<Block>& blocks, CUdeviceptr at) {
    for (const Block& b : blocks)
        if (b.variable.empty() && at / kPage >= b.base / kPage && at / kPage <= (b.base + b.bytes - 1) / kPage) return true;
    return false;
}

}  // namespace

std::vector<Block> gaps_of(const std::vector<Block>& blocks) {
    std::vector<Block> gaps;
    for (std::size_t bytes = kPage / 2; bytes >= kSmallestGap; bytes /= 2)
        while (gaps.size() < kMostGaps) {
            Block gap;
            gap.bytes = bytes;
            gap.gap = true;
            if (cuMemAlloc(&gap.base, bytes) != CUDA_SUCCESS) return gaps;
            if (!shares_page(blocks, gap.base)) {
                cuMemFree(gap.base);
                break;
            }
            check(cuMemsetD8Async(gap.base, 0x5a, bytes, nullptr), "filling a gap");
            gaps.push_back(gap);
        }
    return gaps;
}

std::vector<Block> blocks_of(const Allocations& allocations, CUfunction function, const std::vector<std::string>& variables) {
    std::vector<Block> blocks;
    for (const Allocation& a : allocations.live()) {
        Block block;
        block.base = a.base;
        block.bytes = a.bytes;
        blocks.push_back(block);
    }
    add_slack(blocks);
    CUmodule module = nullptr;
    if (cuFuncGetModule(&module, function) != CUDA_SUCCESS) return blocks;
    for (const std::string& name : variables) {
        Block block;
        if (cuModuleGetGlobal(&block.base, &block.bytes, module, name.c_str()) != CUDA_SUCCESS || !block.bytes) continue;
        block.variable = name;
        blocks.push_back(block);
    }
    return blocks;
}

}  // namespace warplens
