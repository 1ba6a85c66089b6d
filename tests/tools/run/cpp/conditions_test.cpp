// SPDX-License-Identifier: Apache-2.0
// Conditions that the program's own inputs never meet, on a driver that runs launches on the host: each candidate is right
// but under one of them. Prints what is let through, or found for no reason.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "fake_driver.h"
#include "oracle.h"

using namespace warplens;

namespace {

constexpr int kRows = 100, kWidth = 96;
// Numbers behind the end of a that are nobody's.
constexpr int kBeyond = 16;

// Matrices a and b of so many rows and columns, rows of whole numbers one behind the other, and results like a.
struct Data {
    const float *a, *b;
    const int *begin, *numbers, *counts;
    float* out;
    int rows, width;
    float limit;
    int open, extend;

    float at(int r, int c) const { return a[r * width + c]; }
};
using Body = std::function<float(const Data&, int r, int c)>;

float column(const Data& d, int c) {
    float squares = 0;
    for (int r = 0; r < d.rows; ++r) squares += d.at(r, c) * d.at(r, c);
    return squares;
}

float deviation(const Data& d, int r, bool guarded) {
    int count = 0;
    float sum = 0, squares = 0;
    for (int c = 0; c < d.width; ++c) count += d.at(r, c) != 0, sum += d.at(r, c);
    for (int c = 0; c < d.width; ++c)
        if (d.at(r, c) != 0) squares += (d.at(r, c) - sum / static_cast<float>(count)) * (d.at(r, c) - sum / static_cast<float>(count));
    return count > 1 || (!guarded && count) ? std::sqrt(squares / static_cast<float>(count - 1)) : 0;
}

float segment(const Data& d, int r, int least) {
    const int begin = d.begin[r % 50], end = d.begin[r % 50 + 1];
    float sum = 0;
    for (int i = begin; i < std::max(end, begin + least) && i < 400; ++i) sum += static_cast<float>(d.numbers[i]);
    return sum;
}

float row(const Data& d, int r, int least) {
    float sum = 0;
    for (int c = 0; c < std::max(d.width, least); ++c) sum += d.at(r, c);
    return sum;
}

// What a number of 100 limbs is when another is added to it: its limb k; `once`: carries that run through a limb of all
// ones go no further.
float limb(const Data& d, int k, bool once) {
    bool carry = false, generated = false;
    std::uint32_t sum = 0;
    for (int i = 0; i <= k; ++i) {
        const auto a = static_cast<std::uint32_t>(d.numbers[i]), b = static_cast<std::uint32_t>(d.counts[i]);
        const bool in = carry, from = generated;
        sum = a + b;
        generated = sum < a;
        carry = generated || (sum == ~0u && (once ? from : in));
        sum += in;
    }
    return static_cast<float>(sum & 0xffu);
}

// All numbers, of which each has 24 bits, in a sum of so many bits.
float numbers(const Data& d, int bits) {
    std::uint64_t sum = 0;
    for (int i = 0; i < 400; ++i) sum += static_cast<std::uint32_t>(d.numbers[i]) & 0xffffffu;
    return static_cast<float>(sum & ~std::uint64_t{0} >> (64 - bits));
}

// How many links lead from a place to where there are none, or one leads to itself; those that lead back are left out where
// all are taken to lead forward.
float links(const Data& d, int r, bool forward) {
    constexpr int most = 300;
    int many = 0;
    for (int v = r % 50; many < most && v <= 50 && v >= 0 && d.begin[v] != v; v = d.begin[v], ++many)
        if (forward && d.begin[v] < v) break;
    return static_cast<float>(many);
}

struct Pair {
    const char *name, *kind;
    Body right, wrong;
};

const Pair kPairs[] = {
    {"a column of zeros without its guard", "striped",
     [](const Data& d, int r, int c) { return d.at(r, c) / (std::sqrt(column(d, c)) + 1e-20f); },
     [](const Data& d, int r, int c) { return d.at(r, c) / std::sqrt(column(d, c)); }},
    {"a row of one value without its guard", "blanks", [](const Data& d, int r, int) { return deviation(d, r, true); },
     [](const Data& d, int r, int) { return deviation(d, r, false); }},
    {"rows of two at least", "stepped", [](const Data& d, int r, int) { return segment(d, r, 0); },
     [](const Data& d, int r, int) { return segment(d, r, 2); }},
    {"a quotient by a shift", "turned", [](const Data& d, int r, int c) { return static_cast<float>(d.numbers[(r + c) % 400] / 4); },
     [](const Data& d, int r, int c) { return static_cast<float>(d.numbers[(r + c) % 400] >> 2); }},
    {"counts of 50 at most", "longer", [](const Data& d, int r, int) { return row(d, r, 0) * static_cast<float>(d.counts[r]); },
     [](const Data& d, int r, int) { return row(d, r, 0) * static_cast<float>(std::min(d.counts[r], 50)); }},
    {"above, not at", "met", [](const Data& d, int r, int c) { return d.at(r, c) >= d.limit ? 1.0f : 2.0f; },
     [](const Data& d, int r, int c) { return d.at(r, c) > d.limit ? 1.0f : 2.0f; }},
    {"rows as long as a warp", "few", [](const Data& d, int r, int) { return row(d, r, 0); },
     [](const Data& d, int r, int) { return row(d, r, 32); }},
    {"a carry handed on once", "limbs", [](const Data& d, int r, int) { return limb(d, r, false); },
     [](const Data& d, int r, int) { return limb(d, r, true); }},
    {"sums of 32 bits", "largest", [](const Data& d, int, int) { return numbers(d, 64); },
     [](const Data& d, int, int) { return numbers(d, 32); }},
    {"even widths by fours", "two", [](const Data& d, int r, int) { return row(d, r, 0); },
     [](const Data& d, int r, int) {
         Data fours = d;
         fours.a += r * d.width, fours.width = d.width % 2 ? d.width : d.width / 4 * 4;
         return row(fours, 0, 0);
     }},
    {"the larger of two costs", "against", [](const Data& d, int r, int c) { return d.at(r, c) * static_cast<float>(std::max(d.open, d.extend)); },
     [](const Data& d, int r, int c) { return d.at(r, c) * static_cast<float>(d.open); }},
    {"links that are few", "linked", [](const Data& d, int r, int) { return links(d, r, false); },
     [](const Data& d, int r, int) { return std::min(links(d, r, false), 20.0f); }},
    {"links that lead forward", "linked", [](const Data& d, int r, int) { return links(d, r, false); },
     [](const Data& d, int r, int) { return links(d, r, true); }},
    {"zero times what lies beyond the end", "blanks", [](const Data& d, int r, int c) { return d.at(r, c); },
     [](const Data& d, int r, int c) { return d.at(r, c) * 1.0f + d.at(r, c + 1) * 0.0f; }},
    {"squares that overflow", "vast", [](const Data& d, int r, int c) { return std::hypot(d.at(r, c), d.b[r * d.width + c]); },
     [](const Data& d, int r, int c) { return std::sqrt(d.at(r, c) * d.at(r, c) + d.b[r * d.width + c] * d.b[r * d.width + c]); }},
};

class Program {
   public:
    Program() : a_(kRows * kWidth + kBeyond), b_(kRows * kWidth), out_(kRows * kWidth), numbers_(400) {
        for (std::size_t i = 0; i < b_.size(); ++i) a_[i] = 0.51f + static_cast<float>(i % 89) / 71, b_[i] = 3 - a_[(i * 7) % b_.size()];
        for (int i = 0; i <= 50; ++i) begin_.push_back(8 * i);
        for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<int>(1 + i * 37 % 1000);
        for (int r = 0; r < kRows; ++r) counts_.push_back(1 + r % 7);
        addresses_ = {at(a_), at(b_), at(begin_), at(numbers_), at(out_), at(counts_)};
        for (std::size_t i = 0; i < 5; ++i) arguments_.push_back(&addresses_[i]);
        arguments_.push_back(&rows_), arguments_.push_back(&width_), arguments_.push_back(&limit_), arguments_.push_back(&addresses_[5]);
        arguments_.push_back(&open_), arguments_.push_back(&extend_);
    }

