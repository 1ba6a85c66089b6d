// SPDX-License-Identifier: Apache-2.0
// What the device and the host's CUDA calls did over the program's whole run.
#pragma once

#include "record.h"

namespace warplens::trace {

void start();                   // throws std::runtime_error when CUPTI refuses
void finish(Results& results);  // once, at the program's end

}  // namespace warplens::trace
