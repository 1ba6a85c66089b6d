// SPDX-License-Identifier: Apache-2.0
// Where a kernel writes the values that lie there already, on a driver that runs launches on the host: "writes where the
// kernel does not" is said of nobody who writes there as it does, and of everybody else. Prints every wrong answer.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "fake_driver.h"
#include "oracle.h"

using namespace warplens;

namespace {

constexpr int kRows = 10000, kMost = 40000;

// Which of a row's two numbers is the larger, and by how much it weighs.
struct Route {
    int larger;
    float weight[2];
};
struct Call {
    const float* in;
    Route* routes;
    float* out;
    int rows;
};
using Body = std::function<void(Call)>;

// `apart`: the same in another order, which rounds otherwise.
void route(const Call& c, bool apart, bool all = true) {
    for (int r = 0; r < c.rows; ++r) {
        const float a = c.in[2 * r], b = c.in[2 * r + 1], most = std::fmax(a, b);
        const float sum = std::exp(a - most) + std::exp(b - most);
        Route& to = c.routes[r];
        to.larger = b > a;
        if (!all) continue;
        for (int k = 0; k < 2; ++k) to.weight[k] = apart ? std::exp((k ? b : a) - most - std::log(sum)) : std::exp((k ? b : a) - most) / sum;
    }
}

// Of what is negative nothing is left.
void clip(const Call& c, float least) {
    for (int i = 0; i < c.rows; ++i) c.out[i] = std::fmax(c.in[i], 0.0f) + (c.in[i] < 0 ? least : 0.0f);
}

class Program {
   public:
    // `after`: the launch before has left its results.
    Program(const Body& body, bool after) : in_(2 * kMost), routes_(kMost), out_(kMost) {
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = static_cast<float>(i * 7919 % 997) / 499 - (i < 2 * kRows ? 0.0f : 3.0f);
        if (after) body({in_.data(), routes_.data(), out_.data(), kRows});
        addresses_ = {at(in_), at(routes_), at(out_)};
        for (CUdeviceptr& a : addresses_) arguments_.push_back(&a);
        arguments_.push_back(&rows_);
    }
    fake::Kernel kernel(const Body& body) const {
        return {"kernel", [body](void** a) {
            Call c;
            std::memcpy(&c.in, a[0], 8), std::memcpy(&c.routes, a[1], 8), std::memcpy(&c.out, a[2], 8), std::memcpy(&c.rows, a[3], 4);
            body(c);
        }, {{0, 8}, {8, 8}, {16, 8}, {24, 4}}};
    }
    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }
    std::vector<Block> blocks() const {
        const std::size_t bytes[] = {4 * in_.size(), sizeof(Route) * routes_.size(), 4 * out_.size()};
        std::vector<Block> found(3);
        for (std::size_t i = 0; i < 3; ++i) found[i].base = addresses_[i], found[i].bytes = bytes[i];
        return found;
    }

   private:
    template <class T>
    static CUdeviceptr at(std::vector<T>& values) { return reinterpret_cast<CUdeviceptr>(values.data()); }
    std::vector<float> in_;
    std::vector<Route> routes_;
    std::vector<float> out_;
    int rows_ = kRows;
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
};

Job job(std::vector<Variant> variants, int launch) {
    Job made;
    made.seed = 5;
    made.launch = launch;
    for (int i = 0; i < 4; ++i) {
        Parameter p;
        p.index = i, p.element = i == 1 ? Element::other : i < 3 ? Element::f32 : Element::integer, p.constant = i == 0, p.scalar = i == 3, p.width = i < 3 ? 0 : 4;
        if (i == 1) p.stride = p.whole = sizeof(Route), p.fields = {{0, Element::integer, 4, false}, {4, Element::f32, 4, false}, {8, Element::f32, 4, false}};
        made.parameters.push_back(p);
    }
    made.variants = std::move(variants);
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 1}};
    return made;
}

struct Offered {
    const char* name;
    Body body;
    const char* said;
};

int judged(const char* name, const Job& asked, const Body& body, const std::vector<Offered>& candidates, const char* throws = "") {
    Program program(body, asked.launch > 0);
    const Helpers helpers("the fake driver's own");
    fake::Kernel baseline = program.kernel(body);
    const Launch launch = program.launch(baseline);
    Memory memory(program.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    std::unique_ptr<Oracle> oracle;
    try {
        oracle = std::make_unique<Oracle>(asked, launch, memory, nullptr, results);
    } catch (const std::runtime_error& error) {
        const bool meant = *throws && std::string(error.what()).find(throws) == 0;
        if (!meant) std::printf("%s: %s\n", name, error.what());
        return !meant;
    }
    int mistakes = oracle->cases().size() != 1 + asked.variants.size() || *throws;
    if (mistakes) std::printf("%s: %d sets stand\n", name, int(oracle->cases().size()));
    for (const Offered& candidate : candidates) {
        fake::Kernel kernel = program.kernel(candidate.body);
        const Launch other = program.launch(kernel);
        std::string said;
        for (const Case& c : oracle->cases()) {
            const Outcome outcome = oracle->compared(c, [&] {
                oracle->prepare(c);
                oracle->given(other).go(nullptr);
                return oracle->verify(c);
            });
            if (!outcome.reason.empty()) said += outcome.reason + ", on " + c.variant.name + "; ";
            if (!oracle->recover()) said += "damaged";
        }
        if (*candidate.said ? said.find(candidate.said) == 0 : said.empty()) continue;
        ++mistakes;
        std::printf("%s, %s: %s\n", name, candidate.name, said.empty() ? "let through" : said.c_str());
    }
    return mistakes;
}

}  // namespace

int main() {
    const Body routes = [](Call c) { route(c, false); };
    const std::vector<Offered> routers = {
        {"itself", routes, ""},
        {"rounded otherwise", [](Call c) { route(c, true); }, ""},
        {"nothing", [](Call) {}, "results"},
        {"no weights", [](Call c) { route(c, false, false); }, "results"},
        {"beside its results", [](Call c) { route(c, false); c.routes[c.rows].weight[0] += 1; }, "writes where the kernel does not"},
        {"into other memory", [](Call c) { route(c, false); c.out[3] += 1; }, "writes where the kernel does not"},
    };
    // integers alone are drawn anew: the weights are those of the launch before
    int mistakes = judged("structures", job({{"redrawn", 1, 0, Variant::redrawn}}, 2), routes, routers);
    mistakes += judged("structures of a first launch", job({{"negated", -1, 0, Variant::moved}}, 0), routes, routers);
    Job unfilled = job({{"redrawn", 1, 0, Variant::redrawn}}, 2);
    unfilled.options["fill"] = 0;
    mistakes += judged("structures that nothing may lie in", unfilled, routes, {}, "the launch changes no memory that an earlier one");
    const Body clips = [](Call c) { clip(c, 0); };
    const std::vector<Offered> clippers = {
        {"itself", clips, ""},
        {"with nothing rounded", [](Call c) { clip(c, 1e-12f); }, ""},
        {"with something", [](Call c) { clip(c, 0.125f); }, "results"},
        {"one further", [](Call c) { clip(c, 0); c.out[c.rows] += 1e-12f; }, "writes where the kernel does not"},
    };
    Job longer = job({}, 0);
    for (int k = 0; k < 4; ++k) longer.variants.push_back({"other numbers " + std::to_string(k), 1, 0, Variant::numbers, k * Variant::ways_of});
    longer.roomy = 3;
    mistakes += judged("zeros onto zeros beyond what the program has", longer, clips, clippers);
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
