// A whole visit on a driver that runs launches on the host: what is said of candidates that are right on the program's
// own sizes, and of one that is right in its timed launches too. "visit_test" prints what does not hold.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "fake_driver.h"
#include "timer.h"
#include "visit.h"

namespace warplens {

// Every launch takes a microsecond, unless it says otherwise.
double taken = 1000;
std::vector<double> durations;
Timer::Timer(CUstream stream, bool) : stream_(stream) {}
void Timer::time(const std::function<void()>& launch) { taken = 1000, launch(), durations.push_back(taken); }
std::vector<double> Timer::collect() { return std::exchange(durations, {}); }
void Timer::discard() { durations.clear(); }

}  // namespace warplens

using namespace warplens;

namespace {

// out[i] = gain * (in[i] + in[i + step]) over the first n, a thread each; the gain is a variable of the module.
struct Numbers {
    const float* in;
    float* out;
    int n, step;
};
using Body = std::function<void(Numbers, float gain)>;

constexpr int kBlock = 128;

std::vector<float>& gain_of(const std::string& module) { return fake::variables()[module]["gain"]; }

fake::Kernel kernel(const std::string& name, const std::string& module, const Body& body) {
    return {name, [module, body](void** a) {
        Numbers d;
        std::memcpy(&d.in, a[0], 8);
        std::memcpy(&d.out, a[1], 8);
        std::memcpy(&d.n, a[2], 4);
        std::memcpy(&d.step, a[3], 4);
        body(d, gain_of(module)[0]);
    }, {{0, 8}, {8, 8}, {16, 4}, {20, 4}}, module};
}

void law(Numbers d, float gain) {
    const long threads = long(fake::grid[0]) * kBlock;
    for (long i = 0; i < std::min<long>(d.n, threads); ++i) d.out[i] = gain * (d.in[i] + d.in[i + d.step]);
}

Parameter parameter(int index, Element element, bool constant, bool scalar) {
    Parameter p;
    p.index = index, p.element = element, p.constant = constant, p.scalar = scalar, p.width = element == Element::integer ? 4 : 0;
    return p;
}

Job job(const std::string& result, const std::vector<std::string>& names) {
    Job made;
    made.mode = "visit", made.result = result, made.helpers = "helpers", made.seed = 5;
    made.parameters = {parameter(0, Element::f32, true, false), parameter(1, Element::f32, false, false),
                       parameter(2, Element::integer, false, true), parameter(3, Element::integer, false, true)};
    made.globals = {"gain"};
    made.held["gain"] = parameter(0, Element::f32, true, false);
    made.variants = {{"noise", 1, 0.5, Variant::moved}, {"fewer", 1, 0, Variant::fewer, 0}};
    for (int k = 0; k < 64; ++k) made.rooms.push_back({"one " + std::to_string(k), 1, 0, Variant::numbers, k});
    for (const std::string& name : names) {
        Candidate c;
        c.id = name, c.cubin = name, c.entry = name;
        c.globals = {{"gain", "gain"}};
        if (name == "quarter") c.grid[0] = 2, c.grid[1] = c.grid[2] = 1, c.block[0] = 4 * kBlock, c.block[1] = c.block[2] = 1;
        made.candidates.push_back(c);
    }
    made.options = {{"repeats", 4}, {"tolerance_factor", 8}, {"learn_seconds", 60}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 1}, {"time", 0}, {"compare_seconds", 60}, {"events", 0}, {"sift", 0}, {"bar", 0}, {"sifts", 0}};
    return made;
}

// One launch of the first of some kernels, which all stand in modules of their own, over two buffers of floats.
struct Scene {
    std::vector<fake::Kernel> kernels;
    std::vector<float> in, out;
    int n = 0, step = 1;
    CUdeviceptr at[2] = {};
    void* arguments[4] = {&at[0], &at[1], &n, &step};
    Launch launch;
    Allocations allocations;

