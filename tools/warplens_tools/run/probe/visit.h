// One visit: at the launch in question, judges every candidate of the job against the running baseline.
#pragma once

#include "job.h"
#include "launch.h"
#include "allocations.h"
#include "record.h"

namespace warplens {

// Ends the process: what the program would do next is of no interest, and after a fault it could not.
[[noreturn]] void visit(const Job& job, Launch launch, bool from_module, const Allocations& allocations,
                        Results& results);

}  // namespace warplens
