// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "compare.h"
#include "driver.h"
#include "parallel.h"

namespace warplens {
namespace {

constexpr std::size_t kStaging = 32u << 20;
constexpr std::size_t kHeadroom = 1u << 30;  // left to the program and to candidates' local memory

std::size_t available_host_bytes() {
    return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

CUfunction function_of(CUmodule module, const char* name) {
    CUfunction function;
    check(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
    return function;
}

void launch_over(std::uint64_t count, CUfunction function, CUstream stream, void** arguments) {
    const auto grid = static_cast<unsigned>(std::min<std::uint64_t>((count + 255) / 256, 4096));
    if (grid) check(cuLaunchKernel(function, grid, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr), "a helper");
}

std::uint64_t elements(const Stretch& s, std::uint64_t size) {
    if (!s.stride) return s.bytes / size;
    return s.bytes < size ? 0 : (s.bytes - size) / s.stride + 1;
}

}  // namespace

Helpers::Helpers(const std::string& cubin) {
    check(cuModuleLoad(&module, cubin.c_str()), "loading the probe's kernels");
    checksum = function_of(module, "warplens_checksum");
}

std::string Helpers::word_for(Element element) {
    return element == Element::f64    ? "f64"
           : element == Element::f32  ? "f32"
           : element == Element::f16  ? "f16"
           : element == Element::bf16 ? "bf16"
                                      : "bytes";
}

CUfunction Helpers::of(const char* what, Element element) const { return named(std::string("warplens_") + what + "_" + word_for(element)); }

CUfunction Helpers::named(const std::string& name) const {
    CUfunction& function = known_[name];
    return function ? function : function = function_of(module, name.c_str());
}

bool Helpers::has(const std::string& name) const {
    CUfunction function;
    return cuModuleGetFunction(&function, module, name.c_str()) == CUDA_SUCCESS;
}

Memory::Memory(std::vector<Block> all, const Helpers& helpers, CUstream stream, std::uint64_t key)
    : blocks(std::move(all)), helpers_(helpers), stream_(stream), key_(key) {
    lay_out();
    check(cuMemAllocHost(reinterpret_cast<void**>(&staging_), kStaging), "allocating a staging buffer");
    save();
}

Memory::~Memory() {
    release();
    give_back(room_at_);
    give_back_host(staging_);
}

void Memory::renew(std::vector<Block> all) {
    auto same = [](const Block& a, const Block& b) {
        return a.base == b.base && a.bytes == b.bytes && a.slack == b.slack && a.variable == b.variable;
    };
    if (!std::equal(all.begin(), all.end(), blocks.begin(), blocks.end(), same)) {
        release();
        blocks = std::move(all);
        lay_out();
    }
    unbind();
    save();
}

// Copies and checksums go with the program's memory, which may be large; the staging buffer stays.
void Memory::release() {
    give_back(copy_);
    give_back(sums_);
    copy_ = sums_ = 0;
    host_copy_ = {};
}

void Memory::lay_out() {
    bytes_ = chunks_ = 0;
    for (Block& block : blocks) {
        block.at = block.base;
        block.first_chunk = chunks_;
        block.saved = bytes_;
        chunks_ += block.chunks();
        bytes_ += (block.bytes + 255) / 256 * 256;
    }
    std::size_t free = 0, total = 0;
    check(cuMemGetInfo(&free, &total), "cuMemGetInfo");
    if (bytes_ + kHeadroom < free) {
        check(cuMemAlloc(&copy_, std::max<std::size_t>(bytes_, 256)), "allocating the snapshot");
    } else if (bytes_ < available_host_bytes() / 2) {
        host_copy_.resize(bytes_);
    } else {
        throw std::runtime_error("the program's " + std::to_string(bytes_ >> 20) +
                                 " MiB of device memory fit no second time on the card or the host");
    }
    check(cuMemAlloc(&sums_, std::max<std::size_t>(chunks_, 1) * 8), "allocating checksums");
}

void Memory::save() {
    for (const Block& block : blocks) {
        if (copy_) check(cuMemcpyDtoDAsync(copy_ + block.saved, block.base, block.bytes, stream_), "saving memory");
        else copy_out(block.base, host_copy_.data() + block.saved, block.bytes);
    }
    check(cuStreamSynchronize(stream_), "saving memory");
}

void Memory::copy_out(CUdeviceptr from, std::uint8_t* to, std::size_t bytes) {
    // two halves in turn: one is copied by the card while the host empties the other
    constexpr std::size_t half = kStaging / 2;
    std::size_t pending = 0;
    for (std::size_t at = 0, turn = 0; at < bytes || pending; at += half, turn ^= 1) {
        check(cuStreamSynchronize(stream_), "reading memory");
        const std::size_t now = at < bytes ? std::min(half, bytes - at) : 0;
        if (now) check(cuMemcpyDtoHAsync(staging_ + turn * half, from + at, now, stream_), "reading memory");
        // several threads: where it goes to is memory that nothing has touched yet more often than not
        in_parallel(pending, 4096, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
            std::memcpy(to + at - half + begin, staging_ + (turn ^ 1) * half + begin, end - begin);
        });
        pending = now;
    }
    // pinned memory is within a candidate's reach: nothing of an expected result stays there
    std::memset(staging_, 0, std::min(bytes, kStaging));
}

Sums Memory::checksums() {
    Sums sums(chunks_);
    for (std::size_t from = 0; from < blocks.size(); from += Buffers::most) {
        Buffers some;
        std::size_t chunks = 0;
        for (std::size_t i = from; i < std::min(blocks.size(), from + Buffers::most); ++i) {
            const Block& block = blocks[i];
            some.base[some.count] = block.at;
            some.bytes[some.count] = block.bytes + (block.at == block.base ? block.slack : 0);
            some.first[some.count++] = block.first_chunk;
            chunks += block.chunks();
        }
        void* arguments[] = {&some, &key_, &sums_};
        if (!chunks) continue;
        check(cuLaunchKernel(helpers_.checksum, static_cast<unsigned>(chunks), 1, 1, 256, 1, 1, 0, stream_, arguments, nullptr),
              "the checksum");
    }
    check(cuStreamSynchronize(stream_), "the checksum");
    if (chunks_) check(cuMemcpyDtoH(sums.data(), sums_, chunks_ * 8), "reading checksums");
    return sums;
}

const Block& Memory::block_of(std::size_t chunk) const {
    auto after = std::upper_bound(blocks.begin(), blocks.end(), chunk,
                                  [](std::size_t c, const Block& b) { return c < b.first_chunk; });
    return *std::prev(after);
}

const Block* Memory::find(CUdeviceptr address) const {
    for (const Block& block : blocks)
        if (address >= block.base && address < block.base + block.bytes) return &block;
    return nullptr;
}

void Memory::restore(const Chunks& chunks) {
    for (std::size_t i = 0; i < chunks.size();) {
        const Block& block = block_of(chunks[i]);
        std::size_t j = i + 1;
        while (j < chunks.size() && chunks[j] == chunks[j - 1] + 1 && chunks[j] < block.first_chunk + block.chunks()) ++j;
        const std::size_t offset = (chunks[i] - block.first_chunk) * kChunk;
        const std::size_t bytes = std::min((chunks[j - 1] - block.first_chunk + 1) * kChunk, block.bytes) - offset;
        if (copy_)
            check(cuMemcpyDtoDAsync(block.at + offset, copy_ + block.saved + offset, bytes, stream_), "restoring");
        else
            check(cuMemcpyHtoDAsync(block.at + offset, host_copy_.data() + block.saved + offset, bytes, stream_),
                  "restoring");
        i = j;
    }
}

void Memory::read_members(const Stretch& s, std::uint8_t* to, const std::function<void(std::uint8_t*)>& all) {
    if (!s.width) return all(to);
    structures_.resize(s.bytes);
    all(structures_.data());
    in_parallel(s.held() / s.width, 4096, 16, [&](std::size_t begin, std::size_t end, std::size_t) {
        for (std::size_t i = begin; i < end; ++i) std::memcpy(to + i * s.width, structures_.data() + i * s.stride, s.width);
    });
}

void Memory::read(const Stretch& s, std::uint8_t* to) { read_at(blocks[s.block].at, s, to); }

void Memory::read_at(CUdeviceptr block, const Stretch& s, std::uint8_t* to) {
    read_members(s, to, [&](std::uint8_t* all) { copy_out(block + s.offset, all, s.bytes); });
}

void Memory::read_saved(const Stretch& s, std::uint8_t* to) {
    const std::size_t at = blocks[s.block].saved + s.offset;
    read_members(s, to, [&](std::uint8_t* all) {
        if (copy_) copy_out(copy_ + at, all, s.bytes);
        else std::memcpy(all, host_copy_.data() + at, s.bytes);
    });
}

void Memory::write_saved(const Stretch& s, const std::uint8_t* from) {
    const std::size_t at = blocks[s.block].saved + s.offset;
    if (s.width) {
        Stretch all = s;
        all.width = all.stride = 0;
        std::vector<std::uint8_t> changed(s.bytes);
        read_saved(all, changed.data());
        for (std::size_t i = 0; i < s.held() / s.width; ++i) std::memcpy(changed.data() + i * s.stride, from + i * s.width, s.width);
        return write_saved(all, changed.data());
    }
    if (copy_) check(cuMemcpyHtoD(copy_ + at, from, s.bytes), "changing the snapshot");
    else std::memcpy(host_copy_.data() + at, from, s.bytes);
}

void Memory::write(const Stretch& s, const std::uint8_t* from) {
    check(cuMemcpyHtoDAsync(blocks[s.block].at + s.offset, from, s.bytes, stream_), "writing memory");
}

void Memory::change(const Stretch& s, const std::function<void(CUdeviceptr)>& by) {
    const Block& block = blocks[s.block];
    if (block.variable.empty()) return by(block.at + s.offset);
    if (block.bytes > room_) {
        if (room_at_) cuMemFree(room_at_);
        check(cuMemAlloc(&room_at_, block.bytes), "allocating a variable's copy");
        room_ = block.bytes;
    }
    check(cuMemcpyDtoDAsync(room_at_, block.at, block.bytes, stream_), "copying a variable");
    by(room_at_ + s.offset);
    check(cuMemcpyDtoDAsync(block.at, room_at_, block.bytes, stream_), "changing a variable");
}

void Memory::move(const Stretch& s, double scale, double noise, std::uint64_t seed, double kept) {
    std::uint64_t size = element_size(s.element), stride = s.stride ? s.stride : size, count = elements(s, size);
    change(s, [&](CUdeviceptr base) {
        void* arguments[] = {&base, &count, &scale, &noise, &seed, &stride, &kept};
        launch_over(count, helpers_.of("move", s.element), stream_, arguments);
    });
}

void Memory::fill(const Stretch& s) {
    // of integers side by side the width may not be known: every word, then
    if (!is_floating(s.element)) return s.stride ? turn_each(s, elements(s, 1), s.stride, 1) : turn_each(s, (s.bytes + 3) / 4, 4, 1);
    std::uint64_t size = element_size(s.element), stride = s.stride ? s.stride : size, count = elements(s, size);
    change(s, [&](CUdeviceptr base) {
        void* arguments[] = {&base, &count, &stride};
        launch_over(count, helpers_.of("fill", s.element), stream_, arguments);
    });
}

void Memory::turn(const Stretch& s, unsigned bits) {
    const std::uint64_t size = element_size(s.element);
    if (!s.stride) return turn_each(s, s.bytes / size, size, bits);
    for (std::uint64_t at = 0; at + size <= std::max<std::uint64_t>(s.width, size); at += size) {
        Stretch one = s;
        one.offset += at, one.bytes -= at;
        turn_each(one, elements(one, size), s.stride, bits);
    }
}

void Memory::turn_each(const Stretch& s, std::uint64_t count, std::uint64_t stride, unsigned bits) {
    change(s, [&](CUdeviceptr base) {
        void* arguments[] = {&base, &count, &stride, &bits};
        launch_over(count, helpers_.named("warplens_turn"), stream_, arguments);
    });
}

void Memory::vary(const Stretch& s, unsigned kind, unsigned width, std::uint64_t seed, std::uint64_t limit, std::uint64_t period) {
    if (!copy_) return;
    CUdeviceptr source = copy_ + blocks[s.block].saved + s.offset;
    std::uint64_t size = width ? width : element_size(s.element), stride = s.stride ? s.stride : size, count = elements(s, size);
    const CUfunction function =
        width ? helpers_.named("warplens_vary_i" + std::to_string(8 * width)) : helpers_.of("vary", s.element);
    change(s, [&](CUdeviceptr base) {
        void* arguments[] = {&base, &count, &source, &kind, &seed, &stride, &limit, &period};
        launch_over(count, function, stream_, arguments);
    });
}

void Memory::copy_saved(const Stretch& from, const Stretch& to) {
    const std::size_t at = blocks[from.block].saved + from.offset;
    const CUdeviceptr there = blocks[to.block].at + to.offset;
    if (copy_) check(cuMemcpyDtoDAsync(there, copy_ + at, from.bytes, stream_), "copying what was saved");
    else check(cuMemcpyHtoDAsync(there, host_copy_.data() + at, from.bytes, stream_), "copying what was saved");
}

void Memory::keep_part(const Stretch& s, std::uint64_t part, std::uint64_t parts) {
    const Block& block = blocks[s.block];
    const std::uint64_t size = element_size(s.element), count = s.bytes / size;
    const std::uint64_t begin = count * part / parts * size, end = count * (part + 1) / parts * size;
    if (begin) check(cuMemsetD8Async(block.at + s.offset, 0, begin, stream_), "leaving a part");
    if (end < count * size) check(cuMemsetD8Async(block.at + s.offset + end, 0, count * size - end, stream_), "leaving a part");
}

void Memory::fill_tails(unsigned char value, bool gaps) {
    // by a kernel: the driver refuses to set memory that belongs to no allocation
    const CUfunction function = helpers_.named("warplens_set");
    for (const Block& block : blocks) {
        const bool all = gaps && block.gap;
        CUdeviceptr base = block.base + (all ? 0 : block.bytes);
        std::uint64_t count = all ? block.bytes : block.slack;
        void* arguments[] = {&base, &count, &value};
        launch_over(count, function, stream_, arguments);
    }
}

void Memory::unbind() {
    for (Block& block : blocks) block.at = block.base;
}

Bindings Memory::bindings() const {
    Bindings all;
    for (const Block& block : blocks) all.push_back(block.at);
    return all;
}

void Memory::bind(const Bindings& all) {
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].at = all[i];
}

Chunks Memory::variables() const {
    Chunks chunks;
    for (const Block& block : blocks)
        for (std::size_t i = 0; !block.variable.empty() && i < block.chunks(); ++i)
            chunks.push_back(block.first_chunk + i);
    return chunks;
}

Chunks changed(const Sums& before, const Sums& after) {
    Chunks chunks;
    for (std::size_t i = 0; i < before.size(); ++i)
        if (before[i] != after[i]) chunks.push_back(i);
    return chunks;
}

Chunks merged(const Chunks& a, const Chunks& b) {
    Chunks both;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

}  // namespace warplens
