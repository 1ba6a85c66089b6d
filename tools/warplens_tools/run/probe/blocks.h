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

}  // namespace warplens
