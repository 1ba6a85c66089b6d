// SPDX-License-Identifier: Apache-2.0
#include "instead.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "compare.h"
#include "driver.h"

namespace warplens {
namespace {

// What another instantiation takes is converted on the host.
constexpr std::size_t kMostConverted = 512u << 20;

// The floats behind a pointer as those of another type, side by side from where they began.
void convert(CUdeviceptr at, std::size_t bytes, Element from, Element to) {
    const std::size_t old_size = element_size(from), size = element_size(to), count = bytes / old_size;
    std::vector<std::uint8_t> was(count * old_size), is(count * size);
    check(cuMemcpyDtoH(was.data(), at, was.size()), "reading what another instantiation takes");
    for (std::size_t i = 0; i < count; ++i) store(to, &is[i * size], load(from, &was[i * old_size]));
    check(cuMemcpyHtoD(at, is.data(), is.size()), "writing what another instantiation takes");
}

}  // namespace

void stand_in(Launch& launch, const Job& job, const Allocations& allocations) {
    CUmodule module = nullptr;
    CUfunction other = nullptr;
    check(cuModuleLoad(&module, job.instead_cubin.c_str()), "loading the kernel's other instantiation");
    check(cuModuleGetFunction(&other, module, job.instead.c_str()), "finding the kernel's other instantiation");
    const auto places = signature(launch.function);
    if (!(signature(other) == places)) throw std::runtime_error("the other instantiation takes other parameters");
    launch.function = other;
    for (const auto& [index, from] : job.converted) {
        const CUdeviceptr at = pointer_argument(launch, places, index);
        const auto of = [&, i = static_cast<int>(index)](const Parameter& p) { return p.index == i && !p.scalar; };
        const auto p = std::find_if(job.parameters.begin(), job.parameters.end(), of);
        for (const Allocation& a : allocations.live()) {
            if (p == job.parameters.end() || at < a.base || at >= a.base + a.bytes) continue;
            if (a.bytes > kMostConverted) throw std::runtime_error("what another instantiation takes is too large to be converted");
            convert(at, a.bytes - (at - a.base), from, p->element);
        }
    }
}

}  // namespace warplens
