// A launch on larger copies of its memory, on a driver that runs launches on the host: prints every candidate that gets
// the wrong answer.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "fake_driver.h"
#include "oracle.h"
#include "rooms.h"

using namespace warplens;

namespace {

constexpr int kLength = 3000, kTaps = 5, kBlock = 128;

// A filter with a stride, a dilation and a border, and an activation: in, taps, out, and eight integers.
struct Given8 {
    const float *in, *taps;
    float* out;
    int length, taps_n, stride, dilation, pad, mode, rows, unused;
};

using Body = std::function<void(Given8)>;

int results(const Given8& g) {
    const int reach = g.length + 2 * g.pad - g.dilation * (g.taps_n - 1) - 1;
    return g.stride > 0 && reach >= 0 ? reach / g.stride + 1 : 0;
}

float activated(float x, int mode) { return mode == 1 ? std::fmax(x, 0.0f) : mode == 2 ? 2 * x : x; }

// A thread for each result.
void filter(const Given8& g) {
    const int many = results(g);
    for (int row = 0; row < g.rows; ++row)
        for (long i = 0; i < std::min<long>(many, long(fake::grid[0]) * kBlock); ++i) {
            float sum = 0;
            for (int k = 0; k < g.taps_n; ++k) {
                const long at = i * g.stride - g.pad + long(k) * g.dilation;
                if (at >= 0 && at < g.length) sum += g.in[long(row) * g.length + at] * g.taps[k];
            }
            g.out[long(row) * many + i] = activated(sum, g.mode);
        }
}

// Rows at a pitch, which other lengths make them overlap: a block for each row.
void pitched(const Given8& g) {
    for (long row = 0; row < std::min<long>(g.length, fake::grid[0]); ++row)
        for (int i = 0; i < g.taps_n; ++i) g.out[row * (g.pad + 3) + i] = g.in[row * g.taps_n + i] + 1;
}
void pitched_back(const Given8& g) {
    for (long row = std::min<long>(g.length, fake::grid[0]) - 1; row >= 0; --row)
        for (int i = 0; i < g.taps_n; ++i) g.out[row * (g.pad + 3) + i] = g.in[row * g.taps_n + i] + 1;
}

// A number for each, which a room's own repetition has already.
Body product(float one, float other, bool at_once) {
    return [=](Given8 g) {
        const float both = one * other;
        for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * kBlock); ++i)
            g.out[i] = at_once ? g.in[i] * both : g.in[i] * one * other;
    };
}

// As many numbers as there are, whatever the grid.
void scale(const Given8& g) {
    const long threads = long(fake::grid[0]) * kBlock;
    for (long t = 0; t < threads; ++t)
        for (long i = t; i < long(g.length) * g.rows; i += threads) g.out[i] = 3 * g.in[i];
}

// A thread for each number; the same by rows, of which there are as many as blocks along y.
void each(const Given8& g) {
    for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * kBlock); ++i) g.out[i] = 3 * g.in[i];
}
void each_by_rows(const Given8& g) {
    for (long row = 0; row < long(fake::grid[1]); ++row)
        for (long i = 0; i < std::min<long>(g.length, long(fake::grid[0]) * kBlock); ++i) g.out[row * g.length + i] = 3 * g.in[row * g.length + i];
}

// Longer rows read what the launch before has left in shared memory.
float left = 1;
void leftover(const Given8& g) {
    for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * kBlock); ++i) g.out[i] = g.in[i] + (g.length > kLength ? left : 0);
    left = 1;
}
void leaves_another(const Given8& g) {
    leftover(g);
    left = 2;
}

// Nothing asked for is written before all that was.
void before_all(const Given8& g) {
    each(g);
    if (g.mode == 0) g.out[-1] = g.in[0];
}

