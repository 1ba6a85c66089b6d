// A whole program accompanied, on a driver that runs launches on the host: which launches are compared, whose results
// stand, and what ends it. "accompany_test" prints what does not hold.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "accompany.h"
#include "calls.h"
#include "blocks.h"
#include "driver.h"
#include "fake_driver.h"
#include "plan.h"

using namespace warplens;

namespace {

int expectations = 0, mistakes = 0;

void expect(bool holds, const char* what, const std::string& seen = "") {
    ++expectations;
    if (holds) return;
    ++mistakes;
    std::printf("%s: %s\n", what, seen.c_str());
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

// A program that launches one kernel again and again: y[i] = 0.5 y[i] + x[i].
class Program {
   public:
    Program() : x_(500), y_(500, 1.0f) {
        for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = 1 + static_cast<float>(i) / 7;
        for (auto* values : {&x_, &y_}) {
            addresses_.push_back(reinterpret_cast<CUdeviceptr>(values->data()));
            CUdeviceptr address = addresses_.back();
            cuMemAlloc_v2_params made{&address, values->size() * sizeof(float)};
            CUresult success = CUDA_SUCCESS;
            CUpti_CallbackData call{};
            call.callbackSite = CUPTI_API_EXIT;
            call.functionParams = &made;
            call.functionReturnValue = &success;
            allocations.follow(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &call);
        }
        for (CUdeviceptr& address : addresses_) arguments_.push_back(&address);
        kernel = made("relax", [](std::vector<float*> v, std::size_t i) { return 0.5f * v[1][i] + v[0][i]; });
    }

    using Element = std::function<float(std::vector<float*>, std::size_t)>;
    static fake::Kernel made(const std::string& name, const Element& element) {
        fake::Kernel kernel{name, nullptr, {{0, 8}, {8, 8}}};
        kernel.run = [element](void** arguments) {
            std::vector<float*> v = {**reinterpret_cast<float***>(arguments), **reinterpret_cast<float***>(arguments + 1)};
            for (std::size_t i = 0; i < 500; ++i) v[1][i] = element(v, i);
        };
        return kernel;
    }

    // One launch, as the driver makes it between its callbacks.
    void launch(Accompaniment& accompaniment, unsigned grid, bool captured = false) {
        CUresult success = CUDA_SUCCESS;
        cuLaunchKernel_params p{};
        p.f = kernel.handle();
        p.gridDimX = grid, p.gridDimY = p.gridDimZ = p.blockDimY = p.blockDimZ = 1;
        p.blockDimX = 64;
        p.kernelParams = arguments_.data();
        CUpti_CallbackData call{};
        call.functionParams = &p;
        call.functionReturnValue = &success;
        call.callbackSite = CUPTI_API_ENTER;
        const auto id = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
        accompaniment.entering(id, &call, "relax", launch_of(id, &call), true, captured);
        blocks += std::to_string(p.blockDimX) + " ";
        found_ = y_;
        cuLaunchKernel(p.f, p.gridDimX, 1, 1, p.blockDimX, 1, 1, 0, nullptr, p.kernelParams, nullptr);
        call.callbackSite = CUPTI_API_EXIT;
        accompaniment.leaving(id, &call);
    }

    Allocations allocations;
    fake::Kernel kernel;
    std::string blocks;
    std::vector<float> x_, y_, found_;  // found: what results a launch finds, that nothing else may see changed

   private:
    std::vector<CUdeviceptr> addresses_;
    std::vector<void*> arguments_;
};

Job job_for(const std::string& result, bool stands) {
    Job job;
    job.result = result;
    job.seed = 5;
    Candidate candidate;
    candidate.id = "mine";
    candidate.entry = "edited";
    candidate.kernel = "relax";
    candidate.launches = 12;
    candidate.parameters = {{0, Element::f32, true, false, false, 0}, {1, Element::f32, false, false, false, 0}};
    job.candidates = {candidate};
    job.options = {{"repeats", 2}, {"tolerance_factor", 8}, {"learn_seconds", 1e9}, {"lowered", 0}, {"baseline_limit", 60}, {"hang_factor", 50},
                   {"hang_seconds", 60}, {"poison", 1}, {"fill", 1}, {"perturb", 1}, {"lazily", 0}, {"compare_seconds", 60},
                   {"stands", stands ? 1.0 : 0.0}};
    return job;
}

struct Ran {
    int status;
    std::string records, blocks;
    double sum;
};

// Twelve launches in a process of their own, as a wrong candidate ends it.
Ran run(const Program::Element& element, bool stands, bool in_place, std::vector<std::pair<Shape, Shape>> shapes = {},
        const std::string& module = "") {
    char path[] = "/tmp/accompany-XXXXXX";
    const int file = mkstemp(path);
    if (file >= 0) close(file);
    int ends[2];
    if (pipe(ends) != 0) return {-1, "", "", 0};
    const pid_t child = fork();
    if (child == 0) {
        fake::takes_other_parameters = in_place;
        Program program;
        fake::Kernel edited = Program::made("edited", element);
        fake::functions()["edited"] = &edited;
        Job job = job_for(path, stands);
        job.candidates[0].shapes = std::move(shapes);
        if (!module.empty()) {
            program.kernel.module = "program";
            job.globals = {"gain"};
            job.candidates[0].cubin = module;
            job.candidates[0].globals = {{"gain", "gain"}};
        }
        Results results;
        results.open(path);
        int held = 0;
        Accompaniment accompaniment(job, program.allocations, results, [&] { ++held; });
        for (unsigned i = 0; i < 12; ++i) program.launch(accompaniment, 8, i == 7);
        accompaniment.finish();
        double sum = 0;
        for (float y : program.y_) sum += y;
        std::ostringstream said;
        said << sum << ' ' << program.blocks;
        const std::string text = said.str();
        _exit(write(ends[1], text.data(), text.size()) < 0);
    }
    close(ends[1]);
    std::string said;
    char buffer[512];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    std::ifstream records(path);
    std::stringstream text;
    text << records.rdbuf();
    unlink(path);
    Ran ran{WEXITSTATUS(status), text.str(), "", 0};
    std::istringstream words(said);
    words >> ran.sum;
    std::getline(words, ran.blocks);
    return ran;
}

double fixed_point() {
    double sum = 0;
    for (int i = 0; i < 500; ++i) {
        float y = 1;
        for (int k = 0; k < 12; ++k) y = 0.5f * y + (1 + static_cast<float>(i) / 7);
        sum += y;
    }
    return sum;
}

const Program::Element kRight = [](std::vector<float*> v, std::size_t i) { return std::fma(0.5f, v[1][i], v[0][i]); };

void a_right_candidate_stands_everywhere() {
    for (bool in_place : {true, false}) {
        const Ran ran = run(kRight, true, in_place);
        expect(ran.status == 0, "it ends as the program does", ran.records);
        expect(count(ran.records, "\"compared\",\"candidate\"") == 11, "every launch but the captured one is compared", ran.records);
        expect(count(ran.records, in_place ? "\"replaced\":12" : "\"replaced\":11") == 1, "it stands", ran.records);
        expect(std::fabs(ran.sum - fixed_point()) < 1e-3 * ran.sum, "the program's results", std::to_string(ran.sum));
        expect((ran.records.find("captured into a graph") != std::string::npos) == !in_place, "what is left is said", ran.records);
    }
}

void what_is_only_compared_leaves_the_program_as_it_was() {
    const Ran ran = run(kRight, false, true);
    expect(ran.status == 0 && count(ran.records, "\"replaced\":0") == 1, "nothing stands", ran.records);
    expect(std::fabs(ran.sum - fixed_point()) < 1e-3 * ran.sum, "the program's results", std::to_string(ran.sum));
}

// Another stream of the program may read results while the launch that writes them runs.
void results_are_as_they_were_when_a_launch_goes_on() {
    const pid_t child = fork();
    if (child == 0) {
        const Program::Element twice = [](std::vector<float*> v, std::size_t i) { return 2 * v[0][i]; };
        Program program;
        program.kernel = Program::made("relax", twice);
        fake::Kernel edited = Program::made("edited", twice);
        fake::functions()["edited"] = &edited;
        fake::takes_other_parameters = true;
        const Job job = job_for("/dev/null", true);
        Results results;
        results.open("/dev/null");
        Accompaniment accompaniment(job, program.allocations, results, [] {});
        bool right = true;
        for (unsigned i = 0; i < 3; ++i) {
            std::fill(program.y_.begin(), program.y_.end(), 7.0f);
            program.launch(accompaniment, 8);
            right = right && program.found_ == std::vector<float>(500, 7.0f) && program.y_[3] == 2 * program.x_[3];
        }
        _exit(right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a launch finds what the program left, and leaves its results", std::to_string(status));
}

// y[i] = gain y[i] + x[i], the gain a variable that the program has set and a module loaded afresh has not.
void variables_are_the_programs() {
    fake::variables()["program"]["gain"] = {0.5f};
    for (const char* path : {"twin", "other"}) fake::variables()[path]["gain"] = {0.0f};
    for (const std::string& path : {std::string("twin"), std::string("other")})
        for (bool stands : {true, false}) {
            const Program::Element element = [path](std::vector<float*> v, std::size_t i) {
                return std::fma(fake::variables()[path]["gain"][0], v[1][i], v[0][i]) + (path == "other" ? 0.1f : 0.0f);
            };
            const Ran ran = run(element, stands, true, {}, path);
            expect(ran.status == (path == "twin" ? 0 : 4), "with the program's variables it is right, or else wrong", ran.records);
            if (path != "twin") continue;
            expect(std::fabs(ran.sum - fixed_point()) < 1e-3 * ran.sum, "the program's results", std::to_string(ran.sum));
        }
}

void a_variable_that_cannot_be_reset_is_refused() {
    fake::variables()["program"]["gain"] = {0.5f};
    fake::variables()["bare"].clear();
    const Ran ran = run(kRight, true, true, {}, "bare");
    expect(ran.status == 4 && count(ran.records, "gain cannot be found") == 1, "it is refused", ran.records);
}

void a_candidate_wrong_in_one_launch_ends_it() {
    auto calls = std::make_shared<std::size_t>(0);
    const Ran ran = run([calls](std::vector<float*> v, std::size_t i) {
        // from the ninth launch on it leaves what lay there
        return (*calls)++ / 500 < 8 ? std::fma(0.5f, v[1][i], v[0][i]) : v[1][i];
    }, true, true);
    expect(ran.status == 4, "it ends", std::to_string(ran.status));
    expect(count(ran.records, "\"state\":\"wrong\"") == 1, "it is wrong", ran.records);
    expect(count(ran.records, "\"state\":\"right\"") > 2, "it was right before", ran.records);
}

void geometry_goes_by_shape() {
    const Shape known{{8, 1, 1}, {64, 1, 1}, 0}, other{{9, 1, 1}, {64, 1, 1}, 0}, own{{4, 1, 1}, {128, 1, 1}, 0};
    const Ran ran = run(kRight, true, true, {{known, own}});
    expect(ran.blocks.find("64") == std::string::npos, "every launch has the candidate's block", ran.blocks);
    const Ran kept = run(kRight, true, true, {{other, own}});
    expect(kept.blocks.find("128") == std::string::npos, "no launch has another shape's", kept.blocks);
    expect(kept.records.find("no geometry") != std::string::npos, "which is said", kept.records);
}

void plans() {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Plan plan(1000, 1.0, seed);
        plan.took(0.01);
        std::size_t due = 0, pairs = 0;
        for (std::uint64_t i = 1; i < 1000; ++i) {
            due += plan.due(i);
            pairs += plan.due(i) && plan.due(i - 1);
        }
        expect(due >= 100 && due <= 102, "as many as the budget has time for", std::to_string(due));
        expect(pairs >= 45, "consecutive ones among them", std::to_string(pairs));
    }
    Plan all(50, 1.0, 1), dear(1000, 1.0, 1), two(2, 0.1, 3);
    all.took(0.01);
    expect(all.all() && all.due(49), "all where they fit");
    dear.took(10);
    std::size_t due = 0;
    for (std::uint64_t i = 1; i < 1000; ++i) due += dear.due(i);
    expect(due >= 4, "a few however dear", std::to_string(due));
    two.took(5);
    expect(two.due(1), "the other of two");
    std::set<std::uint64_t> first, second;
    Plan a(1000, 1.0, 1), b(1000, 1.0, 2);
    a.took(0.01), b.took(0.01);
    for (std::uint64_t i = 1; i < 1000; ++i) {
        if (a.due(i)) first.insert(i);
        if (b.due(i)) second.insert(i);
    }
    expect(first != second, "others with another seed");
}

void gaps_lie_beside_the_programs_memory() {
    Block block;
    check(cuMemAlloc(&block.base, 5000), "cuMemAlloc");
    block.bytes = 5000;
    const std::vector<Block> gaps = gaps_of({block});
    expect(!gaps.empty() && gaps.size() <= 24, "some are found, not many", std::to_string(gaps.size()));
    for (const Block& gap : gaps) {
        const bool apart = gap.base + gap.bytes <= block.base || gap.base >= block.base + block.bytes;
        // which may lie across the end of one
        const bool beside = gap.base >> 21 >= block.base >> 21 && gap.base >> 21 <= (block.base + block.bytes - 1) >> 21;
        if (!apart || !beside) expect(false, "in the same page, apart from it");
        cuMemFree(gap.base);
    }
    cuMemFree(block.base);
}

}  // namespace

int main() {
    gaps_lie_beside_the_programs_memory();
    plans();
    a_right_candidate_stands_everywhere();
    what_is_only_compared_leaves_the_program_as_it_was();
    results_are_as_they_were_when_a_launch_goes_on();
    variables_are_the_programs();
    a_variable_that_cannot_be_reset_is_refused();
    a_candidate_wrong_in_one_launch_ends_it();
    geometry_goes_by_shape();
    std::printf("{\"expectations\": %d, \"mistakes\": %d}\n", expectations, mistakes);
    return mistakes != 0;
}