    void place() {
        for (std::size_t i = 1; i < kernels.size(); ++i) fake::functions()[kernels[i].name] = &kernels[i];
        at[0] = reinterpret_cast<CUdeviceptr>(in.data()), at[1] = reinterpret_cast<CUdeviceptr>(out.data());
        for (const std::vector<float>* of : {&in, &out}) {
            CUdeviceptr address = reinterpret_cast<CUdeviceptr>(of->data());
            cuMemAlloc_v2_params made{&address, of->size() * sizeof(float)};
            CUresult success = CUDA_SUCCESS;
            CUpti_CallbackData call{};
            call.callbackSite = CUPTI_API_EXIT;
            call.functionParams = &made;
            call.functionReturnValue = &success;
            allocations.follow(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &call);
        }
        launch.function = kernels[0].handle();
        launch.parameters = arguments;
        launch.block[0] = kBlock;
    }
};

// The records of a visit, which ends its process.
std::string records_of(const std::function<void(const std::string& path)>& visits) {
    char path[] = "/tmp/visit_test_XXXXXX";
    close(mkstemp(path));
    const pid_t child = fork();
    if (!child) visits(path);
    int status = 0;
    waitpid(child, &status, 0);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    unlink(path);
    return text.str() + (WIFEXITED(status) ? "" : "died of " + std::to_string(WTERMSIG(status)));
}

void go(const Job& asked, const Scene& scene) {
    Results results;
    results.open(asked.result);
    visit(asked, scene.launch, true, scene.allocations, results);
}

std::string visited(const std::vector<std::pair<std::string, Body>>& bodies) {
    return records_of([&](const std::string& path) {
        Scene scene;
        std::vector<std::string> names;
        gain_of("program") = {2};
        scene.kernels.push_back(kernel("kernel", "program", law));
        for (const auto& [name, body] : bodies) {
            gain_of(name) = {2};
            scene.kernels.push_back(kernel(name, name, body));
            names.push_back(name);
        }
        scene.in.resize(1100), scene.out.resize(1100), scene.n = 1000;
        for (std::size_t i = 0; i < scene.in.size(); ++i) scene.in[i] = 0.5f + static_cast<float>(i * 7919 % 997) / 997;
        scene.place();
        scene.launch.grid[0] = 8;
        go(job(path, names), scene);
    });
}

// Of one buffer into another, and timed.
void time(Job& asked) {
    asked.parameters.resize(2);
    asked.globals.clear(), asked.held.clear(), asked.rooms.clear(), asked.candidates[0].globals.clear();
    for (const auto& [name, value] : std::map<std::string, double>{{"time", 1}, {"warm_up_seconds", 0}, {"timing_seconds", 0}, {"timing_seconds_most", 10},
                                                                   {"rounds_min", 4}, {"rounds_max", 8}, {"precision", 0.01}, {"clear", 0}, {"checked_share", 1}, {"flush_cache", 0}})
        asked.options[name] = value;
}

// One that writes before it has read all, which matters only where what is read is what is written.
std::string visited_in_place() {
    auto doubles = [](const std::string& name, bool early) {
        return fake::Kernel{name, [early](void** a) {
            const float* in = nullptr;
            float* out = nullptr;
            std::memcpy(&in, a[0], 8);
            std::memcpy(&out, a[1], 8);
            if (early) out[255] = 0;
            for (int i = 0; i < 256; ++i) out[i] = 2 * in[i];
        }, {{0, 8}, {8, 8}}};
    };
    return records_of([&](const std::string& path) {
        Scene scene;
        scene.kernels = {doubles("kernel", false), doubles("early", true)};
        scene.in.assign(256, 0.7f), scene.out.resize(256);
        scene.place();
        Job asked = job(path, {"early"});
        asked.variants = {{"in place", 1, 0, Variant::aliased, 0}};
        time(asked);
        go(asked, scene);
    });
}

