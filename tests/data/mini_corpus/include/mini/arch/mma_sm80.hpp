#pragma once

#include <cstdint>

namespace mini {

// Multiply 16x8x16, half by half into float
struct SM80_16x8x16_F32F16F16F32_TN {
  using DRegisters = float[4];
  using ARegisters = uint32_t[4];

  CUTE_HOST_DEVICE static void fma(float& d0, uint32_t const& a0, uint32_t const& b0) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0}, {%1}, {%2}, {%0};\n"
        : "+f"(d0)
        : "r"(a0), "r"(b0));
  }
};

template <class Operation>
struct MMA_Traits;

template <>
struct MMA_Traits<SM80_16x8x16_F32F16F16F32_TN> {
  using ValTypeD = float;
};

}  // namespace mini
