// Graphs of the fake driver, and what a stream is told to do, in words.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fake {

struct Graph;

struct Node {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUDA_KERNEL_NODE_PARAMS kernel{};
    CUDA_MEMCPY3D copy{};
    CUDA_MEMSET_NODE_PARAMS set{};
    CUDA_HOST_NODE_PARAMS host{};
    CUevent event = nullptr;
    Graph* child = nullptr;
    std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes;

    CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::pair<Node*, Node*>> edges;
    bool edges_have_data = false;

    Node& add(CUgraphNodeType type, const std::vector<Node*>& after = {}) {
        nodes.push_back(std::make_unique<Node>());
        nodes.back()->type = type;
        for (Node* before : after) edges.emplace_back(before, nodes.back().get());
        return *nodes.back();
    }
    CUgraph handle() { return reinterpret_cast<CUgraph>(this); }
};

// What was done on streams since the last call.
std::vector<std::string> done();
void note(const std::string& what);

}  // namespace fake
