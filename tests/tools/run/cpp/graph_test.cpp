// The probe's reading, following and replaying of graphs, on a driver that writes down what it is told to do.
// "graph_test" prints every expectation that does not hold; "graph_test VERSION" reads one graph with a driver of
// that CUDA version, and prints why it cannot.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "executables.h"
#include "fake_driver.h"
#include "fake_graphs.h"
#include "replay.h"

using namespace warplens;
using Words = std::vector<std::string>;

namespace {

int mistakes = 0, expectations = 0;

std::string joined(const Words& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : "; ") + word;
    return text;
}

void expect(const char* what, const std::string& got, const std::string& wanted) {
    ++expectations;
    if (got == wanted) return;
    ++mistakes;
    std::printf("%s: got \"%s\", not \"%s\"\n", what, got.c_str(), wanted.c_str());
}

bool from_module(CUfunction) { return true; }

// A kernel of an address and a number, that says which it was given.
fake::Kernel named(const std::string& name) {
    auto say = [name](void** arguments) {
        std::uint64_t address;
        int number;
        std::memcpy(&address, arguments[0], sizeof address);
        std::memcpy(&number, arguments[1], sizeof number);
        fake::note(name + "(" + std::to_string(address) + ", " + std::to_string(number) + ")");
    };
    return {name, say, {{0, 8}, {8, 4}}};
}

// Kernels, arguments and graphs of a program; what it owns may be changed or freed behind the probe's back.
struct Program {
    fake::Kernel first = named("first"), second = named("second"), third = named("third");
    std::uint64_t address = 100;
    int number = 1;
    void* arguments[2] = {&address, &number};

    CUDA_KERNEL_NODE_PARAMS calling(fake::Kernel& kernel) {
        CUDA_KERNEL_NODE_PARAMS parameters{};
        parameters.func = kernel.handle();
        parameters.gridDimX = 7, parameters.gridDimY = parameters.gridDimZ = 1;
        parameters.blockDimX = 32, parameters.blockDimY = parameters.blockDimZ = 1;
        parameters.kernelParams = arguments;
        return parameters;
    }
    fake::Node& add(fake::Graph& graph, fake::Kernel& kernel, const std::vector<fake::Node*>& after = {}) {
        fake::Node& node = graph.add(CU_GRAPH_NODE_TYPE_KERNEL, after);
        node.kernel = calling(kernel);
        return node;
    }
};

fake::Node& add_memset(fake::Graph& graph, CUdeviceptr to, unsigned element, std::size_t height, const std::vector<fake::Node*>& after = {}) {
    fake::Node& node = graph.add(CU_GRAPH_NODE_TYPE_MEMSET, after);
    node.set = {to, 64, 0x01020304, element, 5, height};
    return node;
}

std::size_t place_of(const Nodes& nodes, const std::string& kernel) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (const auto* found = std::get_if<KernelNode>(&nodes[i].work); found && found->name == kernel) return i;
    std::printf("no kernel %s\n", kernel.c_str());
    std::exit(2);
}

std::string before(const Nodes& nodes, const std::string& kernel) {
    replay_before(nodes, place_of(nodes, kernel), nullptr, 60);
    return joined(fake::done());
}

// The driver calls of a program, as CUPTI tells of them.
struct Calls {
    Executables executables{from_module};
    CUgraphExec exec = reinterpret_cast<CUgraphExec>(0x77);

    template <class Parameters>
    void tell(CUpti_CallbackId id, Parameters parameters, CUresult result = CUDA_SUCCESS) {
        CUpti_CallbackData call{};
        call.functionParams = &parameters;
        call.functionReturnValue = &result;
        for (CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
            call.callbackSite = site;
            executables.follow(id, &call);
        }
    }
    void instantiate(fake::Graph& graph, unsigned long long flags = 0) {
        tell(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags_params{&exec, graph.handle(), flags});
    }
    void update(fake::Graph& graph, CUresult result = CUDA_SUCCESS) {
        tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2, cuGraphExecUpdate_v2_params{exec, graph.handle(), nullptr}, result);
    }
    void set(fake::Node& node, const CUDA_KERNEL_NODE_PARAMS& parameters) {
        tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2,
             cuGraphExecKernelNodeSetParams_v2_params{exec, node.handle(), &parameters});
    }
    void enable(fake::Node& node, bool enabled) {
        tell(CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled, cuGraphNodeSetEnabled_params{exec, node.handle(), enabled});
    }
    const Executable& now() { return *executables.find(exec); }
};

void order() {
    Program p;
    fake::Graph graph;
    fake::Node& last = p.add(graph, p.third);  // made first, run last
    fake::Node& wide = add_memset(graph, 1, 4, 3);
    fake::Node& narrow = add_memset(graph, 2, 1, 1);
    fake::Node& half = add_memset(graph, 3, 2, 0, {&narrow});
    add_memset(graph, 4, 4, 1, {&last});       // comes after it
    p.add(graph, p.second, {&narrow});         // beside it
    fake::Node& one = p.add(graph, p.first, {&wide, &half});
    graph.edges.emplace_back(&one, &last);
    const Nodes nodes = read_graph(graph.handle(), from_module);
    expect("what comes before runs once, in order, and nothing else", before(nodes, "third"),
           "memset32 1 = 16909060 5x3/64; memset8 2 = 4 5; memset16 3 = 772 5; first(100, 1)");
    expect("and is counted", std::to_string(replay_before(nodes, place_of(nodes, "third"), nullptr, 60)), "4");
    fake::done();
    graph.edges_have_data = true;
    expect("edges with data are read", std::to_string(read_graph(graph.handle(), from_module).size()), "7");
}

