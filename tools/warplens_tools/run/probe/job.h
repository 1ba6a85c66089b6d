// SPDX-License-Identifier: Apache-2.0
// What one run of the probe shall do. Written by Python (run/probe/job.py), one "key value" per line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rule.h"

namespace warplens {

enum class Element { other, f64, f32, f16, bf16, integer };

// A member of a structure. `width` is an integer's; a pointer leads to such elements.
struct Field {
    std::size_t offset = 0;
    Element element = Element::other;
    unsigned width = 0;
    bool pointer = false;
};

struct Parameter {
    int index = 0;
    Element element = Element::other;  // of the memory a pointer parameter leads to
    bool constant = false;             // declared pointer to const
    bool table = false;                // a pointer to pointers to such elements
    bool scalar = false;               // no pointer: such a number itself
    bool optional = false;             // a pointer that may be null: the source asks
    unsigned width = 0;                // of an integer element in bytes; 0 where it is not known
    std::size_t stride = 0;            // bytes of a structure that the source defines; 0: of no such
    std::size_t whole = 0;             // bytes of one element as it is declared, of all of a float4; 0: not known
    std::vector<Field> fields = {};
    bool scratch = false;              // what a launch leaves there only its own blocks read
    std::int64_t most = 0;             // the largest number by value that the kernel's own arrays have room for; 0: not known
};

// An input move: every float input x becomes x * scale * (1 + noise * r), r uniform in [-1, 1]; with a scale of 0
// it keeps its size and gets low bits that a lower precision would lose, or, with noise, loses all that any would.
//
// Other kinds take the buffers' own values: integers drawn anew from their buffer or permuted, a quarter of them 0 or 1,
// nearly all of them one value, zeros, or several times in a row what was there once (which keeps offsets ascending and
// makes rows empty); drawn from below the smallest buffer's length, or from all that their type holds; floats of mixed
// signs, far from zero, with their zeros filled, with runs of zeros, half or all of them zeros, with a few spikes, NaN or
// infinities, or four values alone. Integers that the kernel compares with, or -1, among them and by value. Or what is passed by value: floats moved, zero, or far from what they were; integers one less or halved, those that are 0 one, small ones up to four
// times as large, or a hundred; one length twice or four times as large and another one less by as much; pointers that the source asks for whether they are null: null where they are not, and else not.
// `met` are buffers some of whose elements are what is passed by value, or a float that the kernel compares with; `ranks`
// have it in runs. `standing` has half of the results there already.
// `striped` has whole columns of zeros, of matrices as wide as an integer by value says; rows of zeros, of NaN or of a
// float that is asked for are as long as one says, too, one element of some left as it was. `turned` are integers of other
// signs, `stepped` ascending ones that rise by little or nothing, so that rows are empty or short, `longer` small ones a few of which, in the first half, are many times as large; `vast` a few floats
// whose squares overflow, or vanish, and no quotient. `few` makes
// a length less than a warp, `endless` a float by value infinite; `reached` are indices some of which are a number by
// value, as far as they never go.
// `aliased` is an input that lies where a result goes to.
// `high` are 64-bit integers by value that are too large for any length, larger by multiples of 2^32.
// `voids` are runs of NaN, which leave whole rows without a number; `mingled` gives each buffer of floats other signs and
// sizes than the next. `numbers` are integers by value that are redrawn, larger ones among them; `fewer` is a smaller grid, `plus` small
// integers one larger.
// `nicked` has another of its own integers in one place of sixteen, `near` each float several times but for its last bits, `halfway` floats between two whole numbers. `linked` leads from each place of one buffer to one before it, or behind it: no way round.
// `upper` are 64-bit integers of which some have other upper halves; `settled` one
// float by value that is a small whole number, or hardly another; `loose` are integers by value that nothing
// leads by, of any size; `masked` has one more bit that the kernel asks a number by value for, or one less; `tables` are
// `fields` are keys in which bit fields are alike, or that are in order, by `scale` one of six ways, and of text letters of the other case, neighbours in each other's place, or the characters next to theirs; `centred` floats less
// one of them; `tagged` numbers with bits that the kernel masks off before it is led by them; `brim` integers at the ends of
// what their type holds, by `scale` one of six ways; `none` is a length by value of zero, `minus` zeros below zero here and
// there. `lowered` are integers each of which is drawn between nothing and what it was, `endmost` runs of floats half or all
// of which are infinite, all one way, by `scale`; `past` has a length by value further than twice what is asked for.
// `infinities` lie in the same places of all buffers where `scale` says so. `tables` are
// tables of pointers to what is only read, whose entries lead one or two elements further.
struct Variant {
    // those before `scalars` are kernels.cu's numbers, in its order
    enum Kind : unsigned { redrawn, permuted, signs, zeros, spikes, blanks, specials, flags, skewed, ranged, full, less, halved, halves, naught, vacant, repeated, raised, shifted, more, asked, below, infinities, ties, plus, voids, met, ranks, striped, turned, stepped, vast, longer, upper, nicked, near, halfway, fields, centred, tagged, brim, linked, lowered, endmost, scalars, nulls, wide, endless, toggled, many, few, reshaped, numbers, fewer, mingled, standing, high, aliased, reached, settled, loose, masked, tables, against, none, minus, past, moved };

