// SPDX-License-Identifier: Apache-2.0
// What right means for a stretch of memory: bitwise, or per floating-point element within what rounding can do
// (see `rounding.h`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "bounds.h"
#include "job.h"

namespace warplens {

// Large buffers are written once, by what fills them, and by several threads: a vector's own zeros would be a pass of
// one thread over memory that nothing has touched yet.
// In large pages, where the system has such: of small ones the first write to each costs as much as copying it.
void* large_or_small(std::size_t bytes);

template <class T>
struct Unset : std::allocator<T> {
    template <class U>
    struct rebind {
        using other = Unset<U>;
    };
    template <class U>
    void construct(U* at) noexcept { ::new (static_cast<void*>(at)) U; }
    template <class U, class... Values>
    void construct(U* at, Values&&... values) { ::new (static_cast<void*>(at)) U(std::forward<Values>(values)...); }
    T* allocate(std::size_t count) { return static_cast<T*>(large_or_small(count * sizeof(T))); }
    void deallocate(T* at, std::size_t) noexcept { std::free(at); }
};
using Bytes = std::vector<std::uint8_t, Unset<std::uint8_t>>;
Bytes copied(const Bytes& bytes);
using Floats = std::vector<float, Unset<float>>;

std::size_t element_size(Element element);   // 1 for `other` and `integer`: compared as bytes
bool is_floating(Element element);
double load(Element element, const std::uint8_t* at);
double large(Element element);                // a quarter of the largest finite value
void store(Element element, std::uint8_t* at, double value);  // floats only
// Whether the contents hold the same elements, in whatever order, but for a chance of 2^-64. No proof against whoever
// chooses the contents: `compare` sorts.
bool same_elements(std::size_t unit, const std::uint8_t* a, const std::uint8_t* b, std::size_t size);

// The right contents of a stretch under one set of inputs.
struct Expected {
    Element element = Element::other;
    std::size_t whole = 0;             // bytes of one element as it is declared, of all of a float4; 0: not known
    Bytes bytes;
    // Per element: 1 where the baseline writes it under some inputs. One mask for all inputs.
    std::shared_ptr<std::vector<std::uint8_t>> written;
    std::vector<float> spread;         // per element, of repeats; empty: the repeats were bitwise equal
    Floats magnitude;                  // A per element; empty: not estimated
    Floats bend;                       // B per element, estimated with A
    std::vector<Pool> pools;           // by size of the result; empty until `settle`
    std::vector<float> common;         // C, by index modulo its length; empty until `settle`
    bool repeats = true;               // the baseline's repeats agree, floats within rounding
    bool leftover = false;             // they do not where shared memory and registers hold something else before
    bool precise = true;               // how coarsely all is rounded is judged, beside each result
    bool widened = false;              // doubles that come of computed floats: the unit roundoff is theirs
    bool alike = false;                // terms are, so that roundings may all go one way
    bool filtered = false;             // of those, where nothing is NaN or infinite: so it has to stay
    bool odd = false;                  // only where it is NaN or infinite says something: so it has to be
    std::vector<std::uint8_t> apart;   // of those, per element: whether it is the same whatever stands for NaN and infinity
    bool told = false;                 // of those, where it is finite so much says more: the kernel asks what is NaN
    bool partial = false;              // results that overflow, or nearly, say nothing; all others do
    // What the results come to where they are added up in parts, per element; empty where that says nothing. Who is
    // about as near to it as the baseline is right.
    std::vector<double> reference;
    bool unordered = false;            // they do not, but hold the same elements in another order
    // Of those: by the place before each element, how many repeats had other elements up to there; of so many repeats.
    std::vector<std::uint16_t> crossed;
    std::uint16_t orders = 0;
    std::vector<std::size_t> bounds;   // elements before which nothing of what lies behind is ever put, and reversely
};

// F and L, the same for every stretch of a launch.
struct Tolerance {
    double factor = 8, length = 1;
    double terms = 1;                  // of the longest sum there can be, which many results may share, as those of a row do
    double lowered = 0;                // relative error of each term that an allowed lower precision may leave; 0: none
};

struct Difference {
    double ratio = 0;                  // largest difference in units of its bound; 0 when bitwise equal
    double relative = 0;               // ||got - expected|| / ||expected||, floats only
    std::uint64_t wrong = 0, stray = 0;  // elements beyond their bound; changed though the baseline never writes them
    std::uint64_t beyond = 0;          // of the wrong: those that an allowed lower precision does not explain
    std::uint64_t whole = 0;           // of the wrong: bytes of what is no float
    std::uint64_t nan = 0;             // NaN or infinity on one side only
    std::size_t first = SIZE_MAX;      // byte offset of the first wrong element
    bool scale = false;                // the norm is off by half or more: zeros, stale or missing results
    bool blind = false;                // it is, but each element is no larger than its rounding error
    bool coarse = false;               // within their bounds, but rounded more coarsely than the baseline's
    bool elsewhere = false;            // the same elements in another order, but beyond bounds that none has crossed
    bool as_floats = false;            // of unknown type, unequal, but within the bound when read as floats