void every_kind() {
    Program p;
    fake::Graph graph;
    fake::Node& copy = graph.add(CU_GRAPH_NODE_TYPE_MEMCPY);
    copy.copy.srcDevice = 8, copy.copy.dstDevice = 9;
    fake::Node& record = graph.add(CU_GRAPH_NODE_TYPE_EVENT_RECORD, {&copy});
    fake::Node& wait = graph.add(CU_GRAPH_NODE_TYPE_WAIT_EVENT, {&record});
    record.event = wait.event = reinterpret_cast<CUevent>(5);
    fake::Node& empty = graph.add(CU_GRAPH_NODE_TYPE_EMPTY, {&wait});
    fake::Node& host = graph.add(CU_GRAPH_NODE_TYPE_HOST, {&empty});
    host.host = {[](void* data) { fake::note("host " + std::to_string(*static_cast<int*>(data))); }, &p.number};
    p.add(graph, p.first, {&host});
    expect("copies, events and host functions", before(read_graph(graph.handle(), from_module), "first"),
           "copy 8 to 9; record 5; wait for 5; host 1");
}

void ownership() {
    Program p;
    Nodes nodes;
    {
        fake::Graph graph;
        fake::Node& a = p.add(graph, p.first);
        struct {
            std::uint64_t address = 300;
            int number = 3;
        } buffer;
        std::size_t bytes = 12;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
        fake::Node& b = p.add(graph, p.second, {&a});
        b.kernel.kernelParams = nullptr;
        b.kernel.extra = extra;
        p.add(graph, p.third, {&b});
        nodes = read_graph(graph.handle(), from_module);
        buffer.address = 0, buffer.number = 0;
    }
    p.address = 0, p.number = 0;
    const Nodes copies = nodes;
    nodes.clear();
    expect("arguments are the program's no more", before(copies, "third"), "first(100, 1); second(300, 3)");
}

void attributes() {
    Program p;
    fake::Graph graph;
    std::string seen;
    p.first.run = [&](void**) {
        seen = std::to_string(fake::launching->gridDimX) + " blocks";
        for (unsigned i = 0; i < fake::launching->numAttrs; ++i)
            seen += ", attribute " + std::to_string(fake::launching->attrs[i].id);
    };
    fake::Node& node = p.add(graph, p.first);
    node.attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
    node.attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION].clusterDim = {2, 1, 1};
    node.attributes[CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] = {};
    node.attributes[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = 3;
    p.add(graph, p.second, {&node});
    before(read_graph(graph.handle(), from_module), "second");
    expect("attributes that say what runs are launched with", seen, "7 blocks, attribute 2, attribute 4");
}

void children() {
    Program p;
    fake::Graph inner, outer;
    fake::Node& a = p.add(inner, p.first);
    p.add(inner, p.second, {&a});
    fake::Node& set = add_memset(outer, 1, 1, 1);
    fake::Node& child = outer.add(CU_GRAPH_NODE_TYPE_GRAPH, {&set});
    child.child = &inner;
    p.add(outer, p.third, {&child});
    Calls calls;
    calls.instantiate(outer);
    expect("a child graph lies where its node does", before(calls.now().nodes, "third"), "memset8 1 = 4 5; first(100, 1); second(100, 1)");
    expect("and is entered to a kernel in it", before(calls.now().nodes, "second"), "memset8 1 = 4 5; first(100, 1)");

    fake::Graph other;
    p.number = 9;
    fake::Node& b = p.add(other, p.first);
    p.add(other, p.second, {&b});
    calls.tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams,
               cuGraphExecChildGraphNodeSetParams_params{calls.exec, child.handle(), other.handle()});
    expect("another graph takes the child's place", before(calls.now().nodes, "second"), "memset8 1 = 4 5; first(100, 9)");
    p.number = 4;
    calls.set(a, p.calling(p.first));
    expect("the child's own nodes are changed", before(calls.now().nodes, "second"), "memset8 1 = 4 5; first(100, 4)");
    calls.tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams,
               cuGraphExecChildGraphNodeSetParams_params{calls.exec, child.handle(), outer.handle()});
    expect("a child of another form is refused", calls.now().refusal, "a child graph was replaced by one of another form");
}

