// As much of the CUDA driver as the probe's oracle calls, on the host: device memory is the process's own, a launch
// runs a function at once.
#pragma once

#include <cuda.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launch.h"

namespace fake {

struct Kernel {
    std::string name;
    std::function<void(void** arguments)> run;
    std::vector<warplens::ParameterPlace> parameters;
    std::string module = "";

    CUfunction handle() { return reinterpret_cast<CUfunction>(this); }
};

// The driver's CUDA version.
extern int version;
// Bytes that cuMemGetInfo calls free.
extern std::size_t free_memory;
// What cuGetProcAddress gives: by name, the version that brought the function, and the function.
std::map<std::string, std::map<int, void*>>& entries();
// Kernels that modules have, beside the probe's own, by name.
std::map<std::string, Kernel*>& functions();
// The variables of modules, by the module's path.
using Variables = std::map<std::string, std::vector<float>>;
std::map<std::string, Variables>& variables();
// Whether launch calls make the launch that their callback changed them to.
extern bool takes_other_parameters;
// The configuration of the launch that is running now.
extern const CUlaunchConfig* launching;
// And its grid.
extern unsigned grid[3];

}  // namespace fake
