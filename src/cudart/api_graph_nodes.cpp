// cudaGraph*Node*: the nodes of graphs, and of what was instantiated from them.
#include <algorithm>

#include "cudart/copy.h"
#include "cudart/launch.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

using Nodes = GraphNode* const*;

Status add_node(GraphNode** node, GraphHandle* graph, Nodes after, size_t count, NodeSpec spec) {
  if (!node || !Graphs::get().has(graph) || (count && !after)) return Status::InvalidValue;
  std::vector<GraphNode*> before(after, after + count);
  for (GraphNode* other : before)
    if (!other || other->graph != graph) return Status::InvalidValue;
  std::vector<GraphNode*> sorted = before;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return Status::InvalidValue;
  *node = graph->add(std::move(spec), std::move(before));
  return Status::Success;
}

// Makes a spec with `make(Context&, Spec&)` and adds it as a node.
template <class Spec, class Make>
Status add_made(GraphNode** node, GraphHandle* graph, Nodes after, size_t count, Make make) {
  return api([&](Context& context) {
    Spec spec;
    if (Status status = make(context, spec); status != Status::Success) return status;
    return add_node(node, graph, after, count, std::move(spec));
  });
}

// Replaces the spec of a node of the same kind.
template <class Spec, class Make>
Status set_made(GraphNode* node, Make make) {
  return api([&](Context& context) {
    if (!Graphs::get().has(node) || !std::holds_alternative<Spec>(node->spec)) return Status::InvalidValue;
    Spec spec;
    if (Status status = make(context, spec); status != Status::Success) return status;
    node->spec = std::move(spec);
    return Status::Success;
  });
}

// The same for the node of an instantiated graph that stands for `node`.
template <class Spec, class Make>
Status set_made(GraphExec* exec, GraphNode* node, Make make) {
  return api([&](Context& context) {
    if (!Graphs::get().exec(exec) || !node) return Status::InvalidValue;
    GraphNode* twin = exec->graph->clone_of(node);
    if (!twin || !std::holds_alternative<Spec>(twin->spec)) return Status::InvalidValue;
    Spec spec;
    if (Status status = make(context, spec); status != Status::Success) return status;
    twin->spec = std::move(spec);
    return Status::Success;
  });
}

auto kernel_maker(const KernelNodeParams* params) {
  return [=](Context& context, KernelSpec& spec) {
    if (!params) return Status::InvalidValue;
    return make_kernel_spec(context,
                            {.function = params->function,
                             .grid = params->grid,
                             .block = params->block,
                             .shared_bytes = params->shared_bytes,
                             .attributes = {},
                             .arguments = params->parameters,
                             .extra = params->extra},
                            spec);
  };
}

auto copy_maker(const Copy3D* params) {
  return [=](Context& context, CopySpec& spec) {
    if (!params) return Status::InvalidValue;
    CopyRequest request;
    if (Status status = request_of(*params, request); status != Status::Success) return status;
    Status status = make_copy_spec(context, request, spec);
    spec.params = *params;
    return status;
  };
}

auto flat_maker(void* to, const void* from, size_t bytes, CopyKind kind) {
  return [=](Context& context, CopySpec& spec) {
    CopyRequest request{
        .to = to, .from = from, .to_pitch = bytes, .from_pitch = bytes, .width = bytes, .kind = kind};
    return make_copy_spec(context, request, spec);
  };
}

auto symbol_maker(void* memory, const void* symbol, size_t bytes, size_t offset, CopyKind kind,
                  bool to_symbol) {
  return [=](Context& context, CopySpec& spec) {
    void* address = nullptr;
    if (Status status = Runtime::get().modules().part_of_variable(symbol, offset, bytes, context, address);
        status != Status::Success)
      return status;
    return to_symbol ? flat_maker(address, memory, bytes, kind)(context, spec)
                     : flat_maker(memory, address, bytes, kind)(context, spec);
  };
}

auto memset_maker(const MemsetParams* params) {
  return [=](Context& context, MemsetSpec& spec) {
    return params ? make_memset_spec(context, *params, 1, 0, spec) : Status::InvalidValue;
  };
}

auto host_maker(const HostNodeParams* params) {
  return [=](Context&, HostSpec& spec) {
    if (!params || !params->call) return Status::InvalidValue;
    spec.params = *params;
    return Status::Success;
  };
}

