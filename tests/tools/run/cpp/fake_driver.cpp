#include "fake_driver.h"

#include <cmath>
#include <cstring>
#include <map>

#include "accompany.h"
#include "compare.h"
#include "simulated.h"

namespace {

using warplens::Element;

std::uint64_t mix(std::uint64_t x) {  // as in kernels.cu
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

template <class T>
T argument(void** arguments, int index) {
    T value;
    std::memcpy(&value, arguments[index], sizeof value);
    return value;
}

std::uint8_t* memory(void** arguments) { return reinterpret_cast<std::uint8_t*>(argument<CUdeviceptr>(arguments, 0)); }

void checksum(void** arguments) {
    const auto buffers = argument<warplens::Buffers>(arguments, 0);
    auto* sums = reinterpret_cast<std::uint64_t*>(argument<CUdeviceptr>(arguments, 2));
    for (std::uint64_t k = 0; k < buffers.count; ++k) {
        const auto* base = reinterpret_cast<const std::uint8_t*>(buffers.base[k]);
        const std::uint64_t key = argument<std::uint64_t>(arguments, 1) + buffers.first[k], bytes = buffers.bytes[k];
        for (std::uint64_t chunk = 0; chunk * 65536 < bytes; ++chunk) {
            const std::uint64_t end = std::min((chunk + 1) * 65536, bytes);
            std::uint64_t sum = 0, at = chunk * 65536, word;
            for (; at + sizeof word <= end; at += sizeof word) {
                std::memcpy(&word, base + at, sizeof word);
                sum += mix(word ^ mix(key + at));
            }
            for (; at < end; ++at) sum += mix(base[at] ^ mix(key + at));
            sums[buffers.first[k] + chunk] = sum;
        }
    }
}

using warplens::store;

void move(Element element, void** arguments) {
    std::uint8_t* data = memory(arguments);
    const auto count = argument<std::uint64_t>(arguments, 1), seed = argument<std::uint64_t>(arguments, 4);
    const double scale = argument<double>(arguments, 2), noise = argument<double>(arguments, 3);
    const auto stride = argument<std::uint64_t>(arguments, 5);
    std::vector<std::uint8_t> cut(warplens::element_size(element));
    store(element, cut.data(), argument<double>(arguments, 6));
    const double kept = warplens::load(element, cut.data());
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint8_t* at = data + i * stride;
        const double value = warplens::load(element, at), r = static_cast<double>(mix(seed + i) >> 11) * 0x1p-52 - 1;
        if (value == 0 || !std::isfinite(value) || value == kept) continue;
        store(element, at, scale   ? simulated::moved(element, value, scale, noise * r)
                           : noise ? simulated::shortened(value)
                                   : simulated::filled(element, value));
    }
}

void fill(Element element, void** arguments) {
    std::uint8_t* data = memory(arguments);
    const auto count = argument<std::uint64_t>(arguments, 1), stride = argument<std::uint64_t>(arguments, 2);
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint8_t* at = data + i * stride;
        const double value = warplens::load(element, at);
        store(element, at, std::isfinite(value) ? -1.25 * value - 1 : 1.0);
    }
}

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

std::uint64_t permuted(std::uint64_t i, std::uint64_t count, std::uint64_t seed) {
    return (i * 4294967291ull + seed % count) % count;
}

// As `kernels.cu` varies inputs.
struct Source {
    const std::uint8_t* data;
    std::uint64_t count, stride, limit, seed, period;
    unsigned kind;

    const std::uint8_t* at(std::uint64_t i) const { return data + i * stride; }
};

