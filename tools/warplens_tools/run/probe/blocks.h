// SPDX-License-Identifier: Apache-2.0
// What of the device's memory a launch may touch: the program's allocations and its module's variables.
#pragma once

#include <string>
#include <vector>

#include "allocations.h"
#include "memory.h"

namespace warplens {

// `variables` are names in the module of `function`, a CUfunction of the current context.
std::vector<Block> blocks_of(const Allocations& allocations, CUfunction function, const std::vector<std::string>& variables);

// Memory of nobody's in the pages that hold these blocks, taken so that writes to it are seen: as much as the allocator
// gives there, in a few pieces, filled. It stays taken. Throws DriverError where it cannot be filled.
std::vector<Block> gaps_of(const std::vector<Block>& blocks);

}  // namespace warplens
