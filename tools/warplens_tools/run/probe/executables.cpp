// SPDX-License-Identifier: Apache-2.0
#include "executables.h"

#include <algorithm>
#include <stdexcept>

#include "driver.h"

namespace warplens {
namespace {

template <class T>
const T& as(const void* parameters) {
    return *static_cast<const T*>(parameters);
}

bool is_destroy(CUpti_CallbackId id) { return id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy; }

bool is_instantiate(CUpti_CallbackId id) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate:
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2:
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz: return true;
        default: return false;
    }
}

bool is_update(CUpti_CallbackId id) {
    return id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate || id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2;
}

unsigned long long flags_of(CUpti_CallbackId id, const void* parameters) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
            return as<cuGraphInstantiateWithFlags_params>(parameters).flags;
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
        case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz:
            return as<cuGraphInstantiateWithParams_params>(parameters).instantiateParams->flags;
        default: return 0;
    }
}

std::string own_obstacle(const Work& work) {
    const auto* unknown = std::get_if<Unknown>(&work);
    return unknown ? unknown->what : "";
}

// Once per graph, not per change of a node: that makes no node of another kind.
void index(Executable& executable) {
    executable.obstacles.clear();
    executable.places.clear();
    for (const Node& node : executable.nodes) {
        std::string obstacle = own_obstacle(node.work);
        if (obstacle == "a conditional node") executable.hidden = "it runs in the body of a conditional node";
        for (std::size_t i = 0; i < node.after.size() && obstacle.empty(); ++i)
            obstacle = executable.obstacles[node.after[i]];
        executable.places[node.handle] = executable.obstacles.size();
        executable.obstacles.push_back(obstacle);
    }
}

void refuse(Executable& executable, const std::string& reason) { executable.refusal = executable.hidden = reason; }

long memory_balance(const Nodes& nodes) {
    long balance = 0;
    for (const Node& node : nodes)
        balance += (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) - (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE);
    return balance;
}

}  // namespace

const std::vector<CUpti_CallbackId>& Executables::watched() {
    static const std::vector<CUpti_CallbackId> ids = {
        CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate,
        CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2,
        CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags,
        CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams,
        CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemcpyNodeSetParams,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemsetNodeSetParams,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecHostNodeSetParams,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent,
#if CUDA_VERSION >= 12020
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams,
#endif
        CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled,
        CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy,
    };
    return ids;
}

const Executable* Executables::find(CUgraphExec executable) const {
    static const std::string unseen = "a graph was made by a call that is not followed";
    static const std::string device = "graphs are launched from the device";
    static const Executable of_unseen{{}, unseen, {}, {}, unseen}, of_device{{}, device, {}, {}, device};
    if (device_launch_) return &of_device;
    auto found = all_.find(executable);
    return found == all_.end() ? &of_unseen : &found->second;
}

void Executables::made(CUgraphExec executable, CUgraph graph, unsigned long long flags) {
    // which kernels launch it, and when, no call of the program tells
    device_launch_ = device_launch_ || flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    Executable& entry = all_[executable] = {};
    try {
        entry.nodes = read_graph(graph, from_module_);
        leaves_memory_ = leaves_memory_ || memory_balance(entry.nodes) > 0;
        index(entry);
    } catch (const std::exception& error) {
        refuse(entry, error.what());
    }
}

void Executables::replaced(Executable& executable, CUgraph graph) {
    Nodes fresh = read_graph(graph, from_module_);
    const bool same = fresh.size() == executable.nodes.size() && same_form(executable.nodes, 0, fresh);
    if (std::any_of(executable.nodes.begin(), executable.nodes.end(), [](const Node& node) { return !node.enabled; }))
        throw std::runtime_error("a graph was updated while one of its nodes was disabled");
    // later calls name nodes of the graph that was instantiated
    for (std::size_t i = 0; i < fresh.size(); ++i) fresh[i].handle = same ? executable.nodes[i].handle : nullptr;
    executable.nodes = std::move(fresh);
    index(executable);
}

template <class Parameters>
void Executables::set_kernel(Node& node, const Parameters& parameters) {
    // a node that the device may change is not known, and stays so
    const auto* kernel = std::get_if<KernelNode>(&node.work);
    if (kernel) node.work = kernel_of(parameters, *kernel, from_module_);
}

void Executables::set_child(Executable& executable, Node& node, CUgraph graph) {
    Nodes fresh = read_graph(graph, from_module_);
    const auto place = static_cast<std::size_t>(&node - executable.nodes.data());
    if (fresh.size() != place - node.child || !same_form(executable.nodes, node.child, fresh))
        throw std::runtime_error("a child graph was replaced by one of another form");
    for (std::size_t i = 0; i < fresh.size(); ++i) executable.nodes[node.child + i].work = std::move(fresh[i].work);
    index(executable);
}

