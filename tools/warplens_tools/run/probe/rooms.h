// SPDX-License-Identifier: Apache-2.0
// A launch on larger copies of its memory: what the program's own sizes never reach is then in memory that is watched.
#pragma once

#include <cuda.h>

#include <memory>
#include <optional>
#include <vector>

#include "inputs.h"
#include "job.h"
#include "launch.h"
#include "memory.h"

namespace warplens {

class Rooms {
   public:
    // Copies every allocation that the launch's parameters lead to, with room around it that holds the same again and
    // again. Nothing where the card has no room for that, or the parameters are packed. Throws DriverError.
    static std::unique_ptr<Rooms> around(const Job& job, const Launch& baseline, Memory& memory);
    ~Rooms();
    Rooms(const Rooms&) = delete;
    Rooms& operator=(const Rooms&) = delete;

    // Gives what lies behind results other numbers, in `memory`, which holds the copies and is saved anew.
    void renew(const Job& job, Memory& memory) const;
    // The launch on the copies, with room for shared memory that grows, too.
    const Launch& launch() const { return launch_; }
    // The copies, and the blocks that have none.
    std::vector<Block> blocks() const { return blocks_; }
    // How many times as much lies behind each.
    double times() const { return times_; }
    // A candidate's dynamic shared memory, grown as the launch's.
    static unsigned shared_for(CUfunction function, unsigned bytes);

   private:
    Rooms() = default;
    struct Copy {
        CUdeviceptr of, at;   // where a block lies, and where its copy does
        std::size_t bytes;
    };
    bool copy_all(const Memory& memory, const std::vector<const Block*>& led, double times);
    bool copy(const Block& block, std::size_t behind);
    void lead(const Inputs& inputs, const Launch& baseline, const Memory& memory);

    double times_ = 0;
    Launch launch_;
    std::vector<Block> blocks_;
    std::vector<Copy> copies_;
    std::vector<CUdeviceptr> owned_;
    Given given_;
};

}  // namespace warplens
