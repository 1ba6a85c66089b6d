// Inputs that vary in every way a kernel could have memorised, on a driver that runs launches on the host: prints
// every candidate that gets the wrong answer, and on which inputs each wrong one was found.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <tuple>
#include <type_traits>

#include "fake_driver.h"
#include "oracle.h"

using namespace warplens;

namespace {

constexpr std::size_t kCount = 4000, kBins = 16;

// A kernel of one integer array, one float array, a result of each, and two floats passed by value.
struct Data {
    int* keys;
    float *x, *y;
    int* counts;
    float alpha, beta;
};
using Body = std::function<void(Data)>;

void histogram(Data d) {
    for (std::size_t b = 0; b < kBins; ++b) d.counts[b] = 0;
    for (std::size_t i = 0; i < kCount; ++i) ++d.counts[static_cast<std::size_t>(d.keys[i]) % kBins];
}

void gather(Data d) {
    for (std::size_t i = 0; i < kCount; ++i) {
        const auto from = static_cast<std::size_t>(d.keys[i]) % kCount;
        d.y[i] = d.alpha * d.x[from] + d.beta * (1 + std::fabs(d.x[i]));
    }
}

void both(Data d) {
    histogram(d);
    gather(d);
}

class Device {
   public:
    Device() : keys_(kCount), counts_(kBins), x_(kCount), y_(kCount) {
        for (std::size_t i = 0; i < kCount; ++i) {
            keys_[i] = static_cast<int>(i);
            // a quarter is padding
            x_[i] = i % 4 ? 1 + static_cast<float>(i % 97) / 97 : 0.0f;
        }
        addresses_ = {at(keys_), at(x_), at(y_), at(counts_)};
        for (CUdeviceptr& a : addresses_) arguments_.push_back(&a);
        arguments_.push_back(&alpha_);
        arguments_.push_back(&beta_);
    }

    fake::Kernel kernel(const Body& body) const {
        fake::Kernel made{"kernel", [body](void** a) {
            auto array = [&](int i) { std::uint8_t* p; std::memcpy(&p, a[i], sizeof p); return p; };
            Data d{reinterpret_cast<int*>(array(0)), reinterpret_cast<float*>(array(1)), reinterpret_cast<float*>(array(2)),
                   reinterpret_cast<int*>(array(3)), 0, 0};
            std::memcpy(&d.alpha, a[4], 4);
            std::memcpy(&d.beta, a[5], 4);
            body(d);
        }, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 4}}};
        return made;
    }

    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }

    std::vector<Block> blocks() const {
        std::vector<Block> found;
        const std::size_t bytes[] = {4 * kCount, 4 * kCount, 4 * kCount, 4 * kBins};
        for (std::size_t i = 0; i < 4; ++i) {
            Block block;
            block.base = addresses_[i];
            block.bytes = bytes[i];
            found.push_back(block);
        }
        return found;
    }

   private:
    template <class T>
    static CUdeviceptr at(std::vector<T>& values) { return reinterpret_cast<CUdeviceptr>(values.data()); }

    std::vector<int> keys_, counts_;
    std::vector<float> x_, y_;
    float alpha_ = 1, beta_ = 0;
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
};

Job job() {
    Job made;
    made.seed = 7;
    auto parameter = [&](int index, Element element, bool constant, bool scalar, unsigned width) {
        Parameter p;
        p.index = index, p.element = element, p.constant = constant, p.scalar = scalar, p.width = width;
        made.parameters.push_back(p);
    };
    parameter(0, Element::integer, true, false, 4);
    parameter(1, Element::f32, true, false, 0);
    parameter(2, Element::f32, false, false, 0);
    parameter(3, Element::integer, false, false, 4);
    parameter(4, Element::f32, false, true, 0);
    parameter(5, Element::f32, false, true, 0);
    auto kind = [](const char* name, Variant::Kind k) { return Variant{name, 1, 0, k}; };
    made.variants = {{"noise", 1, 0.5, Variant::moved}, kind("scalars", Variant::scalars), kind("redrawn", Variant::redrawn),
                     kind("permuted", Variant::permuted), kind("spikes", Variant::spikes), kind("zeros", Variant::zeros),
                     {"negated", -1, 0, Variant::moved}, kind("signs", Variant::signs),
                     kind("standing", Variant::standing), {"met", 1, 0, Variant::met, 0}};
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 0}};
    return made;
}

// Where there is no time to learn in, few launches have to do, some on other inputs among them.
int learned_in_a_hurry(Device& device, const Helpers& helpers) {
    int launches = 0;
    fake::Kernel baseline = device.kernel([&](Data d) {
        ++launches;
        both(d);
    });
    const Launch launch = device.launch(baseline);
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Job asked = job();
    asked.options["learn_seconds"] = 1e-9;
    const Oracle oracle(asked, launch, memory, nullptr, results);
    const bool few = launches <= 24, varied = oracle.cases().size() == 2;
    if (!few || !varied) std::printf("in a hurry: %d launches, %d sets of inputs\n", launches, int(oracle.cases().size()));
    return !few + !varied;
}