// A long sum of terms that are alike, whose roundings in one order all go one way, and the same in parts: on every set of
// inputs it is right, being more exact, but only what the sum comes to in parts tells.
std::string visited_in_time() {
    constexpr int kTerms = 1 << 19;
    auto sums = [](const std::string& name, int each) {
        return fake::Kernel{name, [each](void** a) {
            const float* in = nullptr;
            float* out = nullptr;
            std::memcpy(&in, a[0], 8);
            std::memcpy(&out, a[1], 8);
            float all = 0;
            for (int from = 0; from < kTerms; from += each) {
                float part = 0;
                for (int i = from; i < from + each; ++i) part += in[i];
                all += part;
            }
            out[0] = all;
        }, {{0, 8}, {8, 8}}};
    };
    return records_of([&](const std::string& path) {
        Scene scene;
        scene.kernels = {sums("kernel", kTerms), sums("in parts", 1024)};
        scene.in.assign(kTerms, 0.1f), scene.out.resize(1);
        scene.place();
        Job asked = job(path, {"in parts"});
        asked.variants = {{"tripled", 3, 0, Variant::moved}};
        time(asked);
        go(asked, scene);
    });
}

// Results that differ from run to run in their last bits: each of them is right, also the one that was seen first.
std::string visited_while_swaying() {
    static unsigned turn;
    auto sways = [](const std::string& name, std::function<unsigned()> next) {
        return fake::Kernel{name, [next = std::move(next)](void** a) {
            float* out = nullptr;
            std::memcpy(&out, a[1], 8);
            const unsigned bits = next();
            for (int i = 0; i < 256; ++i) out[i] = 1 + static_cast<float>(bits) * 0x1p-23f;
        }, {{0, 8}, {8, 8}}};
    };
    return records_of([&](const std::string& path) {
        Scene scene;
        std::vector<std::string> names;
        scene.kernels.push_back(sways("kernel", [] { return turn++ % 7; }));
        for (unsigned bits = 0; bits < 7; ++bits) {
            names.push_back("sways " + std::to_string(bits));
            scene.kernels.push_back(sways(names.back(), [bits] { return bits; }));
        }
        scene.in.resize(256), scene.out.resize(256);
        scene.place();
        Job asked = job(path, names);
        asked.parameters.resize(2);
        asked.globals.clear(), asked.held.clear(), asked.rooms.clear(), asked.variants.clear();
        for (Candidate& candidate : asked.candidates) candidate.globals.clear();
        go(asked, scene);
    });
}

// Several that take other times, against a bar of 1.5; those of a name with "wrong" are so on tripled inputs alone.
std::string visited_against_a_bar(bool sifts) {
    auto doubles = [](const std::string& name, double ns) {
        const bool wrong = name.find("wrong") != std::string::npos;
        return fake::Kernel{name, [wrong, ns](void** a) {
            const float* in = nullptr;
            float* out = nullptr;
            std::memcpy(&in, a[0], 8);
            std::memcpy(&out, a[1], 8);
            for (int i = 0; i < 256; ++i) out[i] = 2 * (wrong && in[i] > 1 ? 1 : in[i]);
            taken = ns;
        }, {{0, 8}, {8, 8}}};
    };
    const std::vector<std::pair<std::string, double>> candidates = {
        {"slower", 2000}, {"behind", 700}, {"wrong behind", 700}, {"wrong ahead", 400}, {"ahead", 500}, {"no better", 520}, {"best", 250}};
    return records_of([&](const std::string& path) {
        Scene scene;
        std::vector<std::string> names;
        scene.kernels.push_back(doubles("kernel", 1000));
        for (const auto& [name, ns] : candidates) scene.kernels.push_back(doubles(name, ns)), names.push_back(name);
        scene.in.assign(256, 0.7f), scene.out.resize(256);
        scene.place();
        Job asked = job(path, names);
        // what is wrong comes behind those that are compared first
        asked.variants = {{"half", 0.5, 0, Variant::moved}, {"quarter", 0.25, 0, Variant::moved}, {"eighth", 0.125, 0, Variant::moved}};
        if (!sifts)
            for (int k = 0; k < 4; ++k) asked.variants.push_back({"tripled " + std::to_string(k), 3, 0, Variant::moved});
        time(asked);
        for (Candidate& candidate : asked.candidates) candidate.globals.clear();
        asked.options["bar"] = 1.5, asked.options["sifts"] = sifts;
        asked.options["rounds_min"] = 20, asked.options["rounds_max"] = 40, asked.options["timing_seconds"] = 1;
        go(asked, scene);
    });
}

