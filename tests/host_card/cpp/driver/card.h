// SPDX-License-Identifier: Apache-2.0
// What the parts of the driver know of each other.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../device.h"

// An entry point: its wrapper, which CUPTI's subscribers see, is generated.
#define DRIVER(name) extern "C" CUresult impl_##name

namespace card {

// Environment: HOST_CARD_ORDER (0: threads and blocks ascending, else what their order is drawn from),
// HOST_CARD_MEMORY (bytes).
std::uint64_t setting(const char* name, std::uint64_t otherwise);

// Memory.
enum class Memory { device, pinned, managed, variable };
struct Allocation {
    u64 base, bytes;
    Memory kind;
};
class Arena {
   public:
    u64 allocate(u64 bytes, Memory kind);  // 0 where there is no more
    bool release(u64 base);
    const Allocation* find(u64 address) const;
    u64 used() const { return used_; }
    u64 most() const { return most_; }
    // Not counted, and never given back: stacks, variables.
    u64 own(u64 bytes);

   private:
    // What lies side by side in blocks of 2 MiB.
    struct Small {
        std::multimap<u64, u64> free;  // bytes: base
        u64 next = 0, end = 0;
    };
    u64 take(u64 bytes);
    Small& small(Memory kind) { return kind == Memory::variable ? variables_ : small_; }
    std::map<u64, Allocation> all_;
    Small small_, variables_;
    std::multimap<u64, u64> free_large_;
    u64 next_ = kArena + (1ull << 30), used_ = 0;
    u64 most_ = setting("HOST_CARD_MEMORY", 6ull << 30);
};
Arena& arena();

// Modules.
struct Image;
struct Function {
    const Kernel* kernel;
    Image* image;
    int dynamic_most = 48 << 10, carve_out = -1;
};
struct Image {
    void* handle = nullptr;
    const Module* module = nullptr;
    std::map<std::string, std::unique_ptr<Function>> functions;
    std::map<std::string, const Variable*> variables;
};
inline Function* function_of(CUfunction f) { return reinterpret_cast<Function*>(f); }

// Launches.
struct Work {
    Function* function;
    u32 grid[3], block[3], shared;
    std::vector<u8> parameters;
    mutable u64 grid_place = 0;
};
// Runs it in this thread, to its end or the first fault.
Fault run(const Work& work, u64 number);
const Services& services();
CUresult submit(const CUlaunchConfig& config, Function* function, void** parameters, void** extra);

// Streams: one queue in all, in the order of the calls, which is one of those that streams and events allow.
struct Stream {
    std::atomic<u64> last{0};
    unsigned flags = 0;
};
struct Event {
    std::atomic<u64> ticket{0};
    std::atomic<std::int64_t> at{0};  // ns
};
std::int64_t nanoseconds();
Stream* stream_of(CUstream stream);
u64 enqueue(CUstream stream, std::function<void()> work);
CUresult wait_for(u64 ticket);
CUresult drain();
CUresult state_of(u64 ticket);
CUresult sticky();
void set_sticky(CUresult status);
bool in_queue();  // the calling thread is the one that runs the queue

// Kernels that were run, for CUPTI.
struct Ran {
    std::string name;
    std::int64_t start, end;
    u32 grid[3], block[3], shared;
};
void note(Ran ran);

// Calls as CUPTI's subscribers see them.
using Subscriber = void (*)(int cbid, const char* name, void* parameters, CUresult* result, bool enter, const char* symbol);
CUresult called(int cbid, const char* name, void* parameters, const char* symbol, const std::function<CUresult()>& work);
const char* symbol_of(CUfunction f);

}  // namespace card
