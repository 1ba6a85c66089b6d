// SPDX-License-Identifier: Apache-2.0
// What a launch reads, as far as it is known: what its parameters lead to, the program's variables, and what is passed
// by value; and other values for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "guess.h"
#include "job.h"
#include "launch.h"
#include "memory.h"

namespace warplens {

// What lies behind one pointer, or in one variable.
struct Typed {
    std::size_t block, offset;
    Element element;
    int parameter;                 // -1: a variable's
    bool constant;
    unsigned width;
    Records records;               // of structures
    std::size_t whole;             // bytes of one element as it is declared; 0: not known
    bool table = false;            // a table of pointers leads here
};

// Elements of one kind: a buffer, or one field of all its structures. `width` is an integer's.
struct Area {
    Stretch stretch;
    unsigned width;
    bool variable;                 // few numbers in one, as a parameter has them
    int table = -1;                // the parameter whose table leads here
    std::size_t group = 0;                 // what is varied as one buffer: all that one table leads to
};

// Beyond it nothing is a length, and three times as much may be no number any more.
constexpr std::int64_t kHuge = std::int64_t{1} << 60;

inline bool integral(Element element) { return element == Element::integer; }
// Of so many bytes, with its sign.
std::int64_t integer_at(const std::uint8_t* at, unsigned width);

// The launch's parameters with other values. `pointers` lead into `values`: a copy's would lead elsewhere.
struct Given {
    Given() = default;
    Given(Given&&) = default;
    Given& operator=(Given&&) = default;

    std::vector<std::vector<std::uint8_t>> values;  // of those that are passed by value
    std::vector<void*> pointers;                    // empty: as the program's
    std::vector<std::pair<std::int64_t, std::int64_t>> numbers;  // integers that were the first and are the second
};

class Inputs {
   public:
    Inputs(const Job& job, const Launch& baseline, Memory& memory);
    ~Inputs();
    Inputs(const Inputs&) = delete;
    Inputs& operator=(const Inputs&) = delete;

    // What integers are passed with those arguments, for a grid's rule.
    GridRule::Values passed(const Given& given) const;
    const std::vector<Typed>& typed() const { return typed_; }
    const std::vector<Area>& floats() const { return floats_; }
    const std::vector<Area>& integers() const { return integers_; }
    // What no parameter declares constant.
    std::vector<Stretch> outputs() const;
    // The type at an offset, and where it ends: a pointer's type holds up to the next pointer into the block, and
    // the first one's also before it.
    Element type_at(std::size_t block, std::size_t offset, std::size_t& end) const;
    // What is said of an offset, by the pointer that leads there or last before; nullptr where nothing or not one thing
    // is. Its type holds up to `end`.
    const Typed* said_of(std::size_t block, std::size_t offset, std::size_t& end) const;

    // A pointer among the parameters: where it stands, and where it leads to.
    struct Lead {
        std::size_t parameter, offset;
        CUdeviceptr address;
    };
    const std::vector<Lead>& leads() const { return leads_; }
    // The parameters with the pointers leading elsewhere; none where they are packed.
    Given moved_elsewhere(const Given& given, const std::function<CUdeviceptr(CUdeviceptr)>& to) const;

    // Gives memory, which is as the program left it, a variant's values, for a launch with those arguments; asynchronous.
    void put(const Variant& variant, std::uint64_t seed, const Given& given);
    // Moves every float by a relative `move` times r, r in [-1, 1]; but for those that `on` has put at a threshold.
    void move(double move, std::uint64_t seed, const Variant& on);
    // From now on a number that stands for each NaN and infinity that is put; 0 for those themselves.
    void stand_in(double value) { stand_in_ = value; }
    // Leaves of the floats that are only read, of one area or all, one of so many parts.
    void keep_part(std::uint64_t part, std::uint64_t parts, std::size_t area);
    static constexpr std::size_t all_areas = SIZE_MAX;
    // Areas of floats that are only read, side by side, the largest first.
    std::vector<std::size_t> largest_read() const;
    // Whether there is anything that such inputs could change.
    bool varies(const Variant& variant) const;
    Given arguments(const Variant& variant, std::uint64_t seed) const;