std::string said_of(const std::string& records, const std::string& candidate) {
    const std::size_t at = records.find("\"result\",\"candidate\":\"" + candidate + "\"");
    return at == std::string::npos ? "nothing: " + records : records.substr(at, records.find('\n', at) - at);
}

int rounds_of(const std::string& said) {
    const std::size_t from = said.find("\"baseline\":[") + 12, to = said.find(']', from);
    return from > to ? 0 : 1 + static_cast<int>(std::count(said.begin() + static_cast<long>(from), said.begin() + static_cast<long>(to), ','));
}

// What does not hold of visits against a bar.
int mistakes_at_a_bar() {
    int mistakes = 0;
    auto expect = [&](const std::string& records, const char* name, const char* state, int least, int most) {
        const std::string said = said_of(records, name);
        const int rounds = rounds_of(said);
        if (said.find("\"state\":\"" + std::string(state) + "\"") == std::string::npos || rounds < least || rounds > most)
            ++mistakes, std::printf("%s at a bar: %s\n", name, said.c_str());
    };
    const std::string all = visited_against_a_bar(false), few = visited_against_a_bar(true);
    for (const std::string& records : {all, few}) {
        expect(records, "slower", "provisional", 2, 2);
        expect(records, "behind", "provisional", 5, 5);
        expect(records, "wrong behind", "provisional", 5, 5);
    }
    expect(all, "wrong ahead", "wrong", 0, 20);
    expect(all, "ahead", "right", 20, 20);
    // behind what was found in the same visit
    expect(all, "no better", "provisional", 2, 5);
    expect(all, "best", "right", 20, 20);
    // a first look says of those ahead that they are, and no more
    for (const char* name : {"wrong ahead", "ahead", "no better", "best"}) expect(few, name, "right", 2, 5);
    if (few.find("\"cache\":\"varied\"") != std::string::npos || all.find("\"cache\":\"varied\"") == std::string::npos)
        ++mistakes, std::printf("other inputs: %s\n", few.c_str());
    return mistakes;
}

}  // namespace

int main() {
    const std::string records = visited({
        {"itself", law},
        {"quarter", [](Numbers d, float gain) {
            fake::grid[0] *= 4;
            law(d, gain);
            fake::grid[0] /= 4;
        }},
        {"near", [](Numbers d, float gain) { d.step = 1; law(d, gain); }},
        {"short", [](Numbers d, float gain) { d.n = std::min(d.n, 1024); law(d, gain); }},
        {"strong", [](Numbers d, float) { law(d, 2); }},
        {"again", law},
    });
    int mistakes = 0;
    for (const char* honest : {"itself", "quarter", "again"})
        if (said_of(records, honest).find("\"state\":\"right\"") == std::string::npos) ++mistakes, std::printf("%s: %s\n", honest, said_of(records, honest).c_str());
    for (const char* wrong : {"near", "short", "strong"})
        if (said_of(records, wrong).find("\"state\":\"wrong\"") == std::string::npos) ++mistakes, std::printf("%s: %s\n", wrong, said_of(records, wrong).c_str());
    for (const char* by_room : {"near", "short"})
        if (said_of(records, by_room).find("more memory than the program has") == std::string::npos) ++mistakes, std::printf("%s, where: %s\n", by_room, said_of(records, by_room).c_str());
    const std::string in_place = said_of(visited_in_place(), "early");
    if (in_place.find("\"state\":\"unproven\"") == std::string::npos) ++mistakes, std::printf("in place: %s\n", in_place.c_str());
    const std::string swaying = visited_while_swaying();
    for (unsigned bits = 0; bits < 7; ++bits) {
        const std::string said = said_of(swaying, "sways " + std::to_string(bits));
        if (said.find("\"state\":\"right\"") == std::string::npos) ++mistakes, std::printf("%s\n", said.c_str());
    }
    const std::string timed = said_of(visited_in_time(), "in parts");
    if (timed.find("\"state\":\"right\"") == std::string::npos || timed.find("\"inputs\":\"tripled\",\"baseline\":[1000,") == std::string::npos)
        ++mistakes, std::printf("in parts: %s\n", timed.c_str());
    mistakes += mistakes_at_a_bar();
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
