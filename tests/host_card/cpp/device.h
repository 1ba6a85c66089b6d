// SPDX-License-Identifier: Apache-2.0
// What translated kernels are written in: a thread's place, checked memory, the warp's meetings, PTX's arithmetic.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace card {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using u128 = unsigned __int128;
using s128 = __int128;

// All memory that device code may touch, the stacks of its threads too, lies here; the rest is the host's own.
constexpr u64 kArena = 0x7e0000000000ull, kSpan = 1ull << 38;

enum class Fault : int { none, address, misaligned, trap, assertion, unsupported };

struct Block {
    u32 ctaid[3], ntid[3], nctaid[3];
    u8* shared;
    u32 shared_bytes, dynamic_bytes;
    u64 grid;   // where the blocks of a cooperative launch wait for each other
    void* own;  // the scheduler's
};

struct Thread {
    u32 tid[3], lane, warp;
    Block* block;
    void* own;
};

// What the lanes of a mask brought to one instruction that they all take part in.
struct Meeting {
    u64 values[32];
    u32 members;
};

struct Services {
    void (*fault)(Thread*, int kind, u64 address);
    void (*barrier)(Thread*, u32 id, u32 threads, bool waits);
    u32 (*counted)(Thread*, u32 id, u32 threads, u32 value);  // how many brought a value other than 0
    const Meeting* (*meet)(Thread*, u32 mask, u64 value);
    u32 (*active)(Thread*, const void* place);
    void (*spin)(Thread*);
    int (*print)(Thread*, u64 format, u64 arguments);
    u64 (*allocate)(Thread*, u64 bytes);
    void (*release)(Thread*, u64 address);
    u64 (*clock)();
};

struct Parameter {
    u32 offset, bytes;
};

struct Kernel {
    const char* name;
    void (*entry)(Thread*, const u8*);
    u32 static_shared;
    bool meets;  // its threads wait for one another
    const Parameter* parameters;
    u32 parameter_count, most_threads;
    const char* refused;  // an instruction that is not known
};

struct Relocation {
    u32 offset;
    u8** variable;
    void (*function)();
    s64 addend;
};

struct Variable {
    const char* name;
    u64 bytes;
    u32 align;
    const u8* initial;  // nullptr: zero
    u8** address;
    const Relocation* relocations;
    u32 relocation_count;
    bool constant;
};

struct Module {
    const Kernel* kernels;
    u32 kernel_count;
    Variable* variables;
    u32 variable_count;
    const Services** services;
};

template <class To, class From>
inline To as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float f32(u32 x) { return as<float>(x); }
inline u32 bits(float x) { return as<u32>(x); }
inline double f64(u64 x) { return as<double>(x); }
inline u64 bits(double x) { return as<u64>(x); }

struct alignas(16) Quad {
    u64 low, high;
};

}  // namespace card

static const card::Services* card_services;

