// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <type_traits>

#include "driver.h"

namespace warplens {
namespace {

struct Edges {
    std::vector<CUgraphNode> from, to;
};

// Edges may carry data since CUDA 12.3; without room for them the driver lists only graphs that have none.
Edges edges_of(CUgraph graph) {
    using Data = std::uint64_t;  // as wide as a CUgraphEdgeData
    using Get = CUresult (*)(CUgraph, CUgraphNode*, CUgraphNode*, Data*, std::size_t*);
    using GetPlain = CUresult (*)(CUgraph, CUgraphNode*, CUgraphNode*, std::size_t*);
    static const auto get = driver_function<Get>("cuGraphGetEdges", 12030);
    static const auto get_plain = driver_function<GetPlain>("cuGraphGetEdges", 10000);
    if (!get && !get_plain) throw std::runtime_error("the driver lists no graph's edges");
    auto ask = [&](CUgraphNode* from, CUgraphNode* to, Data* data, std::size_t* count) {
        check(get ? get(graph, from, to, data, count) : get_plain(graph, from, to, count), "cuGraphGetEdges");
    };
    std::size_t count = 0;
    ask(nullptr, nullptr, nullptr, &count);
    Edges edges{std::vector<CUgraphNode>(count), std::vector<CUgraphNode>(count)};
    std::vector<Data> data(count);
    if (count) ask(edges.from.data(), edges.to.data(), data.data(), &count);
    return edges;
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
    std::size_t count = 0;
    check(cuGraphGetNodes(graph, nullptr, &count), "cuGraphGetNodes");
    std::vector<CUgraphNode> nodes(count);
    if (count) check(cuGraphGetNodes(graph, nodes.data(), &count), "cuGraphGetNodes");
    return nodes;
}

// The graph's nodes with those that come right before each, in an order in which they may run.
std::vector<std::pair<CUgraphNode, std::vector<CUgraphNode>>> sorted(CUgraph graph) {
    const std::vector<CUgraphNode> nodes = nodes_of(graph);
    const Edges edges = edges_of(graph);
    std::map<CUgraphNode, std::vector<CUgraphNode>> before, behind;
    for (std::size_t i = 0; i < edges.from.size(); ++i) {
        before[edges.to[i]].push_back(edges.from[i]);
        behind[edges.from[i]].push_back(edges.to[i]);
    }
    std::map<CUgraphNode, std::size_t> waiting;
    std::vector<CUgraphNode> ready;
    for (CUgraphNode node : nodes) {
        waiting[node] = before[node].size();
        if (!waiting[node]) ready.push_back(node);
    }
    std::vector<std::pair<CUgraphNode, std::vector<CUgraphNode>>> order;
    for (std::size_t i = 0; i < ready.size(); ++i) {
        const CUgraphNode node = ready[i];
        order.emplace_back(node, before[node]);
        for (CUgraphNode next : behind[node])
            if (!--waiting[next]) ready.push_back(next);
    }
    if (order.size() != nodes.size()) throw std::runtime_error("the graph's edges lead in a circle");
    return order;
}

CUfunction handle_of(const CUDA_KERNEL_NODE_PARAMS_v1& p) { return p.func; }
CUfunction handle_of(const CUDA_KERNEL_NODE_PARAMS& p) { return p.func ? p.func : reinterpret_cast<CUfunction>(p.kern); }

Arguments copied(CUfunction function, void** parameters, void** extra) {
    const auto places = signature(function);
    const std::uint8_t* buffer = nullptr;
    for (void** item = extra; item && *item != CU_LAUNCH_PARAM_END; item += 2)
        if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const std::uint8_t*>(item[1]);
    if (!places.empty() && !parameters && !buffer) throw std::runtime_error("a kernel node has no arguments");
    Arguments arguments;
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto* from = parameters ? static_cast<const std::uint8_t*>(parameters[i]) : buffer + places[i].offset;
        arguments.bytes.resize(std::max(arguments.bytes.size(), places[i].offset + places[i].bytes));
        std::copy(from, from + places[i].bytes, arguments.bytes.begin() + static_cast<long>(places[i].offset));
        arguments.offsets.push_back(places[i].offset);
    }
    return arguments;
}

template <class Parameters>
KernelNode kernel_from(const Parameters& p, const KernelNode& before, const FromModule& from_module) {
    KernelNode kernel = before;
    const CUfunction handle = handle_of(p);
    Launch& launch = kernel.launch;
    launch.function = loaded(handle, from_module(handle));
    const unsigned grid[3] = {p.gridDimX, p.gridDimY, p.gridDimZ}, block[3] = {p.blockDimX, p.blockDimY, p.blockDimZ};
    std::copy(grid, grid + 3, launch.grid);
    std::copy(block, block + 3, launch.block);
    launch.shared = p.sharedMemBytes;
    kernel.name = name_of(launch.function);
    if (kernel.name.empty()) throw std::runtime_error("the driver tells no kernel's name, as those of CUDA 12.3 and later do");
    kernel.arguments = copied(launch.function, p.kernelParams, p.extra);
    return kernel;
}

bool is_set(const CUlaunchAttributeValue& value) {
    const CUlaunchAttributeValue none{};
    return std::memcmp(&value, &none, sizeof value) != 0;
}

void read_attributes(CUgraphNode node, Launch& launch) {
    for (CUlaunchAttributeID id : attributes_of_kernels()) {
        CUlaunchAttribute attribute{};
        attribute.id = id;
        // a driver that does not know an attribute has not set it
        if (cuGraphKernelNodeGetAttribute(node, id, &attribute.value) != CUDA_SUCCESS || !is_set(attribute.value)) continue;
        launch.attributes.push_back(attribute);
        if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = true;
    }
}

bool is_device_updatable(CUgraphNode node) {
#if CUDA_VERSION >= 12040
    CUlaunchAttributeValue value{};
    return cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value) == CUDA_SUCCESS &&
           value.deviceUpdatableKernelNode.deviceUpdatable;
#else
    (void)node;
    return false;
#endif
}