std::uint64_t integer(const Source& s, std::uint64_t i, unsigned width) {
    auto value = [&](std::uint64_t j) {
        std::uint64_t found = 0;
        std::memcpy(&found, s.at(j), width);
        return found;
    };
    const std::uint64_t bits = mix(s.seed + i), own = value(i);
    switch (s.kind) {
        case 0: return value(bits % s.count);
        case 1: return value(permuted(i, s.count, s.seed));
        case 7: return bits >> 62 ? own : bits & 1;
        case 8: return bits >> 60 ? value(mix(s.seed) % s.count) : own;
        case 9: return bits % s.limit;
        case 10: return bits;
        case 12: return own / 2;
        case 15: return 0;
        case 16: {
            const std::uint64_t part = mix(s.seed + i / 256), many = part >> 62 ? 2 + s.seed % 3 : 16u << 2 * ((part >> 8) % 3);
            return value(std::min(i - i % many + (s.seed >> 8) % many, s.count - 1));
        }
        case 34: return bits % 16 ? own : value(mix(bits) % s.count);
        case 17: return own ? own : 1;
        case 19: return own > 0 && own <= 64 ? own * 2 + 1 : own;
        case 20: {
            const auto* given = reinterpret_cast<const std::int64_t*>(s.limit);
            const bool few = s.seed >> 62 & 1;
            if (few != (bits >> 62 == 0)) return own;
            const std::uint64_t symbol = bits % 4, pair = mix((s.seed >> 32) + symbol / 2);
            return static_cast<std::uint64_t>(given[1 + pair % static_cast<std::uint64_t>(given[0])]) ^ (symbol % 2 ? 1ull << (pair >> 60) % 8 : 0);
        }
        case 26: return bits % 16 ? own : s.limit;
        case 29: return bits >> 63 ? 0 - own : own;
        case 32: return 2 * i < s.count && bits >> 60 == 0 && own > 0 && own <= 64 ? own * (2 + bits % 15) : own;
        case 30: {
            const std::uint64_t most = 1 + s.seed % 3;
            return std::min(value(0) + i * most + bits % (most + 1), value(s.count - 1));
        }
        case 24: return own <= 64 ? own + 1 : own;
        case 21: return bits >> 62 ? own : ~std::uint64_t{0};
        case 41:
            if (own >> (8 * width - 1)) return own;
            if (s.limit == 0) return i % 256 ? i - 1 : i;
            if (s.limit == 1) return i ? i - 1 - bits % std::min<std::uint64_t>(i, 64) : i;
            return i + 1 < s.count ? i + 1 + bits % (s.count - 1 - i) : i;
        case 40: {
            const std::uint64_t full = ~std::uint64_t{0} >> (64 - 8 * width), lowest = full ^ full >> 1;
            if (s.limit && s.limit < 5) return s.limit < 3 ? full : s.limit == 3 ? lowest : full >> 1;
            const std::uint64_t common = mix((s.seed >> 32) + i / 64);
            if (bits % (common >> 32 & 1 ? 64 : 8) == 0) return bits >> 32 & 1 ? 1 : bits >> 33 & 1 ? full : 0;
            return (common ^ s.seed) & 1 ? full : 0;
        }
        default: return own && !(own >> (8 * width - 1)) ? own - 1 : own;
    }
}

double number(const Source& s, std::uint64_t i, Element element) {
    const std::uint64_t bits = mix(s.seed + i);
    const double value = warplens::load(element, s.at(i));
    if (s.kind == 2) return bits >> 63 ? -value : value;
    if (s.kind == 3) {
        const double other = value == 0 ? warplens::load(element, s.at(mix(s.seed + i * 8) % s.count)) : value;
        return other == 0 ? 0.5 + unit(mix(s.seed ^ i)) : other;
    }
    auto run_of = [&](std::uint64_t shortest, std::uint64_t longer) {
        std::uint64_t run = s.period ? s.period : shortest << 2 * longer;
        while (!s.period && run > 1 && run * 8 > s.count) run /= 2;
        return run;
    };
    auto stays = [&](std::uint64_t of) { return s.period && (of >> 32 & 1) && i % s.period == (of & 0x7fffffff) % s.period; };
    if (s.kind == 5) {
        const std::uint64_t of = mix(s.seed + i / run_of(64, s.seed % 5));
        return of >> 63 && !stays(of) ? 0 : value;
    }
    if (s.kind == 28) {
        if (!s.period) return value;
        const std::uint64_t column = i % s.period, shared = s.seed >> 32;
        const bool empty = mix(shared + column) % 8 == 0 || mix(s.seed + column) % 8 == 0 || column == shared % s.period;
        return empty ? 0 : value;
    }
    if (s.kind == 31) {
        const bool largest = i == s.seed % s.count;
        if (element == Element::f16 || (bits % 64 && !largest)) return value;
        const double kept = value != 0 && std::isfinite(value) ? value : 1;
        const int least = element == Element::f64 ? 512 : 64, room = least - 2 - (64 - __builtin_clzll(s.count));
        const int places = static_cast<int>(bits >> 20 & 0xffff) % room;
        return std::scalbn(kept, (largest ? 2 * least - 2 : bits >> 63 ? least + places : -least - places) - std::ilogb(kept));
    }
    if (s.kind == 26) {
        double met;
        std::memcpy(&met, &s.limit, sizeof met);
        return bits % 16 ? value : met;
    }
    if (s.kind == 25 || s.kind == 27) {
        double met;
        std::memcpy(&met, &s.limit, sizeof met);
        const std::uint64_t run = run_of(256, s.seed % 4), of = mix(s.seed + i / run);
        return (of >> 62 && i / run != 1) || stays(of) ? value : s.kind == 27 || s.limit ? met : std::nan("");
    }
    if (s.kind == 6 || s.kind == 22) {
        const double infinity = static_cast<double>(INFINITY);
        if (bits % (s.count > (1u << 18) ? 8192 : 512) && i != s.seed % s.count) return value;
        double stands;
        std::memcpy(&stands, &s.limit, sizeof stands);
        if (s.limit) return stands;
        return s.kind == 6 ? std::nan("") : bits >> 63 ? infinity : -infinity;
    }
    if (s.kind == 35) {
        const double first = warplens::load(element, s.at(i - i % (2 + s.seed % 3)));
        const double last = element == Element::f64 ? 0x1p-52 : element == Element::f32 ? 0x1p-23 : 0x1p-10;
        return first * (1 + (static_cast<int>(bits >> 40 & 7) - 4) * last);
    }
    if (s.kind == 23) return warplens::load(element, s.at(mix(s.seed + bits % 4) % s.count));
    if (s.kind == 13) return (i * 2 < s.count) == static_cast<bool>(s.seed >> 63) ? 0 : value;
    if (s.kind == 14) return 0;
    if (s.kind == 18) return value + 1000;
    if (bits % 256) return value;
    const double most = std::fmax(0x1p14, std::fabs(value));
    const double spike = value * (element == Element::f16 ? std::exp2(4 + 2 * unit(mix(bits))) : std::pow(10.0, 3 + unit(mix(bits))));
    return std::fmin(std::fmax(spike, -most), most);
}

