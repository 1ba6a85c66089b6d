// SPDX-License-Identifier: Apache-2.0
// The device memory that a launch may touch: saved at its entry, checked and put back after every run.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "job.h"

namespace warplens {

constexpr std::size_t kChunk = 65536;  // as in kernels.cu

// The probe's own kernels.
struct Helpers {
    explicit Helpers(const std::string& cubin);
    CUfunction of(const char* what, Element element) const;  // "move", "fill" or "vary"
    CUfunction named(const std::string& name) const;
    bool has(const std::string& name) const;
    static std::string word_for(Element element);            // as kernels' names have it

    CUmodule module = nullptr;
    CUfunction checksum = nullptr;

   private:
    mutable std::map<std::string, CUfunction> known_;
};

// As kernels.cu has it: several buffers' checksums are one launch's.
struct Buffers {
    static constexpr std::size_t most = 64;
    std::uint64_t base[most], bytes[most], first[most], count = 0;
};

// An allocation, or a variable of the kernel's module.
struct Block {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    std::string variable;         // "" for an allocation
    CUdeviceptr at = 0;           // where it is now: a candidate has variables of its own
    std::size_t slack = 0;        // bytes behind its end that belong to nobody and are watched too
    bool gap = false;             // nobody's, between the program's allocations
    std::size_t front = 0;        // bytes of a larger copy that lie before what the program has
    std::size_t first_chunk = 0;  // chunks are numbered through all blocks
    std::size_t saved = 0;        // offset of its copy

    std::size_t chunks() const { return (bytes + kChunk - 1) / kChunk; }
};

// Part of a block, of one element type.
struct Stretch {
    std::size_t block = 0, offset = 0, bytes = 0;
    Element element = Element::other;
    std::size_t stride = 0;       // from one to the next; 0: they lie side by side
    // Of every `stride` bytes these are read and written, one after the other: some members of all structures. 0: of a
    // stretch without stride all.
    std::size_t width = 0;
    std::size_t whole = 0;        // bytes of one element as it is declared; 0: not known

    // How many bytes are read and written, and where in the block the one at a place among them lies.
    std::size_t held() const { return width ? (bytes - width) / stride * width + width : bytes; }
    std::size_t place(std::size_t at) const { return offset + (width ? at / width * stride + at % width : at); }
};

using Sums = std::vector<std::uint64_t>;
using Chunks = std::vector<std::size_t>;
using Bindings = std::vector<CUdeviceptr>;

class Memory {
   public:
    // Saves the blocks' contents. Throws std::runtime_error where the copy fits neither the card nor the host.
    Memory(std::vector<Block> blocks, const Helpers& helpers, CUstream stream, std::uint64_t key);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    // Saves these blocks' contents instead, as they are now. Throws as the constructor.
    void renew(std::vector<Block> blocks);

    std::vector<Block> blocks;
    std::size_t bytes() const { return bytes_; }
    const Helpers& helpers() const { return helpers_; }

    Sums checksums();                            // of every chunk, as it is now
    void restore(const Chunks& chunks);          // asynchronous, on the stream
    void read(const Stretch& stretch, std::uint8_t* to);
    // Of a block that lies elsewhere.
    void read_at(CUdeviceptr block, const Stretch& stretch, std::uint8_t* to);
    void read_saved(const Stretch& stretch, std::uint8_t* to);
    // Whether what is saved lies on the card, and where of a stretch.
    bool saves_on_card() const { return copy_ != 0; }
    CUdeviceptr saved(const Stretch& stretch) const { return copy_ + blocks[stretch.block].saved + stretch.offset; }
    // Of any of the card's memory.
    void read_out(CUdeviceptr from, std::uint8_t* to, std::size_t bytes) { copy_out(from, to, bytes); }
    void write_saved(const Stretch& stretch, const std::uint8_t* from);
    // Of elements side by side, as they are now; asynchronous: `from` outlives it.
    void write(const Stretch& stretch, const std::uint8_t* from);
    // Moves the floats of a stretch in place, but for those that are `kept`; NaN: none is.
    void move(const Stretch& stretch, double scale, double noise, std::uint64_t seed, double kept = std::numeric_limits<double>::quiet_NaN());
    // Gives a stretch values of its saved contents' making; elements are integers of `width` bytes where that is
    // not 0, those of kind `ranged` below `limit`; rows are of `period` elements, where that is not 0. Changes nothing
    // where the copy is not on the card.
    void vary(const Stretch& stretch, unsigned kind, unsigned width, std::uint64_t seed, std::uint64_t limit, std::uint64_t period = 0);
    // Puts what a stretch held at first where another one lies; asynchronous.
    void copy_saved(const Stretch& from, const Stretch& to);
    // Zeros all of a stretch but one of so many parts.
    void keep_part(const Stretch& stretch, std::uint64_t part, std::uint64_t parts);
    // Fills what belongs to nobody behind the blocks' ends; and the gaps between them, where that is asked.
    void fill_tails(unsigned char value, bool gaps = false);
    // Gives a stretch, side by side or one member of all structures, other contents of its kind, in place.
    void fill(const Stretch& stretch);
    // Turns lowest bits of every element of a stretch of floats, in place.
    void turn(const Stretch& stretch, unsigned bits);
    const Block& block_of(std::size_t chunk) const;
    // The block that holds an address of the program, or nullptr.
    const Block* find(CUdeviceptr address) const;
    void unbind();                               // every block is the program's own again
    Bindings bindings() const;                   // where blocks are now
    void bind(const Bindings& bindings);
    Chunks variables() const;                    // the chunks of all variables

   private:
    // Has a kernel change a stretch: of a variable, which may be constant, a copy that is put back.
    void change(const Stretch& stretch, const std::function<void(CUdeviceptr)>& by);
    // Of so many elements, each so many bytes behind the one before.
    void turn_each(const Stretch& stretch, std::uint64_t count, std::uint64_t stride, unsigned bits);
    void copy_out(CUdeviceptr from, std::uint8_t* to, std::size_t bytes);
    void read_members(const Stretch& stretch, std::uint8_t* to, const std::function<void(std::uint8_t*)>& all);
    void lay_out();
    void release();
    void save();

    const Helpers& helpers_;
    CUstream stream_;
    std::uint64_t key_;
    std::size_t bytes_ = 0, chunks_ = 0, room_ = 0;
    CUdeviceptr room_at_ = 0;                    // for a variable's copy, `room_` bytes
    CUdeviceptr copy_ = 0, sums_ = 0;
    std::vector<std::uint8_t> host_copy_;        // used instead of copy_ where the card has no room
    std::uint8_t* staging_ = nullptr;
    std::vector<std::uint8_t> structures_;       // whole, of which members are wanted
};

Chunks changed(const Sums& before, const Sums& after);
Chunks merged(const Chunks& a, const Chunks& b);  // both sorted

}  // namespace warplens