template <class Spec>
auto event_maker(EventHandle* event) {
  return [=](Context& context, Spec& spec) {
    if (!event || !context.has(event)) return Status::InvalidResourceHandle;
    spec.event = event;
    return Status::Success;
  };
}

auto child_maker(GraphHandle* graph) {
  return [=](Context&, ChildSpec& spec) {
    auto shared = Graphs::get().share(graph);
    if (!shared) return Status::InvalidValue;
    spec.graph = shared->clone();
    return Status::Success;
  };
}

// Memory of a graph lives as long as the device: its address must stay the same from launch to launch.
auto alloc_maker(AllocNodeParams* params) {
  return [=](Context& context, AllocSpec& spec) {
    if (!params || params->bytes == 0) return Status::InvalidValue;
    auto address =
        context.memory().allocate(params->bytes, 512, assay::vgpu::MemoryKind::Device, "graph memory");
    if (!address) return Status::MemoryAllocation;
    context.add_graph_memory(*address, params->bytes);
    params->pointer = reinterpret_cast<void*>(*address);
    spec.params = *params;
    return Status::Success;
  };
}

template <class Spec>
Spec* spec_of(GraphNode* node) {
  return Graphs::get().has(node) ? std::get_if<Spec>(&node->spec) : nullptr;
}
}  // namespace

// ---- Nodes: add ----

ASSAY_API Status cudaGraphAddEmptyNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count) {
  return api([&](Context&) { return add_node(node, graph, after, count, EmptySpec{}); });
}
ASSAY_API Status cudaGraphAddKernelNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                        const KernelNodeParams* params) {
  return add_made<KernelSpec>(node, graph, after, count, kernel_maker(params));
}
ASSAY_API Status cudaGraphAddMemcpyNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                        const Copy3D* params) {
  return add_made<CopySpec>(node, graph, after, count, copy_maker(params));
}
ASSAY_API Status cudaGraphAddMemcpyNode1D(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                          void* to, const void* from, size_t bytes, CopyKind kind) {
  return add_made<CopySpec>(node, graph, after, count, flat_maker(to, from, bytes, kind));
}
ASSAY_API Status cudaGraphAddMemcpyNodeToSymbol(GraphNode** node, GraphHandle* graph, Nodes after,
                                                size_t count, const void* symbol, const void* from,
                                                size_t bytes, size_t offset, CopyKind kind) {
  return add_made<CopySpec>(node, graph, after, count,
                            symbol_maker(const_cast<void*>(from), symbol, bytes, offset, kind, true));
}
ASSAY_API Status cudaGraphAddMemcpyNodeFromSymbol(GraphNode** node, GraphHandle* graph, Nodes after,
                                                  size_t count, void* to, const void* symbol, size_t bytes,
                                                  size_t offset, CopyKind kind) {
  return add_made<CopySpec>(node, graph, after, count, symbol_maker(to, symbol, bytes, offset, kind, false));
}
ASSAY_API Status cudaGraphAddMemsetNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                        const MemsetParams* params) {
  return add_made<MemsetSpec>(node, graph, after, count, memset_maker(params));
}
ASSAY_API Status cudaGraphAddHostNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                      const HostNodeParams* params) {
  return add_made<HostSpec>(node, graph, after, count, host_maker(params));
}
ASSAY_API Status cudaGraphAddChildGraphNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                            GraphHandle* child) {
  return add_made<ChildSpec>(node, graph, after, count, child_maker(child));
}
ASSAY_API Status cudaGraphAddEventRecordNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                             EventHandle* event) {
  return add_made<RecordSpec>(node, graph, after, count, event_maker<RecordSpec>(event));
}
ASSAY_API Status cudaGraphAddEventWaitNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                           EventHandle* event) {
  return add_made<WaitSpec>(node, graph, after, count, event_maker<WaitSpec>(event));
}
ASSAY_API Status cudaGraphAddMemAllocNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                          AllocNodeParams* params) {
  return add_made<AllocSpec>(node, graph, after, count, alloc_maker(params));
}
ASSAY_API Status cudaGraphAddMemFreeNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                         void* pointer) {
  return api([&](Context&) {
    return pointer ? add_node(node, graph, after, count, FreeSpec{pointer}) : Status::InvalidValue;
  });
}