// `width` is an integer's, 0 for floats.
void vary(Element element, unsigned width, void** arguments) {
    std::uint8_t* data = memory(arguments);
    const Source source{reinterpret_cast<const std::uint8_t*>(argument<CUdeviceptr>(arguments, 2)), argument<std::uint64_t>(arguments, 1),
                        argument<std::uint64_t>(arguments, 5), argument<std::uint64_t>(arguments, 6), argument<std::uint64_t>(arguments, 4),
                        argument<std::uint64_t>(arguments, 7), argument<unsigned>(arguments, 3)};
    for (std::uint64_t i = 0; i < source.count; ++i) {
        std::uint8_t* at = data + i * source.stride;
        const std::uint64_t value = width ? integer(source, i, width) : 0;
        if (width) std::memcpy(at, &value, width);
        else store(element, at, number(source, i, element));
    }
}

fake::Kernel* helper(const std::string& name) {
    static std::map<std::string, fake::Kernel> kernels = [] {
        std::map<std::string, fake::Kernel> made;
        made["warplens_checksum"] = {"checksum", checksum, {}};
        made["warplens_set"] = {"set", [](void** a) {
            std::memset(reinterpret_cast<void*>(argument<CUdeviceptr>(a, 0)), argument<unsigned char>(a, 2), argument<std::uint64_t>(a, 1));
        }, {}};
        const std::map<std::string, Element> types = {{"f64", Element::f64}, {"f32", Element::f32}, {"f16", Element::f16}, {"bytes", Element::other}};
        for (const auto& [type, element] : types) {
            made["warplens_move_" + type] = {"move", [e = element](void** a) { move(e, a); }, {}};
            made["warplens_vary_" + type] = {"vary", [e = element](void** a) { vary(e, 0, a); }, {}};
            if (element != Element::other) made["warplens_fill_" + type] = {"fill", [e = element](void** a) { fill(e, a); }, {}};
        }
        made["warplens_turn"] = {"turn", [](void** a) {
            for (std::uint64_t i = 0; i < argument<std::uint64_t>(a, 1); ++i) memory(a)[i * argument<std::uint64_t>(a, 2)] ^= argument<std::uint8_t>(a, 3);
        }, {}};
        for (const char* part : {"shared", "registers", "local_256", "local_1024", "local_4096"})
            made[std::string("warplens_scrub_") + part] = {"scrub", [](void**) {}, {}};
        for (unsigned width : {1u, 2u, 4u, 8u})
            made["warplens_vary_i" + std::to_string(8 * width)] = {"vary", [width](void** a) { vary(Element::integer, width, a); }, {}};
        return made;
    }();
    auto found = kernels.find(name);
    return found == kernels.end() ? nullptr : &found->second;
}