namespace card {

// Memory.
[[gnu::noinline, gnu::cold]] static void bad(Thread* t, u64 a, u32 bytes) {
    card_services->fault(t, static_cast<int>(a & (bytes - 1) ? Fault::misaligned : Fault::address), a);
}
inline u8* at(Thread* t, u64 a, u32 bytes) {
    if (__builtin_expect(a - kArena >= kSpan - 16 || (a & (bytes - 1)), 0)) bad(t, a, bytes);
    return reinterpret_cast<u8*>(a);
}
inline u8* shared_at(Thread* t, u32 a, u32 bytes) {
    if (__builtin_expect(u64{a} + bytes > t->block->shared_bytes || (a & (bytes - 1)), 0))
        bad(t, a & (bytes - 1) ? a : ~u64{bytes} & ~u64{15}, bytes);
    return t->block->shared + a;
}
template <class T>
inline T load(const u8* at) {
    return *reinterpret_cast<const T*>(at);
}
template <class T>
inline void store(u8* at, T value) {
    *reinterpret_cast<T*>(at) = value;
}
template <class T>
inline T load_volatile(const u8* at) {
    return *reinterpret_cast<const volatile T*>(at);
}
template <class T>
inline void store_volatile(u8* at, T value) {
    *reinterpret_cast<volatile T*>(at) = value;
}
// One thread runs at a time: an access is whole by itself.
template <class T, class Change>
inline T atomic(u8* at, Change change) {
    T& here = *reinterpret_cast<T*>(at);
    const T old = here;
    here = change(old);
    return old;
}
inline void copy_async(Thread* t, u32 to, u64 from, u32 bytes, u32 given) {
    u8* target = shared_at(t, to, bytes);
    if (given) std::memcpy(target, at(t, from, bytes), given);
    std::memset(target + given, 0, bytes - given);
}

// What a pointer to a function leads to.
inline void* called(Thread* t, u64 function) {
    if (!function || function - kArena < kSpan) bad(t, function, 1);
    return reinterpret_cast<void*>(function);
}

// Integers.
inline u32 popc(u64 x) { return __builtin_popcountll(x); }
inline u32 clz32(u32 x) { return x ? __builtin_clz(x) : 32; }
inline u32 clz64(u64 x) { return x ? __builtin_clzll(x) : 64; }
inline u32 brev32(u32 x) {
    u32 r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
    return r;
}
inline u64 brev64(u64 x) { return u64{brev32(static_cast<u32>(x))} << 32 | brev32(static_cast<u32>(x >> 32)); }
template <class T>
inline u32 bfind(T x, bool shifted) {
    using U = std::conditional_t<sizeof(T) == 8, u64, u32>;
    U u = static_cast<U>(x < 0 ? ~x : x);
    if (!u) return ~0u;
    const u32 place = sizeof(T) == 8 ? 63 - clz64(u) : 31 - clz32(static_cast<u32>(u));
    return shifted ? sizeof(T) * 8 - 1 - place : place;
}
template <class T>
inline T shl(T x, u32 by) { return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(x << by); }
template <class T>
inline T shr(T x, u32 by) {
    if (by >= sizeof(T) * 8) return x < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(x >> by);
}
inline u32 funnel_left(u32 low, u32 high, u32 by) { return static_cast<u32>((u64{high} << 32 | low) << by >> 32); }
inline u32 funnel_right(u32 low, u32 high, u32 by) { return static_cast<u32>((u64{high} << 32 | low) >> by); }
inline u32 funnel_left_clamp(u32 low, u32 high, u32 by) { return by >= 32 ? low : funnel_left(low, high, by); }
inline u32 funnel_right_clamp(u32 low, u32 high, u32 by) { return by >= 32 ? high : funnel_right(low, high, by); }
inline u32 prmt(u32 a, u32 b, u32 selector) {
    const u64 bytes = u64{b} << 32 | a;
    u32 r = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 s = selector >> 4 * i & 15;
        u32 byte = static_cast<u32>(bytes >> 8 * (s & 7) & 255);
        if (s & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}
inline u32 lop3(u32 a, u32 b, u32 c, u32 table) {
    u32 r = 0;
    for (u32 i = 0; i < 8; ++i)
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
template <class T>
inline T bfi(T from, T into, u32 start, u32 length) {
    start &= 255, length &= 255;
    if (start >= sizeof(T) * 8 || !length) return into;
    const T mask = shl<T>(length >= sizeof(T) * 8 ? static_cast<T>(-1) : static_cast<T>((T{1} << length) - 1), start);
    return (into & ~mask) | (shl<T>(from, start) & mask);
}
template <class T>
inline T bfe(T from, u32 start, u32 length) {
    constexpr u32 wide = sizeof(T) * 8;
    start &= 255, length &= 255;
    if (!length) return 0;
    const bool is_signed = static_cast<T>(-1) < 0;
    T shifted = shr<T>(from, start);
    if (start + length >= wide) return shifted;
    shifted = static_cast<T>(static_cast<std::make_unsigned_t<T>>(shifted) << (wide - length));
    (void)is_signed;
    return static_cast<T>(shifted >> (wide - length));
}
template <class T>
inline T divide(T a, T b) {
    if (!b) return static_cast<T>(-1);
    if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    return a / b;
}
template <class T>
inline T remainder(T a, T b) {
    if (!b) return a;
    if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1)) return 0;
    return a % b;
}
template <class T>
inline T high(T a, T b) {
    using W = std::conditional_t<sizeof(T) == 8, std::conditional_t<(static_cast<T>(-1) < 0), s128, u128>, s64>;
    return static_cast<T>(static_cast<W>(a) * b >> sizeof(T) * 8);
}
inline u32 high_u32(u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); }
template <class T>
inline T least(T a, T b) { return a < b ? a : b; }
template <class T>
inline T most(T a, T b) { return a > b ? a : b; }
template <class To, class From>
inline To clamped(From x) {
    const s128 low = static_cast<To>(-1) < 0 ? -(s128{1} << (sizeof(To) * 8 - 1)) : s128{0};
    const s128 top = (s128{1} << (sizeof(To) * 8 - (static_cast<To>(-1) < 0 ? 1 : 0))) - 1;
    const s128 wide = x;
    return static_cast<To>(wide < low ? low : wide > top ? top : wide);
}

}  // namespace card

#include "device_float.h"
#include "device_warp.h"