// Blocks leave what they have added up for one another, each of a stretch of its own or of every so many.
template <bool strided>
void shares(const Given8& g) {
    for (int b = 0; b < kTaps; ++b) {
        float sum = 0;
        for (int i = 0; i < g.length; ++i)
            if ((strided ? i % kTaps : i / (g.length / kTaps)) == b) sum += std::fabs(g.in[i]);
        const_cast<float*>(g.taps)[b] = sum;
    }
    float all = 0;
    for (int b = 0; b < kTaps; ++b) all += g.taps[b];
    for (int i = 0; i < g.length; ++i) g.out[i] = g.in[i] / all;
}
void shares_of_most(const Given8& g) {
    shares<true>(g);
    for (int i = 0; i < g.length; ++i) g.out[i] *= 1.01f;
}
void written_there(Job& asked) { asked.parameters[1].constant = false; }
void unseen(Job& asked) {
    written_there(asked);
    asked.parameters[1].scratch = true;
}

class Device {
   public:
    Device() : in_(6 * kLength), taps_(kTaps), out_(6 * kLength) {
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = (i % 97 < 48 ? 1 : -1) * (0.5f + static_cast<float>(i * 7919 % 997) / 997);
        for (std::size_t i = 0; i < taps_.size(); ++i) taps_[i] = 0.25f * static_cast<float>(i + 1);
        addresses_ = {at(in_), at(taps_), at(out_)};
        for (CUdeviceptr& a : addresses_) arguments_.push_back(&a);
        for (int& n : numbers_) arguments_.push_back(&n);
    }

    fake::Kernel kernel(const Body& body) const {
        fake::Kernel made{"kernel", [body](void** a) {
            Given8 g;
            std::memcpy(&g.in, a[0], 8);
            std::memcpy(&g.taps, a[1], 8);
            std::memcpy(&g.out, a[2], 8);
            int* n[] = {&g.length, &g.taps_n, &g.stride, &g.dilation, &g.pad, &g.mode, &g.rows, &g.unused};
            for (int i = 0; i < 8; ++i) std::memcpy(n[i], a[3 + i], 4);
            body(g);
        }, {{0, 8}, {8, 8}, {16, 8}}};
        for (std::size_t i = 0; i < 8; ++i) made.parameters.push_back({24 + 4 * i, 4});
        return made;
    }

    Launch launch(fake::Kernel& kernel, unsigned blocks) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        made.grid[0] = blocks, made.block[0] = kBlock;
        return made;
    }

    std::vector<Block> blocks() const {
        std::vector<Block> found(3);
        const std::size_t sizes[] = {in_.size(), taps_.size(), out_.size()};
        for (std::size_t i = 0; i < 3; ++i) found[i].base = addresses_[i], found[i].bytes = 4 * sizes[i];
        return found;
    }

   private:
    static CUdeviceptr at(std::vector<float>& values) { return reinterpret_cast<CUdeviceptr>(values.data()); }

    std::vector<float> in_, taps_, out_;
    int numbers_[8] = {kLength, kTaps, 1, 1, 2, 1, 3, 0};
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
};

Job job(bool fewer) {
    Job made;
    made.seed = 11;
    made.roomy = fewer ? 0 : 3;
    for (int i = 0; i < 11; ++i) {
        Parameter p;
        p.index = i, p.element = i < 3 ? Element::f32 : Element::integer, p.constant = i < 2, p.scalar = i >= 3, p.width = i < 3 ? 0 : 4;
        made.parameters.push_back(p);
    }
    for (int k = 0; k < 3 && fewer; ++k) made.variants.push_back({"fewer " + std::to_string(k), 1, 0, Variant::fewer, k});
    for (int k = 0; k < 64 && !fewer; ++k) made.variants.push_back({"one " + std::to_string(k), 1, 0, Variant::numbers, k});
    for (int k = 0; k < 8 && !fewer; ++k) made.variants.push_back({"several " + std::to_string(k), 1, 0, Variant::numbers, -1});
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", fewer}, {"fill", 1}, {"perturb", 1}, {"lazily", 0}};
    return made;
}

struct Candidate {
    const char* name;
    Body body;
    bool honest;
    unsigned blocks = 0;  // of its own, each for as many times as much
};

