// SPDX-License-Identifier: Apache-2.0
// Another instantiation of the visited kernel, that the program launches nowhere, in its place.
#pragma once

#include "allocations.h"
#include "job.h"
#include "launch.h"

namespace warplens {

// Has the launch be of the job's other instantiation, with the program's own floats as those of its types. Throws
// std::runtime_error where its parameters are others, DriverError.
void stand_in(Launch& launch, const Job& job, const Allocations& allocations);

}  // namespace warplens
