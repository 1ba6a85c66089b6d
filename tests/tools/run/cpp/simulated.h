// Kernels as a CPU computes them in single precision: as they are, rewritten honestly, and done wrong.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "job.h"

namespace simulated {

using Array = std::vector<double>;   // values of the array's element type
using Arrays = std::vector<Array>;
// Fills the last argument, which holds what lay there before.
using Kernel = std::function<void(const Arrays&, Array&)>;

struct Program {
    std::string name;
    warplens::Element input, output;
    Arrays inputs;
    std::size_t outputs;
    double length;                   // additions that the launch has time for, per result
    Kernel baseline;
    std::vector<std::pair<std::string, Kernel>> honest, wrong;
    bool noisy = false;              // results differ from run to run
};

std::vector<Program> programs(std::uint64_t seed);
// The value with low bits that a lower precision loses, as `kernels.cu` fills them.
double filled(warplens::Element element, double value);
// The value to the five bits that every precision holds.
double shortened(double value);
// A small move of a number as `kernels.cu` makes it: halves in steps that they hold.
double moved(warplens::Element element, double value, double scale, double move);
double rounded(warplens::Element element, double value);

}  // namespace simulated
