// SPDX-License-Identifier: Apache-2.0
// Threads of a block that wait for one another: each has a stack of its own.
#pragma once

#include "card.h"

namespace card {

// Saves what a call preserves on this stack, and goes on with another one.
extern "C" void host_card_switch(void** from, void* to);

struct Fiber {
    Thread thread{};
    void* at = nullptr;
    u8* stack = nullptr;
    bool done = true;
    bool waiting = false;
    const u32* turn = nullptr;   // waits until this is no longer `seen`
    u32 seen = 0;
    const void* place = nullptr;  // waits for the others of its warp to come to it, or to wait elsewhere
    u32 active = 0;
    u32 spins = 0;
    class Resident* home = nullptr;
};

// Where lanes of one mask wait for one another.
struct Gathering {
    u32 mask = 0, arrived = 0, turn = 0;
    Meeting meetings[2];
};

struct WarpState {
    u32 alive = 0;
    std::vector<std::unique_ptr<Gathering>> gatherings;
};

struct Barrier {
    u32 arrived = 0, turn = 0, wanted = 0, count = 0, counts[2] = {0, 0};
};

// A block whose threads are fibers.
class Resident {
   public:
    Resident(const Work& work, u32 number, u8* shared, const u8* parameters, std::vector<Fiber>& fibers);
    // Each thread that can go on does, once; whether any got further than its next look at memory.
    bool pass(u64 order);
    bool finished() const { return alive_ == 0; }

    void barrier(Fiber& fiber, u32 id, u32 threads, bool waits);
    u32 counted(Fiber& fiber, u32 id, u32 threads, u32 value);
    const Meeting* meet(Fiber& fiber, u32 mask, u64 value);
    u32 active(Fiber& fiber, const void* place);
    void yield(Fiber& fiber);
    void exited(Fiber& fiber);

    const Work& work;
    const u8* parameters;
    Block block;

   private:
    bool run_warp(u32 warp, u64 order);
    bool release_places(u32 warp);
    void settle(Barrier& barrier);
    void settle(WarpState& warp, Gathering& gathering);
    void wait(Fiber& fiber, const u32& turn);

    std::vector<Fiber>& fibers_;
    std::vector<WarpState> warps_;
    Barrier barriers_[17];
    u32 threads_, alive_;
};

void set_geometry(Block& block, const Work& work, u32 number);
u8* stack_of(Fiber& fiber);  // its top

// The fiber that runs now, nullptr where threads need none.
extern Fiber* current;
extern void* scheduler;

}  // namespace card
