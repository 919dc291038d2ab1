// cudaGraphExec*: graphs instantiated, changed and launched.
#include "cudart/graph.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

// Whether `from` can become `to` by new parameters alone.
UpdateResult compare(const GraphHandle& from, const GraphHandle& to, GraphNode*& culprit) {
  if (from.nodes.size() != to.nodes.size()) return UpdateResult::TopologyChanged;
  std::unordered_map<const GraphNode*, size_t> from_position, to_position;
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    from_position[from.nodes[i].get()] = i;
    to_position[to.nodes[i].get()] = i;
  }
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    const GraphNode &old = *from.nodes[i], &fresh = *to.nodes[i];
    culprit = to.nodes[i].get();
    if (node_kind(old.spec) != node_kind(fresh.spec)) return UpdateResult::NodeKindChanged;
    if (old.after.size() != fresh.after.size()) return UpdateResult::TopologyChanged;
    for (size_t j = 0; j < old.after.size(); ++j)
      if (from_position[old.after[j]] != to_position[fresh.after[j]]) return UpdateResult::TopologyChanged;
    if (auto* child = std::get_if<ChildSpec>(&old.spec)) {
      GraphNode* inner = nullptr;
      UpdateResult result = compare(*child->graph, *std::get<ChildSpec>(fresh.spec).graph, inner);
      if (result != UpdateResult::Success) return result;
    }
  }
  culprit = nullptr;
  return UpdateResult::Success;
}

Status instantiate(GraphExec** exec, GraphHandle* graph, unsigned long long flags) {
  return api([&](Context&) {
    auto shared = Graphs::get().share(graph);
    if (!exec || !shared || (flags & ~15ull)) return Status::InvalidValue;
    if (flags & 4) return not_supported("graphs launched from the device");
    if (shared->order().size() != shared->nodes.size()) return Status::InvalidValue;
    *exec = Graphs::get().add(GraphExec{shared->clone(), flags});
    return Status::Success;
  });
}

}  // namespace

ASSAY_API Status cudaGraphInstantiateWithFlags(GraphExec** exec, GraphHandle* graph,
                                               unsigned long long flags) {
  return instantiate(exec, graph, flags);
}
ASSAY_API Status cudaGraphInstantiate(GraphExec** exec, GraphHandle* graph, unsigned long long flags) {
  return instantiate(exec, graph, flags);
}
ASSAY_API Status cudaGraphInstantiateWithParams(GraphExec** exec, GraphHandle* graph,
                                                InstantiateParams* params) {
  if (!params) return note(Status::InvalidValue);
  Status status = instantiate(exec, graph, params->flags);
  params->error_node = nullptr;
  params->result = status == Status::Success ? 0 : 1;
  return status;
}
ASSAY_API_PTSZ(cudaGraphInstantiateWithParams,
               (GraphExec * *exec, GraphHandle* graph, InstantiateParams* params), exec, graph, params)

ASSAY_API Status cudaGraphExecGetFlags(GraphExec* exec, unsigned long long* flags) {
  return api([&](Context&) {
    if (!Graphs::get().exec(exec) || !flags) return Status::InvalidValue;
    *flags = exec->flags;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphExecDestroy(GraphExec* exec) {
  return api([&](Context&) { return Graphs::get().remove(exec) ? Status::Success : Status::InvalidValue; });
}

ASSAY_API Status cudaGraphLaunch(GraphExec* exec, StreamHandle* handle) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!Graphs::get().exec(exec)) return Status::InvalidValue;
    return launch_graph(context, *exec, &stream);
  });
}
ASSAY_API_PTSZ(cudaGraphLaunch, (GraphExec * exec, StreamHandle* stream), exec, own_stream(stream))
ASSAY_API Status cudaGraphUpload(GraphExec* exec, StreamHandle* handle) {
  return stream_api(handle, [&](Context&, StreamHandle&) {
    return Graphs::get().exec(exec) ? Status::Success : Status::InvalidValue;
  });
}
ASSAY_API_PTSZ(cudaGraphUpload, (GraphExec * exec, StreamHandle* stream), exec, own_stream(stream))

ASSAY_API Status cudaGraphExecUpdate(GraphExec* exec, GraphHandle* graph, UpdateResultInfo* info) {
  return api([&](Context&) {
    auto shared = Graphs::get().share(graph);
    if (!Graphs::get().exec(exec) || !shared) return Status::InvalidValue;
    GraphNode* culprit = nullptr;
    UpdateResult result = compare(*exec->graph, *shared, culprit);
    if (info) *info = {result, culprit, nullptr};
    if (result != UpdateResult::Success) return Status::GraphExecUpdateFailure;
    exec->graph = shared->clone();
    return Status::Success;
  });
}

ASSAY_API Status cudaGraphNodeSetEnabled(GraphExec* exec, GraphNode* node, unsigned enabled) {
  return api([&](Context&) {
    GraphNode* twin = Graphs::get().exec(exec) && node ? exec->graph->clone_of(node) : nullptr;
    if (!twin) return Status::InvalidValue;
    NodeKind kind = node_kind(twin->spec);
    if (kind != NodeKind::Kernel && kind != NodeKind::Memset && kind != NodeKind::Memcpy)
      return Status::InvalidValue;
    twin->enabled = enabled != 0;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphNodeGetEnabled(GraphExec* exec, GraphNode* node, unsigned* enabled) {
  return api([&](Context&) {
    GraphNode* twin = Graphs::get().exec(exec) && node ? exec->graph->clone_of(node) : nullptr;
    if (!twin || !enabled) return Status::InvalidValue;
    *enabled = twin->enabled;
    return Status::Success;
  });
}