ASSAY_API Status cudaGraphAddNode(GraphNode** node, GraphHandle* graph, Nodes after, const EdgeData*,
                                  size_t count, GraphNodeParams* params) {
  if (!params) return note(Status::InvalidValue);
  switch (params->kind) {
    case NodeKind::Kernel:
      return cudaGraphAddKernelNode(node, graph, after, count, &params->kernel);
    case NodeKind::Memcpy:
      return cudaGraphAddMemcpyNode(node, graph, after, count, &params->memcpy.copy);
    case NodeKind::Memset:
      return cudaGraphAddMemsetNode(node, graph, after, count, &params->memset);
    case NodeKind::Host:
      return cudaGraphAddHostNode(node, graph, after, count, &params->host);
    case NodeKind::Graph:
      return cudaGraphAddChildGraphNode(node, graph, after, count, params->child.graph);
    case NodeKind::Empty:
      return cudaGraphAddEmptyNode(node, graph, after, count);
    case NodeKind::WaitEvent:
      return cudaGraphAddEventWaitNode(node, graph, after, count, params->event);
    case NodeKind::RecordEvent:
      return cudaGraphAddEventRecordNode(node, graph, after, count, params->event);
    case NodeKind::Alloc:
      return cudaGraphAddMemAllocNode(node, graph, after, count, &params->alloc);
    case NodeKind::Free:
      return cudaGraphAddMemFreeNode(node, graph, after, count, params->free);
    default:
      return not_supported("cudaGraphAddNode of a conditional or semaphore node");
  }
}

// ---- Nodes: get ----