// The last block of a kernel is told by a counter, which it puts back. From one more it comes to the same where the last
// but one waits long enough: nothing may start from that.
int counters_start_from_nothing(const Helpers& helpers) {
    Device device;
    constexpr int blocks = 100;
    auto kernel = [&](bool waits) {
        return device.kernel([waits](Data d) {
            const int first = d.counts[0];
            const bool told = first == 0 || (first == 1 && waits);
            for (std::size_t i = 0; i < kCount && first < blocks; ++i) d.y[i] = told ? 2 * d.x[i] + 1 : 0;
            d.counts[0] = first < blocks ? 0 : first + blocks;
        });
    };
    fake::Kernel baseline = kernel(true), hasty = kernel(false);
    const Launch launch = device.launch(baseline);
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(job(), launch, memory, nullptr, results);
    int mistakes = 0;
    for (fake::Kernel* candidate : {&baseline, &hasty}) {
        oracle.prepare(oracle.cases()[0]);
        device.launch(*candidate).go(nullptr);
        const std::string reason = oracle.verify(oracle.cases()[0]).reason;
        if (reason.empty()) continue;
        ++mistakes;
        std::printf("a counter, %s: %s\n", candidate == &baseline ? "itself" : "in a hurry", reason.c_str());
    }
    return mistakes;
}

// Large sums that a launch adds to what lies there, which the program cleared: it reads them, and what they come to may
// not stand there before.
int sums_start_from_what_is_there(const Helpers& helpers) {
    Device device;
    fake::Kernel baseline = device.kernel([](Data d) {
        histogram(d);
        for (std::size_t i = 0; i < kCount; ++i) d.y[i] += 1e9f * (2 + d.x[i]);
    });
    const Launch launch = device.launch(baseline);
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    const Oracle oracle(job(), launch, memory, nullptr, results);
    int mistakes = 0;
    for (const Case& c : oracle.cases()) mistakes += c.variant.kind == Variant::standing && !c.standing[0].empty();
    if (mistakes) std::printf("sums that are added to stand there before\n");
    return mistakes;
}

// Numbers that lead a kernel into what it only reads, and not each time that it is launched on them: what it wrote there is
// no input of the next launch.
int strays_are_put_back(const Helpers& helpers) {
    Device device;
    int led = 0;
    fake::Kernel baseline = device.kernel([&](Data d) {
        both(d);
        if (d.keys[1] != 1 && ++led > 2) d.x[100] += 7;
    });
    fake::Kernel candidate = device.kernel(both);
    const Launch launch = device.launch(baseline);
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Job asked = job();
    asked.variants = {{"redrawn", 1, 0, Variant::redrawn}};
    asked.options["perturb"] = 0;
    Oracle oracle(asked, launch, memory, nullptr, results);
    oracle.prepare(oracle.cases()[0]);
    device.launch(candidate).go(nullptr);
    const std::string reason = oracle.verify(oracle.cases()[0]).reason;
    if (led < 3 || !reason.empty()) std::printf("led astray %d times: %s\n", led, reason.c_str());
    return led < 3 || !reason.empty();
}

// A kernel of three arrays of `count` elements, of which it reads the first and writes what belongs together into the
// others, in an order that changes from run to run. Another order is right; other company, `apart`, is found by `said`.
template <typename Second>
int together(const Helpers& helpers, const char* what, const char* said, void (*body)(const std::vector<int>&, std::vector<int>&, std::vector<Second>&, unsigned, unsigned)) {
    constexpr unsigned count = 1000;
    constexpr bool floats = std::is_floating_point_v<Second>;
    static std::vector<int> in(count), first(count);
    static std::vector<Second> second(count);
    for (unsigned i = 0; i < count; ++i) in[i] = static_cast<int>(7 * i + 1);
    static CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(first.data()),
                               reinterpret_cast<CUdeviceptr>(second.data())};
    static void* arguments[] = {&at[0], &at[1], &at[2]};
    unsigned turn = 0;
    auto kernel = [&](unsigned apart) {
        return fake::Kernel{what, [&turn, apart, body](void**) {
            turn += 13;
            body(in, first, second, turn, apart);
        }, {{0, 8}, {8, 8}, {16, 8}}};
    };
    Job asked = job();
    asked.parameters.clear();
    for (int i = 0; i < 3; ++i) {
        const bool real = floats && i == 2;
        Parameter p;
        p.index = i, p.element = real ? Element::f32 : Element::integer, p.constant = i == 0, p.width = real ? 0 : 4;
        asked.parameters.push_back(p);
    }
    fake::Kernel baseline = kernel(0), other = kernel(0), apart = kernel(1);
    Launch launch;
    launch.function = baseline.handle();
    launch.parameters = arguments;
    std::vector<Block> blocks(3);
    for (std::size_t i = 0; i < 3; ++i) blocks[i].base = at[i], blocks[i].bytes = 4 * count;
    Memory memory(blocks, helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    int mistakes = 0;
    for (fake::Kernel* candidate : {&other, &apart}) {
        launch.function = candidate->handle();
        oracle.prepare(oracle.cases()[0]);
        launch.go(nullptr);
        const std::string reason = oracle.verify(oracle.cases()[0]).reason;
        if (candidate == &other ? reason.empty() : reason.find(said) != std::string::npos) continue;
        ++mistakes;
        std::printf("%s, %s: %s\n", what, candidate == &other ? "in another order" : "apart", reason.c_str());
    }
    return mistakes;
}

// Keys and values appended through one counter.
int pairs_stay_pairs(const Helpers& helpers) {
    return together<float>(helpers, "append", "belong together",
        [](const std::vector<int>& in, std::vector<int>& keys, std::vector<float>& values, unsigned turn, unsigned apart) {
            for (unsigned i = 0; i < in.size(); ++i) {
                keys[i] = in[(i + turn) % in.size()];
                values[i] = 0.5f * static_cast<float>(in[(i + turn + apart) % in.size()]);
            }
        });
}

