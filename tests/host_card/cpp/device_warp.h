// SPDX-License-Identifier: Apache-2.0
// Instructions that the lanes of a warp take part in together.
#pragma once

namespace card {

inline const Meeting* meet(Thread* t, u32 mask, u64 value) { return card_services->meet(t, mask, value); }

enum class Shuffle { up, down, bfly, idx };

// PTX ISA, shfl.sync: c holds the clamp, and the mask of segments above it.
inline u32 shuffle(Thread* t, Shuffle how, u32 value, u32 by, u32 c, u32 mask, bool* valid) {
    const Meeting* m = meet(t, mask, value);
    const s32 lane = static_cast<s32>(t->lane), clamp = c & 31, segment = c >> 8 & 31, step = by & 31;
    const s32 most_lane = (lane & segment) | (clamp & ~segment), least_lane = lane & segment;
    s32 from = lane;
    bool inside = false;
    switch (how) {
        case Shuffle::up: from = lane - step, inside = from >= most_lane; break;
        case Shuffle::down: from = lane + step, inside = from <= most_lane; break;
        case Shuffle::bfly: from = lane ^ step, inside = from <= most_lane; break;
        case Shuffle::idx: from = least_lane | (step & ~segment), inside = from <= most_lane; break;
    }
    if (!inside) from = lane;
    if (valid) *valid = inside;
    // a lane outside of the mask brings nothing: what comes is undefined
    return m->members >> (from & 31) & 1 ? static_cast<u32>(m->values[from & 31]) : 0xdeadbeefu;
}
inline u32 ballot(Thread* t, bool vote, u32 mask) {
    const Meeting* m = meet(t, mask, vote);
    u32 r = 0;
    for (u32 i = 0; i < 32; ++i)
        if (m->members >> i & 1 && m->values[i]) r |= 1u << i;
    return r;
}
inline bool vote_all(Thread* t, bool vote, u32 mask) {
    const Meeting* m = meet(t, mask, vote);
    for (u32 i = 0; i < 32; ++i)
        if (m->members >> i & 1 && !m->values[i]) return false;
    return true;
}
inline bool vote_any(Thread* t, bool vote, u32 mask) { return ballot(t, vote, mask) != 0; }
inline bool vote_uni(Thread* t, bool vote, u32 mask) {
    const Meeting* m = meet(t, mask, vote);
    for (u32 i = 0; i < 32; ++i)
        if (m->members >> i & 1 && m->values[i] != static_cast<u64>(vote)) return false;
    return true;
}
inline u32 match_any(Thread* t, u64 value, u32 mask) {
    const Meeting* m = meet(t, mask, value);
    u32 r = 0;
    for (u32 i = 0; i < 32; ++i)
        if (m->members >> i & 1 && m->values[i] == value) r |= 1u << i;
    return r;
}
inline u32 match_all(Thread* t, u64 value, u32 mask, bool* same) {
    const Meeting* m = meet(t, mask, value);
    bool equal = true;
    for (u32 i = 0; i < 32; ++i)
        if (m->members >> i & 1 && m->values[i] != value) equal = false;
    if (same) *same = equal;
    return equal ? m->members : 0;
}
template <class T, class Join>
inline T reduce(Thread* t, T value, u32 mask, Join join) {
    const Meeting* m = meet(t, mask, static_cast<u64>(value));
    bool first = true;
    T r{};
    for (u32 i = 0; i < 32; ++i)
        if (m->members >> i & 1) r = first ? static_cast<T>(m->values[i]) : join(r, static_cast<T>(m->values[i])), first = false;
    return r;
}

// ldmatrix: of 8x8 matrices of 16-bit elements, whose rows' addresses eight lanes each bring, a lane's two elements.
struct Rows {
    u32 parts[4];
    Rows(Thread* t, u32 address, u32 count, bool flip) {
        const Meeting* m = meet(t, ~0u, address);
        for (u32 n = 0; n < count; ++n) {
            auto element = [&](u32 row, u32 column) {
                return load<u16>(shared_at(t, static_cast<u32>(m->values[8 * n + row]), 16) + 2 * column);
            };
            const u32 row = t->lane / 4, column = t->lane % 4 * 2;
            const u16 low = flip ? element(column, row) : element(row, column);
            const u16 high = flip ? element(column + 1, row) : element(row, column + 1);
            parts[n] = u32{high} << 16 | low;
        }
        meet(t, ~0u, 0);  // nobody writes what others still read
    }
};

// mma.sync of 16x8 results: a lane's elements are where the PTX ISA says, "Matrix fragments for mma.m16n8k...".
struct HalfPlaces {  // 16 bits each, two to a register
    static u32 row_of_a(u32 lane, u32 i) { return lane / 4 + (i / 2 % 2) * 8; }
    static u32 k_of_a(u32 lane, u32 i) { return lane % 4 * 2 + i % 2 + i / 4 * 8; }
    static u32 k_of_b(u32 lane, u32 i) { return lane % 4 * 2 + i % 2 + i / 2 * 8; }
    static constexpr u32 each = 2;
};
struct WordPlaces {  // 32 bits each
    static u32 row_of_a(u32 lane, u32 i) { return lane / 4 + i % 2 * 8; }
    static u32 k_of_a(u32 lane, u32 i) { return lane % 4 + i / 2 * 4; }
    static u32 k_of_b(u32 lane, u32 i) { return lane % 4 + i * 4; }
    static constexpr u32 each = 1;
};
struct Half16 : HalfPlaces {
    static float value(const u32* r, u32 i) { return Half::up(static_cast<u16>(r[i / 2] >> i % 2 * 16)); }
};
struct Brain16 : HalfPlaces {
    static float value(const u32* r, u32 i) { return Brain::up(static_cast<u16>(r[i / 2] >> i % 2 * 16)); }
};
struct Tf32 : WordPlaces {
    static float value(const u32* r, u32 i) { return f32(r[i] & ~0x1fffu); }
};
template <class Kind, u32 kRegistersOfA>
inline void mma(Thread* t, float* d, const u32* a, const u32* b, const float* c) {
    constexpr u32 of_a = kRegistersOfA * Kind::each, of_b = of_a / 2, depth = of_a * 32 / 16;
    const Meeting* ma = meet(t, ~0u, reinterpret_cast<u64>(a));
    float left[16][depth], right[depth][8];
    for (u32 lane = 0; lane < 32; ++lane)
        for (u32 i = 0; i < of_a; ++i)
            left[Kind::row_of_a(lane, i)][Kind::k_of_a(lane, i)] = Kind::value(reinterpret_cast<const u32*>(ma->values[lane]), i);
    const Meeting* mb = meet(t, ~0u, reinterpret_cast<u64>(b));
    for (u32 lane = 0; lane < 32; ++lane)
        for (u32 i = 0; i < of_b; ++i)
            right[Kind::k_of_b(lane, i)][lane / 4] = Kind::value(reinterpret_cast<const u32*>(mb->values[lane]), i);
    meet(t, ~0u, 0);  // nobody changes a fragment that others still read
    for (u32 i = 0; i < 4; ++i) {
        float sum = c[i];
        for (u32 k = 0; k < depth; ++k) sum += left[t->lane / 4 + i / 2 * 8][k] * right[k][t->lane % 4 * 2 + i % 2];
        d[i] = sum;
    }
}

// Fragments of wmma: whose element is whose the ISA leaves open. Here each lane holds eight in a row of the matrix,
// and a half matrix holds them twice.
constexpr u32 kSide = 16;
inline void wmma_load_half(Thread* t, u32* to, const u8* from, u32 stride, bool column) {
    for (u32 e = 0; e < 8; ++e) {
        const u32 place = t->lane * 8 + e, row = place / kSide, col = place % kSide;
        const u16 value = load<u16>(from + 2 * (column ? u64{col} * stride + row : u64{row} * stride + col));
        for (u32 copy = 0; copy < 2; ++copy) {
            u32& word = to[copy * 4 + e / 2];
            word = e % 2 ? (word & 0xffff) | u32{value} << 16 : value;
        }
    }
}
template <class T>
inline u64 wmma_place(Thread* t, u32 e, u32 stride, bool column) {
    const u32 place = t->lane * 8 + e, row = place / kSide, col = place % kSide;
    return sizeof(T) * (column ? u64{col} * stride + row : u64{row} * stride + col);
}
template <class H>
inline void wmma_mma(Thread* t, float* d, const u32* a, const u32* b, const float* c) {
    const Meeting* ma = meet(t, ~0u, reinterpret_cast<u64>(a));
    const u32* rows[32];
    for (u32 i = 0; i < 32; ++i) rows[i] = reinterpret_cast<const u32*>(ma->values[i]);
    const Meeting* mb = meet(t, ~0u, reinterpret_cast<u64>(b));
    const u32* columns[32];
    for (u32 i = 0; i < 32; ++i) columns[i] = reinterpret_cast<const u32*>(mb->values[i]);
    auto element = [](const u32* const* all, u32 row, u32 col) {
        const u32 place = row * kSide + col, e = place % 8;
        return H::up(static_cast<u16>(all[place / 8][e / 2] >> (e % 2 * 16)));
    };
    float result[8];
    for (u32 e = 0; e < 8; ++e) {
        const u32 place = t->lane * 8 + e, row = place / kSide, col = place % kSide;
        float sum = c[e];
        for (u32 k = 0; k < kSide; ++k) sum += element(rows, row, k) * element(columns, k, col);
        result[e] = sum;
    }
    meet(t, ~0u, 0);  // nobody changes a fragment that others still read
    for (u32 e = 0; e < 8; ++e) d[e] = result[e];
}

}  // namespace card