    // All that is wrong is explained by an allowed lower precision.
    bool lowered() const { return wrong + coarse && !(elsewhere || beyond || stray || nan || scale || blind || as_floats); }
    bool right() const { return !elsewhere && !wrong && !stray && !nan && !scale && !blind && !coarse; }
    void merge(const Difference& other);
};

// Bytes of an element that keeps together wherever it lies.
std::size_t unit_of(const Expected& expected);
Difference compare(const Expected& expected, const std::uint8_t* got, const Tolerance& tolerance);
// The same of what the card has counted, with how many results have jumped by pool; not where the first wrong one lies.
Difference difference_of(const Share& share, const std::map<std::size_t, std::uint64_t>& jumps, const Expected& expected);

// An array whose elements are the rows' fields of one kind.
struct Column {
    const std::uint8_t* bytes;
    std::size_t width, count;
};
// Whether two tables hold the same rows, in whatever order: as many as the shortest column has.
bool same_rows(const std::vector<Column>& a, const std::vector<Column>& b);
// An array of 32-bit places, and one that they lead into.
struct Link {
    Column places, rows;
};
// Whether the places of two such lead to the same, each in its turn; not where some lead nowhere.
bool same_ends(const Link& a, const Link& b);
// Whether they lead to more than one thing: flags that all lead to equal rows are no places.
bool ends_differ(const Link& link);

// Counts one more order of the baseline's, and finds the bounds once there are enough.
void add_order(Expected& expected, const std::uint8_t* run);
void find_bounds(Expected& expected);

// Marks the elements that differ between the contents before and after a run.
void mark_written(std::vector<std::uint8_t>& written, Element element, const std::uint8_t* before,
                  const std::uint8_t* after);
// Replaces the written elements by values of the same kind and of no telling size; random by `seed`.
void poison(Element element, std::uint8_t* bytes, const std::vector<std::uint8_t>& written, std::uint64_t seed);
// Makes the written floats four times as large as the largest finite result, where the type has such, and keeps their signs.
void outgrow(const Expected& expected, std::uint8_t* bytes, const std::vector<std::uint8_t>& written);
// Whether every element is that of one of two others.
bool same_as_one_of(std::size_t unit, std::size_t size, const std::uint8_t* now, const std::uint8_t* one, const std::uint8_t* other);
// Leaves of the floats that are marked those which are finite and as they were expected.
void keep_apart(const Expected& expected, const std::uint8_t* now, std::vector<std::uint8_t>& apart);
// How many elements are NaN, infinite, or so large that another order of adding might make them so; only the last of
// these where the others `mean` something.
std::uint64_t count_unclean(Element element, const std::uint8_t* bytes, std::size_t size, bool mean = false);

}  // namespace warplens