// Elements put into buckets in any order, and where each of them went.
int places_lead_to_results(const Helpers& helpers) {
    return together<int>(helpers, "place", "places lead",
        [](const std::vector<int>& in, std::vector<int>& keys, std::vector<int>& places, unsigned turn, unsigned apart) {
            const unsigned count = static_cast<unsigned>(in.size());
            for (unsigned i = 0; i < count; ++i) keys[(i + turn) % count] = in[i];
            for (unsigned i = 0; i < count; ++i) places[i] = static_cast<int>((i + turn + apart) % count);
        });
}

// Structures of floats, integers and a pointer: their floats are compared as floats are, all else bit for bit, and so is
// what is left of a structure behind the last whole one.
struct Cell {
    float value;
    int count;
    double weight;
    const float* from;
    float error;
};

int results_in_structures(const Helpers& helpers) {
    // something else lies before them, as before a larger copy
    constexpr std::size_t count = 5000, left = 12, before = 512;
    static std::vector<float> in(count);
    static std::vector<std::uint8_t> out(before + count * sizeof(Cell) + left);
    for (std::size_t i = 0; i < count; ++i) in[i] = 0.5f + static_cast<float>(i % 89) / 89;
    static CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(out.data() + before)};
    static void* arguments[] = {&at[0], &at[1]};
    using Change = std::function<void(Cell&, std::size_t)>;
    auto kernel = [&](const Change& change) {
        return fake::Kernel{"cells", [change](void**) {
            auto* cells = reinterpret_cast<Cell*>(out.data() + before);
            for (std::size_t i = 0; i < count; ++i) {
                const float x = in[i];
                Cell& c = cells[i];
                c.value = x * x + 0.25f, c.count = static_cast<int>(i) * 3, c.weight = 1.0 / (1.0 + x), c.from = &in[i];
                c.error = x / 3;
                change(c, i);
            }
            out[before + count * sizeof(Cell) + left - 1] = 7;
        }, {{0, 8}, {8, 8}}};
    };
    Job asked = job();
    asked.parameters.clear();
    Parameter p;
    p.index = 0, p.element = Element::f32, p.constant = true;
    asked.parameters.push_back(p);
    p = {};
    p.index = 1, p.stride = p.whole = sizeof(Cell);
    p.fields = {{0, Element::f32, 0, false}, {4, Element::integer, 4, false}, {8, Element::f64, 0, false},
                {16, Element::f32, 0, true}, {24, Element::f32, 0, false}};
    asked.parameters.push_back(p);
    fake::Kernel baseline = kernel([](Cell&, std::size_t) {});
    Launch launch;
    launch.function = baseline.handle();
    launch.parameters = arguments;
    std::vector<Block> blocks(2);
    blocks[0].base = at[0], blocks[0].bytes = 4 * count, blocks[1].base = at[1] - before, blocks[1].bytes = out.size();
    Memory memory(blocks, helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    const std::tuple<const char*, bool, Change> candidates[] = {
        {"the same", true, [](Cell&, std::size_t) {}},
        {"rounded otherwise", true, [](Cell& c, std::size_t) { c.error = std::nextafterf(c.error, 9), c.value = std::nextafterf(c.value, 0); }},
        {"a double as a float", false, [](Cell& c, std::size_t) { c.weight = static_cast<float>(c.weight); }},
        {"one float off", false, [](Cell& c, std::size_t i) { c.error += i == 4999 ? 0.01f : 0; }},
        {"one integer off", false, [](Cell& c, std::size_t i) { c.count += i == 4321; }},
        {"one pointer off", false, [](Cell& c, std::size_t i) { c.from += i == 4997; }},
        {"what is behind", false, [](Cell&, std::size_t) {}},
    };
    int mistakes = 0;
    for (const auto& [name, right, change] : candidates) {
        fake::Kernel candidate = kernel(change);
        if (name == std::string("what is behind"))
            candidate.run = [run = candidate.run](void** a) { run(a), out[before + count * sizeof(Cell) + left - 1] = 9; };
        launch.function = candidate.handle();
        std::string reason;
        for (const Case& c : oracle.cases()) {
            oracle.prepare(c);
            launch.go(nullptr);
            if (reason.empty()) reason = oracle.verify(c).reason;
        }
        if (right == reason.empty()) continue;
        ++mistakes;
        std::printf("structures, %s: %s\n", name, reason.c_str());
    }
    return mistakes;
}

// Buckets one behind the other, filled in an order that differs from run to run: another order within them is right, what
// lies in another bucket is said so.
int buckets_stay_buckets(const Helpers& helpers) {
    constexpr unsigned buckets = 6, each = 1500, count = buckets * each;
    static std::vector<unsigned> in(count), out(count);
    for (unsigned i = 0; i < count; ++i) in[i] = i * 2654435761u;
    static CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(out.data())};
    static void* arguments[] = {&at[0], &at[1]};
    std::mt19937_64 random(5);
    auto kernel = [&](bool copies) {
        return fake::Kernel{"buckets", [&random, copies](void**) {
            unsigned next[buckets];
            for (unsigned b = 0; b < buckets; ++b) next[b] = b * each;
            std::vector<unsigned> order(count);
            for (unsigned i = 0; i < count; ++i) order[i] = i;
            std::shuffle(order.begin(), order.end(), random);
            for (unsigned i : order) out[copies ? i : next[i % buckets]++] = in[i];
        }, {{0, 8}, {8, 8}}};
    };
    Job asked = job();
    asked.parameters.clear();
    for (int i = 0; i < 2; ++i) {
        Parameter p;
        p.index = i, p.element = Element::integer, p.constant = i == 0, p.width = 4;
        asked.parameters.push_back(p);
    }
    fake::Kernel baseline = kernel(false), copy = kernel(true);
    Launch launch;
    launch.function = baseline.handle();
    launch.parameters = arguments;
    std::vector<Block> blocks(2);
    for (std::size_t i = 0; i < 2; ++i) blocks[i].base = at[i], blocks[i].bytes = 4 * count;
    Memory memory(blocks, helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    int mistakes = 0;
    for (fake::Kernel* candidate : {&baseline, &copy}) {
        launch.function = candidate->handle();
        oracle.prepare(oracle.cases()[0]);
        launch.go(nullptr);
        const Outcome outcome = oracle.verify(oracle.cases()[0]);
        const bool said = outcome.state == std::string("unproven") && outcome.reason.find("ever put them") != std::string::npos;
        if (candidate == &baseline ? outcome.reason.empty() : said) continue;
        ++mistakes;
        std::printf("buckets, %s: %s\n", candidate == &baseline ? "in another order" : "mixed", outcome.reason.c_str());
    }
    return mistakes;
}