using Change = std::function<void(Job&)>;

int judged(const char* what, const Body& law, bool fewer, const std::vector<Candidate>& candidates, std::size_t least, bool by_rows = false,
           const Change& change = [](Job&) {}) {
    Device device;
    Job asked = job(fewer);
    change(asked);
    const Helpers helpers("the fake driver's own");
    fake::Kernel baseline = device.kernel(law);
    Launch launch = device.launch(baseline, fewer ? 40 : by_rows ? kLength : (kLength + kBlock - 1) / kBlock);
    launch.go(nullptr);  // an earlier one of the program's
    Memory program(device.blocks(), helpers, nullptr, 3);
    const auto rooms = fewer ? nullptr : Rooms::around(asked, launch, program);
    if (rooms) launch = rooms->launch();
    Memory memory(rooms ? rooms->blocks() : device.blocks(), helpers, nullptr, 5);
    if (rooms) rooms->renew(asked, memory);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results, [] { left = 77; });
    int mistakes = 0;
    if (oracle.cases().size() < least) ++mistakes, std::printf("%s: only %d sets stand\n", what, int(oracle.cases().size()));
    for (const Candidate& candidate : candidates) {
        fake::Kernel kernel = device.kernel(candidate.body);
        Launch other = launch;
        other.function = kernel.handle();
        if (candidate.blocks) other.grid[0] = candidate.blocks;
        std::string on;
        for (const Case& c : oracle.cases()) {
            if (!oracle.means(c, other)) continue;
            oracle.prepare(c);
            oracle.given(other).go(nullptr);
            const Outcome outcome = oracle.verify(c);
            if (!outcome.reason.empty()) on += c.variant.name + " (" + outcome.reason + "), ";
            if (!oracle.recover()) on += "damaged";
        }
        if (on.empty() == candidate.honest) continue;
        ++mistakes;
        std::printf("%s, %s: %s\n", what, candidate.name, on.empty() ? "let through" : on.c_str());
    }
    return mistakes;
}

// A kernel, and the rule by which its host code launches it, along x and y; no rule where that is not known.
struct Way {
    Body body;
    const char *x, *y;
    unsigned blocks, rows;
};

GridRule rule_of(const Way& way) {
    GridRule rule;
    if (way.x) rule.along(0, way.x), rule.along(1, way.y), rule.along(2, "1");
    return rule;
}

// Whether one way is right beside another, each launched as its host code would launch it.
int ruled(const char* what, bool roomy, const Way& law, const Way& way, bool right, int least) {
    Device device;
    Job asked = job(!roomy);
    if (!roomy)
        asked.variants = {{"less", 1, 0, Variant::less, -1}, {"one less", 1, 0, Variant::less, 6}, {"halved", 1, 0, Variant::halved, -1}};
    asked.rule = rule_of(law);
    const GridRule own = rule_of(way);
    const Helpers helpers("the fake driver's own");
    fake::Kernel baseline = device.kernel(law.body), kernel = device.kernel(way.body);
    Launch launch = device.launch(baseline, law.blocks);
    launch.grid[1] = law.rows;
    Memory program(device.blocks(), helpers, nullptr, 3);
    const auto rooms = roomy ? Rooms::around(asked, launch, program) : nullptr;
    if (rooms) launch = rooms->launch();
    Memory memory(rooms ? rooms->blocks() : device.blocks(), helpers, nullptr, 5);
    if (rooms) rooms->renew(asked, memory);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    Launch other = launch;
    other.function = kernel.handle();
    other.grid[0] = way.blocks, other.grid[1] = way.rows;
    other.rule = own.empty() ? nullptr : &own;
    int wrong = 0, open = 0, stand = 0;
    for (const Case& c : oracle.cases()) {
        stand += !c.arguments.numbers.empty();
        if (!oracle.means(c, other)) continue;
        auto run = [&](const Launch* as) {
            oracle.prepare(c);
            Launch given = oracle.given(other);
            if (as) std::copy(as->grid, as->grid + 3, given.grid);
            given.go(nullptr);
            return oracle.verify(c);
        };
        Outcome outcome = run(nullptr);
        if (!outcome.reason.empty()) outcome = oracle.by_another_grid(c, other, outcome, [&](const Launch& as) { return run(&as); });
        wrong += outcome.state == std::string("wrong");
        open += outcome.state == std::string("unproven");
        if (!oracle.recover()) ++wrong;
    }
    if (right ? !wrong && !open && stand >= least : wrong + open > 0) return 0;
    std::printf("%s: %d wrong, %d open of %d\n", what, wrong, open, stand);
    return 1;
}

