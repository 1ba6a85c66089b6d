#pragma once

/*! \file
    \brief Layouts: functions from coordinates to offsets.
*/

namespace mini {

/// A shape and a stride.
template <class Shape, class Stride>
class Layout {
 public:
  /// Number of elements of the layout.
  CUTE_HOST_DEVICE constexpr auto size() const { return size_; }

 private:
  int size_ = 0;
};

/// Make a layout from a shape and a stride.
template <class Shape, class Stride>
CUTE_HOST_DEVICE constexpr auto make_layout(Shape const& shape, Stride const& stride) {
  return Layout<Shape, Stride>{};
}

/// XOR-swizzles addresses to avoid shared memory bank conflicts.
template <int Bits, int Base, int Shift>
struct Swizzle {
  template <class Offset>
  CUTE_HOST_DEVICE static constexpr auto apply(Offset const& offset) {
    return offset ^ ((offset >> Shift) & ((1 << Bits) - 1));
  }
};

enum class Major { K, MN };

template <class T>
concept Integral = requires(T t) { t + 1; };

#define MINI_VERSION(major, minor) ((major) * 100 + (minor))

}  // namespace mini
