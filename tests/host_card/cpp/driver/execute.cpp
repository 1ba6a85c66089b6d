// SPDX-License-Identifier: Apache-2.0
// Runs a launch: blocks in an order that is drawn anew each time, their threads one after the other, as fibers where
// they wait for one another. Blocks that wait for others share the card with them.
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <chrono>
#include <deque>
#include <numeric>
#include <sys/mman.h>
#include <thread>

#include "fibers.h"

namespace card {
namespace {

constexpr u32 kMostResident = 512;
//  A block that got no further for so many passes waits for another block, or for ever.
constexpr u32 kPatience = 64;
constexpr u64 kShared = 228 << 10;

sigjmp_buf way_out;
volatile bool running = false;
Fault fault = Fault::none;
void* base_stack = nullptr;

[[noreturn]] void leave(Fault what) {
    fault = what;
    running = false;
    siglongjmp(way_out, 1);
}

thread_local bool this_thread_runs = false;
struct sigaction segv_before, bus_before, fpe_before;

void on_signal(int number, siginfo_t* info, void* context) {
    if (running && this_thread_runs) leave(Fault::address);
    struct sigaction& before = number == SIGSEGV ? segv_before : number == SIGBUS ? bus_before : fpe_before;
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler) return before.sa_handler(number);
    signal(number, SIG_DFL);
    raise(number);
}

void catch_signals() {
    static bool done = false;
    if (done) return;
    done = true;
    static u8 stack[64 << 10];
    stack_t own{};
    own.ss_sp = stack, own.ss_size = sizeof stack;
    sigaltstack(&own, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &segv_before);
    sigaction(SIGBUS, &action, &bus_before);
    sigaction(SIGFPE, &action, &fpe_before);
}

void on_fault(Thread*, int kind, u64) { leave(static_cast<Fault>(kind)); }
Fiber& fiber_of(Thread* t) { return *static_cast<Fiber*>(t->own); }
Resident& home_of(Thread* t) { return *static_cast<Resident*>(t->block->own); }
void on_barrier(Thread* t, u32 id, u32 threads, bool waits) { home_of(t).barrier(fiber_of(t), id, threads, waits); }
u32 on_counted(Thread* t, u32 id, u32 threads, u32 value) { return home_of(t).counted(fiber_of(t), id, threads, value); }
const Meeting* on_meet(Thread* t, u32 mask, u64 value) { return home_of(t).meet(fiber_of(t), mask, value); }
u32 on_active(Thread* t, const void* place) { return home_of(t).active(fiber_of(t), place); }
void on_spin(Thread* t) {
    if (!t->own) return;
    Fiber& f = fiber_of(t);
    if (++f.spins % 16 == 0) home_of(t).yield(f);
}
u64 on_allocate(Thread*, u64 bytes) { return arena().allocate(bytes, Memory::device); }
void on_release(Thread*, u64 address) { arena().release(address); }
u64 on_clock() { return static_cast<u64>(nanoseconds()); }

// vprintf's arguments lie one after the other, each aligned to its size; floats are doubles.
int on_print(Thread*, u64 format, u64 arguments) {
    const char* f = reinterpret_cast<const char*>(format);
    u64 at = arguments;
    std::string out;
    for (; *f; ++f) {
        if (*f != '%') {
            out += *f;
            continue;
        }
        if (f[1] == '%') {
            out += *++f;
            continue;
        }
        std::string piece = "%";
        bool wide = false;
        for (++f; *f && !std::strchr("diouxXcsfFeEgGaAp", *f); ++f) {
            wide |= *f == 'l' || *f == 'z' || *f == 'j' || *f == 't';
            piece += *f;
        }
        piece += *f;
        char text[512];
        const bool eight = wide || std::strchr("fFeEgGaAsp", *f);
        at = (at + (eight ? 7 : 3)) & ~u64{eight ? 7u : 3u};
        const u8* value = reinterpret_cast<const u8*>(at);
        if (std::strchr("fFeEgGaA", *f)) std::snprintf(text, sizeof text, piece.c_str(), load<double>(value));
        else if (eight) std::snprintf(text, sizeof text, piece.c_str(), load<u64>(value));
        else std::snprintf(text, sizeof text, piece.c_str(), load<u32>(value));
        at += eight ? 8 : 4;
        out += text;
    }
    std::fputs(out.c_str(), stdout);
    return 1;
}

u64 drawn(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// 0, 1, … count-1 in another order: steps of a length that shares no divisor with the count.
struct Walk {
    u32 count, step = 1, at = 0;
    Walk(u32 n, u64 order) : count(n) {
        if (!order || n < 3) return;
        at = static_cast<u32>(drawn(order) % n);
        step = static_cast<u32>(drawn(order + 1) % n) | 1;
        while (std::gcd(step, n) != 1) step = step + 2 < n ? step + 2 : 1;
    }
    u32 next() {
        const u32 now = at;
        at = static_cast<u32>((u64{at} + step) % count);
        return now;
    }
};

struct Pool {
    std::vector<u8*> shared;
    std::deque<std::vector<Fiber>> fibers;
    u8* parameters = reinterpret_cast<u8*>(arena().own(64 << 10));
    u8* stack = reinterpret_cast<u8*>(arena().own(8 << 20));
    u8* grid = reinterpret_cast<u8*>(arena().own(4096));
};
Pool& pool() {
    static Pool* made = new Pool;
    return *made;
}
u8* shared_of(u32 slot) {
    while (pool().shared.size() <= slot) pool().shared.push_back(reinterpret_cast<u8*>(arena().own(kShared)));
    return pool().shared[slot];
}
std::vector<Fiber>& fibers_of(u32 slot) {
    while (pool().fibers.size() <= slot) pool().fibers.emplace_back();
    return pool().fibers[slot];
}

void run_plainly(const Work& work, Walk blocks, u64 order) {
    const Kernel& kernel = *work.function->kernel;
    Block block{};
    block.shared = shared_of(0);
    const u32 threads = work.block[0] * work.block[1] * work.block[2];
    std::vector<Thread> all(threads);
    Walk walk(threads, order);
    for (u32 i = 0; i < threads; ++i) {
        const u32 n = walk.next();
        all[i] = Thread{{n % work.block[0], n / work.block[0] % work.block[1], n / work.block[0] / work.block[1]}, n % 32, n / 32, &block, nullptr};
    }
    for (u32 i = 0; i < blocks.count; ++i) {
        set_geometry(block, work, blocks.next());
        for (Thread& t : all) kernel.entry(&t, pool().parameters);
    }
}

void hang() {
    std::fprintf(stderr, "host card: threads wait for others that never come\n");
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void run_resident(const Work& work, Walk blocks, u64 order) {
    struct Slot {
        std::unique_ptr<Resident> block;
        u32 number;
    };
    std::vector<Slot> held;
    std::vector<u32> spare;
    u32 begun = 0, slots = 0, idle = 0;
    auto begin = [&] {
        u32 slot = slots;
        if (spare.empty()) ++slots;
        else slot = spare.back(), spare.pop_back();
        held.push_back({std::make_unique<Resident>(work, blocks.next(), shared_of(slot), pool().parameters, fibers_of(slot)), slot});
        ++begun;
    };
    u64 passes = 0;
    while (begun < blocks.count || !held.empty()) {
        if (held.empty()) begin();
        bool moved = false;
        for (std::size_t i = 0; i < held.size();) {
            moved |= held[i].block->pass(order ? order + ++passes : 0);
            if (held[i].block->finished()) {
                spare.push_back(held[i].number);
                held.erase(held.begin() + static_cast<long>(i));
                moved = true;
            } else {
                ++i;
            }
        }
        idle = moved ? 0 : idle + 1;
        // looking at memory again and again is not getting further: another block may have to write it
        if (idle < kPatience) continue;
        if (begun < blocks.count && held.size() < kMostResident) begin(), idle = 0;
        else if (idle > 1000000) hang();
    }
}

struct Call {
    const Work* work;
    u64 order;
    void* from;
    void* at;
};
Call call;

// On a stack of the card's memory, where a kernel's own variables have to be.
void on_own_stack() {
    const u64 count = u64{call.work->grid[0]} * call.work->grid[1] * call.work->grid[2];
    const Walk blocks(static_cast<u32>(count), call.order);
    if (call.work->function->kernel->meets) run_resident(*call.work, blocks, call.order);
    else run_plainly(*call.work, blocks, call.order);
    host_card_switch(&call.at, call.from);
    std::abort();
}

}  // namespace

const Services& services() {
    static const Services all = {on_fault, on_barrier, on_counted, on_meet,    on_active,
                                 on_spin,  on_print,   on_allocate, on_release, on_clock};
    return all;
}

Fault run(const Work& work, u64 number) {
    this_thread_runs = true;
    catch_signals();
    static const u64 chosen = setting("HOST_CARD_ORDER", 1);
    std::memcpy(pool().parameters, work.parameters.data(), work.parameters.size());
    if (work.function->kernel->refused) {
        std::fprintf(stderr, "host card: %s: %s\n", work.function->kernel->name, work.function->kernel->refused);
        return Fault::unsupported;
    }
    fault = Fault::none;
    std::memset(pool().grid, 0, 4096);
    work.grid_place = reinterpret_cast<u64>(pool().grid);
    if (!sigsetjmp(way_out, 0)) {
        call = {&work, chosen ? drawn(chosen * 0x9e3779b97f4a7c15ull + number) | 1 : 0, nullptr, nullptr};
        auto* top = reinterpret_cast<void**>(pool().stack + (8 << 20)) - 1;
        *top = nullptr;
        *--top = reinterpret_cast<void*>(&on_own_stack);
        for (int k = 0; k < 6; ++k) *--top = nullptr;
        running = true;
        host_card_switch(&call.from, top);
        running = false;
    }
    return fault;
}

}  // namespace card
