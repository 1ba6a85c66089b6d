// SPDX-License-Identifier: Apache-2.0
// What a CUDA graph does, copied node by node: the copy holds when the graph is changed or gone.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "launch.h"

namespace warplens {

// A kernel's arguments, by value.
struct Arguments {
    std::vector<std::uint8_t> bytes;
    std::vector<std::size_t> offsets;  // one per parameter

    std::vector<void*> pointers();     // as a launch takes them; they last as long as the bytes
};

struct KernelNode {
    std::string name;    // mangled
    Launch launch;       // without arguments and stream
    Arguments arguments;
};

struct RecordEvent {
    CUevent event;
};
struct WaitEvent {
    CUevent event;
};
struct Nothing {};       // an empty node, or the end of a child graph
struct Unknown {
    std::string what;    // "a conditional node"
};

using Work = std::variant<Nothing, KernelNode, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS,
                          RecordEvent, WaitEvent, Unknown>;

struct Node {
    CUgraphNode handle = nullptr;    // of the graph that was instantiated
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    std::vector<std::size_t> after;  // places of the nodes that come right before
    std::size_t child = 0;           // of a child graph's node: place of the child's first
    bool enabled = true;
    Work work;
};

// In an order in which they may run. A child graph's nodes lie before its own node.
using Nodes = std::vector<Node>;

// Whether the program got a handle from cuModuleGetFunction, see `loaded`.
using FromModule = std::function<bool(CUfunction)>;

// Throws DriverError, std::runtime_error with what cannot be read.
Nodes read_graph(CUgraph graph, const FromModule& from_module);
// The same for a node's new parameters; `before` gives what they leave alone.
KernelNode kernel_of(const CUDA_KERNEL_NODE_PARAMS_v1& parameters, const KernelNode& before, const FromModule& from_module);
KernelNode kernel_of(const CUDA_KERNEL_NODE_PARAMS& parameters, const KernelNode& before, const FromModule& from_module);

// Whether the nodes from `first` on are those of `part` in the same order, whatever these do.
bool same_form(const Nodes& whole, std::size_t first, const Nodes& part);

}  // namespace warplens
