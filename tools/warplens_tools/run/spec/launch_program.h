// SPDX-License-Identifier: Apache-2.0
// What a generated program does around the launches of its kernels: arrays that are filled by seed, checked CUDA
// calls, comparison with a reference on the host, checksums. Host code only, C++17.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace warplens_launch {

[[noreturn]] inline void fail(const char* kernel, const char* what, const char* why)
{
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s: %s\n", kernel, what, why);
    std::exit(1);
}

inline void check(cudaError_t status, const char* kernel, const char* what)
{
    if (status != cudaSuccess) fail(kernel, what, cudaGetErrorString(status));
}

// ---- element types ----

/// A kernel's address without what its declaration says of default arguments.
template <class R, class... P> R (*plain(R (*kernel)(P...)))(P...) { return kernel; }

template <class F> struct ParametersOf;
template <class R, class... P> struct ParametersOf<R (*)(P...)> {
    template <std::size_t I> using At = std::tuple_element_t<I, std::tuple<P...>>;
};
/// The type of parameter `I`, as it is passed.
template <class F, std::size_t I> using Parameter = std::remove_cv_t<typename ParametersOf<F>::template At<I>>;
/// What a pointer parameter points to.
template <class F, std::size_t I> using Element = std::remove_cv_t<std::remove_pointer_t<Parameter<F, I>>>;

/// Members of the file's own structs; specialised by the generated program.
template <class T> struct Members {
    static constexpr bool known = false;
};

template <class T, class = void> struct HasXy : std::false_type {};
template <class T> struct HasXy<T, std::void_t<decltype(std::declval<T&>().x), decltype(std::declval<T&>().y)>>
    : std::bool_constant<sizeof(T) % sizeof(std::declval<T&>().x) == 0> {};
template <class T, class = void> struct HasX : std::false_type {};
template <class T> struct HasX<T, std::void_t<decltype(std::declval<T&>().x)>>
    : std::bool_constant<sizeof(T) == sizeof(std::declval<T&>().x)> {};

/// Floating-point types of libraries, such as __half: made from float, and read as one.
template <class T> constexpr bool is_small_float =
    std::is_class_v<T> && !Members<T>::known && sizeof(T) <= 8 && std::is_constructible_v<T, float>
    && std::is_constructible_v<float, T>;
template <class T> constexpr bool is_floating = std::is_floating_point_v<T> || is_small_float<T>;
template <class T> constexpr bool is_parts = !is_floating<T> && (HasXy<T>::value || HasX<T>::value);

/// Calls `f` with every number of an element.
template <class T, class F> void each_number(T& value, F&& f)
{
    if constexpr (std::is_array_v<T>) {
        for (auto& part : value) each_number(part, f);
    } else if constexpr (std::is_arithmetic_v<T> || is_small_float<T>) {
        f(value);
    } else if constexpr (Members<T>::known) {
        Members<T>::each(value, [&](auto& part) { each_number(part, f); });
    } else if constexpr (is_parts<T>) {
        auto* part = &value.x;
        for (std::size_t i = 0; i < sizeof(T) / sizeof(*part); ++i) each_number(part[i], f);
    } else {
        static_assert(sizeof(T) == 0,
            "warplens: values of this element type cannot be drawn; say `type` for the array, e.g. type = \"float\"");
    }
}

template <class T> constexpr double tolerance_of()
{
    if constexpr (std::is_same_v<T, double>) return 1e-10;
    else if constexpr (std::is_same_v<T, float>) return 1e-4;
    else if constexpr (is_small_float<T>) return sizeof(T) == 1 ? 0.25 : 1.0 / 64;
    else return 0.0;
}

template <class T> double number(const T& value)
{
    if constexpr (is_small_float<T>) return static_cast<double>(static_cast<float>(value));
    else return static_cast<double>(value);
}

template <class T> T from_number(double value)
{
    if constexpr (is_small_float<T>) return T(static_cast<float>(value));
    else return static_cast<T>(value);
}

// ---- what arrays are filled with ----

enum class Fill { uniform, zeros, ones, ramp, permutation };

