#include "fake_graphs.h"

#include <cstring>

#include "fake_driver.h"

namespace {

std::vector<std::string> logged;

fake::Node& node_of(CUgraphNode handle) { return *reinterpret_cast<fake::Node*>(handle); }
fake::Graph& graph_of(CUgraph handle) { return *reinterpret_cast<fake::Graph*>(handle); }

template <class Of>
CUresult list(std::size_t have, std::size_t* count, bool wanted, Of of) {
    if (wanted && *count < have) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; wanted && i < have; ++i) of(i);
    *count = have;
    return CUDA_SUCCESS;
}

CUresult edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
    auto& all = graph_of(graph).edges;
    return list(all.size(), count, from != nullptr, [&](std::size_t i) {
        from[i] = all[i].first->handle();
        to[i] = all[i].second->handle();
    });
}

CUresult edges_plain(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
    return graph_of(graph).edges_have_data ? CUDA_ERROR_LOSSY_QUERY : edges(graph, from, to, count);
}

CUresult edges_with_data(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
    const bool lossy = from && !data && graph_of(graph).edges_have_data;
    if (data) std::memset(data, 0, *count * sizeof *data);
    return lossy ? CUDA_ERROR_LOSSY_QUERY : edges(graph, from, to, count);
}

const bool known = [] {
    fake::entries()["cuGraphGetEdges"] = {{10000, reinterpret_cast<void*>(&edges_plain)},
                                          {12030, reinterpret_cast<void*>(&edges_with_data)}};
    return true;
}();

CUresult memset_noted(const std::string& kind, CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height) {
    const std::string size = std::to_string(width) + (height ? "x" + std::to_string(height) + "/" + std::to_string(pitch) : "");
    fake::note("memset" + kind + " " + std::to_string(to) + " = " + std::to_string(value) + " " + size);
    return CUDA_SUCCESS;
}

}  // namespace

namespace fake {

std::vector<std::string> done() { return std::exchange(logged, {}); }
void note(const std::string& what) { logged.push_back(what); }

}  // namespace fake

extern "C" {

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    auto& all = graph_of(graph).nodes;
    return list(all.size(), count, nodes != nullptr, [&](std::size_t i) { nodes[i] = all[i]->handle(); });
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
    *type = node_of(node).type;
    return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
    *parameters = node_of(node).kernel;
    return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
    auto found = node_of(node).attributes.find(id);
    if (found == node_of(node).attributes.end()) return CUDA_ERROR_INVALID_VALUE;
    *value = found->second;
    return CUDA_SUCCESS;
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* parameters) {
    *parameters = node_of(node).copy;
    return CUDA_SUCCESS;
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* parameters) {
    *parameters = node_of(node).set;
    return CUDA_SUCCESS;
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* parameters) {
    *parameters = node_of(node).host;
    return CUDA_SUCCESS;
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
    *graph = node_of(node).child->handle();
    return CUDA_SUCCESS;
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
    *event = node_of(node).event;
    return CUDA_SUCCESS;
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
    return cuGraphEventRecordNodeGetEvent(node, event);
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream) {
    fake::note("copy " + std::to_string(copy->srcDevice) + " to " + std::to_string(copy->dstDevice));
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream) { return memset_noted("8", to, 0, value, n, 0); }
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream) { return memset_noted("16", to, 0, value, n, 0); }
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream) { return memset_noted("32", to, 0, value, n, 0); }
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t w, size_t h, CUstream) {
    return memset_noted("8", to, pitch, value, w, h);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t w, size_t h, CUstream) {
    return memset_noted("16", to, pitch, value, w, h);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t w, size_t h, CUstream) {
    return memset_noted("32", to, pitch, value, w, h);
}
CUresult cuLaunchHostFunc(CUstream, CUhostFn function, void* data) {
    function(data);
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream) {
    fake::note("record " + std::to_string(reinterpret_cast<std::uintptr_t>(event)));
    return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream, CUevent event, unsigned) {
    fake::note("wait for " + std::to_string(reinterpret_cast<std::uintptr_t>(event)));
    return CUDA_SUCCESS;
}

}  // extern "C"