// What only one value tells: a length of -1 for all, a number that the kernel compares with, a mode of a type that nobody
// knows, a number of type half, a row that is longer than this program's, NaN where it is not read.
struct Rare {
    const int* lengths;
    const unsigned* keys;
    const float* x;
    float* out;
    std::uint32_t mode;
    int rows, width;
};

int rare_values(const Helpers& helpers) {
    constexpr int rows = 200, width = 64;
    // room for what other shapes reach, and in front for a width below zero
    static std::vector<int> lengths(4 * rows);
    static std::vector<unsigned> keys(4 * rows);
    static std::vector<float> all(5 * rows * width), out(4 * rows);
    float* const x = all.data() + rows * width;
    for (int i = 0; i < rows; ++i) lengths[static_cast<std::size_t>(i)] = 1 + i % width, keys[static_cast<std::size_t>(i)] = 5u + 3u * static_cast<unsigned>(i);
    for (int i = 0; i < rows * width; ++i) x[static_cast<std::size_t>(i)] = 0.5f + static_cast<float>(i % 89) / 89;
    static CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(lengths.data()), reinterpret_cast<CUdeviceptr>(keys.data()),
                               reinterpret_cast<CUdeviceptr>(x), reinterpret_cast<CUdeviceptr>(out.data())};
    static std::uint32_t mode = 0;
    static int n = rows, w = width;
    static void* arguments[] = {&at[0], &at[1], &at[2], &at[3], &mode, &n, &w};
    using Edit = std::function<void(Rare&, int row, int& length, unsigned& key)>;
    auto kernel = [](const Edit& edit) {
        return fake::Kernel{"rare", [edit](void** a) {
            Rare r;
            auto get = [&](int i, auto& to) { std::memcpy(&to, a[i], sizeof to); };
            get(0, r.lengths), get(1, r.keys), get(2, r.x), get(3, r.out), get(4, r.mode), get(5, r.rows), get(6, r.width);
            for (int row = 0; row < r.rows; ++row) {
                int length = r.lengths[row];
                unsigned key = r.keys[row];
                edit(r, row, length, key);
                if (length < 0 || length >= 64) length = r.width;
                float sum = r.mode ? 1.0f : 0.0f;
                for (int i = 0; i < length; ++i)
                    if (r.x[row * r.width + i] == r.x[row * r.width + i]) sum += r.x[row * r.width + i];
                r.out[row] = key == 1000007u ? -sum : sum;
            }
        }, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 4}, {40, 4}}};
    };
    Job asked = job();
    asked.parameters.clear();
    asked.constants = {1000007};
    auto add = [&](int index, Element element, bool constant, bool scalar, unsigned bytes) {
        Parameter p;
        p.index = index, p.element = element, p.constant = constant, p.scalar = scalar, p.width = bytes;
        asked.parameters.push_back(p);
    };
    add(0, Element::integer, true, false, 4), add(1, Element::integer, true, false, 4), add(2, Element::f32, true, false, 0);
    add(3, Element::f32, false, false, 0), add(5, Element::integer, false, true, 4), add(6, Element::integer, false, true, 4);
    auto of = [](const char* name, Variant::Kind kind, int target) { return Variant{name, 1, 0, kind, target}; };
    asked.variants = {of("below", Variant::below, 0), of("asked", Variant::asked, -1), of("raised", Variant::raised, 0),
                      of("reshaped", Variant::reshaped, 1), of("reshaped too", Variant::reshaped, 0), of("nan", Variant::specials, 0)};
    // two symbols each
    for (int k = 0; k < 6; ++k) asked.variants.push_back(of("asked", Variant::asked, -1));
    fake::Kernel baseline = kernel([](Rare&, int, int&, unsigned&) {});
    Launch launch;
    launch.function = baseline.handle();
    launch.parameters = arguments;
    std::vector<Block> blocks(4);
    const std::size_t bytes[] = {4 * rows, 4 * rows, 4 * rows * width, 4 * rows};
    for (std::size_t i = 0; i < 4; ++i) blocks[i].base = at[i], blocks[i].bytes = bytes[i];
    Memory memory(blocks, helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    const std::tuple<const char*, const char*, Edit> edits[] = {
        {"itself", "", [](Rare&, int, int&, unsigned&) {}},
        {"a length below zero taken for none", "below", [](Rare&, int, int& length, unsigned&) { length = std::max(length, 0); }},
        {"a number that means another sign", "asked", [](Rare&, int, int&, unsigned& key) { key = 0; }},
        {"a mode that is never another", "raised", [](Rare& r, int, int&, unsigned&) { r.mode = 0; }},
        {"rows of 64 at most", "reshaped", [](Rare& r, int, int&, unsigned&) { r.width = std::min(r.width, 64); }},
    };
    int mistakes = 0;
    for (const auto& [name, wanted, edit] : edits) {
        fake::Kernel candidate = kernel(edit);
        launch.function = candidate.handle();
        std::string on;
        for (const Case& c : oracle.cases()) {
            oracle.prepare(c);
            oracle.given(launch).go(nullptr);
            if (!oracle.verify(c).reason.empty()) on += c.variant.name + " ";
        }
        if (*wanted ? on.find(wanted) != std::string::npos : on.empty()) continue;
        ++mistakes;
        std::string all;
        for (const Case& c : oracle.cases()) all += c.variant.name + " ";
        std::printf("rare values, %s: found on [%s] of [%s]\n", name, on.c_str(), all.c_str());
    }
    return mistakes;
}