constexpr double unset = -1.7976931348623157e308;

struct Range {
    Fill fill = Fill::uniform;
    double low = unset, high = unset;
};

/// SplitMix64 of a counter: an element's value does not depend on those before it.
inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t index)
{
    std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

template <class T> T drawn(const Range& range, std::uint64_t seed, std::uint64_t index, double share)
{
    if constexpr (std::is_same_v<T, bool>) {
        return range.fill == Fill::ones || (range.fill != Fill::zeros && (mixed(seed, index) & 1));
    } else {
        const double low = range.low != unset ? range.low : is_floating<T> ? -1.0 : 0.0;
        const double high = range.high != unset ? range.high : is_floating<T> ? 1.0 : 100.0;
        if (range.fill == Fill::ones) return from_number<T>(1.0);
        if (range.fill == Fill::ramp) return from_number<T>(low + (high - low) * share);
        const std::uint64_t bits = mixed(seed, index);
        if constexpr (is_floating<T>) {
            return from_number<T>(low + (high - low) * (static_cast<double>(bits >> 11) * 0x1p-53));
        } else {
            const double wide = high - low + 1.0;
            return wide >= 1.0 ? from_number<T>(low + std::fmod(static_cast<double>(bits >> 11), wide)) : from_number<T>(low);
        }
    }
}

template <class T> void fill(T* data, std::size_t count, const Range& range, std::uint64_t seed)
{
    if (range.fill == Fill::zeros || count == 0) {
        std::memset(static_cast<void*>(data), 0, count * sizeof(T));
        return;
    }
    if (range.fill == Fill::permutation) {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>(i);
            for (std::size_t i = count; i-- > 1;) std::swap(data[i], data[mixed(seed, i) % (i + 1)]);
            return;
        }
    }
    std::uint64_t index = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.0;
        each_number(data[i], [&](auto& part) { part = drawn<std::decay_t<decltype(part)>>(range, seed, index++, share); });
    }
}

// ---- how a program is run ----

/// `--inputs FOLDER`: write what the first launches get, and launch nothing. `--expected FOLDER`: compare what they leave
/// with what lies there.
struct Options {
    const char* inputs = nullptr;
    const char* expected = nullptr;
};

inline Options& options()
{
    static Options the;
    return the;
}

inline void read_options(int argc, char** argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!std::strcmp(argv[i], "--inputs")) options().inputs = argv[i + 1];
        if (!std::strcmp(argv[i], "--expected")) options().expected = argv[i + 1];
    }
}

inline std::string file_of(const char* folder, const char* launch, const char* name)
{
    return std::string(folder) + "/" + launch + "-" + name;
}

/// A number that Python gets beside the arrays.
template <class T> void save_number(const char* kernel, const char* launch, const char* name, const T& value)
{
    if constexpr (std::is_arithmetic_v<T> || is_small_float<T>) {
        std::FILE* file = std::fopen(file_of(options().inputs, launch, "numbers").c_str(), "a");
        if (!file) fail(kernel, name, "cannot be written");
        std::fprintf(file, "%s %.17g\n", name, number(value));
        std::fclose(file);
    }
}

// ---- arrays ----

/// A launch to be: which kernel, and the seed of this launch.
struct Site {
    const char* kernel;
    std::uint64_t seed;
    double tolerance;
};

/// Which of a program's arrays gets which stream of random numbers.
inline std::uint64_t stream_of(const char* name)
{
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3ull;
    return hash;
}

