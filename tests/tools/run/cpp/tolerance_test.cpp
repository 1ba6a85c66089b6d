// Is the judge's arithmetic fooled? "tolerance_test SEED COUNT" judges honest rewrites and wrong ones of simulated
// kernels as the probe does on a card, and prints every honest one called wrong and every wrong one let through.
#include <cstdio>
#include <cstdlib>

#include "rounding.h"
#include "simulated.h"

using namespace warplens;
using simulated::Array;
using simulated::Arrays;
using simulated::Kernel;
using simulated::Program;

namespace {

struct Variant {
    const char* name;
    double scale, noise;
};
// As `warplens.measure.kernel.visits` asks for them.
constexpr Variant kVariants[] = {
    {"own", 1, 0}, {"with noise", 1, 0.5}, {"with full mantissas", 0, 0}, {"negated", -1, 0}, {"scaled by 3", 3, 0}, {"scaled by 0.01", 0.01, 0}};

// As `kernels.cu` moves inputs.
Arrays moved(const Program& p, Arrays arrays, double scale, double noise, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (Array& array : arrays)
        for (double& value : array) {
            const double r = uniform(random);
            if (value == 0 || !std::isfinite(value)) continue;
            value = scale == 0 ? simulated::filled(p.input, value) : simulated::moved(p.input, value, scale, noise * r);
        }
    return arrays;
}

std::vector<std::uint8_t> packed(Element element, const Array& values) {
    std::vector<std::uint8_t> bytes;
    auto put = [&](auto value) {
        const auto* at = reinterpret_cast<const std::uint8_t*>(&value);
        bytes.insert(bytes.end(), at, at + sizeof value);
    };
    for (double value : values) {
        if (element == Element::f64) put(value);
        else if (element == Element::f32) put(static_cast<float>(value));
        else put(static_cast<_Float16>(value));
    }
    return bytes;
}

struct Case {
    const char* name;
    Arrays inputs;
    Expected expected;
};

class Judged {
   public:
    Judged(const Program& program, std::uint64_t seed) : program_(program), seed_(seed) {
        tolerance_.length = program.length;
        for (const Variant& v : kVariants) add(v);
    }

    // "" where every case is right.
    std::string says(const Kernel& candidate) const {
        for (const Case& c : cases_) {
            const Difference d = compare(c.expected, run(candidate, c.inputs).data(), tolerance_);
            if (d.right()) continue;
            char text[200];
            std::snprintf(text, sizeof text, "%s: wrong %llu nan %llu scale %d blind %d coarse %d ratio %.2g relative %.2g", c.name,
                          static_cast<unsigned long long>(d.wrong), static_cast<unsigned long long>(d.nan), d.scale, d.blind,
                          d.coarse, d.ratio, d.relative);
            return text;
        }
        return "";
    }

   private:
    std::vector<std::uint8_t> run(const Kernel& kernel, const Arrays& inputs) const {
        Array out(program_.outputs);
        std::mt19937_64 random(seed_ + 99);
        for (double& value : out) value = simulated::rounded(program_.output, std::uniform_real_distribution<>(0.5, 4)(random));
        kernel(inputs, out);
        return packed(program_.output, out);
    }

    void add(const Variant& v) {
        Case c{v.name, moved(program_, program_.inputs, v.scale, v.noise, seed_ + 1), {}};
        c.expected.element = program_.output;
        const auto bytes = run(program_.baseline, c.inputs);
        c.expected.bytes.assign(bytes.begin(), bytes.end());
        c.expected.written = std::make_shared<std::vector<std::uint8_t>>(program_.outputs, 1);
        const int pairs = pairs_for(program_.outputs);
        const double move = std::max(input_move(program_.input), input_move(program_.output));
        for (int i = 0; i < pairs; ++i) {
            const std::uint64_t seed = seed_ + 1000 + static_cast<unsigned>(i);
            const auto up = run(program_.baseline, moved(program_, c.inputs, 1, move, seed));
            const auto down = run(program_.baseline, moved(program_, c.inputs, 1, -move, seed));
            add_moved(c.expected, up.data(), down.data(), move, pairs);
        }
        settle(c.expected, tolerance_);
        const bool clean = cases_.empty() || count_unclean(program_.output, c.expected.bytes.data(), c.expected.bytes.size()) == 0;
        if (cases_.empty() || (clean && !sight_of(c.expected, tolerance_).blind())) cases_.push_back(std::move(c));
    }

    const Program& program_;
    std::uint64_t seed_;
    Tolerance tolerance_;
    std::vector<Case> cases_;
};

}  // namespace

int main(int count, char** arguments) {
    const std::uint64_t first = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
    const std::uint64_t seeds = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
    unsigned honest = 0, wrong = 0, refused = 0, missed = 0;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
        for (const Program& program : simulated::programs(seed)) {
            if (program.noisy) continue;  // the oracle's, which repeats the baseline
            const Judged judged(program, seed * 7919);
            for (const auto& [name, kernel] : program.honest) {
                const std::string said = judged.says(kernel);
                ++honest;
                refused += !said.empty();
                if (!said.empty()) std::printf("seed %d, %s, %s: called wrong: %s\n", int(seed), program.name.c_str(), name.c_str(), said.c_str());
            }
            for (const auto& [name, kernel] : program.wrong) {
                ++wrong;
                if (!judged.says(kernel).empty()) continue;
                ++missed;
                std::printf("seed %d, %s, %s: let through\n", int(seed), program.name.c_str(), name.c_str());
            }
        }
    }
    std::printf("{\"honest\": %u, \"called_wrong\": %u, \"wrong\": %u, \"let_through\": %u}\n", honest, refused, wrong, missed);
    return refused || missed;
}