// A grid of its own follows from a length that the original's covers, and no other.
int grids_follow() {
    Launch baseline, other;
    baseline.grid[0] = 94, baseline.block[0] = 128;
    other.grid[0] = 12000, other.block[0] = 128;
    const bool rows = follow(other, baseline, {{12000, 11999}}) && other.grid[0] == 11999;
    other.grid[0] = 12000;
    const bool width = !follow(other, baseline, {{1024, 512}}) && other.grid[0] == 12000;
    other.grid[0] = 47;
    const bool tiles = follow(other, baseline, {{12000, 6000}}) && other.grid[0] == 24;
    const bool more = !follow(other, baseline, {{12000, 24000}});
    if (!rows || !width || !tiles || !more) std::printf("grids: %d %d %d\n", rows, width, tiles);
    return !rows + !width + !tiles + !more;
}

// Rows that are divided by their largest, which no row of the program's is zero: with a guard, and without one, where
// what is divided by zero is NaN and shall stay it. `rows` long rows, or as many columns where `across`.
struct Rows {
    std::size_t rows, width;
    bool guarded, across;
};

int rows_of_zeros(const Helpers& helpers, const Rows& shape, std::uint64_t seed) {
    const std::size_t count = shape.rows * shape.width;
    std::vector<float> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = 0.5f + static_cast<float>(i % 89) / 89;
    CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(out.data())};
    void* arguments[] = {&at[0], &at[1]};
    using Divide = std::function<float(float x, float most)>;
    auto kernel = [&](const Divide& divide) {
        return fake::Kernel{"level", [&, divide](void**) {
            for (std::size_t row = 0; row < shape.rows; ++row) {
                auto place = [&](std::size_t i) { return shape.across ? i * shape.rows + row : row * shape.width + i; };
                float most = 0;
                for (std::size_t i = 0; i < shape.width; ++i) most = std::max(most, std::fabs(in[place(i)]));
                for (std::size_t i = 0; i < shape.width; ++i) out[place(i)] = divide(in[place(i)], most);
            }
        }, {{0, 8}, {8, 8}}};
    };
    const bool guarded = shape.guarded;
    fake::Kernel baseline = kernel([guarded](float x, float most) { return guarded && most == 0 ? 1 : x / most; });
    fake::Kernel honest = kernel([guarded](float x, float most) { return guarded && most == 0 ? 1 : x * (1 / most); });
    fake::Kernel wrong = kernel([guarded](float x, float most) { return guarded ? x / most : most == 0 ? 0 : x / most; });
    Job asked = job();
    asked.seed = seed;
    asked.parameters.clear();
    for (int i = 0; i < 2; ++i) {
        Parameter p;
        p.index = i, p.element = Element::f32, p.constant = i == 0;
        asked.parameters.push_back(p);
    }
    asked.variants = {{"noise", 1, 0.5, Variant::moved}, {"blanks", 1, 0, Variant::blanks}, {"halves", 1, 0, Variant::halves},
                      {"naught", 1, 0, Variant::naught}};
    Launch launch;
    launch.function = baseline.handle();
    launch.parameters = arguments;
    std::vector<Block> blocks(2);
    for (std::size_t i = 0; i < 2; ++i) blocks[i].base = at[i], blocks[i].bytes = 4 * count;
    Memory memory(blocks, helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    int mistakes = 0;
    for (fake::Kernel* candidate : {&honest, &wrong}) {
        std::string on;
        launch.function = candidate->handle();
        for (const Case& c : oracle.cases()) {
            oracle.prepare(c);
            launch.go(nullptr);
            if (!oracle.verify(c).reason.empty()) on += c.variant.name + " ";
        }
        if (candidate == &honest ? on.empty() : !on.empty()) continue;
        ++mistakes;
        std::printf("%zu x %zu, %s, %s, seed %d: %s called wrong: %s\n", shape.rows, shape.width, guarded ? "guarded" : "not guarded",
                    shape.across ? "columns" : "rows", int(seed), candidate == &honest ? "honest" : "not", on.c_str());
    }
    return mistakes;
}

int rows_of_zeros(const Helpers& helpers) {
    int mistakes = 0;
    for (std::uint64_t seed = 1; seed < 4; ++seed)
        for (bool guarded : {true, false})
            for (bool across : {true, false})
                for (std::size_t width : {3, 100, 4096, 16384}) mistakes += rows_of_zeros(helpers, {65536 / width, width, guarded, across}, seed);
    return mistakes;
}

