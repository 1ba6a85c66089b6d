// The probe's oracle itself, on a driver that runs launches on the host: "oracle_test SEED COUNT" has it learn the
// simulated kernels as it learns a program's on a card, and prints every candidate that gets the wrong answer.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "fake_driver.h"
#include "oracle.h"
#include "simulated.h"

using namespace warplens;
using simulated::Array;
using simulated::Arrays;
using simulated::Program;

namespace {

// The program's allocations and the kernel's arguments: its inputs, then its output.
class Device {
   public:
    explicit Device(const Program& program) : program_(program) {
        for (const Array& input : program.inputs) add(program.input, input);
        add(program.output, Array(program.outputs, 1.0));
        // something that no parameter leads to
        add(Element::f32, Array(1000, 2.0));
        for (std::size_t i = 0; i + 1 < memory_.size(); ++i) pointers_.push_back(reinterpret_cast<CUdeviceptr>(memory_[i].data()));
        for (CUdeviceptr& p : pointers_) arguments_.push_back(&p);
    }

    std::vector<Block> blocks() {
        std::vector<Block> found(memory_.size());
        for (std::size_t i = 0; i < memory_.size(); ++i) {
            found[i].base = reinterpret_cast<CUdeviceptr>(memory_[i].data());
            found[i].bytes = memory_[i].size();
        }
        return found;
    }

    fake::Kernel kernel(const simulated::Kernel& compute) {
        fake::Kernel made{"kernel", [this, compute](void** arguments) { run(compute, arguments); }, {}};
        for (std::size_t i = 0; i < pointers_.size(); ++i) made.parameters.push_back({8 * i, 8});
        return made;
    }

    Launch launch(fake::Kernel& kernel) {
        Launch made;
        made.function = kernel.handle();
        made.parameters = arguments_.data();
        return made;
    }

    std::vector<Parameter> parameters() const {
        std::vector<Parameter> found;
        for (std::size_t i = 0; i < pointers_.size(); ++i) {
            const bool input = i + 1 < pointers_.size();
            found.push_back({static_cast<int>(i), input ? program_.input : program_.output, input, false, false, 0});
        }
        return found;
    }

    std::vector<std::uint8_t>& unreached() { return memory_.back(); }

   private:
    void add(Element element, const Array& values) {
        std::vector<std::uint8_t> bytes(values.size() * element_size(element));
        for (std::size_t i = 0; i < values.size(); ++i) put(element, bytes.data() + i * element_size(element), values[i]);
        memory_.push_back(std::move(bytes));
    }

    static void put(Element element, std::uint8_t* at, double value) {
        const auto single = static_cast<float>(value);
        const auto half = static_cast<_Float16>(single);
        if (element == Element::f64) std::memcpy(at, &value, 8);
        else if (element == Element::f32) std::memcpy(at, &single, 4);
        else std::memcpy(at, &half, 2);
    }

    void run(const simulated::Kernel& compute, void** arguments) const {
        auto* const* addresses = reinterpret_cast<std::uint8_t***>(arguments);
        Arrays in;
        for (std::size_t k = 0; k < program_.inputs.size(); ++k) {
            in.emplace_back(program_.inputs[k].size());
            for (std::size_t i = 0; i < in[k].size(); ++i)
                in[k][i] = load(program_.input, *addresses[k] + i * element_size(program_.input));
        }
        std::uint8_t* to = *addresses[program_.inputs.size()];
        Array out(program_.outputs);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = load(program_.output, to + i * element_size(program_.output));
        compute(in, out);
        for (std::size_t i = 0; i < out.size(); ++i) put(program_.output, to + i * element_size(program_.output), out[i]);
    }

    const Program& program_;
    std::vector<std::vector<std::uint8_t>> memory_;
    std::vector<CUdeviceptr> pointers_;
    std::vector<void*> arguments_;
};

Job job_for(const Device& device, std::uint64_t seed) {
    Job job;
    job.seed = seed;
    job.parameters = device.parameters();
    // as `warplens.measure.kernel.visits` asks
    for (const auto& [name, scale, noise] : {std::tuple{"with noise", 1.0, 0.5}, {"with full mantissas", 0.0, 0.0}, {"negated", -1.0, 0.0}, {"scaled by 3", 3.0, 0.0}, {"scaled by 0.01", 0.01, 0.0}})
        job.variants.push_back({name, scale, noise, Variant::moved});
    job.variants.push_back({"with spikes", 1, 0, Variant::spikes});
    job.variants.push_back({"with mixed signs", 1, 0, Variant::signs});
    job.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                   {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 1}};
    return job;
}

// "right", or what is not, as a visit asks it of a candidate.
std::string judged(Oracle& oracle, Device& device, const simulated::Kernel& candidate) {
    fake::Kernel kernel = device.kernel(candidate);
    for (const Case& c : oracle.cases()) {
        const Outcome outcome = oracle.compared(c, [&] {
            oracle.prepare(c);
            device.launch(kernel).go(nullptr);
            return oracle.verify(c);
        });
        const std::string said = outcome.reason.empty() ? "" : std::string(outcome.state) + ": " + outcome.reason + ", on " + c.variant.name;
        if (!oracle.recover()) return "damaged";
        if (!said.empty()) return said;
    }
    return "right";
}

// Where a lower precision is allowed, only what it explains may pass: each term rounded, no sum.
bool lowers(const std::string& name) {
    return name == "in float" || name == "products rounded to half" || (name.size() > 7 && name.rfind(" inputs") == name.size() - 7);
}

unsigned judge_all(const Program& program, std::uint64_t seed, bool lowered, unsigned& passed) {
    Device device(program);
    Job job = job_for(device, seed);
    if (lowered) {
        job.options["lowered"] = 1.0 / 256;
        job.variants.insert(job.variants.begin(), {"of few bits", 0, 1, Variant::moved});
    }
    fake::Kernel baseline = device.kernel(program.baseline);
    const Launch launch = device.launch(baseline);
    const Helpers helpers("the fake driver's own");
    Memory memory(device.blocks(), helpers, nullptr, seed * 2 + 1);
    Results results;
    results.open("/dev/null");
    Oracle oracle(job, launch, memory, nullptr, results);
    unsigned mistakes = 0;
    auto expect = [&](const std::string& name, const simulated::Kernel& kernel, const char* state) {
        const std::string said = judged(oracle, device, kernel);
        if (said.rfind(state, 0) == 0) return;
        ++mistakes;
        std::printf("seed %d, %s, %s: %s\n", int(seed), program.name.c_str(), name.c_str(), said.c_str());
    };
    expect("itself", program.baseline, "right");
    for (const auto& [name, kernel] : program.honest) expect(name, kernel, "right");
    for (const auto& [name, kernel] : program.wrong) {
        if (lowered && lowers(name)) passed += judged(oracle, device, kernel) == "right";
        else expect(name, kernel, "wrong");
    }
    expect("a stray write", [&](const Arrays& in, Array& out) {
        program.baseline(in, out);
        device.unreached()[100] ^= 1;
    }, "wrong: writes where the kernel does not");
    return mistakes;
}

}  // namespace

int main(int count, char** arguments) {
    const std::uint64_t first = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
    const std::uint64_t seeds = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
    const bool lowered = count > 3;
    unsigned mistakes = 0, programs = 0, passed = 0;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed)
        for (const Program& program : simulated::programs(seed)) {
            mistakes += judge_all(program, seed, lowered, passed);
            ++programs;
        }
    std::printf("{\"programs\": %u, \"mistakes\": %u, \"lowered\": %u}\n", programs, mistakes, passed);
    return mistakes != 0;
}