Work read_kernel(CUgraphNode node, const FromModule& from_module) {
    if (is_device_updatable(node)) return Unknown{"a kernel node that the device may change"};
    CUDA_KERNEL_NODE_PARAMS parameters{};
    check(cuGraphKernelNodeGetParams(node, &parameters), "cuGraphKernelNodeGetParams");
    KernelNode kernel = kernel_of(parameters, {}, from_module);
    read_attributes(node, kernel.launch);
    return kernel;
}

template <class Parameters, class Get>
Work read_by(Get get, CUgraphNode node, const char* what) {
    Parameters parameters{};
    check(get(node, &parameters), what);
    return parameters;
}

Work read_event(CUgraphNode node, bool record) {
    CUevent event = nullptr;
    check((record ? cuGraphEventRecordNodeGetEvent : cuGraphEventWaitNodeGetEvent)(node, &event), "reading an event node");
    if (record) return RecordEvent{event};
    return WaitEvent{event};
}

// By number: headers of older versions do not know all of them.
std::string what_is(CUgraphNodeType type) {
    switch (static_cast<int>(type)) {
        case 8:
        case 9: return "an external semaphore node";
        case 10: return "a memory allocation node";
        case 11: return "a memory free node";
        case 12: return "a batch memory operation node";
        case 13: return "a conditional node";
        default: return "a node of type " + std::to_string(static_cast<int>(type));
    }
}

Work read_work(CUgraphNode node, CUgraphNodeType type, const FromModule& from_module) {
    switch (type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return read_kernel(node, from_module);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return read_by<CUDA_MEMCPY3D>(cuGraphMemcpyNodeGetParams, node, "cuGraphMemcpyNodeGetParams");
        case CU_GRAPH_NODE_TYPE_MEMSET:
            return read_by<CUDA_MEMSET_NODE_PARAMS>(cuGraphMemsetNodeGetParams, node, "cuGraphMemsetNodeGetParams");
        case CU_GRAPH_NODE_TYPE_HOST:
            return read_by<CUDA_HOST_NODE_PARAMS>(cuGraphHostNodeGetParams, node, "cuGraphHostNodeGetParams");
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return read_event(node, true);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return read_event(node, false);
        case CU_GRAPH_NODE_TYPE_GRAPH:
        case CU_GRAPH_NODE_TYPE_EMPTY: return Nothing{};
        default: return Unknown{what_is(type)};
    }
}

// Appends a graph's nodes; those that wait for none of it wait for `outer`.
void append(CUgraph graph, const std::vector<std::size_t>& outer, const FromModule& from_module, Nodes& nodes) {
    std::map<CUgraphNode, std::size_t> places;
    for (const auto& [handle, before] : sorted(graph)) {
        Node node;
        node.handle = handle;
        check(cuGraphNodeGetType(handle, &node.type), "cuGraphNodeGetType");
        for (CUgraphNode other : before) node.after.push_back(places.at(other));
        if (before.empty()) node.after = outer;
        if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            CUgraph child = nullptr;
            check(cuGraphChildGraphNodeGetGraph(handle, &child), "cuGraphChildGraphNodeGetGraph");
            node.child = nodes.size();
            append(child, node.after, from_module, nodes);
            for (std::size_t i = node.child; i < nodes.size(); ++i) node.after.push_back(i);
        }
        node.work = read_work(handle, node.type, from_module);
        places[handle] = nodes.size();
        nodes.push_back(std::move(node));
    }
}

}  // namespace

std::vector<void*> Arguments::pointers() {
    std::vector<void*> all;
    for (std::size_t offset : offsets) all.push_back(bytes.data() + offset);
    return all;
}

KernelNode kernel_of(const CUDA_KERNEL_NODE_PARAMS_v1& p, const KernelNode& before, const FromModule& from_module) {
    return kernel_from(p, before, from_module);
}

KernelNode kernel_of(const CUDA_KERNEL_NODE_PARAMS& p, const KernelNode& before, const FromModule& from_module) {
    return kernel_from(p, before, from_module);
}

Nodes read_graph(CUgraph graph, const FromModule& from_module) {
    Nodes nodes;
    append(graph, {}, from_module, nodes);
    return nodes;
}

bool same_form(const Nodes& whole, std::size_t first, const Nodes& part) {
    if (first + part.size() > whole.size()) return false;
    for (std::size_t i = 0; i < part.size(); ++i) {
        std::vector<std::size_t> within;
        for (std::size_t place : whole[first + i].after)
            if (place >= first) within.push_back(place - first);
        if (whole[first + i].type != part[i].type || within != part[i].after) return false;
    }
    return true;
}

}  // namespace warplens