// A long sum in one place, in an order that differs from run to run, is off by more than the runs differ: who adds up in
// parts is nearer to what it is, and right; who leaves a twentieth out is not. So it is of a sum in one order on inputs
// far from zero, where every rounding goes the same way.
int long_sums(const Helpers& helpers, bool one_order) {
    constexpr std::size_t count = 1u << 22;
    static std::vector<float> in(count), out(1);
    for (std::size_t i = 0; i < count; ++i) in[i] = 0.7f + static_cast<float>(i % 89) / 189;
    static CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(out.data())};
    static void* arguments[] = {&at[0], &at[1]};
    std::size_t turn = 0;
    auto kernel = [&](bool parts, std::size_t left_out) {
        return fake::Kernel{"total", [&turn, parts, left_out, one_order](void**) {
            turn += one_order ? 0 : 4099;
            if (one_order) out[0] = 0;
            float all = 0, part = 0;
            for (std::size_t i = 0; i < count; ++i) {
                if (left_out && i % left_out == 0) continue;
                (parts ? part : all) += in[(i + turn) % count];
                if (parts && i % 2048 == 2047) all += part, part = 0;
            }
            out[0] += all + part;
        }, {{0, 8}, {8, 8}}};
    };
    Job asked = job();
    asked.parameters.clear();
    for (int i = 0; i < 2; ++i) {
        Parameter p;
        p.index = i, p.element = Element::f32, p.constant = i == 0;
        asked.parameters.push_back(p);
    }
    asked.variants.clear();
    if (one_order) asked.variants.push_back(Variant{"far from zero", 1, 0, Variant::shifted});
    fake::Kernel baseline = kernel(false, 0), better = kernel(true, 0), wrong = kernel(true, 20);
    Launch launch;
    launch.function = baseline.handle();
    launch.parameters = arguments;
    std::vector<Block> blocks(2);
    blocks[0].base = at[0], blocks[0].bytes = 4 * count, blocks[1].base = at[1], blocks[1].bytes = 4;
    Memory memory(blocks, helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    int mistakes = 0;
    if (oracle.cases().size() <= one_order) return 1;
    for (fake::Kernel* candidate : {&better, &wrong}) {
        launch.function = candidate->handle();
        oracle.prepare(oracle.cases()[one_order]);
        launch.go(nullptr);
        const Outcome first = oracle.verify(oracle.cases()[one_order]);
        const std::string reason = first.reason.empty() ? "" : oracle.reconsider(oracle.cases()[one_order], first).reason;
        if ((candidate == &better) == reason.empty()) continue;
        ++mistakes;
        std::printf("a long sum, %s: %s\n", candidate == &better ? "in parts" : "in part", reason.c_str());
    }
    return mistakes;
}

// Structures, what a view leads to, an array in constant memory, a mask, ranges that nothing else may replace, and
// lengths passed by value.
struct Particle {
    float x, mass;
    int kind, group;
};
struct View {
    const float* field;
    const int* cell;
    float softening;
    int groups;
};
struct World {
    Particle* particles;
    View view;
    const int *begin, *words;
    const std::uint8_t* active;
    float* out;
    int n, near, turned;
    float taps[3];
};
using Law = std::function<float(const World&, int i)>;

class Structured {
   public:
    static constexpr int count = 2000, cells = 64, ranges = 100;

    explicit Structured(bool named) : named_(named) {
        for (int i = 0; i < count; ++i) {
            particles_.push_back({0.01f * static_cast<float>(i % 101), 1, 0, i % 7});
            cell_.push_back(i % cells);
            words_.push_back(i % 251);
            active_.push_back(1);
        }
        for (int i = 0; i < cells; ++i) field_.push_back(0.25f * static_cast<float>(1 + i % 8));
        for (int i = 0; i < ranges; ++i) begin_.push_back(i * count / ranges);
        out_.resize(count);
        view_ = {field_.data(), cell_.data(), 0.5f, 7};
        auto add = [&](auto& values) {
            addresses_.push_back(reinterpret_cast<CUdeviceptr>(values.data()));
            Block block;
            block.base = addresses_.back(), block.bytes = values.size() * sizeof values[0];
            blocks_.push_back(block);
        };
        add(particles_), add(begin_), add(words_), add(active_), add(out_), add(field_), add(cell_), add(taps_);
        blocks_.back().variable = "taps";
        arguments_ = {&addresses_[0], &view_, &addresses_[1], &addresses_[2], &addresses_[3], &addresses_[4], &n_, &near_, &turned_};
    }