   private:
    static constexpr std::size_t kSeen = 4u << 20;  // of memory of unknown type so much is looked at
    struct Word {
        std::size_t parameter;
        Field field;
    };
    void find_parameters();
    void find_spare();
    void find_pointer(const Parameter& p, CUdeviceptr address);
    void find_by_value(std::size_t index, const Parameter* p);
    void find_variables();
    void add_type(CUdeviceptr address, Element element, int parameter, bool constant, unsigned width, Records records, std::size_t whole = 0);
    void add_table(const Block& block, CUdeviceptr address, const Parameter& p);
    void follow(const Typed& typed, std::size_t bytes);
    void find_areas();
    void add_area(const Stretch& stretch, unsigned width);
    Records guessed(const Stretch& stretch) const;
    const std::uint8_t* by_value(std::size_t index) const;
    // What the program's own numbers in an area look like.
    struct Look {
        bool index, flag, ascends;
    };
    const Look& look(const Area& area) const;
    bool reaches_as_far(std::int64_t most) const;
    std::uint64_t row(std::uint64_t seed) const;
    bool only_read(const Area& area) const;
    std::uint64_t fewest() const;
    void vary(const Area& area, const Variant& variant, std::uint64_t seed);
    // Bits that the kernel masks off of what lies there; 0 for none.
    std::uint64_t tags_of(const Area& area) const;
    CUdeviceptr given();
    // What is met, and whether among integers; nothing where there is no such number.
    struct Met {
        bool whole;
        std::uint64_t integer;
        double value;
    };
    std::optional<Met> met(const Variant& variant) const;
    bool mostly(const Area& area, double value) const;
    void put_met(const Variant& variant, std::uint64_t seed);
    void mingle(const Area& area, std::uint64_t seed);
    // How far the integers by value have been drawn for one variant.
    struct Drawing {
        const Variant& variant;
        std::mt19937_64& random;
        int numbers;                  // how many there are
        int chosen;                   // that one alone is taken below zero
        std::vector<int> small = {};  // which of them may be modes, steps or counts
        int number = 0;               // the next one
        int real = 0;                 // the next float
        double grown = 1;
        bool below = false;           // one is below zero
    };
    bool suits(const Word& word, Variant::Kind kind) const;
    void ask(const Word& word, std::uint8_t* at, Drawing& drawing) const;
    void meet(std::uint8_t* at, unsigned width, int own, const Drawing& drawing) const;
    void pass(std::uint8_t* at, unsigned width, int own, const Drawing& drawing) const;
    void change_number(const Word& word, std::uint8_t* at, Drawing& drawing) const;
    void raise(std::uint8_t* at, unsigned width, std::mt19937_64& random) const;
    void settle(Element element, std::uint8_t* at, int own, const Drawing& drawing) const;
    void turn_bit(Given& made, int target) const;
    void oppose(Given& made, int target) const;
    void put_tables(std::uint64_t seed);
    void group(std::vector<Area>& areas) const;
    static std::size_t groups_of(const std::vector<Area>& areas) { return areas.empty() ? 0 : 1 + std::max_element(areas.begin(), areas.end(), [](const Area& a, const Area& b) { return a.group < b.group; })->group; }
    void reshape(Given& made, int target, std::mt19937_64& random) const;
    void toggle(Given& made, int target) const;
    void alias(Given& made, int target) const;
    // An input and a result of one kind and as long, side by side in their allocations.
    struct Pair {
        std::size_t in, out;  // among the leads
        Stretch from, to;
    };
    void find_pairs();
    void stay_within(Given& made, std::mt19937_64& random) const;
    void change_words(Given& made, const Variant& variant, std::mt19937_64& random) const;
    int number_count() const;  // of integers by value
    void put_one(const Variant& variant, std::uint64_t seed, const Variant* beside = nullptr);
    void put_floats(const Area& area, const Variant& variant, std::uint64_t seed);

    const Job& job_;
    const Launch& baseline_;
    Memory& memory_;
    std::vector<ParameterPlace> places_;
    std::vector<Typed> typed_;
    std::vector<Area> floats_, integers_;
    std::vector<Word> words_;
    std::vector<Lead> leads_;
    std::vector<Pair> pairs_;
    struct Table {
        Stretch entries;
        std::size_t step;          // bytes of an element
    };
    std::vector<Table> tables_;    // that lead to what is only read
    std::vector<CUdeviceptr> moved_;  // entries, while they are written
    std::vector<const Parameter*> optional_;
    std::vector<Word> nulls_;  // null pointers within structures by value
    std::vector<std::int64_t> asked_;  // integers that the kernel compares with
    double stand_in_ = 0;
    CUdeviceptr given_ = 0;            // the same on the card
    std::vector<std::uint64_t> lengths_;  // of rows, perhaps: integers by value, as they are for the launch in question
    mutable std::map<const Area*, Look> looks_;
    mutable std::map<std::pair<const Area*, double>, bool> mostly_;
    CUdeviceptr spare_ = 0;        // what a null pointer leads to where it shall not be null
};

}  // namespace warplens
