// SPDX-License-Identifier: Apache-2.0
// The program's executable graphs, followed from their instantiation through every update.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <map>
#include <string>
#include <vector>

#include "graph.h"

namespace warplens {

struct Executable {
    Nodes nodes;
    std::string refusal;                        // why its nodes are not known; "" if they are
    std::map<CUgraphNode, std::size_t> places;  // by the handle of the graph that was instantiated
    // Of every node: what of itself or before it cannot be run by itself; "" if nothing.
    std::vector<std::string> obstacles;
    std::string hidden;                         // why kernels may run that are none of its nodes; "" if none do
};

class Executables {
   public:
    explicit Executables(FromModule from_module) : from_module_(std::move(from_module)) {}

    // Called for every driver API callback listed by `watched`; ignores the others.
    void follow(CUpti_CallbackId id, const CUpti_CallbackData* call);
    // Never null; an executable that was not seen to be made has a refusal.
    const Executable* find(CUgraphExec executable) const;
    // Some graph's memory is not freed by the graph itself.
    bool leaves_memory() const { return leaves_memory_; }

    static const std::vector<CUpti_CallbackId>& watched();

   private:
    void made(CUgraphExec executable, CUgraph graph, unsigned long long flags);
    void replaced(Executable& executable, CUgraph graph);
    template <class Parameters>
    void set_kernel(Node& node, const Parameters& parameters);
    void set_child(Executable& executable, Node& node, CUgraph graph);
    void set_any(Executable& executable, Node& node, const void* parameters);
    void change(CUpti_CallbackId id, const void* parameters);
    void change_node(CUpti_CallbackId id, const void* parameters, Executable& executable, Node& node);

    FromModule from_module_;
    std::map<CUgraphExec, Executable> all_;
    bool device_launch_ = false, leaves_memory_ = false;
};

}  // namespace warplens