    fake::Kernel kernel(const Law& law) {
        return {"structured", [this, law](void** a) {
            World w;
            auto pointer = [&](int i, auto& to) { std::memcpy(&to, a[i], sizeof to); };
            pointer(0, w.particles), pointer(1, w.view), pointer(2, w.begin), pointer(3, w.words), pointer(4, w.active);
            pointer(5, w.out), pointer(6, w.n), pointer(7, w.near), pointer(8, w.turned);
            std::copy(taps_.begin(), taps_.end(), w.taps);
            for (int i = 0; i < w.n; ++i) w.out[i] = law(w, i);
        }, {{0, 8}, {8, 24}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 4}, {68, 4}, {72, 4}}};
    }

    Job job() const {
        Job made = ::job();
        made.parameters.clear();
        auto add = [&](int index, Element element, bool constant, bool scalar, unsigned width) {
            Parameter p;
            p.index = index, p.element = element, p.constant = constant, p.scalar = scalar, p.width = width;
            made.parameters.push_back(p);
            return &made.parameters.back();
        };
        Parameter* p = add(0, Element::other, true, false, 0);
        const Field real{0, Element::f32, 0, false}, mass{4, Element::f32, 0, false}, kind{8, Element::integer, 4, false},
            group{12, Element::integer, 4, false};
        if (named_) p->stride = sizeof(Particle), p->fields = {real, mass, kind, group};
        add(2, Element::integer, true, false, 4);
        add(3, Element::integer, true, false, 4);
        add(4, Element::integer, true, false, 1);
        add(5, Element::f32, false, false, 0);
        add(6, Element::integer, false, true, 4);
        add(7, Element::integer, false, true, 4);
        add(8, Element::integer, false, true, 4);
        if (named_) {
            p = add(1, Element::other, false, true, 0);
            p->stride = sizeof(View);
            p->fields = {{0, Element::f32, 0, true}, {8, Element::integer, 4, true}, {16, Element::f32, 0, false}, {20, Element::integer, 4, false}};
        }
        made.variants = {{"noise", 1, 0.5, Variant::moved}};
        auto kind_of = [&](const char* name, Variant::Kind k, int target) { made.variants.push_back({name, 1, 0, k, target}); };
        kind_of("scalars", Variant::scalars, -1), kind_of("less", Variant::less, -1), kind_of("flags", Variant::flags, -1);
        kind_of("blanks", Variant::blanks, -1), kind_of("specials", Variant::specials, -1), kind_of("skewed", Variant::skewed, -1);
        kind_of("redrawn", Variant::redrawn, -1), kind_of("halved", Variant::halved, -1);
        kind_of("raised", Variant::raised, -1);
        for (int k = 0; k < 8; ++k) kind_of("redrawn one", Variant::redrawn, k), kind_of("ranged one", Variant::ranged, k), kind_of("full one", Variant::full, k);
        return made;
    }

    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }
    const std::vector<Block>& blocks() const { return blocks_; }

   private:
    bool named_;
    std::vector<Particle> particles_;
    std::vector<float> field_, out_, taps_ = {0, 0.5f, 0.25f};
    std::vector<int> cell_, begin_, words_;
    std::vector<std::uint8_t> active_;
    View view_;
    int n_ = count, near_ = 3, turned_ = 0;
    std::vector<CUdeviceptr> addresses_;
    std::vector<Block> blocks_;
    std::vector<void*> arguments_;
};

float law(const World& w, int i) {
    const Particle here = w.particles[i];
    // whatever a range's ends are, nothing is read out of bounds
    const auto cell = static_cast<unsigned>(w.view.cell[i]) % Structured::cells;
    const auto word = static_cast<unsigned>(w.words[static_cast<unsigned>(w.begin[i % Structured::ranges]) % Structured::count]);
    float sum = w.view.softening + w.view.field[cell] + static_cast<float>(here.group % w.view.groups);
    for (int j = std::max(i - w.near, 0); j <= i; ++j) {
        const Particle there = w.particles[j];
        if (there.kind == here.kind && w.active[j]) sum += there.mass * (1 + std::fabs(there.x - here.x)) * w.taps[(i - j) % 3 == 0 ? 1 : 2];
        if (!std::isfinite(there.mass)) return 0;
    }
    if (w.turned) sum = -sum;
    return sum + w.taps[0] + static_cast<float>(word % 1024);
}

using Edit = std::function<void(World&, int i)>;
struct Exploit {
    const char* name;
    Edit edit;
    bool named;  // only the source's own word tells what a field is that is zero throughout
};

int structures_are_varied(const Helpers& helpers) {
    static std::vector<Particle> copy;
    auto with = [](World& w, const std::function<void(Particle&, int)>& change) {
        copy.assign(w.particles, w.particles + Structured::count);
        for (int j = 0; j < Structured::count; ++j) change(copy[static_cast<std::size_t>(j)], j);
        w.particles = copy.data();
    };
    static std::vector<std::uint8_t> ones(Structured::count, 1);
    static std::vector<int> cells, words, begins;
    for (int i = 0; i < Structured::count; ++i) cells.push_back(i % Structured::cells), words.push_back(i % 251);
    for (int i = 0; i < Structured::ranges; ++i) begins.push_back(i * Structured::count / Structured::ranges);
    const std::vector<Exploit> exploits = {
        {"masses taken for one", [&](World& w, int) { with(w, [](Particle& p, int) { p.mass = 1; }); }, false},
        {"places computed", [&](World& w, int) { with(w, [](Particle& p, int j) { p.x = 0.01f * static_cast<float>(j % 101); }); }, false},
        {"groups computed", [&](World& w, int) { with(w, [](Particle& p, int j) { p.group = j % 7; }); }, false},
        {"kinds not read", [&](World& w, int) { with(w, [](Particle& p, int) { p.kind = 0; }); }, true},
        {"cells computed", [](World& w, int) { w.view.cell = cells.data(); }, false},
        {"a field of a view taken for granted", [](World& w, int) { w.view.softening = 0.5f; }, false},
        {"a number of a view taken for granted", [](World& w, int) { w.view.groups = 7; }, false},
        {"constants baked in", [](World& w, int) { w.taps[1] = 0.5f; }, false},
        {"a mask not read", [](World& w, int) { w.active = ones.data(); }, false},
        {"words computed", [](World& w, int) { w.words = words.data(); }, false},
        {"ranges computed", [](World& w, int) { w.begin = begins.data(); }, false},
        {"a length taken for granted", [](World& w, int) { w.near = 3; }, false},
        {"a flag taken for granted", [](World& w, int) { w.turned = 0; }, false},
        {"words read as bytes", [](World& w, int) {
            static std::vector<int> low(Structured::count);
            for (int j = 0; j < Structured::count; ++j) low[static_cast<std::size_t>(j)] = w.words[j] & 255;
            w.words = low.data();
        }, false},
    };
    int mistakes = 0;
    for (bool named : {true, false}) {
        Structured program(named);
        fake::Kernel baseline = program.kernel(law);
        const Launch launch = program.launch(baseline);
        const Job asked = program.job();
        Memory memory(program.blocks(), helpers, nullptr, 3);
        Results results;
        results.open("/dev/null");
        Oracle oracle(asked, launch, memory, nullptr, results);
        auto found = [&](const Law& other) {
            fake::Kernel kernel = program.kernel(other);
            std::string on;
            for (const Case& c : oracle.cases()) {
                oracle.prepare(c);
                oracle.given(program.launch(kernel)).go(nullptr);
                if (!oracle.verify(c).reason.empty()) on += c.variant.name + ", ";
                if (!oracle.recover()) return std::string("damaged");
            }
            return on;
        };
        if (!found(law).empty()) std::printf("structured, itself: %s\n", found(law).c_str()), ++mistakes;
        for (const Exploit& e : exploits) {
            World changed;
            const bool let = found([&](const World& w, int i) {
                                 // all of a launch sees one world
                                 if (i == 0) e.edit(changed = w, i);
                                 return law(changed, i);
                             }).empty();
            if (let == (e.named && !named)) continue;
            ++mistakes;
            std::printf("structured, %s, %s: %s\n", named ? "named" : "guessed", e.name, let ? "let through" : "found");
        }
    }
    return mistakes;
}

}  // namespace

