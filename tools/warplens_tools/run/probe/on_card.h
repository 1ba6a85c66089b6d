// SPDX-License-Identifier: Apache-2.0
// Results as they lie on the card: kept, marked and weighed there, so that none has to be read to be told right.
//
// What is expected lies there only while no candidate runs: `clear` leaves nothing of it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare.h"
#include "memory.h"
#include "rounding.h"

namespace warplens {

class OnCard {
 public:
    // What all stretches held at some time. `first` is what lay there before a launch, or what a candidate has left.
    // `original` is what the launch finds, while outputs are poisoned.
    enum Slot { first, right, up, original, slots };

    OnCard(const std::vector<Stretch>& stretches, Memory& memory, CUstream stream);
    ~OnCard();
    OnCard(const OnCard&) = delete;
    OnCard& operator=(const OnCard&) = delete;
    // False where the card has no room for it, or where a stretch cannot be read there element by element.
    bool ready() const { return room_ != 0; }

    // What the stretches hold now, into a slot and back; asynchronous.
    void keep(Slot slot);
    void put(Slot slot);
    void read(Slot slot, std::size_t stretch, std::uint8_t* to);
    // Nothing of any slot is left for whoever runs next; asynchronous.
    void clear();

    // The mask of what is written, on the card and at home.
    void set_written(std::size_t stretch, const std::vector<std::uint8_t>& mask);
    void read_written(std::size_t stretch, std::vector<std::uint8_t>& mask);
    // Adds what differs between what lay there first and now; how many elements never were written.
    std::uint64_t mark(std::size_t stretch);
    // What restoring puts there: a slot's contents, or the original's with what is written of it poisoned, far off, or larger
    // than all results. Of integers those that are written and stay what they were; whether there are any.
    void save(Slot slot, std::size_t stretch);
    void poison(std::size_t stretch, std::uint64_t seed);
    bool turn_far(std::size_t stretch);
    void outgrow(std::size_t stretch);
    // How many of the elements of a stretch are neither what they are right nor what they were first: as memory has them
    // now, or at an address.
    std::uint64_t neither(std::size_t stretch);
    // How many elements of a slot are not the right ones; only of the first `bytes`, and elsewhere, where that is said.
    std::uint64_t differing(std::size_t stretch, Slot slot, std::size_t bytes = SIZE_MAX);
    std::uint64_t differing_at(std::size_t stretch, CUdeviceptr block);
    // As `count_unclean`, of what all stretches hold now: all, and those that are large but finite.
    Counts unclean();

    // What a pair of moved runs says: up in its slot, down in memory.
    void add_moved(std::size_t stretch, double move, int pairs, bool begins);
    // Of so few results that all their like can be looked at here: values, written, A and B.
    Expected sampled(std::size_t stretch, const Expected& of);
    // Adds to the pools what jumps, by the right results and what was learned of their moves.
    void find_jumps(std::size_t stretch, Expected& expected, const Tolerance& tolerance);
    // How what a candidate has left compares; `elements_differ` where it is not bitwise the same.
    Difference weigh(std::size_t stretch, const Expected& expected, const Tolerance& tolerance, bool moved, bool& elements_differ);

   private:
    struct Part {
        std::size_t bytes = 0, at = 0;         // held, and where in each slot
        std::size_t elements = 0, element = 0; // where A and B stand, and the mask
        std::size_t count = 0, size = 1;
    };
    CUdeviceptr in(Slot slot, std::size_t stretch) const { return room_ + slot * slot_bytes_ + parts_[stretch].at; }
    CUdeviceptr memory(std::size_t stretch) const;
    CUdeviceptr magnitude(std::size_t stretch) const { return magnitudes_ + 4 * parts_[stretch].elements; }
    CUdeviceptr bend(std::size_t stretch) const { return bends_ + 4 * parts_[stretch].elements; }
    CUdeviceptr written(std::size_t stretch) const { return written_ + parts_[stretch].element; }
    void count_unclean(std::size_t stretch, CUdeviceptr data);
    std::uint64_t unlike(CUdeviceptr now, CUdeviceptr one, CUdeviceptr other, std::size_t bytes, std::uint64_t count);
    std::vector<Pool> read_jumps();
    bool lay_out();
    Counts counted(const std::function<void()>& by);
    void count(const std::string& kernel, std::uint64_t count, std::vector<void*> arguments);
    void launch(CUfunction function, std::uint64_t count, void** arguments);
    Share shared_out(Element element, Weighing& weighing);
    Weighing weighing(std::size_t stretch, const Expected& expected, const Tolerance& tolerance, bool moved);
    void read_sample(CUdeviceptr from, unsigned width, std::size_t step, std::size_t count, void* to);

    const std::vector<Stretch>& stretches_;
    Memory& memory_;
    CUstream stream_;
    std::vector<Part> parts_;
    std::size_t slot_bytes_ = 0, element_bytes_ = 0, float_count_ = 0, all_ = 0;
    CUdeviceptr room_ = 0, magnitudes_ = 0, bends_ = 0, written_ = 0, pools_ = 0, jumps_ = 0, common_ = 0, shares_ = 0, sample_ = 0;
};

}  // namespace warplens