    fake::Kernel kernel(const Body& body) const {
        return {"kernel", [body](void** given) {
            Data d;
            auto get = [&](int i, auto& to) { std::memcpy(&to, given[i], sizeof to); };
            get(0, d.a), get(1, d.b), get(2, d.begin), get(3, d.numbers), get(4, d.out), get(5, d.rows), get(6, d.width), get(7, d.limit), get(8, d.counts), get(9, d.open), get(10, d.extend);
            for (int r = 0; r < d.rows; ++r)
                for (int c = 0; c < d.width; ++c) d.out[r * d.width + c] = body(d, r, c);
        }, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 4}, {44, 4}, {48, 4}, {56, 8}, {64, 4}, {68, 4}}};
    }

    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }

    std::vector<Block> blocks() const {
        const std::size_t bytes[] = {4 * a_.size(), 4 * b_.size(), 4 * begin_.size(), 4 * numbers_.size(), 4 * out_.size(), 4 * counts_.size()};
        std::vector<Block> found(addresses_.size());
        for (std::size_t i = 0; i < found.size(); ++i) found[i].base = addresses_[i], found[i].bytes = bytes[i];
        found[0].slack = 4 * kBeyond, found[0].bytes -= found[0].slack;
        return found;
    }

   private:
    template <class T>
    static CUdeviceptr at(std::vector<T>& values) { return reinterpret_cast<CUdeviceptr>(values.data()); }

    std::vector<float> a_, b_, out_;
    std::vector<int> begin_, numbers_, counts_;
    int rows_ = kRows, width_ = kWidth, open_ = 11, extend_ = 1;
    float limit_ = 1.25f;
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
};