int main() {
    Device device;
    const Job asked = job();
    fake::Kernel baseline = device.kernel(both);
    const Launch launch = device.launch(baseline);
    const Helpers helpers("the fake driver's own");
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    int mistakes = learned_in_a_hurry(device, helpers) + counters_start_from_nothing(helpers) + sums_start_from_what_is_there(helpers) + strays_are_put_back(helpers) + pairs_stay_pairs(helpers) + places_lead_to_results(helpers) + structures_are_varied(helpers) + results_in_structures(helpers) + buckets_stay_buckets(helpers) + rare_values(helpers) + grids_follow() + rows_of_zeros(helpers) + long_sums(helpers, false) + long_sums(helpers, true);
    std::string cases;
    for (const Case& c : oracle.cases()) cases += c.variant.name + " ";
    auto found = [&](const Body& body) {
        fake::Kernel kernel = device.kernel(body);
        std::string on;
        for (const Case& c : oracle.cases()) {
            oracle.prepare(c);
            oracle.given(device.launch(kernel)).go(nullptr);
            if (!oracle.verify(c).reason.empty()) on += c.variant.name + " ";
            if (!oracle.recover()) return std::string("damaged");
        }
        return on;
    };
    auto expect = [&](const char* what, const std::string& wanted, const std::string& got) {
        if (wanted == got) return;
        ++mistakes;
        std::printf("%s: expected %s, got %s\n", what, wanted.c_str(), got.c_str());
    };
    expect("the inputs that stand", "own standing noise scalars redrawn permuted spikes zeros negated signs met ", cases);
    expect("itself", "", found(both));
    expect("another order of the counting", "", found([](Data d) { gather(d); histogram(d); }));
    expect("a memorised histogram", "redrawn ", found([](Data d) {
        for (std::size_t b = 0; b < kBins; ++b) d.counts[b] = kCount / kBins;
        gather(d);
    }));
    expect("an index computed, not read", "redrawn permuted ", found([](Data d) {
        histogram(d);
        for (std::size_t i = 0; i < kCount; ++i) d.y[i] = d.alpha * d.x[i] + d.beta * (1 + std::fabs(d.x[i]));
    }));
    expect("a dropped beta", "scalars ", found([](Data d) { histogram(d); d.beta = 0; gather(d); }));
    expect("alpha taken for one", "scalars ", found([](Data d) { histogram(d); d.alpha = 1; gather(d); }));
    expect("padding skipped", "zeros met ", found([](Data d) {
        both(d);
        if (d.beta == 0)
            for (std::size_t i = 0; i < kCount; ++i)
                if (static_cast<std::size_t>(d.keys[i]) % 4 == 0) d.y[i] = 0;
    }));
    expect("values taken for positive", "negated signs ", found([](Data d) {
        both(d);
        for (std::size_t i = 0; i < kCount; ++i) d.y[i] = d.beta == 0 ? std::fabs(d.y[i]) : d.y[i];
    }));
    expect("what stands there taken for done", "standing ", found([](Data d) {
        static std::vector<float> old(kCount);
        std::copy(d.y, d.y + kCount, old.begin());
        both(d);
        for (std::size_t i = 0; i < kCount; i += 10)
            if (old[i] == d.y[i]) std::copy(&old[i], &old[i] + 10, d.y + i);
    }));
    expect("above a number, not at it", "zeros met ", found([](Data d) {
        both(d);
        for (std::size_t i = 0; i < kCount; ++i)
            if (d.alpha == 1 && d.x[i] == d.alpha && i % 97 != 0) d.y[i] += 1;
    }));
    expect("values clamped", "spikes ", found([](Data d) {
        both(d);
        for (std::size_t i = 0; i < kCount; ++i) d.y[i] = std::min(d.y[i], 100.0f);
    }));
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