    static constexpr double kVanishing = 0.005;

    std::string name;
    double scale = 1, noise = 0;
    Kind kind = moved;
    // `numbers`: which one by value, and, so many times, in which of four ways.
    static constexpr int ways_of = 16;
    // And from here on, what the kernel asks for: each for each.
    static constexpr int asks_from = 64;
    // `fewer`: from here on, blocks of fewer threads.
    static constexpr unsigned narrower = 4;
    // `met`: from here on, a float that the kernel compares with.
    static constexpr std::size_t sentinels_from = 16;
    // `brim`: in this way bytes alone, which lead nowhere far; in these the lowest with a sign, and limbs once more.
    static constexpr double bytes_full = 1, lowest = 3, other_limbs = 5;
    // `fields`: from this way on text as others write it, of bytes alone.
    static constexpr double spelled = 6;
    // `infinities`: in the same places of all buffers.
    static constexpr double meeting = 2;
    // Which buffers are the others' complements: in one of both ways any two of four are.
    bool is_other(std::size_t buffer) const { return (buffer ^ (scale == other_limbs ? buffer >> 1 : 0)) & 1; }
    int target = -1;  // which buffer of integers, or which integer passed by value; -1: all
    // Of more buffers than there are targets for each, other ones are meant by every seed.
    static constexpr std::size_t targets = 8;
    bool means(std::size_t which, std::size_t count, std::uint64_t seed) const {
        if (target < 0) return true;
        const auto own = static_cast<std::size_t>(target);
        return which == (count <= targets || own >= targets ? own : (own + seed % count) % count);
    }
    // What is changed with it: of buffers, or what is passed by value but for integers. Conditions that only go together
    // are met so.
    std::vector<Variant> beside = {};

    template <class Holds>
    bool any(Holds holds) const { return holds(*this) || std::any_of(beside.begin(), beside.end(), holds); }
    bool shortened() const { return kind == moved && scale == 0 && noise != 0; }
    bool own() const { return kind == moved && scale == 1 && noise == 0 && beside.empty(); }
    bool of_integers() const { return kind == redrawn || kind == permuted || (kind >= flags && kind <= full) || kind == vacant || kind == repeated || kind == asked || kind == below || kind == met || kind == ranks || kind == turned || kind == stepped || kind == longer || kind == reached || kind == upper || kind == nicked || kind == plus || kind == fields || kind == tagged || kind == brim || kind == linked || kind == lowered; }
    bool by_value() const { return kind == scalars || kind == nulls || kind == less || kind == halved || kind == raised || kind == more || kind == wide || kind == endless || kind == toggled || kind == many || kind == few || kind == reshaped || kind == numbers || kind == high || kind == aliased || kind == settled || kind == loose || kind == masked || kind == against || kind == none || kind == past; }
    // Numbers by value, with buffers or, as -1, without.
    bool of_numbers() const { return by_value() || kind == asked || kind == below || kind == brim; }
    // Of what is passed by value, floats or pointers.
    bool of_other_values() const { return kind == scalars || kind == nulls || kind == wide || kind == endless || kind == toggled || kind == aliased || kind == settled; }
    // Data of the program's kind: what is gained on it says something of the program's own. Where nearly all is alike, or
    // most is nothing, contention and sparseness are others.
    bool ordinary() const { return beside.empty() && (kind == moved || kind == signs || kind == redrawn || kind == permuted || kind == scalars || kind == zeros); }
    // A table that all lanes look up in one place, or atomics that never meet, cost next to nothing: no gain shows there.
    bool uneven() const { return alike() || odd() || spiky() || any([](const Variant& v) { return v.kind == stepped; }); }
    // So small that what is taken of them to a power, or added to something, is nearly the same everywhere.
    bool vanishing() const { return kind == moved && scale != 0 && scale > -kVanishing && scale < kVanishing; }
    // Many terms of a sum may be equal: a sum in one order then errs the same way each time.
    bool alike() const {
        return any([](const Variant& v) { return v.empties() || v.vanishing() || v.kind == flags || v.kind == skewed || v.kind == repeated || v.kind == shifted || v.kind == ties || v.kind == near || v.kind == halfway || v.kind == brim; });
    }
    // What a NaN or an infinity among the inputs leaves of the results may rest on their order.
    bool odd() const { return any([](const Variant& v) { return v.kind == specials || v.kind == infinities || v.kind == voids; }); }
    // Few values are far larger than all others.
    bool spiky() const { return any([](const Variant& v) { return v.kind == spikes || v.kind == vast; }); }
    // Numbers that may lead elsewhere.
    bool leads() const { return any([](const Variant& v) { return v.of_integers() || (v.of_numbers() && !v.of_other_values()); }); }
    // Whole rows of zeros: what is divided by their sums is NaN or infinite where the kernel does not guard against it.
    bool empties() const { return any([](const Variant& v) { return v.kind == blanks || v.kind == striped || v.kind == halves || v.kind == naught || v.kind == vacant; }); }
    // Numbers that no program has but by mistake or on purpose: who differs there alone is not called wrong.
    bool remote() const { return any([](const Variant& v) { return v.kind == vast || v.kind == aliased || v.kind == near || v.kind == none || v.kind == minus || v.kind == endmost; }); }
};

// A `__device__` or `__constant__` variable. `live` names its twin in the running program, "" if it has none.
struct Global {
    std::string name, live;
};

struct Shape {
    unsigned grid[3] = {0, 0, 0}, block[3] = {0, 0, 0}, shared = 0;
};

struct Candidate {
    std::string id, cubin, entry;
    unsigned grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};  // 0: as the baseline's
    long long shared = -1;                               // dynamic bytes; -1: as the baseline's
    std::vector<Global> globals;
    // Where a whole program is accompanied: the kernel that it stands for, how many launches of it are expected,
    // its pointers, and how it is launched where the baseline has a shape. Empty: as above, at every shape.
    std::string kernel;
    std::uint64_t launches = 0;
    std::vector<Parameter> parameters;
    std::vector<std::pair<Shape, Shape>> shapes;
    GridRule rule;  // by which its host code launches it; empty where that is not known
    bool by_rule = false;  // its grid is what that rule gives for what the program passes
};

