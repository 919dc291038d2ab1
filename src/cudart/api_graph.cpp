// cudaGraph*: graphs built by hand, their edges, and the objects that they keep.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "cudart/graph.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

using Nodes = GraphNode* const*;

// Fills `to` as CUDA does: at most *count, the rest null, and *count is how many there are.
void give_list(const std::vector<GraphNode*>& found, GraphNode** to, size_t* count) {
  if (to)
    for (size_t i = 0; i < *count; ++i) to[i] = i < found.size() ? found[i] : nullptr;
  *count = to ? std::min(*count, found.size()) : found.size();
}

void clear_edges(EdgeData* edges, size_t count) {
  if (edges) std::memset(edges, 0, count * sizeof *edges);
}
}  // namespace

// ---- Graphs ----

ASSAY_API Status cudaGraphCreate(GraphHandle** graph, unsigned flags) {
  return api([&](Context&) {
    if (!graph || flags != 0) return Status::InvalidValue;
    *graph = Graphs::get().add(std::make_shared<GraphHandle>());
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphDestroy(GraphHandle* graph) {
  return api([&](Context&) { return Graphs::get().remove(graph) ? Status::Success : Status::InvalidValue; });
}
ASSAY_API Status cudaGraphClone(GraphHandle** clone, GraphHandle* graph) {
  return api([&](Context&) {
    auto shared = Graphs::get().share(graph);
    if (!clone || !shared) return Status::InvalidValue;
    *clone = Graphs::get().add(shared->clone());
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphNodeFindInClone(GraphNode** found, GraphNode* original, GraphHandle* clone) {
  return api([&](Context&) {
    if (!found || !original || !Graphs::get().has(clone)) return Status::InvalidValue;
    *found = clone->clone_of(original);
    return *found ? Status::Success : Status::InvalidValue;
  });
}

ASSAY_API Status cudaGraphGetNodes(GraphHandle* graph, GraphNode** nodes, size_t* count) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || !count) return Status::InvalidValue;
    std::vector<GraphNode*> all;
    for (auto& node : graph->nodes) all.push_back(node.get());
    give_list(all, nodes, count);
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphGetRootNodes(GraphHandle* graph, GraphNode** nodes, size_t* count) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || !count) return Status::InvalidValue;
    std::vector<GraphNode*> all;
    for (auto& node : graph->nodes)
      if (node->after.empty()) all.push_back(node.get());
    give_list(all, nodes, count);
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphGetEdges(GraphHandle* graph, GraphNode** from, GraphNode** to, EdgeData* edges,
                                   size_t* count) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || !count || !from != !to) return Status::InvalidValue;
    std::vector<GraphNode*> starts, ends;
    for (auto& node : graph->nodes)
      for (GraphNode* before : node->after) {
        starts.push_back(before);
        ends.push_back(node.get());
      }
    size_t room = *count;
    give_list(starts, from, count);
    give_list(ends, to, &room);
    if (from) clear_edges(edges, *count);
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphNodeGetDependencies(GraphNode* node, GraphNode** found, EdgeData* edges,
                                              size_t* count) {
  return api([&](Context&) {
    if (!Graphs::get().has(node) || !count) return Status::InvalidValue;
    give_list(node->after, found, count);
    if (found) clear_edges(edges, *count);
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphNodeGetDependentNodes(GraphNode* node, GraphNode** found, EdgeData* edges,
                                                size_t* count) {
  return api([&](Context&) {
    if (!Graphs::get().has(node) || !count) return Status::InvalidValue;
    std::vector<GraphNode*> all;
    for (auto& other : node->graph->nodes)
      if (std::find(other->after.begin(), other->after.end(), node) != other->after.end())
        all.push_back(other.get());
    give_list(all, found, count);
    if (found) clear_edges(edges, *count);
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphNodeGetType(GraphNode* node, NodeKind* kind) {
  return api([&](Context&) {
    if (!Graphs::get().has(node) || !kind) return Status::InvalidValue;
    *kind = node_kind(node->spec);
    return Status::Success;
  });
}

ASSAY_API Status cudaGraphAddDependencies(GraphHandle* graph, Nodes from, Nodes to, const EdgeData*,
                                          size_t count) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || (count && (!from || !to))) return Status::InvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (!from[i] || !to[i] || from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i])
        return Status::InvalidValue;
      auto& after = to[i]->after;
      if (std::find(after.begin(), after.end(), from[i]) != after.end()) return Status::InvalidValue;
      after.push_back(from[i]);
    }
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphRemoveDependencies(GraphHandle* graph, Nodes from, Nodes to, const EdgeData*,
                                             size_t count) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || (count && (!from || !to))) return Status::InvalidValue;
    for (size_t i = 0; i < count; ++i)
      if (!to[i] || to[i]->graph != graph || std::erase(to[i]->after, from[i]) == 0)
        return Status::InvalidValue;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphDestroyNode(GraphNode* node) {
  return api([&](Context&) {
    if (!Graphs::get().has(node)) return Status::InvalidValue;
    GraphHandle* graph = node->graph;
    for (auto& other : graph->nodes) std::erase(other->after, node);
    std::erase_if(graph->nodes, [&](const auto& own) { return own.get() == node; });
    return Status::Success;
  });
}

ASSAY_API Status cudaGraphDebugDotPrint(GraphHandle* graph, const char* path, unsigned) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || !path) return Status::InvalidValue;
    std::ofstream file(path);
    if (!file) return Status::OperatingSystem;
    file << "digraph {\n";
    for (auto& node : graph->nodes) {
      auto* kernel = std::get_if<KernelSpec>(&node->spec);
      file << "  n" << node->origin << " [label=\"" << (kernel ? kernel->function->name : "node") << "\"];\n";
      for (GraphNode* before : node->after)
        file << "  n" << before->origin << " -> n" << node->origin << ";\n";
    }
    file << "}\n";
    return Status::Success;
  });
}
// ---- Objects whose life a graph prolongs ----

ASSAY_API Status cudaUserObjectCreate(UserObject** object, void* data, HostFunction destroy,
                                      unsigned references, unsigned flags) {
  return api([&](Context&) {
    if (!object || !destroy || references == 0 || flags != 1) return Status::InvalidValue;
    *object = new UserObject{data, destroy, references};
    return Status::Success;
  });
}
ASSAY_API Status cudaUserObjectRetain(UserObject* object, unsigned count) {
  return api([&](Context&) {
    if (!object || count == 0) return Status::InvalidValue;
    object->references += count;
    return Status::Success;
  });
}
ASSAY_API Status cudaUserObjectRelease(UserObject* object, unsigned count) {
  return api([&](Context&) {
    if (!object || count == 0) return Status::InvalidValue;
    release_user_object(object, count);
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphRetainUserObject(GraphHandle* graph, UserObject* object, unsigned count,
                                           unsigned flags) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || !object || count == 0) return Status::InvalidValue;
    if (!(flags & 1)) object->references += count;  // else the caller's references move
    graph->objects[object] += count;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphReleaseUserObject(GraphHandle* graph, UserObject* object, unsigned count) {
  return api([&](Context&) {
    if (!Graphs::get().has(graph) || !graph->objects.contains(object)) return Status::InvalidValue;
    unsigned& held = graph->objects[object];
    unsigned released = std::min(held, count);
    if ((held -= released) == 0) graph->objects.erase(object);
    release_user_object(object, released);
    return Status::Success;
  });
}
