// SPDX-License-Identifier: Apache-2.0
// One visit: at the launch in question, judges every candidate of the job against the running baseline.
#pragma once

#include <functional>

#include "allocations.h"
#include "job.h"
#include "launch.h"
#include "record.h"

namespace warplens {

// Ends the process: what the program would do next is of no interest, and after a fault it could not.
// `approach` runs what comes before the launch in its graph and returns how many nodes that were.
[[noreturn]] void visit(const Job& job, Launch launch, bool from_module, const Allocations& allocations,
                        Results& results, const std::function<std::size_t()>& approach = nullptr);

}  // namespace warplens