#if CUDA_VERSION >= 12020
void Executables::set_any(Executable& executable, Node& node, const void* parameters) {
    const auto& p = *static_cast<const CUgraphNodeParams*>(parameters);
    if (p.type != node.type) throw std::runtime_error("a node was changed into one of another type");
    if (p.type == CU_GRAPH_NODE_TYPE_KERNEL) {
        const auto& k = p.kernel;
        const CUDA_KERNEL_NODE_PARAMS same = {k.func,      k.gridDimX,  k.gridDimY,       k.gridDimZ,     k.blockDimX, k.blockDimY,
                                              k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra, k.kern,      k.ctx};
        set_kernel(node, same);
    } else if (p.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        node.work = p.memcpy.copyParams;
    } else if (p.type == CU_GRAPH_NODE_TYPE_MEMSET) {
        const auto& m = p.memset;
        node.work = CUDA_MEMSET_NODE_PARAMS{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
    } else if (p.type == CU_GRAPH_NODE_TYPE_HOST) {
        node.work = CUDA_HOST_NODE_PARAMS{p.host.fn, p.host.userData};
    } else if (p.type == CU_GRAPH_NODE_TYPE_GRAPH) {
        set_child(executable, node, p.graph.graph);
    } else {
        throw std::runtime_error("a node was changed by a call that is not followed");
    }
}
#else
void Executables::set_any(Executable&, Node&, const void*) {}
#endif

void Executables::change_node(CUpti_CallbackId id, const void* parameters, Executable& executable, Node& node) {
    switch (id) {
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams:
            return set_kernel(node, *as<cuGraphExecKernelNodeSetParams_params>(parameters).nodeParams);
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2:
            return set_kernel(node, *as<cuGraphExecKernelNodeSetParams_v2_params>(parameters).nodeParams);
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemcpyNodeSetParams:
            node.work = *as<cuGraphExecMemcpyNodeSetParams_params>(parameters).copyParams;
            return;
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemsetNodeSetParams:
            node.work = *as<cuGraphExecMemsetNodeSetParams_params>(parameters).memsetParams;
            return;
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecHostNodeSetParams:
            node.work = *as<cuGraphExecHostNodeSetParams_params>(parameters).nodeParams;
            return;
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams:
            return set_child(executable, node, as<cuGraphExecChildGraphNodeSetParams_params>(parameters).childGraph);
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent:
            node.work = RecordEvent{as<cuGraphExecEventRecordNodeSetEvent_params>(parameters).event};
            return;
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent:
            node.work = WaitEvent{as<cuGraphExecEventWaitNodeSetEvent_params>(parameters).event};
            return;
        case CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled:
            node.enabled = as<cuGraphNodeSetEnabled_params>(parameters).isEnabled != 0;
            return;
#if CUDA_VERSION >= 12020
        case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams:
            return set_any(executable, node, as<cuGraphExecNodeSetParams_params>(parameters).nodeParams);
#endif
        default: return;
    }
}

void Executables::change(CUpti_CallbackId id, const void* parameters) {
    // every such call's first parameter is the executable, and its second the node or the new graph
    const auto& p = as<cuGraphNodeSetEnabled_params>(parameters);
    auto found = all_.find(p.hGraphExec);
    if (found == all_.end() || !found->second.refusal.empty()) return;
    Executable& executable = found->second;
    try {
        if (is_update(id)) return replaced(executable, as<cuGraphExecUpdate_v2_params>(parameters).hGraph);
        const auto place = executable.places.find(p.hNode);
        if (place == executable.places.end()) throw std::runtime_error("a node was changed that is not known");
        change_node(id, parameters, executable, executable.nodes[place->second]);
    } catch (const std::exception& error) {
        refuse(executable, error.what());
    }
}

void Executables::follow(CUpti_CallbackId id, const CUpti_CallbackData* call) {
    const bool enter = call->callbackSite == CUPTI_API_ENTER;
    const void* parameters = call->functionParams;
    const auto& ids = watched();
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) return;
    // what is destroyed is gone when the call is made: its handle may be another's when it returns
    if (is_destroy(id)) {
        if (enter) all_.erase(as<cuGraphExecDestroy_params>(parameters).hGraphExec);
        return;
    }
    if (enter || *static_cast<const CUresult*>(call->functionReturnValue) != CUDA_SUCCESS) return;
    if (!is_instantiate(id)) return change(id, parameters);
    const auto& p = as<cuGraphInstantiateWithFlags_params>(parameters);
    made(*p.phGraphExec, p.hGraph, flags_of(id, parameters));
}

}  // namespace warplens
