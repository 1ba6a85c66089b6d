// SPDX-License-Identifier: Apache-2.0
// Floating-point instructions. Approximations are as far off as the PTX ISA's text allows, so that they show.
#pragma once

#include <cfenv>

namespace card {

inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// NaN loses to a number; -0 is less than +0.
template <class T>
inline T lesser(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}
template <class T>
inline T greater(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}
template <class T>
inline T lesser_nan(T a, T b) { return a != a ? a : b != b ? b : lesser(a, b); }
template <class T>
inline T greater_nan(T a, T b) { return a != a ? a : b != b ? b : greater(a, b); }
template <class T>
inline T saturated(T x) { return x > T{1} ? T{1} : x > T{0} ? x : T{0}; }

// What runs with another rounding is kept from the optimiser, which knows of one only.
template <class T, class Work>
[[gnu::noinline]] static T rounding(int mode, Work work) {
    const int before = std::fegetround();
    std::fesetround(mode);
    volatile T result = work();
    std::fesetround(before);
    return result;
}
template <class T>
inline T opaque(T x) {
    volatile T y = x;
    return y;
}
template <class T>
inline T add_in(int mode, T a, T b) { return rounding<T>(mode, [=] { return opaque(a) + opaque(b); }); }
template <class T>
inline T sub_in(int mode, T a, T b) { return rounding<T>(mode, [=] { return opaque(a) - opaque(b); }); }
template <class T>
inline T mul_in(int mode, T a, T b) { return rounding<T>(mode, [=] { return opaque(a) * opaque(b); }); }
template <class T>
inline T div_in(int mode, T a, T b) { return rounding<T>(mode, [=] { return opaque(a) / opaque(b); }); }
template <class T>
inline T sqrt_in(int mode, T a) { return rounding<T>(mode, [=] { return std::sqrt(opaque(a)); }); }
template <class T>
inline T fma_in(int mode, T a, T b, T c) {
    return rounding<T>(mode, [=] { return std::fma(opaque(a), opaque(b), opaque(c)); });
}
template <class To, class From>
inline To convert_in(int mode, From x) { return rounding<To>(mode, [=] { return static_cast<To>(opaque(x)); }); }

// To an integer that is there already as a floating-point number; NaN gives 0, or the lowest of 64 bits.
template <class To, class From>
inline To to_integer(From x) {
    if (x != x) return sizeof(To) == 8 ? static_cast<To>(u64{1} << 63) : To{0};
    constexpr bool is_signed = static_cast<To>(-1) < 0;
    constexpr int wide = sizeof(To) * 8 - is_signed;
    const From top = std::ldexp(From{1}, wide);
    if (x >= top) return static_cast<To>(is_signed ? (u64{1} << wide) - 1 : wide == 64 ? ~u64{0} : (u64{1} << (wide & 63)) - 1);
    if (x < (is_signed ? -top : From{0})) return is_signed ? static_cast<To>(u64{1} << wide) : To{0};
    return static_cast<To>(x);
}

// Some 22 of a float's 24 bits.
inline float coarse(float x) { return std::isfinite(x) ? f32(bits(x) & ~1u) : x; }
inline float ex2_approx(float x) { return coarse(std::exp2(x)); }
inline float lg2_approx(float x) {
    const float y = std::log2(x);
    return std::fabs(y) < 0.5f && std::isfinite(y) ? y + 0x1p-24f : coarse(y);
}
inline float turned(float x, float (*function)(float)) {
    if (!std::isfinite(x)) return NAN;
    const float turns = x * 0.15915494f;  // in single precision, which large angles show
    const float y = function((turns - std::nearbyint(turns)) * 6.2831853f);
    return std::nearbyint(y * 0x1p22f) * 0x1p-22f;
}
inline float sin_approx(float x) { return turned(x, [](float y) { return std::sin(y); }); }
inline float cos_approx(float x) { return turned(x, [](float y) { return std::cos(y); }); }
inline float tanh_approx(float x) { return std::isfinite(x) ? f32(bits(std::tanh(x)) & ~0xfffu) : std::tanh(x); }
inline float rsqrt_approx(float x) { return coarse(static_cast<float>(1 / std::sqrt(static_cast<double>(x)))); }
inline float rcp_approx(float x) { return coarse(1 / x); }
inline float sqrt_approx(float x) { return coarse(std::sqrt(x)); }
inline float div_approx(float a, float b) { return coarse(a / b); }
// The upper half of a double's bits alone, as the ISA says of both with `.ftz`; without it, as `rsqrt` of the math library has
// it, ptxas refines the root to a double's precision.
inline double rcp_approx(double x) { return f64(bits(1 / x) & 0xffffffff00000000ull); }
inline double rsqrt_approx(double x) { return 1 / std::sqrt(x); }
inline double rsqrt_approx_ftz(double x) { return f64(bits(1 / std::sqrt(x)) & 0xffffffff00000000ull); }

// Half and bfloat16, as their bits.
struct Half {
    static float up(u16 x) { return static_cast<float>(as<_Float16>(x)); }
    template <class T>
    static u16 down(T x) {
        if (x != x) return 0x7fff;
        return as<u16>(static_cast<_Float16>(x));
    }
};
struct Brain {
    static float up(u16 x) { return f32(u32{x} << 16); }
    static u16 down(float x) {
        if (x != x) return 0x7fff;
        const u32 b = bits(x);
        return static_cast<u16>((b + 0x7fff + (b >> 16 & 1)) >> 16);
    }
    static u16 down(double x) {  // once: to odd, then to nearest
        float single = static_cast<float>(x);
        if (static_cast<double>(single) != x && std::isfinite(single)) {
            if (std::fabs(static_cast<double>(single)) > std::fabs(x)) single = std::nextafter(single, 0.0f);
            single = f32(bits(single) | 1);
        }
        return down(single);
    }
};
template <class H, class Work>
inline u32 pairwise(u32 a, u32 b, Work work) {
    return u32{work(static_cast<u16>(a), static_cast<u16>(b))} |
           u32{work(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16))} << 16;
}
template <class H>
inline u16 small_add(u16 a, u16 b) { return H::down(H::up(a) + H::up(b)); }
template <class H>
inline u16 small_sub(u16 a, u16 b) { return H::down(H::up(a) - H::up(b)); }
template <class H>
inline u16 small_mul(u16 a, u16 b) { return H::down(H::up(a) * H::up(b)); }
template <class H>
inline u16 small_min(u16 a, u16 b) { return H::down(lesser(H::up(a), H::up(b))); }
template <class H>
inline u16 small_max(u16 a, u16 b) { return H::down(greater(H::up(a), H::up(b))); }
template <class H>
inline u16 small_min_nan(u16 a, u16 b) { return H::down(lesser_nan(H::up(a), H::up(b))); }
template <class H>
inline u16 small_max_nan(u16 a, u16 b) { return H::down(greater_nan(H::up(a), H::up(b))); }
template <class H>
inline u16 small_fma(u16 a, u16 b, u16 c) {
    return H::down(static_cast<double>(H::up(a)) * static_cast<double>(H::up(b)) + static_cast<double>(H::up(c)));
}
template <class H>
inline u16 small_relu(u16 a) { return a & 0x8000 && H::up(a) == H::up(a) ? 0 : a; }
template <class H>
inline u16 small_sat(u16 a) { return H::down(saturated(H::up(a))); }
template <class H>
inline u32 pair_fma(u32 a, u32 b, u32 c) {
    return u32{small_fma<H>(static_cast<u16>(a), static_cast<u16>(b), static_cast<u16>(c))} |
           u32{small_fma<H>(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16), static_cast<u16>(c >> 16))} << 16;
}
inline u32 packed(u16 high, u16 low) { return u32{high} << 16 | low; }
// TF32: ten bits of fraction, ties away from zero.
inline u32 tf32(float x) { return x != x ? 0x7fffffffu : (bits(x) + 0x1000u) & ~0x1fffu; }

}  // namespace card
