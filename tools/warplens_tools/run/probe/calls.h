// SPDX-License-Identifier: Apache-2.0
// The program's calls that launch kernels, as CUPTI hands them over.
#pragma once

#include <cupti.h>

#include <vector>

#include "launch.h"

namespace warplens {

// Every driver call that launches one kernel.
const std::vector<CUpti_CallbackId>& launch_calls();
bool is_launch(CUpti_CallbackId id);
// What such a call is about to launch. `function` may still be a CUkernel, see `loaded`.
Launch launch_of(CUpti_CallbackId id, const CUpti_CallbackData* call);
// Has the driver make another launch of such a call, while its callback lasts: it makes what the call's parameters
// then say. Not documented, so `Accompaniment` tries it before it relies on it.
void substitute(CUpti_CallbackId id, const CUpti_CallbackData* call, const Launch& other);

}  // namespace warplens
