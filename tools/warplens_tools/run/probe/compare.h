// What right means for a stretch of memory: bitwise, or per floating-point element within a bound.
//
// The bound of an element with expected value R:
//
//   F * u * sqrt(L) * max(|R|, A) + 4 * spread      (and 4 u |R| at least for 16-bit results)
//
// u is the unit roundoff of the arithmetic (2^-24 for float and for 16-bit results, 2^-53 for double), L the
// longest reduction that the launch's time allows per result, so that u * sqrt(L) is the drift of a random walk
// of roundings (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8), A the magnitude of what the
// result was summed from, estimated by moving the inputs (a sum that cancels has A far above |R|), and the
// spread is the baseline's own over equal inputs. F is the job's tolerance_factor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "job.h"

namespace warplens {

std::size_t element_size(Element element);   // 1 for `other` and `integer`: compared as bytes
bool is_floating(Element element);
double unit_roundoff(Element element);       // of arithmetic on it, see above
double input_move(Element element);          // relative move of inputs that estimates A
double load(Element element, const std::uint8_t* at);

// The right contents of a stretch under one set of inputs.
struct Expected {
    Element element = Element::other;
    std::vector<std::uint8_t> bytes;
    // Per element: 1 where the baseline writes it under some inputs. One mask for all inputs.
    std::shared_ptr<std::vector<std::uint8_t>> written;
    std::vector<float> spread;         // per element, of repeats; empty: the repeats were bitwise equal
    std::vector<float> magnitude;      // A per element; empty: not estimated
    bool repeats = true;               // the baseline's repeats agree, floats within rounding
    bool unordered = false;            // they do not, but hold the same elements in another order
};

// L and F, the same for every stretch of a launch.
struct Tolerance {
    double factor = 8, length = 1;
};

struct Difference {
    double ratio = 0;                  // largest difference in units of its bound; 0 when bitwise equal
    double relative = 0;               // ||got - expected|| / ||expected||, floats only
    std::uint64_t wrong = 0, stray = 0;  // elements beyond their bound; changed though the baseline never writes them
    std::uint64_t nan = 0;             // NaN or infinity on one side only
    std::size_t first = SIZE_MAX;      // byte offset of the first wrong element
    bool scale = false;                // the norm is off by half or more: zeros, stale or missing results
    bool as_floats = false;            // of unknown type, unequal, but within the bound when read as floats

    bool right() const { return !wrong && !stray && !nan && !scale; }
    void merge(const Difference& other);
};

Difference compare(const Expected& expected, const std::uint8_t* got, const Tolerance& tolerance);

// Adds one more run of the baseline on equal inputs.
void add_repeat(Expected& expected, const std::uint8_t* run);
// Decides, once magnitudes are known, whether a spread is rounding or another order of the elements.
void judge_spread(Expected& expected, const Tolerance& tolerance);
// Adds one run on moved inputs; `total` runs make the estimate of A.
void add_moved(Expected& expected, const std::uint8_t* run, int total);
// Marks the elements that differ between the contents before and after a run.
void mark_written(std::vector<std::uint8_t>& written, Element element, const std::uint8_t* before,
                  const std::uint8_t* after);
// Replaces the written elements by values of the same kind and of no telling size; random by `seed`.
void poison(Element element, std::uint8_t* bytes, const std::vector<std::uint8_t>& written, std::uint64_t seed);
// How many elements are NaN or infinite.
std::uint64_t count_unclean(Element element, const std::uint8_t* bytes, std::size_t size);

}  // namespace warplens
