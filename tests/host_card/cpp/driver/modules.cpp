// SPDX-License-Identifier: Apache-2.0
// Modules: a cubin that carries the host's code of its kernels in a section of its own, alone or in a fat binary.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <mutex>

#include "card.h"

using namespace card;

namespace {

std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
constexpr char kSection[] = ".host_card";

struct Bytes {
    const char* data = nullptr;
    std::size_t size = 0;
};

Bytes section_of(const char* image) {
    const auto& head = *reinterpret_cast<const Elf64_Ehdr*>(image);
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image + head.e_shoff);
    const char* names = image + sections[head.e_shstrndx].sh_offset;
    for (int i = 0; i < head.e_shnum; ++i)
        if (!std::strcmp(names + sections[i].sh_name, kSection)) return {image + sections[i].sh_offset, sections[i].sh_size};
    return {};
}

// A fat binary's header, and those of what it holds: kind, sizes. Only what nvcc writes without compression is read.
struct FatHeader {
    std::uint32_t magic;
    std::uint16_t version, size;
    std::uint64_t bytes;
};
struct FatEntry {
    std::uint16_t kind, version;
    std::uint32_t header_size;
    std::uint64_t bytes;
};
constexpr std::uint32_t kFat = 0xBA55ED50, kWrapper = 0x466243B1;
constexpr std::uint16_t kElf = 2;

const char* cubin_in(const char* image) {
    if (!std::memcmp(image, ELFMAG, SELFMAG)) return image;
    const auto& head = *reinterpret_cast<const FatHeader*>(image);
    if (head.magic == kWrapper) return cubin_in(*reinterpret_cast<const char* const*>(image + 8));
    if (head.magic != kFat) return nullptr;
    const char* at = image + head.size;
    const char* end = at + head.bytes;
    while (at < end) {
        const auto& entry = *reinterpret_cast<const FatEntry*>(at);
        const char* inside = at + entry.header_size;
        if (entry.kind == kElf && !std::memcmp(inside, ELFMAG, SELFMAG)) return inside;
        at = inside + entry.bytes;
    }
    return nullptr;
}

void* opened(const Bytes& code) {
    const int file = memfd_create("host_card", MFD_CLOEXEC);
    std::string path = "/proc/self/fd/" + std::to_string(file);
    std::size_t done = 0;
    while (done < code.size) {
        const auto n = write(file, code.data + done, code.size - done);
        if (n <= 0) break;
        done += static_cast<std::size_t>(n);
    }
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) std::fprintf(stderr, "host card: %s\n", dlerror());
    // kept open: the next one's path would be taken for this one
    return handle;
}

void place(const Variable& v) {
    *v.address = reinterpret_cast<u8*>(arena().allocate(v.bytes ? v.bytes : 1, Memory::variable));
    if (!*v.address) return;
    if (v.initial) std::memcpy(*v.address, v.initial, v.bytes);
    else std::memset(*v.address, 0, v.bytes);
}

void relocate(const Variable& v) {
    for (u32 i = 0; i < v.relocation_count; ++i) {
        const Relocation& r = v.relocations[i];
        const u64 value = r.variable ? reinterpret_cast<u64>(*r.variable) : reinterpret_cast<u64>(r.function);
        store<u64>(*v.address + r.offset, value + static_cast<u64>(r.addend));
    }
}

CUresult load_image(CUmodule* module, const char* image) {
    Lock lock(mutex);
    if (sticky() != CUDA_SUCCESS) return sticky();
    const char* cubin = cubin_in(image);
    if (!cubin) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const Bytes code = section_of(cubin);
    if (!code.size || std::memcmp(code.data, ELFMAG, SELFMAG)) {
        std::fprintf(stderr, "host card: a cubin without the host's code of it: %.*s\n", static_cast<int>(code.size), code.data ? code.data : "");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    auto made = std::make_unique<Image>();
    made->handle = opened(code);
    if (!made->handle) return CUDA_ERROR_INVALID_IMAGE;
    made->module = static_cast<const Module*>(dlsym(made->handle, "card_module"));
    if (!made->module) return CUDA_ERROR_INVALID_IMAGE;
    *made->module->services = &services();
    for (u32 i = 0; i < made->module->kernel_count; ++i) {
        const Kernel& kernel = made->module->kernels[i];
        made->functions[kernel.name] = std::make_unique<Function>(Function{&kernel, made.get()});
    }
    for (u32 i = 0; i < made->module->variable_count; ++i) {
        const Variable& v = made->module->variables[i];
        place(v);
        if (!*v.address) return CUDA_ERROR_OUT_OF_MEMORY;
        made->variables[v.name] = &v;
    }
    for (u32 i = 0; i < made->module->variable_count; ++i) relocate(made->module->variables[i]);
    *module = reinterpret_cast<CUmodule>(made.release());
    return CUDA_SUCCESS;
}

}  // namespace

DRIVER(cuModuleLoadData)(CUmodule* module, const void* image) { return load_image(module, static_cast<const char*>(image)); }
DRIVER(cuModuleLoadFatBinary)(CUmodule* module, const void* image) { return load_image(module, static_cast<const char*>(image)); }
DRIVER(cuModuleLoadDataEx)(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
    return load_image(module, static_cast<const char*>(image));
}
DRIVER(cuModuleLoad)(CUmodule* module, const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const std::string data((std::istreambuf_iterator<char>(file)), {});
    return load_image(module, data.data());
}
DRIVER(cuModuleUnload)(CUmodule module) {
    if (const CUresult status = drain(); status != CUDA_SUCCESS) return status;
    Lock lock(mutex);
    auto* image = reinterpret_cast<Image*>(module);
    for (const auto& [name, v] : image->variables) arena().release(reinterpret_cast<u64>(*v->address));
    dlclose(image->handle);
    delete image;
    return CUDA_SUCCESS;
}
DRIVER(cuModuleGetFunction)(CUfunction* function, CUmodule module, const char* name) {
    auto& all = reinterpret_cast<Image*>(module)->functions;
    const auto found = all.find(name);
    if (found == all.end()) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(found->second.get());
    return CUDA_SUCCESS;
}
DRIVER(cuModuleGetGlobal_v2)(CUdeviceptr* at, std::size_t* bytes, CUmodule module, const char* name) {
    auto& all = reinterpret_cast<Image*>(module)->variables;
    const auto found = all.find(name);
    if (found == all.end()) return CUDA_ERROR_NOT_FOUND;
    if (at) *at = reinterpret_cast<CUdeviceptr>(*found->second->address);
    if (bytes) *bytes = found->second->bytes;
    return CUDA_SUCCESS;
}
DRIVER(cuFuncGetModule)(CUmodule* module, CUfunction f) {
    *module = reinterpret_cast<CUmodule>(function_of(f)->image);
    return CUDA_SUCCESS;
}
DRIVER(cuKernelGetFunction)(CUfunction*, CUkernel) { return CUDA_ERROR_INVALID_HANDLE; }
DRIVER(cuFuncGetName)(const char** name, CUfunction f) {
    *name = function_of(f)->kernel->name;
    return CUDA_SUCCESS;
}
DRIVER(cuFuncGetParamInfo)(CUfunction f, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    const Kernel& kernel = *function_of(f)->kernel;
    if (index >= kernel.parameter_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel.parameters[index].offset;
    if (bytes) *bytes = kernel.parameters[index].bytes;
    return CUDA_SUCCESS;
}