void updates() {
    Program p;
    fake::Graph graph;
    fake::Node& set = add_memset(graph, 1, 1, 1);
    fake::Node& a = p.add(graph, p.first, {&set});
    p.add(graph, p.third, {&a});
    Calls calls;
    calls.instantiate(graph);
    p.number = 2;
    a.kernel = p.calling(p.second);
    expect("a graph's later changes are not its executable's", before(calls.now().nodes, "third"), "memset8 1 = 4 5; first(100, 1)");
    calls.set(a, p.calling(p.second));
    expect("a node gets another kernel and arguments", before(calls.now().nodes, "third"), "memset8 1 = 4 5; second(100, 2)");
    const CUDA_MEMSET_NODE_PARAMS other = {6, 0, 1, 4, 8, 1};
    calls.tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemsetNodeSetParams,
               cuGraphExecMemsetNodeSetParams_params{calls.exec, set.handle(), &other, nullptr});
    expect("a memset changes", before(calls.now().nodes, "third"), "memset32 6 = 1 8; second(100, 2)");
    CUgraphNodeParams any{};
    any.type = CU_GRAPH_NODE_TYPE_MEMSET;
    any.memset.dst = 7, any.memset.value = 2, any.memset.elementSize = 1, any.memset.width = 3, any.memset.height = 1;
    calls.tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams, cuGraphExecNodeSetParams_params{calls.exec, set.handle(), &any});
    expect("by the call for any node", before(calls.now().nodes, "third"), "memset8 7 = 2 3; second(100, 2)");

    fake::Graph newer;
    p.number = 5;
    fake::Node& memset = add_memset(newer, 2, 1, 1);
    fake::Node& b = p.add(newer, p.first, {&memset});
    p.add(newer, p.third, {&b});
    calls.update(newer, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    expect("an update that failed is none", before(calls.now().nodes, "third"), "memset8 7 = 2 3; second(100, 2)");
    calls.update(newer);
    expect("an update of the whole", before(calls.now().nodes, "third"), "memset8 2 = 4 5; first(100, 5)");
    p.number = 6;
    calls.set(a, p.calling(p.first));
    expect("nodes are still named by the first graph's", before(calls.now().nodes, "third"), "memset8 2 = 4 5; first(100, 6)");
    calls.enable(set, false);
    expect("a node is switched off", before(calls.now().nodes, "third"), "first(100, 6)");
    calls.update(newer);
    expect("and the whole updated then", calls.now().refusal, "a graph was updated while one of its nodes was disabled");

    Calls again;
    again.instantiate(graph);
    again.set(b, p.calling(p.first));
    expect("a node of another graph", again.now().refusal, "a node was changed that is not known");
    again.tell(CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy, cuGraphExecDestroy_params{again.exec});
    expect("a destroyed executable is forgotten", again.now().refusal, "a graph was made by a call that is not followed");
}

void refusals() {
    Program p;
    const std::pair<CUgraphNodeType, const char*> kinds[] = {
        {CU_GRAPH_NODE_TYPE_CONDITIONAL, "a conditional node"},
        {CU_GRAPH_NODE_TYPE_MEM_ALLOC, "a memory allocation node"},
        {CU_GRAPH_NODE_TYPE_MEM_FREE, "a memory free node"},
        {CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, "an external semaphore node"},
        {CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, "an external semaphore node"},
        {CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, "a batch memory operation node"},
        {static_cast<CUgraphNodeType>(15), "a node of type 15"},
    };
    for (const auto& [type, name] : kinds) {
        fake::Graph graph;
        p.add(graph, p.first);
        fake::Node& strange = graph.add(type, {graph.nodes[0].get()});
        p.add(graph, p.second, {&strange});
        p.add(graph, p.third, {graph.nodes[2].get()});
        Calls calls;
        calls.instantiate(graph);
        const Executable& executable = calls.now();
        expect("a kernel before it is reached", executable.obstacles[place_of(executable.nodes, "first")], "");
        expect("one right behind it is not", executable.obstacles[place_of(executable.nodes, "second")], name);
        expect("nor one further on", executable.obstacles[place_of(executable.nodes, "third")], name);
        const bool loop = type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
        expect("kernels in a loop's body", executable.hidden, loop ? "it runs in the body of a conditional node" : "");
        expect("memory that outlives the graph", std::to_string(calls.executables.leaves_memory()), std::to_string(type == CU_GRAPH_NODE_TYPE_MEM_ALLOC));
    }
    fake::Graph graph;
    fake::Node& node = p.add(graph, p.first);
    node.attributes[CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE].deviceUpdatableKernelNode.deviceUpdatable = 1;
    p.add(graph, p.second, {&node});
    Calls calls;
    calls.instantiate(graph);
    expect("a node that the device may change", calls.now().obstacles[1], "a kernel node that the device may change");
    calls.instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
    expect("a graph for the device", calls.now().refusal, "graphs are launched from the device");
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) {
        fake::version = std::atoi(words[1]);
        Program p;
        fake::Graph graph;
        p.add(graph, p.first);
        Calls calls;
        calls.instantiate(graph);
        std::printf("%s\n", calls.now().refusal.c_str());
        return 0;
    }
    order();
    every_kind();
    ownership();
    attributes();
    children();
    updates();
    refusals();
    std::printf("{\"expectations\": %d, \"mistakes\": %d}\n", expectations, mistakes);
}
