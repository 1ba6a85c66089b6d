// Results that are finite beside NaN, and numbers of 64 bits, on a driver that runs launches on the host: prints every
// candidate that gets the wrong answer.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "fake_driver.h"
#include "oracle.h"

using namespace warplens;

namespace {

constexpr std::size_t kRows = 200, kWidth = 80;

// Rows without what is NaN: their mean, and what is left of each; and a number that is mixed into all.
struct Call {
    const float* in;
    float *mean, *rest;
    std::uint64_t seed;
};
using Body = std::function<void(Call)>;

std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 31;
}

void means(const Call& c, bool skips, bool counts_all, bool pairwise) {
    const float shift = static_cast<float>(mixed(c.seed) % 1000) / 1000;
    for (std::size_t row = 0; row < kRows; ++row) {
        float sum[2] = {0, 0};
        std::size_t count = 0;
        for (std::size_t i = 0; i < kWidth; ++i) {
            const float x = c.in[row * kWidth + i];
            if (std::isnan(x) && skips) continue;
            sum[pairwise ? i % 2 : 0] += x;
            ++count;
        }
        const float mean = (sum[0] + sum[1]) / static_cast<float>(counts_all ? kWidth : count ? count : 1);
        c.mean[row] = mean + shift;
        for (std::size_t i = 0; i < kWidth; ++i) c.rest[row * kWidth + i] = c.in[row * kWidth + i] - mean;
    }
}

class Device {
   public:
    Device() : in_(kRows * kWidth), mean_(kRows), rest_(kRows * kWidth) {
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = 0.5f + static_cast<float>(i * 7919 % 997) / 997;
        addresses_ = {at(in_), at(mean_), at(rest_)};
        for (CUdeviceptr& a : addresses_) arguments_.push_back(&a);
        arguments_.push_back(&seed_);
    }
    fake::Kernel kernel(const Body& body) const {
        return {"kernel", [body](void** a) {
            Call c;
            std::memcpy(&c.in, a[0], 8);
            std::memcpy(&c.mean, a[1], 8);
            std::memcpy(&c.rest, a[2], 8);
            std::memcpy(&c.seed, a[3], 8);
            body(c);
        }, {{0, 8}, {8, 8}, {16, 8}, {24, 8}}};
    }
    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }
    std::vector<Block> blocks() const {
        std::vector<Block> found(3);
        const std::size_t sizes[] = {in_.size(), mean_.size(), rest_.size()};
        for (std::size_t i = 0; i < 3; ++i) found[i].base = addresses_[i], found[i].bytes = 4 * sizes[i];
        return found;
    }

   private:
    static CUdeviceptr at(std::vector<float>& values) { return reinterpret_cast<CUdeviceptr>(values.data()); }
    std::vector<float> in_, mean_, rest_;
    std::uint64_t seed_ = 20261122;
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
};

Job job(bool tells_nan) {
    Job made;
    made.seed = 5;
    made.tells_nan = tells_nan;
    for (int i = 0; i < 4; ++i) {
        Parameter p;
        p.index = i, p.element = i < 3 ? Element::f32 : Element::integer, p.constant = i == 0, p.scalar = i == 3, p.width = i < 3 ? 0 : 8;
        made.parameters.push_back(p);
    }
    made.variants = {{"noise", 1, 0.5, Variant::moved}, {"NaN", 1, 0, Variant::specials}, {"rows of NaN", 1, 0, Variant::voids},
                     {"high", 1, 0, Variant::high}, {"in place", 1, 0, Variant::aliased, 0}};
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 0}};
    return made;
}

int judged(bool tells_nan) {
    Device device;
    const Job asked = job(tells_nan);
    const Helpers helpers("the fake driver's own");
    fake::Kernel baseline = device.kernel([](Call c) { means(c, true, false, false); });
    Launch launch = device.launch(baseline);
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    struct Candidate {
        const char* name;
        Body body;
        bool right;
    };
    const Candidate candidates[] = {
        {"itself", [](Call c) { means(c, true, false, false); }, true},
        {"in another order", [](Call c) { means(c, true, false, true); }, true},
        {"what is NaN counted", [](Call c) { means(c, true, true, false); }, !tells_nan},
        {"what is NaN not skipped", [](Call c) { means(c, false, false, false); }, false},
        {"what was read once more after it was written", [](Call c) {
            // the numbers' sum is added up once more for all rows but the first elements', which are written by then
            means(c, true, false, false);
            for (std::size_t row = 0; row < kRows; ++row)
                if (c.in == c.rest) c.mean[row] += c.in[row * kWidth];
        }, false},
        {"another row's numbers times nothing", [](Call c) {
            means(c, true, false, false);
            for (std::size_t i = 0; i < kRows * kWidth; ++i) c.rest[i] += 0 * c.in[(i + kWidth) % (kRows * kWidth)];
        }, false},
        {"a seed of 32 bits", [](Call c) { c.seed &= UINT32_MAX; means(c, true, false, false); }, false},
    };
    int mistakes = 0;
    if (oracle.cases().size() != 1 + asked.variants.size()) ++mistakes, std::printf("only %d sets stand\n", int(oracle.cases().size()));
    for (const Candidate& candidate : candidates) {
        fake::Kernel kernel = device.kernel(candidate.body);
        launch.function = kernel.handle();
        std::string on;
        for (const Case& c : oracle.cases()) {
            oracle.prepare(c);
            oracle.given(launch).go(nullptr);
            const Outcome outcome = oracle.verify(c);
            if (!outcome.reason.empty()) on += c.variant.name + " (" + outcome.reason + "), ";
            if (!oracle.recover()) on += "damaged";
        }
        if (on.empty() == candidate.right) continue;
        ++mistakes;
        std::printf("%s, %s: %s\n", tells_nan ? "NaN asked for" : "not", candidate.name, on.empty() ? "let through" : on.c_str());
    }
    return mistakes;
}

}  // namespace

int main() {
    const int mistakes = judged(true) + judged(false);
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
