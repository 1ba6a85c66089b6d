// SPDX-License-Identifier: Apache-2.0
// What every program on the CPU shares: fibers, barriers, launches, memory. Built once, and linked to each.
#include <cstdarg>
#include <map>
#include <numeric>
#include <random>
#include <sys/mman.h>

#include <cuda_runtime.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace host_cuda {

void fail(const char* format, ...) {
  std::va_list rest;
  va_start(rest, format);
  std::fflush(stdout);
  std::fprintf(stderr, "host_cuda: ");
  std::vfprintf(stderr, format, rest);
  std::fprintf(stderr, " (block %u,%u,%u thread %u,%u,%u)\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
               threadIdx.y, threadIdx.z);
  std::_Exit(97);
}

// Saves what a call preserves on the stack, changes stacks, and restores it there.
extern "C" void host_cuda_switch(void** from, void* to);
asm(R"(
.text
.globl host_cuda_switch
.weak host_cuda_switch
host_cuda_switch:
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

constexpr std::size_t kStack = 256 << 10, kDynamicShared = 228 << 10;
constexpr int kMostThreads = 1024;

struct Fiber {
  void* at = nullptr;
  char* stack = nullptr;
  uint3 thread{};
  int linear = 0;
  bool done = true;
  unsigned barriers = 0;
};

struct Warp {
  unsigned exited = 0;
  std::map<unsigned, Meeting> meetings;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  int threads = 0, alive = 0, waiting = 0;
  unsigned generation = 0;
  int counted = 0, result[2] = {0, 0};
  void* scheduler = nullptr;
  Fiber* current = nullptr;
  Body body{};
};

Block block;
std::mt19937 order{[] { const char* s = std::getenv("HOST_CUDA_ORDER"); return s ? unsigned(std::atoi(s)) : 0u; }()};
bool shuffled = std::getenv("HOST_CUDA_ORDER") && std::atoi(std::getenv("HOST_CUDA_ORDER")) != 0;
alignas(1024) unsigned char dynamic_shared[kDynamicShared];

void yield() {
  Fiber* self = block.current;
  host_cuda_switch(&self->at, block.scheduler);
}

void started() {
  Fiber* self = block.current;
  block.body.call(block.body.with);
  self->done = true;
  block.alive--;
  block.warps[self->linear / 32].exited |= 1u << (self->linear % 32);
  yield();
  std::abort();
}

void prepare(Fiber& fiber) {
  if (!fiber.stack) {
    void* memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for stacks");
    fiber.stack = static_cast<char*>(memory);
  }
  auto top = reinterpret_cast<std::uintptr_t>(fiber.stack + kStack) & ~std::uintptr_t(15);
  auto* frame = reinterpret_cast<void**>(top - 16);
  frame[0] = reinterpret_cast<void*>(&started);
  frame[1] = nullptr;
  frame -= 6;
  std::memset(frame, 0, 6 * sizeof(void*));
  fiber.at = frame;
  fiber.done = false;
  fiber.barriers = 0;
}

// Whether every thread that is left waits at the barrier: then it opens.
void open_barrier() {
  if (block.alive > 0 && block.waiting == block.alive) {
    block.result[block.generation & 1] = block.counted;
    block.counted = 0;
    block.waiting = 0;
    block.generation++;
  }
}

int barrier(int predicate) {
  Fiber* self = block.current;
  self->barriers++;
  block.counted += predicate != 0;
  block.waiting++;
  unsigned mine = block.generation;
  open_barrier();
  while (block.generation == mine) yield();
  return block.result[mine & 1];
}

unsigned threads() { return unsigned(block.threads); }
int alive() { return block.alive; }
unsigned rank() { return unsigned(block.current->linear); }
unsigned lane() { return rank() % 32; }
Warp& warp() { return block.warps[block.current->linear / 32]; }

const Meeting& meet(unsigned mask, const void* value, std::size_t bytes, unsigned& mine) {
  Warp& here = warp();
  unsigned left = unsigned(block.threads) - unsigned(block.current->linear / 32) * 32;
  unsigned counted = mask & (left >= 32 ? ~0u : (1u << left) - 1);
  if (!(mask >> lane() & 1)) fail("a warp function's mask %08x leaves out its own lane %u", mask, lane());
  Meeting& meeting = here.meetings[counted];
  mine = meeting.generation;
  if (!meeting.arrived) std::memset(meeting.values[mine & 1], 0xff, sizeof meeting.values[0]);
  std::memcpy(meeting.values[mine & 1][lane()], value, bytes);
  meeting.arrived |= 1u << lane();
  while (meeting.generation == mine) {
    if (meeting.arrived == (counted & ~here.exited)) {
      meeting.there[mine & 1] = meeting.arrived;
      meeting.arrived = 0;
      meeting.generation++;
      break;
    }
    yield();
  }
  return meeting;
}

void run_block(dim3 shape, Body body) {
  int threads = int(shape.x * shape.y * shape.z);
  if (int(block.fibers.size()) < kMostThreads) block.fibers.resize(kMostThreads);
  block.warps.assign((threads + 31) / 32, Warp{});
  block.threads = block.alive = threads;
  block.waiting = block.counted = 0;
  block.body = body;
  std::vector<int> turns(threads);
  std::iota(turns.begin(), turns.end(), 0);
  if (shuffled) std::shuffle(turns.begin(), turns.end(), order);
  for (int i = 0; i < threads; i++) {
    Fiber& fiber = block.fibers[i];
    prepare(fiber);
    fiber.linear = i;
    fiber.thread = {i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
  }
  for (long idle = 0; block.alive > 0; idle++) {
    int before = block.alive;
    unsigned generation = block.generation;
    for (int turn : turns) {
      Fiber& fiber = block.fibers[turn];
      if (fiber.done) continue;
      block.current = &fiber;
      threadIdx = fiber.thread;
      host_cuda_switch(&block.scheduler, fiber.at);
    }
    open_barrier();
    if (block.alive < before || block.generation != generation) idle = 0;
    if (idle > 2000000) fail("the block makes no progress: a barrier or warp function waits for ever");
  }
}

std::size_t dynamic_limit = 48 << 10;
cudaError_t last = cudaSuccess;
std::map<void*, std::pair<void*, std::size_t>> allocations;

cudaError_t allocate(void** out, std::size_t bytes) {
  constexpr std::size_t page = 4096;
  if (!bytes) { *out = nullptr; return cudaSuccess; }
  // Its end lies where its page ends, as near as what vectors are aligned to allows; no page follows.
  std::size_t held = (bytes + 15) & ~std::size_t(15), pages = (held + page - 1) / page * page;
  char* memory = static_cast<char*>(mmap(nullptr, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) return last = cudaErrorMemoryAllocation;
  mprotect(memory + page, pages, PROT_READ | PROT_WRITE);
  std::memset(memory + page, 0xA5, pages);
  *out = memory + page + pages - held;
  allocations[*out] = {memory, pages + 2 * page};
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  auto found = allocations.find(pointer);
  if (!pointer) return cudaSuccess;
  if (found == allocations.end()) return last = cudaErrorInvalidValue;
  munmap(found->second.first, found->second.second);
  allocations.erase(found);
  return cudaSuccess;
}

void Configured::operator()(Body body) const {
  std::size_t threads = std::size_t(shape.x) * shape.y * shape.z, blocks = std::size_t(grid.x) * grid.y * grid.z;
  bool fits = threads > 0 && threads <= 1024 && shape.z <= 64 && blocks > 0 && grid.y <= 65535 && grid.z <= 65535;
  if (!fits || shared > dynamic_limit) { last = cudaErrorInvalidConfiguration; return; }
  gridDim = grid;
  blockDim = shape;
  std::vector<std::size_t> turns(blocks);
  std::iota(turns.begin(), turns.end(), std::size_t(0));
  if (shuffled) std::shuffle(turns.begin(), turns.end(), order);
  for (std::size_t turn : turns) {
    blockIdx = {unsigned(turn % grid.x), unsigned(turn / grid.x % grid.y), unsigned(turn / grid.x / grid.y)};
    std::memset(dynamic_shared, 0xA5, shared);
    run_block(shape, body);
  }
}

}  // namespace host_cuda