/// An array on the device with its contents before and after a launch on the host.
template <class T> class Array {
public:
    Array(const Site& site, const char* name, std::size_t count, Range range)
        : site_(site), name_(name), count_(count), range_(range)
    {
        if (!options().inputs) check(cudaMalloc(&device_, bytes() ? bytes() : 1), site.kernel, name);
        before_ = static_cast<T*>(std::calloc(count ? count : 1, sizeof(T)));
        after_ = static_cast<T*>(std::calloc(count ? count : 1, sizeof(T)));
        if (!before_ || !after_) fail(site.kernel, name, "no host memory");
    }
    Array(const Array&) = delete;
    ~Array()
    {
        cudaFree(device_);
        std::free(before_);
        std::free(after_);
    }
    T* device() const { return static_cast<T*>(device_); }
    const T* before() const { return before_; }
    std::size_t count() const { return count_; }
    void refill(unsigned launch)
    {
        fill(before_, count_, range_, mixed(site_.seed ^ stream_of(name_), launch));
        if (!options().inputs)
            check(cudaMemcpy(device_, before_, bytes(), cudaMemcpyHostToDevice), site_.kernel, name_);
    }
    /// Writes what the launch gets, every number as a double.
    void save(const char* launch)
    {
        std::FILE* file = std::fopen(file_of(options().inputs, launch, name_).c_str(), "wb");
        if (!file) fail(site_.kernel, name_, "cannot be written");
        for (std::size_t i = 0; i < count_; ++i)
            each_number(before_[i], [&](auto& part) {
                const double value = number(part);
                std::fwrite(&value, sizeof value, 1, file);
            });
        std::fclose(file);
    }
    /// Compares what the launch left with a file of doubles, where there is one.
    void compare_saved(const char* launch)
    {
        std::FILE* file = std::fopen(file_of(options().expected, launch, (std::string(name_) + ".expected").c_str()).c_str(), "rb");
        if (!file) return;
        std::vector<double> expected;
        for (double value; std::fread(&value, sizeof value, 1, file) == 1;) expected.push_back(value);
        std::fclose(file);
        fetch();
        compare_numbers(expected);
    }
    void fetch() { check(cudaMemcpy(after_, device_, bytes(), cudaMemcpyDeviceToHost), site_.kernel, name_); }
    /// Ends the program where the launch left something else than `expected`.
    template <class W> void compare(const std::vector<W>& expected) const
    {
        std::vector<double> numbers;
        for (const W& element : expected)
            each_number(const_cast<W&>(element), [&](auto& part) { numbers.push_back(number(part)); });
        compare_numbers(numbers);
    }
    void compare_numbers(const std::vector<double>& expected) const
    {
        double scale = 0.0;
        std::size_t finite = 0, k = 0;
        for (double value : expected)
            if (std::isfinite(value)) scale += std::fabs(value), ++finite;
        scale = finite ? scale / static_cast<double>(finite) : 0.0;
        for (std::size_t i = 0; i < count_; ++i) {
            each_number(after_[i], [&](auto& part) {
                using P = std::decay_t<decltype(part)>;
                if (k >= expected.size()) fail(site_.kernel, name_, "the reference gives fewer numbers");
                const double is = number(part), should = expected[k++];
                const double most = (site_.tolerance > 0 && is_floating<P> ? site_.tolerance : tolerance_of<P>())
                    * (std::fabs(should) + scale);
                const bool same = is == should || (std::isnan(is) && std::isnan(should)) || std::fabs(is - should) <= most;
                if (!same) {
                    char said[200];
                    std::snprintf(said, sizeof said, "%s[%zu] is %.9g, the reference says %.9g", name_, i, is, should);
                    fail(site_.kernel, "its results are not the reference's", said);
                }
            });
        }
        if (k != expected.size()) fail(site_.kernel, name_, "the reference gives more numbers");
    }
    /// Two figures that every element counts in: means of magnitudes, so that nothing cancels.
    void print() const
    {
        double plain = 0.0, placed = 0.0;
        std::uint64_t index = 0;
        for (std::size_t i = 0; i < count_; ++i)
            each_number(after_[i], [&](auto& part) {
                const double value = std::fabs(number(part));
                plain += value;
                placed += value * (0.5 + 0.5 * static_cast<double>(mixed(7, index++) >> 11) * 0x1p-53);
            });
        std::printf("%s %s %.6e %.6e\n", site_.kernel, name_, plain, placed);
    }

private:
    std::size_t bytes() const { return count_ * sizeof(T); }
    Site site_;
    const char* name_;
    std::size_t count_;
    Range range_;
    void* device_ = nullptr;
    T *before_ = nullptr, *after_ = nullptr;
};