// So many numbers a block, with no more blocks than are full.
Body in_blocks_of(int many) {
    return [many](Given8 g) {
        for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * many); ++i) g.out[i] = 3 * g.in[i];
    };
}

// The same of any numbers, each with a term that the length makes: blocks alone say how many.
Body unguarded(int many) {
    return [many](Given8 g) {
        for (long i = 0; i < long(fake::grid[0]) * many; ++i) g.out[i] = g.in[i] + static_cast<float>(g.length % 97);
    };
}

// Two conditions: a length that no four divide, and results beyond a bound, or a column of zeros.
void bounded(const Given8& g) {
    for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * kBlock); ++i)
        g.out[i] = std::fmin(8 * g.in[i], 20.0f) / (std::fabs(g.taps[i % kTaps]) + 0.5f);
}
void bounded_where_fours(const Given8& g) {
    for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * kBlock); ++i)
        g.out[i] = (g.length % 4 ? 8 * g.in[i] : std::fmin(8 * g.in[i], 20.0f)) / (std::fabs(g.taps[i % kTaps]) + 0.5f);
}

// Other numbers beside other floats.
void both(Job& asked) {
    asked.variants.clear();
    for (int k = 0; k < 32; ++k) asked.variants.push_back({"both " + std::to_string(k), 1, 0, Variant::numbers, k, {{"scaled", 3, 0, Variant::moved}}});
    asked.variants.push_back({"none", 1, 0, Variant::numbers, 3, {{"toggled", 1, 0, Variant::toggled}}});
}
void apart(Job& asked) { asked.variants.push_back({"scaled", 3, 0, Variant::moved}); }

Body with(const std::function<void(Given8&)>& change) {
    return [change](Given8 g) {
        change(g);
        filter(g);
    };
}

}  // namespace