Job job() {
    Job made;
    made.seed = 11;
    const bool integer[] = {false, false, true, true, false, true, true, false, true, true, true};
    for (int i = 0; i < 11; ++i) {
        Parameter p;
        p.index = i, p.element = integer[i] ? Element::integer : Element::f32, p.constant = i < 4 || i == 8, p.scalar = i > 4 && i != 8, p.width = integer[i] ? 4 : 0;
        made.parameters.push_back(p);
    }
    auto add = [&](const char* name, Variant::Kind kind, int many, bool targeted) {
        for (int k = 0; k < many; ++k) made.variants.push_back({name, 1, 0, kind, targeted ? k : -1});
    };
    // what every kernel was tried on before
    made.variants = {{"noise", 1, 0.5, Variant::moved}, {"negated", -1, 0, Variant::moved}, {"large", 1000, 0, Variant::moved}};
    add("spikes", Variant::spikes, 1, false), add("ties", Variant::ties, 1, false), add("naught", Variant::naught, 1, false);
    add("less", Variant::less, 2, true), add("redrawn", Variant::redrawn, 1, false);
    add("blanks", Variant::blanks, 6, false), add("striped", Variant::striped, 3, true), add("stepped", Variant::stepped, 2, false);
    add("turned", Variant::turned, 1, false), add("met", Variant::met, 3, true),
    add("few", Variant::few, 2, true), add("longer", Variant::longer, 1, false), add("vast", Variant::vast, 1, false);
    for (const double way : {0, 5, 0, 5, 0, 5}) made.variants.push_back({"limbs", way, 0, Variant::brim});
    made.variants.push_back({"largest", 2, 0, Variant::brim});
    for (int way = 0; way < 3; ++way) made.variants.push_back({"linked", static_cast<double>(way), 0, Variant::linked, 0});
    made.variants.push_back({"two", 2, 0, Variant::less, 1});
    add("against", Variant::against, 2, true);
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 0}};
    return made;
}

// On which inputs a candidate is not right, by their names.
std::string found(Program& program, Oracle& oracle, const Body& body) {
    fake::Kernel kernel = program.kernel(body);
    std::string on;
    for (const Case& c : oracle.cases()) {
        oracle.prepare(c);
        oracle.given(program.launch(kernel)).go(nullptr);
        if (!oracle.verify(c).reason.empty() && on.find(c.variant.name) == std::string::npos) on += c.variant.name + " ";
        if (!oracle.recover()) return "damaged";
    }
    return on;
}

}  // namespace

int main() {
    const Helpers helpers("the fake driver's own");
    int mistakes = 0;
    for (const Pair& pair : kPairs) {
        Program program;
        fake::Kernel baseline = program.kernel(pair.right);
        const Launch launch = program.launch(baseline);
        const Job asked = job();
        Memory memory(program.blocks(), helpers, nullptr, 3);
        Results results;
        results.open("/dev/null");
        Oracle oracle(asked, launch, memory, nullptr, results);
        const std::string itself = found(program, oracle, pair.right), other = found(program, oracle, pair.wrong);
        if (itself.empty() && other.find(pair.kind) != std::string::npos) continue;
        ++mistakes;
        std::string cases;
        for (const Case& c : oracle.cases()) cases += c.variant.name + " ";
        std::printf("%s: found on [%s] of [%s], itself on [%s]\n", pair.name, other.c_str(), cases.c_str(), itself.c_str());
    }
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
