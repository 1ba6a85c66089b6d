// SPDX-License-Identifier: Apache-2.0
// A graph's launch up to one of its kernels, node by node.
#pragma once

#include <cuda.h>

#include <vector>

#include "graph.h"

namespace warplens {

// Places of the nodes that the node at `target` waits for, in an order in which they may run.
std::vector<std::size_t> nodes_before(const Nodes& nodes, std::size_t target);
// Runs what comes before the node, each when the one before it is done, for up to `seconds` each; returns how many
// nodes that were. Throws std::runtime_error with the node that failed.
std::size_t replay_before(const Nodes& nodes, std::size_t target, CUstream stream, double seconds);

}  // namespace warplens
