// SPDX-License-Identifier: Apache-2.0
// A kernel launch as the program makes it, and a candidate's in its place.
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "job.h"
#include "memory.h"

namespace warplens {

struct Launch {
    CUfunction function = nullptr;
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
    std::vector<CUlaunchAttribute> attributes;  // those that say what runs, not when
    void** parameters = nullptr;
    void** extra = nullptr;
    CUstream stream = nullptr;                  // the program's
    bool cooperative = false;
    const GridRule* rule = nullptr;             // by which its host code sets the grid; null where that is not known

    void go(CUstream on) const;                 // throws DriverError
};

// Attributes of a launch that say what runs, not when.
const std::vector<CUlaunchAttributeID>& attributes_of_kernels();

// Whether what goes on the stream now goes into a graph.
bool is_capturing(CUstream stream);

// The launch's function as a CUfunction of the current context. Handles that the program got from
// cuModuleGetFunction are one already.
CUfunction loaded(CUfunction handle, bool from_module);

bool has_shape(const Launch& launch, const Shape& shape);

// Whether a launch's grid is what covers a length in blocks along that axis.
bool covers(const Launch& launch, unsigned axis, std::int64_t length);
// Whether a grid of its own follows from numbers that the launch is given, as the original's does: a length that the
// original's grid covers in blocks. Then it is what the program would make of the `second` of each.
// With `grows` also of larger ones, which take memory that the program has not.
bool follow(Launch& launch, const Launch& baseline, const std::vector<std::pair<std::int64_t, std::int64_t>>& numbers, bool grows = false);

// Mangled; "" where the driver cannot tell.
std::string name_of(CUfunction function);

struct ParameterPlace {
    std::size_t offset, bytes;
    bool operator==(const ParameterPlace& o) const { return offset == o.offset && bytes == o.bytes; }
};
// Throws std::runtime_error where the driver cannot tell.
std::vector<ParameterPlace> signature(CUfunction function);
// The 8 bytes of a parameter as an address; 0 if it is not that wide.
CUdeviceptr pointer_argument(const Launch& launch, const std::vector<ParameterPlace>& places, std::size_t index);

// Why a candidate cannot be launched at all.
struct Refused : std::runtime_error {
    Refused(const char* state, const std::string& why) : std::runtime_error(why), state(state) {}
    const char* state;  // a verdict's: "refused" or "illegal"
};

// A candidate's module, loaded beside the program's.
class Loaded {
   public:
    Loaded(const Candidate& candidate, const Launch& baseline, Memory& memory);
    ~Loaded();
    Loaded(const Loaded&) = delete;
    Loaded& operator=(const Loaded&) = delete;

    const Launch& launch() const { return launch_; }
    // Stands for another launch of the baseline, with its arguments; memory's blocks may have changed.
    void adapt(const Launch& baseline);
    // The program's variables into the candidate's twins of them, and back.
    void carry_in(CUstream stream) const { carry(stream, true); }
    void carry_out(CUstream stream) const { carry(stream, false); }
    // Makes the blocks that have a twin among its variables stand for the twins, until Memory::unbind.
    void bind();
    // Puts the variables that only it has back to what they were when it was loaded.
    void reset(CUstream stream);
    // What a variable holds now. Throws DriverError.
    std::vector<std::uint8_t> contents(const std::string& name) const;

   private:
    struct Own {
        CUdeviceptr at;
        std::vector<std::uint8_t> contents;
    };
    struct Twin {
        CUdeviceptr live, at;
        std::size_t bytes;
    };
    void carry(CUstream stream, bool in) const;
    void set_geometry(const Launch& baseline);
    void set_attributes(const Launch& baseline);
    void find_variables();

    Candidate candidate_;
    CUmodule module_ = nullptr;
    CUfunction function_ = nullptr;
    bool read_ = false;                                       // its own variables' contents are known
    Launch launch_;
    Memory& memory_;
    std::vector<Twin> carried_;
    std::vector<std::pair<std::size_t, CUdeviceptr>> twins_;  // block, address
    std::vector<Own> own_;
};

}  // namespace warplens
