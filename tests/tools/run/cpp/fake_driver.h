// As much of the CUDA driver as the probe's oracle calls, on the host: device memory is the process's own, a launch
// runs a function at once.
#pragma once

#include <cuda.h>

#include <functional>
#include <string>
#include <vector>

#include "launch.h"

namespace fake {

struct Kernel {
    std::string name;
    std::function<void(void** arguments)> run;
    std::vector<warplens::ParameterPlace> parameters;

    CUfunction handle() { return reinterpret_cast<CUfunction>(this); }
};

}  // namespace fake