void* host(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

// The tests that link no `accompany.cpp` rehearse nothing.
__attribute__((weak)) thread_local const warplens::Launch* warplens::rehearsed = nullptr;

namespace fake {

int version = 13000;
std::size_t free_memory = 8ull << 30;
bool takes_other_parameters = true;

std::map<std::string, Kernel*>& functions() {
    static std::map<std::string, Kernel*> all;
    return all;
}

std::map<std::string, Variables>& variables() {
    static std::map<std::string, Variables> all;
    return all;
}

const CUlaunchConfig* launching = nullptr;
unsigned grid[3] = {1, 1, 1};

std::map<std::string, std::map<int, void*>>& entries() {
    static std::map<std::string, std::map<int, void*>> all = {
        {"cuFuncGetParamInfo", {{12040, reinterpret_cast<void*>(&cuFuncGetParamInfo)}}},
        {"cuFuncGetName", {{12030, reinterpret_cast<void*>(&cuFuncGetName)}}},
    };
    return all;
}

}  // namespace fake

extern "C" {

CUresult cuModuleLoad(CUmodule* module, const char* path) {
    *module = reinterpret_cast<CUmodule>(&fake::variables()[path]);
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
    fake::Kernel* found = helper(name);
    auto own = fake::functions().find(name);
    if (own != fake::functions().end()) found = own->second;
    *function = found ? found->handle() : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleGetGlobal(CUdeviceptr* at, size_t* bytes, CUmodule module, const char* name) {
    auto& all = *reinterpret_cast<fake::Variables*>(module);
    auto found = all.find(name);
    if (found == all.end()) return CUDA_ERROR_NOT_FOUND;
    *at = reinterpret_cast<CUdeviceptr>(found->second.data());
    *bytes = found->second.size() * sizeof(float);
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void** parameters, void**) {
    fake::grid[0] = x, fake::grid[1] = y, fake::grid[2] = z;
    if (warplens::rehearsed && fake::takes_other_parameters) f = warplens::rehearsed->function;
    reinterpret_cast<fake::Kernel*>(f)->run(parameters);
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void**) {
    fake::launching = config;
    fake::grid[0] = config->gridDimX, fake::grid[1] = config->gridDimY, fake::grid[2] = config->gridDimZ;
    reinterpret_cast<fake::Kernel*>(f)->run(parameters);
    return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction*, CUkernel) { return CUDA_ERROR_INVALID_HANDLE; }
CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* bytes) {
    const auto& places = reinterpret_cast<fake::Kernel*>(f)->parameters;
    if (index >= places.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = places[index].offset;
    *bytes = places[index].bytes;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction f) {
    *name = reinterpret_cast<fake::Kernel*>(f)->name.c_str();
    return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
    *version = fake::version;
    return CUDA_SUCCESS;
}
CUresult cuGetProcAddress(const char* name, void** entry, int version, cuuint64_t, CUdriverProcAddressQueryResult*) {
    const auto& all = fake::entries()[name];
    auto after = all.upper_bound(version);
    *entry = after == all.begin() ? nullptr : std::prev(after)->second;
    return *entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
    *value = 1024;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
    *value = 1 << 20;  // fast enough for any length: how long the host took says nothing of a reduction's
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) {
    *name = "an error of the fake driver";
    return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t* free, size_t* total) {
    *free = fake::free_memory, *total = 8ull << 30;
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
    *address = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
    return CUDA_SUCCESS;
}
CUresult cuMemAllocHost(void** address, size_t bytes) {
    *address = std::malloc(bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    std::memcpy(host(to), host(from), bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream) {
    std::memcpy(to, host(from), bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) { return cuMemcpyDtoHAsync(to, from, bytes, nullptr); }
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    std::memcpy(host(to), from, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) { return cuMemcpyHtoDAsync(to, from, bytes, nullptr); }
// `fake_graphs.cpp` notes memsets instead.
__attribute__((weak)) CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
    std::memset(host(to), value, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
    std::free(host(address));
    return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* address) {
    std::free(address);
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(1);
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuStreamCreate(CUstream* stream, unsigned) {
    *stream = nullptr;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction f) {
    auto found = fake::variables().find(reinterpret_cast<fake::Kernel*>(f)->module);
    if (found == fake::variables().end()) return CUDA_ERROR_NOT_FOUND;
    *module = reinterpret_cast<CUmodule>(&found->second);
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; }
CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }

}  // extern "C"
