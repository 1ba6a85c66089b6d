// SPDX-License-Identifier: Apache-2.0
#include "replay.h"

#include <stdexcept>
#include <string>

#include "driver.h"

namespace warplens {
namespace {

// Puts a node's work on a stream.
struct Runner {
    CUstream stream;

    void operator()(const Nothing&) const {}
    void operator()(const KernelNode& kernel) const {
        Arguments arguments = kernel.arguments;
        std::vector<void*> pointers = arguments.pointers();
        Launch launch = kernel.launch;
        launch.parameters = pointers.data();
        launch.go(stream);
    }
    void operator()(const CUDA_MEMCPY3D& copy) const { check(cuMemcpy3DAsync(&copy, stream), "the copy"); }
    void operator()(const CUDA_MEMSET_NODE_PARAMS& set) const { check(fill(set), "the memset"); }
    void operator()(const CUDA_HOST_NODE_PARAMS& host) const {
        check(cuLaunchHostFunc(stream, host.fn, host.userData), "the host function");
    }
    void operator()(const RecordEvent& record) const { check(cuEventRecord(record.event, stream), "recording the event"); }
    void operator()(const WaitEvent& wait) const {
        check(cuStreamWaitEvent(stream, wait.event, 0), "waiting for the event");
    }
    void operator()(const Unknown& unknown) const { throw std::runtime_error(unknown.what + " cannot be run by itself"); }

   private:
    CUresult fill(const CUDA_MEMSET_NODE_PARAMS& m) const {
        const auto byte = static_cast<unsigned char>(m.value);
        const auto half = static_cast<unsigned short>(m.value);
        const bool flat = m.height <= 1;  // its pitch says nothing
        switch (m.elementSize) {
            case 1:
                return flat ? cuMemsetD8Async(m.dst, byte, m.width, stream)
                            : cuMemsetD2D8Async(m.dst, m.pitch, byte, m.width, m.height, stream);
            case 2:
                return flat ? cuMemsetD16Async(m.dst, half, m.width, stream)
                            : cuMemsetD2D16Async(m.dst, m.pitch, half, m.width, m.height, stream);
            default:
                return flat ? cuMemsetD32Async(m.dst, m.value, m.width, stream)
                            : cuMemsetD2D32Async(m.dst, m.pitch, m.value, m.width, m.height, stream);
        }
    }
};

std::string name_of(const Work& work) {
    if (const auto* kernel = std::get_if<KernelNode>(&work)) return "the kernel " + kernel->name;
    static const char* names[] = {"an empty node", "a kernel", "a copy", "a memset",
                                  "a host function", "an event", "an event", "a node"};
    return names[work.index()];
}

}  // namespace

std::vector<std::size_t> nodes_before(const Nodes& nodes, std::size_t target) {
    std::vector<bool> wanted(target + 1, false);
    wanted[target] = true;
    for (std::size_t i = target + 1; i-- > 0;)
        for (std::size_t place : nodes[i].after)
            if (wanted[i]) wanted[place] = true;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < target; ++i)
        if (wanted[i]) places.push_back(i);
    return places;
}

std::size_t replay_before(const Nodes& nodes, std::size_t target, CUstream stream, double seconds) {
    std::size_t run = 0;
    for (std::size_t place : nodes_before(nodes, target)) {
        const Node& node = nodes[place];
        if (!node.enabled) continue;
        ++run;
        try {
            std::visit(Runner{stream}, node.work);
            // a copy from pageable memory reads it at the call, so what comes before must be done; the driver itself
            // reads it before a graph's first node runs, which tells only where a node before it writes there
            wait(stream, seconds);
        } catch (const std::exception& error) {
            throw std::runtime_error("before it in its graph, " + name_of(node.work) + ": " + error.what());
        }
    }
    return run;
}

}  // namespace warplens
