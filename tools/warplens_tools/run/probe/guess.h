// SPDX-License-Identifier: Apache-2.0
// What memory of unknown type holds, by its contents.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "job.h"

namespace warplens {

// Records one after the other, each of `stride` bytes; no fields: nothing is known.
struct Records {
    std::size_t stride = 0;
    std::vector<Field> fields;
};

using Leads = std::function<bool(CUdeviceptr)>;  // whether an address lies in memory of the program

// The shortest record, of up to 64 bytes, of which every word is one thing throughout: a float of ordinary size, a
// small integer, zero, or half of a double or of a pointer. Words that are zero throughout are no fields.
Records records_in(const std::uint8_t* bytes, std::size_t size, const Leads& leads);

// The same of one record alone. A zero among floats is taken for one.
Records record_in(const std::uint8_t* bytes, std::size_t size, const Leads& leads);

}  // namespace warplens