/// Pointers to `count` arrays, on the device.
template <class T> class Table {
public:
    Table(const Site& site, const char* name, std::size_t count, std::size_t each, Range range)
        : data_(site, name, count * each, range), count_(count)
    {
        check(cudaMalloc(&device_, count * sizeof(T*)), site.kernel, name);
        std::vector<T*> rows(count);
        for (std::size_t i = 0; i < count; ++i) rows[i] = data_.device() + i * each;
        check(cudaMemcpy(device_, rows.data(), count * sizeof(T*), cudaMemcpyHostToDevice), site.kernel, name);
    }
    ~Table() { cudaFree(device_); }
    T** device() const { return static_cast<T**>(device_); }
    void refill(unsigned launch) { data_.refill(launch); }
    void fetch() { data_.fetch(); }
    void print() const { data_.print(); }

private:
    Array<T> data_;
    std::size_t count_;
    void* device_ = nullptr;
};

/// Fills a `__constant__` or `__device__` array.
template <class S> void fill_symbol(const Site& site, const S& symbol, const char* name, Range range, unsigned launch)
{
    using T = std::remove_cv_t<std::remove_all_extents_t<S>>;
    std::vector<T> values(sizeof(S) / sizeof(T));
    fill(values.data(), values.size(), range, mixed(site.seed ^ stream_of(name), launch));
    check(cudaMemcpyToSymbol(symbol, values.data(), sizeof(S)), site.kernel, name);
}

/// Lets a kernel have as much dynamic shared memory as the card gives.
template <class K> void allow_shared(const Site& site, K kernel)
{
    int device = 0, most = 0;
    cudaFuncAttributes attributes{};
    check(cudaGetDevice(&device), site.kernel, "shared memory");
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), site.kernel, "shared memory");
    check(cudaFuncGetAttributes(&attributes, kernel), site.kernel, "shared memory");
    most -= static_cast<int>(attributes.sharedSizeBytes);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), site.kernel, "shared memory");
}

// ---- references ----

template <class T> using Doubled = std::conditional_t<is_floating<T>, double, T>;
template <class T> using Floated = std::conditional_t<is_small_float<T>, float, T>;

template <class W, class T> std::vector<W> converted(const Array<T>& array)
{
    std::vector<W> values(array.count());
    if constexpr (std::is_same_v<W, T>) {
        if (array.count()) std::memcpy(static_cast<void*>(values.data()), array.before(), array.count() * sizeof(T));
    } else {
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_number<W>(number(array.before()[i]));
    }
    return values;
}

template <class A, class W> void compare(const A& array, const std::vector<W>& expected)
{
    if (array.second) array.first->compare(expected);
}

template <class F, class A, std::size_t... I, class... W>
void referred(F&& f, const A& arrays, std::index_sequence<I...>, std::vector<W>... values)
{
    f(values.data()...);
    (compare(std::get<I>(arrays), values), ...);
}

/// Runs a reference on what the arrays held before the launch, in double where it takes that, and compares what it
/// leaves. `arrays` are given with whether the kernel may write to them.
template <class F, class... T> void refer(F&& f, std::pair<const Array<T>*, bool>... arrays)
{
    const auto all = std::make_tuple(arrays...);
    constexpr std::index_sequence_for<T...> each;
    if constexpr (std::is_invocable_v<F, Doubled<T>*...>) {
        referred(f, all, each, converted<Doubled<T>>(*arrays.first)...);
    } else if constexpr (std::is_invocable_v<F, Floated<T>*...>) {
        referred(f, all, each, converted<Floated<T>>(*arrays.first)...);
    } else {
        static_assert(std::is_invocable_v<F, T*...>,
            "warplens: the reference does not take the kernel's arguments; it gets host pointers in their places");
        referred(f, all, each, converted<T>(*arrays.first)...);
    }
}

template <class T> std::pair<const Array<T>*, bool> with(const Array<T>& array, bool written)
{
    return {&array, written};
}

} // namespace warplens_launch
