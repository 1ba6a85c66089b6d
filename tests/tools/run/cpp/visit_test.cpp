// A whole visit on a driver that runs launches on the host, nothing timed: what is said of candidates that are right on
// the program's own sizes. "visit_test" prints what does not hold.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "fake_driver.h"
#include "timer.h"
#include "visit.h"

namespace warplens {

// Nothing is timed here.
Timer::Timer(CUstream stream, bool) : stream_(stream) {}
void Timer::time(const std::function<void()>& launch) { launch(); }
std::vector<double> Timer::collect() { return {}; }
void Timer::discard() {}

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
                    {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"time", 0}, {"events", 0}, {"sift", 0}};
    return made;
}

// The records of a visit, which ends its process.
std::string visited(const std::vector<std::pair<std::string, Body>>& bodies) {
    char path[] = "/tmp/visit_test_XXXXXX";
    close(mkstemp(path));
    const pid_t child = fork();
    if (!child) {
        static std::vector<fake::Kernel> kernels;
        kernels.reserve(bodies.size() + 1);
        std::vector<std::string> names;
        gain_of("program") = {2};
        kernels.push_back(kernel("kernel", "program", law));
        for (const auto& [name, body] : bodies) {
            gain_of(name) = {2};
            kernels.push_back(kernel(name, name, body));
            fake::functions()[name] = &kernels.back();
            names.push_back(name);
        }
        static std::vector<float> in(1100), out(1100);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = 0.5f + static_cast<float>(i * 7919 % 997) / 997;
        static CUdeviceptr at[] = {reinterpret_cast<CUdeviceptr>(in.data()), reinterpret_cast<CUdeviceptr>(out.data())};
        static int n = 1000, step = 1;
        static void* arguments[] = {&at[0], &at[1], &n, &step};
        Allocations allocations;
        for (CUdeviceptr address : at) {
            cuMemAlloc_v2_params made{&address, in.size() * sizeof(float)};
            CUresult success = CUDA_SUCCESS;
            CUpti_CallbackData call{};
            call.callbackSite = CUPTI_API_EXIT;
            call.functionParams = &made;
            call.functionReturnValue = &success;
            allocations.follow(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &call);
        }
        Launch launch;
        launch.function = kernels[0].handle();
        launch.parameters = arguments;
        launch.grid[0] = 8, launch.block[0] = kBlock;
        const Job asked = job(path, names);
        Results results;
        results.open(path);
        visit(asked, launch, true, allocations, results);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    unlink(path);
    return text.str() + (WIFEXITED(status) ? "" : "died of " + std::to_string(WTERMSIG(status)));
}

std::string said_of(const std::string& records, const std::string& candidate) {
    const std::size_t at = records.find("\"result\",\"candidate\":\"" + candidate + "\"");
    return at == std::string::npos ? "nothing: " + records : records.substr(at, records.find('\n', at) - at);
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
    std::printf("{\"mistakes\": %d}\n", mistakes);
    return mistakes != 0;
}
