// SPDX-License-Identifier: Apache-2.0
#include "fibers.h"

#include <sys/mman.h>

namespace card {

asm(R"(
.text
.globl host_card_switch
host_card_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

Fiber* current = nullptr;
void* scheduler = nullptr;

namespace {

constexpr u64 kStack = 128 << 10;

void started() {
    Fiber& self = *current;
    Resident& home = *self.home;
    home.work.function->kernel->entry(&self.thread, home.parameters);
    self.done = true;
    home.exited(self);
    host_card_switch(&self.at, scheduler);
    std::abort();
}

void go_on(Fiber& fiber) {
    current = &fiber;
    host_card_switch(&scheduler, fiber.at);
    current = nullptr;
}

u64 drawn(u64 x) {  // the finalizer of SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

}  // namespace

u8* stack_of(Fiber& fiber) {
    if (!fiber.stack) fiber.stack = reinterpret_cast<u8*>(arena().own(kStack * 16));
    return fiber.stack + kStack;
}

void set_geometry(Block& block, const Work& work, u32 number) {
    block.grid = work.grid_place;
    block.ctaid[0] = number % work.grid[0];
    block.ctaid[1] = number / work.grid[0] % work.grid[1];
    block.ctaid[2] = number / work.grid[0] / work.grid[1];
    for (int i = 0; i < 3; ++i) block.ntid[i] = work.block[i], block.nctaid[i] = work.grid[i];
    block.shared_bytes = work.function->kernel->static_shared + work.shared;
    block.dynamic_bytes = work.shared;
}

Resident::Resident(const Work& w, u32 number, u8* shared, const u8* p, std::vector<Fiber>& fibers)
    : work(w), parameters(p), fibers_(fibers), threads_(w.block[0] * w.block[1] * w.block[2]), alive_(threads_) {
    set_geometry(block, work, number);
    block.shared = shared;
    block.own = this;
    warps_.resize((threads_ + 31) / 32);
    if (fibers_.size() < threads_) {
        // stacks side by side, sixteen to an allocation
        for (std::size_t i = fibers_.size(); i < threads_; i += 16) {
            fibers_.resize(fibers_.size() + 16);
            const u64 base = arena().own(kStack * 16);
            for (u32 k = 0; k < 16; ++k) fibers_[i + k].stack = reinterpret_cast<u8*>(base + k * kStack);
        }
    }
    for (u32 i = 0; i < threads_; ++i) {
        Fiber& f = fibers_[i];
        u8* stack = f.stack;
        f = Fiber{};
        f.stack = stack;
        f.done = false;
        f.home = this;
        f.thread.tid[0] = i % work.block[0];
        f.thread.tid[1] = i / work.block[0] % work.block[1];
        f.thread.tid[2] = i / work.block[0] / work.block[1];
        f.thread.lane = i % 32;
        f.thread.warp = i / 32;
        f.thread.block = &block;
        f.thread.own = &f;
        warps_[i / 32].alive |= 1u << i % 32;
        auto* top = reinterpret_cast<void**>(stack_of(f)) - 1;  // as a call leaves it: the return address
        *top = nullptr;
        *--top = reinterpret_cast<void*>(&started);
        for (int k = 0; k < 6; ++k) *--top = nullptr;
        f.at = top;
    }
}

void Resident::yield(Fiber& fiber) { host_card_switch(&fiber.at, scheduler); }

void Resident::wait(Fiber& fiber, const u32& turn) {
    fiber.waiting = true, fiber.turn = &turn, fiber.seen = turn;
    yield(fiber);
}

void Resident::settle(Barrier& b) {
    if (!b.arrived || b.arrived < (b.wanted ? b.wanted : alive_)) return;
    b.counts[b.turn & 1] = b.count;
    b.arrived = b.count = 0;
    ++b.turn;
}

void Resident::barrier(Fiber& fiber, u32 id, u32 threads, bool waits) {
    Barrier& b = barriers_[id % 17];
    const u32 turn = b.turn;
    b.wanted = threads == threads_ ? 0 : threads;
    ++b.arrived;
    settle(b);
    if (waits && b.turn == turn) wait(fiber, b.turn);
}

u32 Resident::counted(Fiber& fiber, u32 id, u32 threads, u32 value) {
    Barrier& b = barriers_[id % 17];
    const u32 turn = b.turn;
    b.count += value != 0;
    barrier(fiber, id, threads, true);
    return b.counts[turn & 1];
}

void Resident::settle(WarpState& warp, Gathering& g) {
    const u32 wanted = g.mask & warp.alive;
    if (!g.arrived || (g.arrived & wanted) != wanted) return;
    g.meetings[g.turn & 1].members = g.arrived;
    g.arrived = 0;
    ++g.turn;
}

const Meeting* Resident::meet(Fiber& fiber, u32 mask, u64 value) {
    WarpState& warp = warps_[fiber.thread.warp];
    Gathering* g = nullptr;
    for (auto& known : warp.gatherings)
        if (known->mask == mask) g = known.get();
    if (!g) {
        warp.gatherings.push_back(std::make_unique<Gathering>());
        g = warp.gatherings.back().get();
        g->mask = mask;
    }
    const u32 turn = g->turn;
    Meeting& m = g->meetings[turn & 1];
    m.values[fiber.thread.lane] = value;
    g->arrived |= 1u << fiber.thread.lane;
    settle(warp, *g);
    if (g->turn == turn) wait(fiber, g->turn);
    return &m;
}

u32 Resident::active(Fiber& fiber, const void* place) {
    fiber.waiting = true, fiber.place = place;
    yield(fiber);
    return fiber.active;
}

void Resident::exited(Fiber& fiber) {
    --alive_;
    WarpState& warp = warps_[fiber.thread.warp];
    warp.alive &= ~(1u << fiber.thread.lane);
    for (auto& g : warp.gatherings) settle(warp, *g);
    for (Barrier& b : barriers_)
        if (!b.wanted) settle(b);
}

bool Resident::release_places(u32 warp) {
    const void* place = nullptr;
    u32 mask = 0;
    for (u32 i = warp * 32; i < std::min(threads_, warp * 32 + 32); ++i) {
        Fiber& f = fibers_[i];
        if (f.done || !f.place || (place && f.place != place)) continue;
        place = f.place;
        mask |= 1u << i % 32;
    }
    for (u32 i = warp * 32; mask && i < std::min(threads_, warp * 32 + 32); ++i)
        if (mask >> i % 32 & 1) fibers_[i].active = mask, fibers_[i].place = nullptr, fibers_[i].waiting = false;
    return mask != 0;
}

bool Resident::run_warp(u32 warp, u64 order) {
    const u32 first = warp * 32, lanes = std::min(threads_ - first, 32u);
    const u32 turn = order ? static_cast<u32>(drawn(order + warp)) : 0;
    bool moved = false, any = true;
    for (u32 rounds = 0; any && rounds < 64; ++rounds) {
        any = false;
        for (u32 i = 0; i < lanes; ++i) {
            Fiber& f = fibers_[first + (lanes == 32 ? i ^ (turn & 31) : i)];
            if (f.done) continue;
            if (f.waiting && (f.place || *f.turn == f.seen)) continue;
            const u32 spins = f.spins;
            f.waiting = false;
            go_on(f);
            const bool only_looked = !f.done && !f.waiting && f.spins != spins;
            moved |= !only_looked;
            any |= !only_looked;
        }
        if (!any) any = release_places(warp), moved |= any;
    }
    return moved;
}

bool Resident::pass(u64 order) {
    const u32 count = static_cast<u32>(warps_.size());
    const u32 from = order ? static_cast<u32>(drawn(order) % count) : 0;
    bool moved = false;
    for (u32 i = 0; i < count; ++i) moved |= run_warp((i + from) % count, order);
    return moved;
}

}  // namespace card