struct Job {
    std::string mode, result, helpers, kernel;
    // Where another kernel of the same parameters stands for the launched one: its cubin and its name there.
    std::string instead_cubin, instead;
    std::map<std::size_t, Element> converted;  // by pointer: the floats that lie where it takes others
    unsigned grid[3] = {0, 0, 0}, block[3] = {0, 0, 0}, shared = 0;  // of the launch to visit
    std::uint64_t launch = 0;  // which launch of this shape, from 0
    std::uint64_t seed = 1;
    long parent = 0;
    std::string gate;                        // file that is waited for before the card is used; "" for none
    std::vector<Parameter> parameters;
    GridRule rule;                     // as a candidate's
    bool tells_nan = false;            // the kernel asks what is NaN: what it makes of it is meant
    bool widened = false;              // doubles come of floats that the kernel has computed
    std::set<std::size_t> unread;      // parameters that the kernel never reads
    std::set<std::size_t> gathered;    // pointers behind which loaded numbers lead to what is read
    std::set<std::size_t> free;        // pointers behind which no number leads anywhere or decides anything
    std::set<std::size_t> loose;       // integers that no address and no branch rests on
    std::map<std::size_t, std::uint64_t> tags;  // by pointer: bits that are masked off of what lies there
    std::set<std::size_t> below;       // integers by value that the kernel asks whether they are below zero
    std::vector<std::pair<std::size_t, std::int64_t>> masks;  // bits that the kernel asks a parameter for
    std::vector<std::string> globals;  // of the running program's module
    std::map<std::string, Parameter> held;  // what those hold whose types are known
    std::vector<Variant> variants;
    std::vector<Variant> rooms;  // of the launch on larger copies of its memory; none: there are no such
    bool stays = false;          // the program goes on from what the launch found, once all is compared
    double roomy = 0;            // this is that launch, with so many times as much behind its buffers: lengths may grow
    std::vector<Candidate> candidates;
    Candidate twin;                    // of the kernel, marks what ran; its cubin is empty where there is none
    Candidate own_twin;                // of the candidate, where there is one: the same
    std::string marks;                 // the variable of it that holds the marks
    std::vector<double> sentinels;        // floats that the kernel compares with
    std::vector<std::int64_t> constants;  // what the kernel compares integers with
    std::map<std::string, double> options;

    double option(const std::string& name) const;  // throws std::runtime_error if the job has none
};

Job parse_job(const std::string& text);  // throws std::runtime_error with the line that cannot be read
Job read_job(const std::string& path);

}  // namespace warplens