ASSAY_API Status cudaGraphKernelNodeGetParams(GraphNode* node, KernelNodeParams* params) {
  return api([&](Context&) {
    auto* kernel = spec_of<KernelSpec>(node);
    if (!kernel || !params) return Status::InvalidValue;
    const auto& offsets = kernel->function->kernel->function->parameter_offsets;
    node->parameter_pointers.clear();
    for (uint32_t offset : offsets) node->parameter_pointers.push_back(kernel->parameters.data() + offset);
    void* function = kernel->function->host ? const_cast<void*>(kernel->function->host) : kernel->function;
    *params = {function,
               kernel->grid,
               kernel->block,
               kernel->shared_bytes,
               node->parameter_pointers.empty() ? nullptr : node->parameter_pointers.data(),
               nullptr};
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphMemcpyNodeGetParams(GraphNode* node, Copy3D* params) {
  return api([&](Context&) {
    auto* copy = spec_of<CopySpec>(node);
    if (!copy || !params) return Status::InvalidValue;
    *params = copy->params;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphMemsetNodeGetParams(GraphNode* node, MemsetParams* params) {
  return api([&](Context&) {
    auto* memset = spec_of<MemsetSpec>(node);
    if (!memset || !params) return Status::InvalidValue;
    *params = memset->params;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphHostNodeGetParams(GraphNode* node, HostNodeParams* params) {
  return api([&](Context&) {
    auto* host = spec_of<HostSpec>(node);
    if (!host || !params) return Status::InvalidValue;
    *params = host->params;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphChildGraphNodeGetGraph(GraphNode* node, GraphHandle** graph) {
  return api([&](Context&) {
    auto* child = spec_of<ChildSpec>(node);
    if (!child || !graph) return Status::InvalidValue;
    *graph = child->graph.get();
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphEventRecordNodeGetEvent(GraphNode* node, EventHandle** event) {
  return api([&](Context&) {
    auto* record = spec_of<RecordSpec>(node);
    if (!record || !event) return Status::InvalidValue;
    *event = record->event;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphEventWaitNodeGetEvent(GraphNode* node, EventHandle** event) {
  return api([&](Context&) {
    auto* wait = spec_of<WaitSpec>(node);
    if (!wait || !event) return Status::InvalidValue;
    *event = wait->event;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphMemAllocNodeGetParams(GraphNode* node, AllocNodeParams* params) {
  return api([&](Context&) {
    auto* alloc = spec_of<AllocSpec>(node);
    if (!alloc || !params) return Status::InvalidValue;
    *params = alloc->params;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphMemFreeNodeGetParams(GraphNode* node, void* pointer) {
  return api([&](Context&) {
    auto* free = spec_of<FreeSpec>(node);
    if (!free || !pointer) return Status::InvalidValue;
    *static_cast<void**>(pointer) = free->pointer;
    return Status::Success;
  });
}

// ---- Nodes: set, in a graph and in what was instantiated from it ----

ASSAY_API Status cudaGraphKernelNodeSetParams(GraphNode* node, const KernelNodeParams* params) {
  return set_made<KernelSpec>(node, kernel_maker(params));
}
ASSAY_API Status cudaGraphExecKernelNodeSetParams(GraphExec* exec, GraphNode* node,
                                                  const KernelNodeParams* params) {
  return set_made<KernelSpec>(exec, node, kernel_maker(params));
}
ASSAY_API Status cudaGraphMemcpyNodeSetParams(GraphNode* node, const Copy3D* params) {
  return set_made<CopySpec>(node, copy_maker(params));
}
ASSAY_API Status cudaGraphExecMemcpyNodeSetParams(GraphExec* exec, GraphNode* node, const Copy3D* params) {
  return set_made<CopySpec>(exec, node, copy_maker(params));
}
ASSAY_API Status cudaGraphMemcpyNodeSetParams1D(GraphNode* node, void* to, const void* from, size_t bytes,
                                                CopyKind kind) {
  return set_made<CopySpec>(node, flat_maker(to, from, bytes, kind));
}
ASSAY_API Status cudaGraphExecMemcpyNodeSetParams1D(GraphExec* exec, GraphNode* node, void* to,
                                                    const void* from, size_t bytes, CopyKind kind) {
  return set_made<CopySpec>(exec, node, flat_maker(to, from, bytes, kind));
}
ASSAY_API Status cudaGraphMemcpyNodeSetParamsToSymbol(GraphNode* node, const void* symbol, const void* from,
                                                      size_t bytes, size_t offset, CopyKind kind) {
  return set_made<CopySpec>(node, symbol_maker(const_cast<void*>(from), symbol, bytes, offset, kind, true));
}
ASSAY_API Status cudaGraphExecMemcpyNodeSetParamsToSymbol(GraphExec* exec, GraphNode* node,
                                                          const void* symbol, const void* from, size_t bytes,
                                                          size_t offset, CopyKind kind) {
  return set_made<CopySpec>(exec, node,
                            symbol_maker(const_cast<void*>(from), symbol, bytes, offset, kind, true));
}
ASSAY_API Status cudaGraphMemcpyNodeSetParamsFromSymbol(GraphNode* node, void* to, const void* symbol,
                                                        size_t bytes, size_t offset, CopyKind kind) {
  return set_made<CopySpec>(node, symbol_maker(to, symbol, bytes, offset, kind, false));
}
ASSAY_API Status cudaGraphExecMemcpyNodeSetParamsFromSymbol(GraphExec* exec, GraphNode* node, void* to,
                                                            const void* symbol, size_t bytes, size_t offset,
                                                            CopyKind kind) {
  return set_made<CopySpec>(exec, node, symbol_maker(to, symbol, bytes, offset, kind, false));
}
ASSAY_API Status cudaGraphMemsetNodeSetParams(GraphNode* node, const MemsetParams* params) {
  return set_made<MemsetSpec>(node, memset_maker(params));
}
ASSAY_API Status cudaGraphExecMemsetNodeSetParams(GraphExec* exec, GraphNode* node,
                                                  const MemsetParams* params) {
  return set_made<MemsetSpec>(exec, node, memset_maker(params));
}
ASSAY_API Status cudaGraphHostNodeSetParams(GraphNode* node, const HostNodeParams* params) {
  return set_made<HostSpec>(node, host_maker(params));
}
ASSAY_API Status cudaGraphExecHostNodeSetParams(GraphExec* exec, GraphNode* node,
                                                const HostNodeParams* params) {
  return set_made<HostSpec>(exec, node, host_maker(params));
}
ASSAY_API Status cudaGraphExecChildGraphNodeSetParams(GraphExec* exec, GraphNode* node, GraphHandle* child) {
  return set_made<ChildSpec>(exec, node, child_maker(child));
}
ASSAY_API Status cudaGraphEventRecordNodeSetEvent(GraphNode* node, EventHandle* event) {
  return set_made<RecordSpec>(node, event_maker<RecordSpec>(event));
}
ASSAY_API Status cudaGraphExecEventRecordNodeSetEvent(GraphExec* exec, GraphNode* node, EventHandle* event) {
  return set_made<RecordSpec>(exec, node, event_maker<RecordSpec>(event));
}
ASSAY_API Status cudaGraphEventWaitNodeSetEvent(GraphNode* node, EventHandle* event) {
  return set_made<WaitSpec>(node, event_maker<WaitSpec>(event));
}
ASSAY_API Status cudaGraphExecEventWaitNodeSetEvent(GraphExec* exec, GraphNode* node, EventHandle* event) {
  return set_made<WaitSpec>(exec, node, event_maker<WaitSpec>(event));
}

ASSAY_API Status cudaGraphNodeSetParams(GraphNode* node, GraphNodeParams* params) {
  if (!params) return note(Status::InvalidValue);
  switch (params->kind) {
    case NodeKind::Kernel:
      return cudaGraphKernelNodeSetParams(node, &params->kernel);
    case NodeKind::Memcpy:
      return cudaGraphMemcpyNodeSetParams(node, &params->memcpy.copy);
    case NodeKind::Memset:
      return cudaGraphMemsetNodeSetParams(node, &params->memset);
    case NodeKind::Host:
      return cudaGraphHostNodeSetParams(node, &params->host);
    case NodeKind::WaitEvent:
      return cudaGraphEventWaitNodeSetEvent(node, params->event);
    case NodeKind::RecordEvent:
      return cudaGraphEventRecordNodeSetEvent(node, params->event);
    default:
      return not_supported("cudaGraphNodeSetParams of this kind of node");
  }
}
ASSAY_API Status cudaGraphExecNodeSetParams(GraphExec* exec, GraphNode* node, GraphNodeParams* params) {
  if (!params) return note(Status::InvalidValue);
  switch (params->kind) {
    case NodeKind::Kernel:
      return cudaGraphExecKernelNodeSetParams(exec, node, &params->kernel);
    case NodeKind::Memcpy:
      return cudaGraphExecMemcpyNodeSetParams(exec, node, &params->memcpy.copy);
    case NodeKind::Memset:
      return cudaGraphExecMemsetNodeSetParams(exec, node, &params->memset);
    case NodeKind::Host:
      return cudaGraphExecHostNodeSetParams(exec, node, &params->host);
    case NodeKind::Graph:
      return cudaGraphExecChildGraphNodeSetParams(exec, node, params->child.graph);
    case NodeKind::WaitEvent:
      return cudaGraphExecEventWaitNodeSetEvent(exec, node, params->event);
    case NodeKind::RecordEvent:
      return cudaGraphExecEventRecordNodeSetEvent(exec, node, params->event);
    default:
      return not_supported("cudaGraphExecNodeSetParams of this kind of node");
  }
}

ASSAY_API Status cudaGraphKernelNodeSetAttribute(GraphNode* node, AttributeId id,
                                                 const AttributeValue* value) {
  return api([&](Context&) {
    auto* kernel = spec_of<KernelSpec>(node);
    if (!kernel || !value) return Status::InvalidValue;
    if (id == AttributeId::Cooperative) kernel->cooperative = value->number != 0;
    if (id == AttributeId::ClusterDimension) kernel->cluster = value->dim;
    kernel->attributes[id] = *value;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphKernelNodeGetAttribute(GraphNode* node, AttributeId id, AttributeValue* value) {
  return api([&](Context&) {
    auto* kernel = spec_of<KernelSpec>(node);
    if (!kernel || !value) return Status::InvalidValue;
    auto found = kernel->attributes.find(id);
    *value = found == kernel->attributes.end() ? AttributeValue{} : found->second;
    return Status::Success;
  });
}
ASSAY_API Status cudaGraphKernelNodeCopyAttributes(GraphNode* to, GraphNode* from) {
  return api([&](Context&) {
    auto *target = spec_of<KernelSpec>(to), *source = spec_of<KernelSpec>(from);
    if (!target || !source) return Status::InvalidValue;
    target->attributes = source->attributes;
    target->cooperative = source->cooperative;
    target->cluster = source->cluster;
    return Status::Success;
  });
}
