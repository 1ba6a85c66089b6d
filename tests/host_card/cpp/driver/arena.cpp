// SPDX-License-Identifier: Apache-2.0
// The card's memory: one range of addresses of which only what is allocated can be touched. As on a card, small
// allocations lie side by side in blocks of 2 MiB, of which all can be touched; a module's variables have blocks of
// their own.
#include <sys/mman.h>

#include <cstdlib>

#include "card.h"

namespace card {
namespace {

constexpr u64 kSlab = 2 << 20, kAlign = 512, kSmall = 1 << 20;

u64 rounded(u64 bytes, u64 to) { return (bytes + to - 1) / to * to; }

bool open(u64 base, u64 bytes) {
    return mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void close(u64 base, u64 bytes) {
    mmap(reinterpret_cast<void*>(base), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

}  // namespace

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? std::strtoull(value, nullptr, 0) : otherwise;
}

Arena& arena() {
    static Arena* made = [] {
        if (mmap(reinterpret_cast<void*>(kArena), kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
                 -1, 0) == MAP_FAILED) {
            std::perror("host card: no room for its memory");
            std::abort();
        }
        return new Arena;
    }();
    return *made;
}

u64 Arena::take(u64 bytes) {
    const auto found = free_large_.lower_bound(bytes);
    u64 base = 0;
    if (found != free_large_.end()) {
        base = found->second;
        if (found->first > bytes) free_large_.emplace(found->first - bytes, base + bytes);
        free_large_.erase(found);
    } else {
        if (next_ + bytes + kSlab > kArena + kSpan) return 0;
        base = next_;
        next_ += bytes;
    }
    if (!open(base, bytes)) return 0;
    return base;
}

u64 Arena::own(u64 bytes) { return take(rounded(bytes, kSlab)); }

u64 Arena::allocate(u64 bytes, Memory kind) {
    const u64 wanted = rounded(bytes ? bytes : 1, bytes < kSmall ? kAlign : kSlab);
    if (used_ + wanted > most_) return 0;
    Small& side_by_side = small(kind);
    u64 base = 0;
    if (wanted >= kSmall) {
        base = take(wanted);
    } else if (const auto found = side_by_side.free.find(wanted); found != side_by_side.free.end()) {
        base = found->second;
        side_by_side.free.erase(found);
    } else {
        if (side_by_side.next + wanted > side_by_side.end) {
            side_by_side.next = take(kSlab);
            side_by_side.end = side_by_side.next ? side_by_side.next + kSlab : 0;
        }
        base = side_by_side.next;
        side_by_side.next += base ? wanted : 0;
    }
    if (!base) return 0;
    used_ += wanted;
    all_[base] = {base, bytes, kind};
    return base;
}

bool Arena::release(u64 base) {
    const auto found = all_.find(base);
    if (found == all_.end()) return false;
    const u64 bytes = found->second.bytes;
    const u64 held = rounded(bytes ? bytes : 1, bytes < kSmall ? kAlign : kSlab);
    Small& side_by_side = small(found->second.kind);
    all_.erase(found);
    used_ -= held;
    if (held >= kSmall) {
        close(base, held);
        free_large_.emplace(held, base);
    } else {
        side_by_side.free.emplace(held, base);
    }
    return true;
}

const Allocation* Arena::find(u64 address) const {
    auto after = all_.upper_bound(address);
    if (after == all_.begin()) return nullptr;
    const Allocation& found = std::prev(after)->second;
    return address - found.base < (found.bytes ? found.bytes : 1) ? &found : nullptr;
}

}  // namespace card
