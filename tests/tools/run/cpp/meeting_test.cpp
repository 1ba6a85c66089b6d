// Infinities that meet, zeros with a sign and lengths of nothing, on a driver that runs launches on the host: prints
// every candidate that gets the wrong answer.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "fake_driver.h"
#include "oracle.h"

using namespace warplens;

namespace {

constexpr std::size_t kRows = 300, kWidth = 64, kCount = kRows * kWidth;
constexpr float kPi = 3.14159265f;

// Angles of all elements; of each row's first `n` the least, and their sum.
struct Call {
    const float *x, *y;
    float *angle, *least, *sum;
    int n;
};
using Body = std::function<void(const Call&)>;

void angles(const Call& c, const std::function<float(float, float)>& angle) {
    for (std::size_t i = 0; i < kCount; ++i) c.angle[i] = angle(c.y[i], c.x[i]);
}

// `first`: begins with what is there; `carries`: what additions lose is worked out, and is no number beside infinities.
void rows(const Call& c, bool first, bool carries) {
    for (std::size_t row = 0; row < kRows; ++row) {
        const float* x = c.x + row * kWidth;
        float least = first ? x[0] : 1e30f, sum = 0, lost = 0;
        for (int i = 0; i < c.n; ++i) {
            least = x[i] < least ? x[i] : least;
            const float more = sum + x[i];
            lost += (sum - more) + x[i];
            sum = more;
        }
        c.least[row] = least;
        c.sum[row] = carries ? sum + lost : sum;
    }
}

float library(float y, float x) { return std::atan2(y, x); }
float by_quotient(float y, float x) {
    const float a = x == 0 && y == 0 ? 0.0f : std::atan(std::fabs(y) / std::fabs(x));
    return std::copysign(std::signbit(x) ? kPi - a : a, y);
}
float by_halves(float y, float x) {
    if ((x == 0 && y == 0) || (std::isinf(x) && std::isinf(y))) return std::atan2(y, x);
    return std::atan(y / x) + (x < 0 ? y < 0 ? -kPi : kPi : 0);
}

class Device {
   public:
    Device() {
        for (const std::size_t count : {kCount, kCount, kCount, kRows, kRows}) values_.emplace_back(count);
        for (std::size_t i = 0; i < kCount; ++i) {
            values_[0][i] = static_cast<float>(static_cast<int>(i * 7919 % 997) - 498) / 400;
            values_[1][i] = static_cast<float>(static_cast<int>(i * 104729 % 991) - 495) / 300;
        }
        for (auto& v : values_) addresses_.push_back(reinterpret_cast<CUdeviceptr>(v.data()));
        for (CUdeviceptr& a : addresses_) arguments_.push_back(&a);
        arguments_.push_back(&n_);
    }
    static fake::Kernel kernel(const Body& body) {
        return {"kernel", [body](void** a) {
            Call c;
            std::memcpy(&c.x, a[0], 8), std::memcpy(&c.y, a[1], 8), std::memcpy(&c.angle, a[2], 8);
            std::memcpy(&c.least, a[3], 8), std::memcpy(&c.sum, a[4], 8), std::memcpy(&c.n, a[5], 4);
            body(c);
        }, {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 4}}};
    }
    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }
    std::vector<Block> blocks() const {
        std::vector<Block> found(values_.size());
        for (std::size_t i = 0; i < found.size(); ++i) found[i].base = addresses_[i], found[i].bytes = 4 * values_[i].size();
        return found;
    }

   private:
    std::vector<std::vector<float>> values_;
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
    int n_ = kWidth;
};

Job job() {
    Job made;
    made.seed = 5;
    for (int i = 0; i < 6; ++i) {
        Parameter p;
        p.index = i, p.element = i < 5 ? Element::f32 : Element::integer, p.constant = i < 2, p.scalar = i == 5, p.width = i < 5 ? 0 : 4;
        made.parameters.push_back(p);
    }
    Variant beside{"infinities in one buffer, zeros", 1, 0, Variant::infinities, 0};
    beside.beside = {Variant{"zeros", 1, 0, Variant::blanks}};
    made.variants = {beside, {"infinities that meet", Variant::meeting, 0, Variant::infinities}, {"zeros below zero", 1, 0, Variant::minus, 1},
                     {"a length of zero", 1, 0, Variant::none, 0}};
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 0}};
    return made;
}

}  // namespace

int main() {
    Device device;
    const Job asked = job();
    const Helpers helpers("the fake driver's own");
    auto made = [](float (*angle)(float, float), bool first, bool carries) {
        return [=](const Call& c) { angles(c, angle), rows(c, first, carries); };
    };
    fake::Kernel baseline = Device::kernel(made(library, false, true));
    Launch launch = device.launch(baseline);
    Memory memory(device.blocks(), helpers, nullptr, 3);
    Results results;
    results.open("/dev/null");
    Oracle oracle(asked, launch, memory, nullptr, results);
    struct Candidate {
        const char* name;
        const char* found;  // on which inputs; "" for none
        Body body;
    };
    const Candidate candidates[] = {
        {"itself", "", made(library, false, true)},
        {"an infinity where the kernel has no number", "", made(library, false, false)},
        {"a quotient of two infinities", "infinities that meet", made(by_quotient, false, true)},
        {"zeros without a sign", "zeros below zero", made(by_halves, false, true)},
        {"rows that begin with their first", "a length of zero", made(library, true, true)},
    };
    int mistakes = 0;
    if (oracle.cases().size() != 1 + asked.variants.size()) ++mistakes, std::printf("only %d sets stand\n", static_cast<int>(oracle.cases().size()));
    for (const Candidate& candidate : candidates) {
        fake::Kernel kernel = Device::kernel(candidate.body);
        launch.function = kernel.handle();
        std::string on;
        for (const Case& c : oracle.cases()) {
            oracle.prepare(c);
            oracle.given(launch).go(nullptr);
            if (!oracle.verify(c).reason.empty()) on += c.variant.name;
            if (!oracle.recover()) on += "damaged";
        }
        if (on == candidate.found) continue;
        ++mistakes;
        std::printf("%s: found on [%s]\n", candidate.name, on.c_str());
    }
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
