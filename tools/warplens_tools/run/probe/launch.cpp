// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "driver.h"

namespace warplens {
namespace {

int attribute(CUfunction function, CUfunction_attribute which) {
    int value = 0;
    check(cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute");
    return value;
}

}  // namespace

void Launch::go(CUstream on) const {
    CUlaunchConfig config{};
    config.gridDimX = grid[0], config.gridDimY = grid[1], config.gridDimZ = grid[2];
    config.blockDimX = block[0], config.blockDimY = block[1], config.blockDimZ = block[2];
    config.sharedMemBytes = shared;
    config.hStream = on;
    config.attrs = const_cast<CUlaunchAttribute*>(attributes.data());
    config.numAttrs = static_cast<unsigned>(attributes.size());
    check(cuLaunchKernelEx(&config, function, parameters, extra), "the launch");
}

const std::vector<CUlaunchAttributeID>& attributes_of_kernels() {
    // what only orders launches among themselves would tie the copies to the program's other work
    static const std::vector<CUlaunchAttributeID> ids = {
        CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        // headers before CUDA 12.8 have no names for these: the preferred cluster, the shared memory carve-out
        static_cast<CUlaunchAttributeID>(11),
        static_cast<CUlaunchAttributeID>(14),
    };
    return ids;
}

bool is_capturing(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    // an implicit capture error means that this is the legacy stream while another one is in capture
    return cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool covers(const Launch& launch, unsigned axis, std::int64_t length) {
    const std::int64_t grid = launch.grid[axis], block = launch.block[axis];
    return grid > 1 && length > 1 && (grid == length || (length + block - 1) / block == grid);
}

bool follow(Launch& launch, const Launch& baseline, const std::vector<std::pair<std::int64_t, std::int64_t>>& numbers, bool grows) {
    auto pieces = [](std::int64_t length, std::int64_t each) { return (length + each - 1) / each; };
    bool follows = false;
    for (const auto& [was, is] : numbers)
        for (unsigned axis = 0; axis < 3; ++axis) {
            // more blocks than the program has memory for say nothing
            if ((is > was && !grows) || !covers(baseline, axis, was)) continue;
            // the same axis, else another: threads may run along the other one now
            for (unsigned turn = 0; turn < 3; ++turn) {
                unsigned& own = launch.grid[(axis + turn) % 3];
                const std::int64_t each = own > 1 ? pieces(was, own) : 0;
                if (!each || pieces(was, each) != own) continue;
                own = static_cast<unsigned>(std::max<std::int64_t>(1, pieces(is, each)));
                follows = true;
                break;
            }
        }
    return follows;
}

bool has_shape(const Launch& launch, const Shape& shape) {
    return std::equal(launch.grid, launch.grid + 3, shape.grid) && std::equal(launch.block, launch.block + 3, shape.block) &&
           launch.shared == shape.shared;
}

CUfunction loaded(CUfunction handle, bool from_module) {
    CUfunction function = nullptr;
    if (!from_module && cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(handle)) == CUDA_SUCCESS)
        return function;
    return handle;
}

std::string name_of(CUfunction function) {
    using GetName = CUresult (*)(const char**, CUfunction);
    static const auto get = driver_function<GetName>("cuFuncGetName", 12030);
    const char* name = nullptr;
    return get && get(&name, function) == CUDA_SUCCESS && name ? name : "";
}

std::vector<ParameterPlace> signature(CUfunction function) {
    using Info = CUresult (*)(CUfunction, std::size_t, std::size_t*, std::size_t*);
    static const auto info = driver_function<Info>("cuFuncGetParamInfo", 12040);
    if (!info) throw std::runtime_error("the driver tells no kernel's parameters, as those of CUDA 12.4 and later do");
    std::vector<ParameterPlace> places;
    ParameterPlace place{};
    while (info(function, places.size(), &place.offset, &place.bytes) == CUDA_SUCCESS) places.push_back(place);
    return places;
}

CUdeviceptr pointer_argument(const Launch& launch, const std::vector<ParameterPlace>& places, std::size_t index) {
    if (index >= places.size() || places[index].bytes != sizeof(CUdeviceptr)) return 0;
    const void* at = nullptr;
    if (launch.parameters) {
        at = launch.parameters[index];
    } else if (launch.extra) {
        for (void** item = launch.extra; *item != CU_LAUNCH_PARAM_END; item += 2)
            if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) at = static_cast<char*>(item[1]) + places[index].offset;
    }
    CUdeviceptr value = 0;
    if (at) std::memcpy(&value, at, sizeof value);
    return value;
}

Loaded::Loaded(const Candidate& candidate, const Launch& baseline, Memory& memory)
    : candidate_(candidate), memory_(memory) {
    check(cuModuleLoad(&module_, candidate.cubin.c_str()), "loading the candidate");
    if (cuModuleGetFunction(&function_, module_, candidate.entry.c_str()) != CUDA_SUCCESS)
        throw Refused("refused", "the candidate has no kernel " + candidate.entry);
    if (!(signature(function_) == signature(baseline.function)))
        throw Refused("refused", "the candidate's parameters differ from the kernel's");
    adapt(baseline);
}

void Loaded::adapt(const Launch& baseline) {
    launch_ = baseline;
    launch_.function = function_;
    launch_.rule = candidate_.rule.empty() ? nullptr : &candidate_.rule;
    set_geometry(baseline);
    set_attributes(baseline);
    find_variables();
}

void Loaded::set_geometry(const Launch& baseline) {
    auto is_of = [&](const std::pair<Shape, Shape>& s) { return has_shape(baseline, s.first); };
    const auto own = std::find_if(candidate_.shapes.begin(), candidate_.shapes.end(), is_of);
    if (own != candidate_.shapes.end()) {
        std::copy(own->second.grid, own->second.grid + 3, launch_.grid);
        std::copy(own->second.block, own->second.block + 3, launch_.block);
        launch_.shared = own->second.shared;
        return;
    }
    if (candidate_.grid[0]) std::copy(candidate_.grid, candidate_.grid + 3, launch_.grid);
    if (candidate_.block[0]) std::copy(candidate_.block, candidate_.block + 3, launch_.block);
    if (candidate_.shared >= 0) launch_.shared = static_cast<unsigned>(candidate_.shared);
}

Loaded::~Loaded() {
    memory_.unbind();
    // after a hang or a fault an unload would wait for ever; the process is about to end
    if (module_ && !std::uncaught_exceptions()) cuModuleUnload(module_);
}

void Loaded::set_attributes(const Launch& baseline) {
    const unsigned threads = launch_.block[0] * launch_.block[1] * launch_.block[2];
    const int most = attribute(launch_.function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (threads > static_cast<unsigned>(most))
        throw Refused("illegal", "its registers allow " + std::to_string(most) + " threads per block, the launch has " +
                                     std::to_string(threads));
    const int dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    const int wanted = static_cast<int>(launch_.shared);
    if (wanted > attribute(launch_.function, static_cast<CUfunction_attribute>(dynamic)) &&
        cuFuncSetAttribute(launch_.function, static_cast<CUfunction_attribute>(dynamic), wanted) != CUDA_SUCCESS)
        throw Refused("illegal", "its static and dynamic shared memory exceed the card's limit per block");
    for (CUfunction_attribute same : {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                      CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED}) {
        const int value = attribute(baseline.function, same);
        if (value != attribute(launch_.function, same)) cuFuncSetAttribute(launch_.function, same, value);
    }
}

void Loaded::find_variables() {
    twins_.clear();
    carried_.clear();
    for (const Global& global : candidate_.globals) {
        CUdeviceptr at = 0;
        std::size_t bytes = 0;
        if (cuModuleGetGlobal(&at, &bytes, module_, global.name.c_str()) != CUDA_SUCCESS) {
            // a name with a dollar is the compiler's own, such as the text of a printf, which has no name for the driver
            if (global.name[0] == '$') continue;
            throw Refused("refused", "its variable " + global.name + " cannot be found, so that nothing could reset it");
        }
        if (!bytes) continue;
        auto twin = std::find_if(memory_.blocks.begin(), memory_.blocks.end(), [&](const Block& b) {
            return !global.live.empty() && b.variable == global.live && b.bytes == bytes;
        });
        if (twin != memory_.blocks.end()) {
            twins_.emplace_back(twin - memory_.blocks.begin(), at);
            carried_.push_back({twin->base, at, bytes});
            continue;
        }
        if (read_) continue;
        Own own{at, std::vector<std::uint8_t>(bytes)};
        check(cuMemcpyDtoH(own.contents.data(), at, bytes), "reading a variable of the candidate");
        own_.push_back(std::move(own));
    }
    read_ = true;
}

void Loaded::carry(CUstream stream, bool in) const {
    for (const Twin& twin : carried_)
        check(cuMemcpyDtoDAsync(in ? twin.at : twin.live, in ? twin.live : twin.at, twin.bytes, stream), "carrying a variable");
}

void Loaded::bind() {
    for (const auto& [block, at] : twins_) memory_.blocks[block].at = at;
}

void Loaded::reset(CUstream stream) {
    for (const Own& own : own_)
        check(cuMemcpyHtoDAsync(own.at, own.contents.data(), own.contents.size(), stream), "resetting a variable");
}

std::vector<std::uint8_t> Loaded::contents(const std::string& name) const {
    CUdeviceptr at = 0;
    std::size_t bytes = 0;
    check(cuModuleGetGlobal(&at, &bytes, module_, name.c_str()), "finding a variable");
    std::vector<std::uint8_t> held(bytes);
    check(cuMemcpyDtoH(held.data(), at, bytes), "reading a variable");
    return held;
}

}  // namespace warplens
