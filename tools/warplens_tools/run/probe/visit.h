// One visit: at the launch in question, judges every candidate of the job against the running baseline.
#pragma once

#include <functional>

#include "allocations.h"
#include "job.h"
#include "launch.h"
#include "record.h"

namespace warplens {

// Ends the process: what the program would do next is of no interest, and after a fault it could not.
// `approach` does what the program would have done before the launch.
[[noreturn]] void visit(const Job& job, Launch launch, bool from_module, const Allocations& allocations,
                        Results& results, const std::function<void()>& approach = [] {});

}  // namespace warplens