int main() {
    const auto own_threads = [](Given8 g) {
        // a thread makes four results, by a quarter of the blocks
        fake::grid[0] *= 4;
        filter(g);
        fake::grid[0] /= 4;
    };
    int mistakes = judged("rooms", filter, false, {
        {"itself", filter, true},
        {"four results a thread", own_threads, true, 6},
        {"a stride of one", with([](Given8& g) { g.stride = 1; }), false},
        {"a dilation of one", with([](Given8& g) { g.dilation = 1; }), false},
        {"five taps at most", with([](Given8& g) { g.taps_n = std::min(g.taps_n, 5); }), false},
        {"a border of two", with([](Given8& g) { g.pad = 2; }), false},
        {"one activation", with([](Given8& g) { g.mode = 1; }), false},
        {"zero taken for one", with([](Given8& g) { g.mode = std::max(g.mode, 1); }), false},
        {"three rows", with([](Given8& g) { g.rows = std::min(g.rows, 3); }), false},
        {"a row as far as it fits", with([](Given8& g) { g.length = std::min(g.length, 3072); }), false},
    }, 16);
    mistakes += judged("fewer blocks", scale, true, {
        {"itself", scale, true},
        {"as many threads as numbers", [](Given8 g) {
            for (long i = 0; i < std::min<long>(long(g.length) * g.rows, 2 * long(fake::grid[0]) * kBlock); ++i) g.out[i] = 3 * g.in[i];
        }, false},
        {"as many, by a grid of its own", [](Given8 g) {
            for (long i = 0; i < std::min<long>(long(g.length) * g.rows, long(fake::grid[0]) * kBlock); ++i) g.out[i] = 3 * g.in[i];
        }, true, 71},
    }, 3);
    mistakes += judged("a product", product(1.1f, 0.7f, false), false, {{"itself", product(1.1f, 0.7f, false), true}, {"both factors at once", product(1.1f, 0.7f, true), true}}, 4, true);
    // who comes last among rows that overlap is chance
    mistakes += judged("pitched", pitched, false, {{"itself", pitched, true}, {"rows in another order", pitched_back, true}}, 4, true);
    for (const bool beside : {true, false})
        mistakes += judged("two conditions", bounded, false, {{"itself", bounded, true}, {"no bound where there are no fours", bounded_where_fours, !beside}}, 4, false, beside ? both : apart);
    mistakes += judged("before the buffer", before_all, false, {{"itself", before_all, true}, {"what writes nothing there", each, true}}, 4, true);
    // parts that only the launch itself reads
    mistakes += judged("parts", shares<false>, true, {{"itself", shares<false>, true}, {"other parts", shares<true>, false}}, 1, false, written_there);
    mistakes += judged("parts for nobody else", shares<false>, true,
                       {{"itself", shares<false>, true}, {"other parts", shares<true>, true}, {"other shares", shares_of_most, false}}, 1, false, unseen);
    // where the card has hardly any memory left copies are smaller, and still larger than the program's
    fake::free_memory = (1ull << 30) + (64u << 20) + 1600000;
    mistakes += judged("little room", filter, false, {{"itself", filter, true}, {"three rows", with([](Given8& g) { g.rows = std::min(g.rows, 3); }), false},
                                                      {"a row as far as it fits", with([](Given8& g) { g.length = std::min(g.length, 3072); }), false}}, 4);
    fake::free_memory = 8ull << 30;
    mistakes += judged("what is left in shared memory", leftover, false, {{"itself", leftover, true}, {"what leaves something else there", leaves_another, true}}, 4);
    // a kernel that needs its blocks says nothing of fewer
    mistakes += judged("all blocks", filter, true, {{"itself", filter, true}, {"four results a thread", own_threads, true, 10}}, 1);
    const unsigned all = (3 * kLength + kBlock - 1) / kBlock, row = (kLength + kBlock - 1) / kBlock;
    const Way numbers{each, "p3 p9 * 127 + 128 /", "1", all, 1}, rows{each_by_rows, "p3 127 + 128 /", "p9", row, 3};
    const Way nobody{each, nullptr, nullptr, all, 1}, unknown{each_by_rows, nullptr, nullptr, row, 3};
    const Way whole{in_blocks_of(128), "p3 p9 * 127 + 128 /", "1", all, 1};
    const Way full{in_blocks_of(125), "p3 p9 * 125 /", "1", 72, 1}, fuller{in_blocks_of(60), "p3 p9 * 60 /", "1", 150, 1};
    const Way strided{unguarded(125), "p3 125 /", "1", 24, 1}, finer{unguarded(60), "p3 60 /", "1", 50, 1};
    const Way one{in_blocks_of(18000), "p3 p9 * 18000 up", "1", 1, 1}, two{in_blocks_of(9000), "p3 p9 * 9000 up", "1", 1, 1};
    for (const bool roomy : {false, true}) {
        mistakes += ruled("rows by rules", roomy, numbers, rows, true, roomy ? 4 : 2);
        mistakes += ruled("rows without rules", roomy, nobody, unknown, true, roomy ? 4 : 2);
        mistakes += ruled("full blocks alone", roomy, full, fuller, true, 2);
        // more blocks than of 125 are full: of what is left over nothing is written
        mistakes += ruled("full blocks in place of all", roomy, whole, fuller, false, 2);
        mistakes += ruled("rows whose rule is not known", roomy, numbers, unknown, true, roomy ? 4 : 2);
        mistakes += ruled("unguarded blocks", roomy, strided, finer, true, 2);
        mistakes += ruled("one block that becomes two", roomy, one, two, true, 2);
    }
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
