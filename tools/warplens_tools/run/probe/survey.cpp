// SPDX-License-Identifier: Apache-2.0
#include "survey.h"

#include "driver.h"

namespace warplens {
namespace {

constexpr std::size_t kSamples = 200, kOrder = 4096;

template <class T>
std::vector<unsigned> shape_of(const T& t) {
    return {t.grid[0], t.grid[1], t.grid[2], t.block[0], t.block[1], t.block[2], t.shared};
}

}  // namespace

void Survey::start() { activities::start(); }

void Survey::launched(const std::string& name, const Launch& launch, bool captured) {
    std::lock_guard<std::mutex> lock(mutex_);
    Shape& shape = shapes_[{name, shape_of(launch)}];
    ++(captured ? shape.captured : shape.launches);
    const std::uint64_t number = calls_[name]++;
    if (shape.order.size() < kOrder) shape.order.push_back(static_cast<double>(number));
}

void Survey::launched_by_graph(const std::string& name, const Launch& launch, const std::string& obstacle) {
    std::lock_guard<std::mutex> lock(mutex_);
    Shape& shape = shapes_[{name, shape_of(launch)}];
    if (obstacle.empty()) ++shape.reachable;
    else shape.obstacle = obstacle + " before it in its graph cannot be run by itself";
}

void Survey::hidden(const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    hidden_ = reason;
}

void Survey::take(const std::vector<Activity>& finished) {
    for (const Activity& a : finished) {
        Shape& shape = shapes_[{a.name, shape_of(a)}];
        ++shape.timed;
        shape.in_graphs += a.in_graph;
        shape.total_ns += a.duration_ns;
        if (shape.samples.size() < kSamples) shape.samples.push_back(a.duration_ns);
    }
}

void Survey::finish(Results& results) {
    activities::flush();
    std::lock_guard<std::mutex> lock(mutex_);
    if (finished_) return;
    finished_ = true;
    take(activities::take());
    for (const auto& [key, shape] : shapes_) {
        const auto& [name, s] = key;
        Record record("kernel");
        record.add("mangled", name).extent("grid", s[0], s[1], s[2]).extent("block", s[3], s[4], s[5]);
        record.add("shared", std::uint64_t{s[6]}).add("launches", shape.launches).add("captured", shape.captured);
        record.add("reachable", shape.reachable).add("obstacle", shape.obstacle.empty() ? hidden_ : shape.obstacle);
        record.add("timed", shape.timed).add("in_graphs", shape.in_graphs).add("total_ns", shape.total_ns);
        results.write(record.add("samples", shape.samples).add("order", shape.order));
    }
    // whatever is asked of a context that a kernel has lost is answered with that
    const CUresult status = cuStreamQuery(nullptr);
    results.write(Record("end").add("failed", is_sticky(status) ? name_of(status) : ""));
}

}  // namespace warplens
