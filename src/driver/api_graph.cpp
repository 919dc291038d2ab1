// cuGraph*, cuUserObject*: graphs, what was instantiated from them, and the objects that they keep.
#include <cstring>

#include "driver/copy.h"
#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

using Nodes = GraphNode* const*;

// ---- Graphs and their edges ----

FORWARD(cuGraphCreate, (GraphHandle * *graph, unsigned flags), cudaGraphCreate(graph, flags))
FORWARD(cuGraphDestroy, (GraphHandle * graph), cudaGraphDestroy(graph))
FORWARD(cuGraphClone, (GraphHandle * *clone, GraphHandle* graph), cudaGraphClone(clone, graph))
FORWARD(cuGraphNodeFindInClone, (GraphNode * *found, GraphNode* original, GraphHandle* clone),
        cudaGraphNodeFindInClone(found, original, clone))
FORWARD(cuGraphNodeGetType, (GraphNode * node, NodeKind* kind), cudaGraphNodeGetType(node, kind))
FORWARD(cuGraphGetNodes, (GraphHandle * graph, GraphNode** nodes, size_t* count),
        cudaGraphGetNodes(graph, nodes, count))
FORWARD(cuGraphGetRootNodes, (GraphHandle * graph, GraphNode** nodes, size_t* count),
        cudaGraphGetRootNodes(graph, nodes, count))
FORWARD(cuGraphDestroyNode, (GraphNode * node), cudaGraphDestroyNode(node))
FORWARD(cuGraphDebugDotPrint, (GraphHandle * graph, const char* path, unsigned flags),
        cudaGraphDebugDotPrint(graph, path, flags))

FORWARD(cuGraphGetEdges_v2,
        (GraphHandle * graph, GraphNode** from, GraphNode** to, EdgeData* edges, size_t* count),
        cudaGraphGetEdges(graph, from, to, edges, count))
FORWARD(cuGraphGetEdges, (GraphHandle * graph, GraphNode** from, GraphNode** to, size_t* count),
        cudaGraphGetEdges(graph, from, to, nullptr, count))
FORWARD(cuGraphNodeGetDependencies_v2, (GraphNode * node, GraphNode** found, EdgeData* edges, size_t* count),
        cudaGraphNodeGetDependencies(node, found, edges, count))
FORWARD(cuGraphNodeGetDependencies, (GraphNode * node, GraphNode** found, size_t* count),
        cudaGraphNodeGetDependencies(node, found, nullptr, count))
FORWARD(cuGraphNodeGetDependentNodes_v2,
        (GraphNode * node, GraphNode** found, EdgeData* edges, size_t* count),
        cudaGraphNodeGetDependentNodes(node, found, edges, count))
FORWARD(cuGraphNodeGetDependentNodes, (GraphNode * node, GraphNode** found, size_t* count),
        cudaGraphNodeGetDependentNodes(node, found, nullptr, count))
FORWARD(cuGraphAddDependencies_v2,
        (GraphHandle * graph, Nodes from, Nodes to, const EdgeData* edges, size_t count),
        cudaGraphAddDependencies(graph, from, to, edges, count))
FORWARD(cuGraphAddDependencies, (GraphHandle * graph, Nodes from, Nodes to, size_t count),
        cudaGraphAddDependencies(graph, from, to, nullptr, count))
FORWARD(cuGraphRemoveDependencies_v2,
        (GraphHandle * graph, Nodes from, Nodes to, const EdgeData* edges, size_t count),
        cudaGraphRemoveDependencies(graph, from, to, edges, count))
FORWARD(cuGraphRemoveDependencies, (GraphHandle * graph, Nodes from, Nodes to, size_t count),
        cudaGraphRemoveDependencies(graph, from, to, nullptr, count))

// ---- Kernel nodes ----

namespace {

// A kernel node names its kernel as a function of a module or as a kernel of a library; both are the same here.
KernelNodeParams plain(const DriverKernelNodeParams& params) {
  KernelNodeParams found = params.plain;
  if (!found.function) found.function = params.kernel;
  return found;
}

Status get_kernel_params(GraphNode* node, KernelNodeParams* params) {
  if (Status status = cudaGraphKernelNodeGetParams(node, params); status != Status::Success) return status;
  FunctionEntry* function = nullptr;  // the runtime names it by the function that stands for it on the host
  if (Status status = cudaGetFuncBySymbol(&function, params->function); status != Status::Success)
    return status;
  params->function = function;
  return Status::Success;
}

// `call(const KernelNodeParams*)`.
template <class Call>
Status with_plain(const DriverKernelNodeParams* params, Call call) {
  return in_context([&] {
    if (!params) return Status::InvalidValue;
    const KernelNodeParams found = plain(*params);
    return call(&found);
  });
}

}  // namespace

FORWARD(cuGraphAddKernelNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, const KernelNodeParams* params),
        cudaGraphAddKernelNode(node, graph, after, count, params))
DRIVER_API Status cuGraphAddKernelNode_v2(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                          const DriverKernelNodeParams* params) {
  return with_plain(params, [&](const KernelNodeParams* found) {
    return cudaGraphAddKernelNode(node, graph, after, count, found);
  });
}
FORWARD(cuGraphKernelNodeGetParams, (GraphNode * node, KernelNodeParams* params),
        get_kernel_params(node, params))
DRIVER_API Status cuGraphKernelNodeGetParams_v2(GraphNode* node, DriverKernelNodeParams* params) {
  return in_context([&] {
    if (!params) return Status::InvalidValue;
    params->kernel = nullptr;
    params->context = current();
    return get_kernel_params(node, &params->plain);
  });
}
FORWARD(cuGraphKernelNodeSetParams, (GraphNode * node, const KernelNodeParams* params),
        cudaGraphKernelNodeSetParams(node, params))
DRIVER_API Status cuGraphKernelNodeSetParams_v2(GraphNode* node, const DriverKernelNodeParams* params) {
  return with_plain(params,
                    [&](const KernelNodeParams* found) { return cudaGraphKernelNodeSetParams(node, found); });
}
FORWARD(cuGraphExecKernelNodeSetParams, (GraphExec * exec, GraphNode* node, const KernelNodeParams* params),
        cudaGraphExecKernelNodeSetParams(exec, node, params))
DRIVER_API Status cuGraphExecKernelNodeSetParams_v2(GraphExec* exec, GraphNode* node,
                                                    const DriverKernelNodeParams* params) {
  return with_plain(params, [&](const KernelNodeParams* found) {
    return cudaGraphExecKernelNodeSetParams(exec, node, found);
  });
}
FORWARD(cuGraphKernelNodeGetAttribute, (GraphNode * node, AttributeId id, AttributeValue* value),
        cudaGraphKernelNodeGetAttribute(node, id, value))
FORWARD(cuGraphKernelNodeSetAttribute, (GraphNode * node, AttributeId id, const AttributeValue* value),
        cudaGraphKernelNodeSetAttribute(node, id, value))
FORWARD(cuGraphKernelNodeCopyAttributes, (GraphNode * to, GraphNode* from),
        cudaGraphKernelNodeCopyAttributes(to, from))

// ---- Copy and fill nodes ----

namespace {

// `call(const Copy3D*)`.
template <class Call>
Status with_copy(const DriverCopy3D* copy, Call call) {
  return in_context([&] {
    Copy3D params;
    if (!copy) return Status::InvalidValue;
    if (Status status = runtime_copy(*copy, params); status != Status::Success) return status;
    return call(&params);
  });
}

}  // namespace

DRIVER_API Status cuGraphAddMemcpyNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                       const DriverCopy3D* copy, ContextHandle*) {
  return with_copy(
      copy, [&](const Copy3D* params) { return cudaGraphAddMemcpyNode(node, graph, after, count, params); });
}
DRIVER_API Status cuGraphMemcpyNodeGetParams(GraphNode* node, DriverCopy3D* copy) {
  return in_context([&] {
    Copy3D params;
    if (!copy) return Status::InvalidValue;
    if (Status status = cudaGraphMemcpyNodeGetParams(node, &params); status != Status::Success) return status;
    *copy = driver_copy(params);
    return Status::Success;
  });
}
DRIVER_API Status cuGraphMemcpyNodeSetParams(GraphNode* node, const DriverCopy3D* copy) {
  return with_copy(copy, [&](const Copy3D* params) { return cudaGraphMemcpyNodeSetParams(node, params); });
}
DRIVER_API Status cuGraphExecMemcpyNodeSetParams(GraphExec* exec, GraphNode* node, const DriverCopy3D* copy,
                                                 ContextHandle*) {
  return with_copy(
      copy, [&](const Copy3D* params) { return cudaGraphExecMemcpyNodeSetParams(exec, node, params); });
}

FORWARD(cuGraphAddMemsetNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, const MemsetParams* params,
         ContextHandle*),
        cudaGraphAddMemsetNode(node, graph, after, count, params))
FORWARD(cuGraphMemsetNodeGetParams, (GraphNode * node, MemsetParams* params),
        cudaGraphMemsetNodeGetParams(node, params))
FORWARD(cuGraphMemsetNodeSetParams, (GraphNode * node, const MemsetParams* params),
        cudaGraphMemsetNodeSetParams(node, params))
FORWARD(cuGraphExecMemsetNodeSetParams,
        (GraphExec * exec, GraphNode* node, const MemsetParams* params, ContextHandle*),
        cudaGraphExecMemsetNodeSetParams(exec, node, params))

// ---- Other nodes ----

FORWARD(cuGraphAddHostNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, const HostNodeParams* params),
        cudaGraphAddHostNode(node, graph, after, count, params))
FORWARD(cuGraphHostNodeGetParams, (GraphNode * node, HostNodeParams* params),
        cudaGraphHostNodeGetParams(node, params))
FORWARD(cuGraphHostNodeSetParams, (GraphNode * node, const HostNodeParams* params),
        cudaGraphHostNodeSetParams(node, params))
FORWARD(cuGraphExecHostNodeSetParams, (GraphExec * exec, GraphNode* node, const HostNodeParams* params),
        cudaGraphExecHostNodeSetParams(exec, node, params))
FORWARD(cuGraphAddChildGraphNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, GraphHandle* child),
        cudaGraphAddChildGraphNode(node, graph, after, count, child))
FORWARD(cuGraphChildGraphNodeGetGraph, (GraphNode * node, GraphHandle** graph),
        cudaGraphChildGraphNodeGetGraph(node, graph))
FORWARD(cuGraphExecChildGraphNodeSetParams, (GraphExec * exec, GraphNode* node, GraphHandle* child),
        cudaGraphExecChildGraphNodeSetParams(exec, node, child))
FORWARD(cuGraphAddEmptyNode, (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count),
        cudaGraphAddEmptyNode(node, graph, after, count))
FORWARD(cuGraphAddEventRecordNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, EventHandle* event),
        cudaGraphAddEventRecordNode(node, graph, after, count, event))
FORWARD(cuGraphEventRecordNodeGetEvent, (GraphNode * node, EventHandle** event),
        cudaGraphEventRecordNodeGetEvent(node, event))
FORWARD(cuGraphEventRecordNodeSetEvent, (GraphNode * node, EventHandle* event),
        cudaGraphEventRecordNodeSetEvent(node, event))
FORWARD(cuGraphExecEventRecordNodeSetEvent, (GraphExec * exec, GraphNode* node, EventHandle* event),
        cudaGraphExecEventRecordNodeSetEvent(exec, node, event))
FORWARD(cuGraphAddEventWaitNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, EventHandle* event),
        cudaGraphAddEventWaitNode(node, graph, after, count, event))
FORWARD(cuGraphEventWaitNodeGetEvent, (GraphNode * node, EventHandle** event),
        cudaGraphEventWaitNodeGetEvent(node, event))
FORWARD(cuGraphEventWaitNodeSetEvent, (GraphNode * node, EventHandle* event),
        cudaGraphEventWaitNodeSetEvent(node, event))
FORWARD(cuGraphExecEventWaitNodeSetEvent, (GraphExec * exec, GraphNode* node, EventHandle* event),
        cudaGraphExecEventWaitNodeSetEvent(exec, node, event))
FORWARD(cuGraphAddMemAllocNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, AllocNodeParams* params),
        cudaGraphAddMemAllocNode(node, graph, after, count, params))
FORWARD(cuGraphMemAllocNodeGetParams, (GraphNode * node, AllocNodeParams* params),
        cudaGraphMemAllocNodeGetParams(node, params))
FORWARD(cuGraphAddMemFreeNode,
        (GraphNode * *node, GraphHandle* graph, Nodes after, size_t count, void* pointer),
        cudaGraphAddMemFreeNode(node, graph, after, count, pointer))
FORWARD(cuGraphMemFreeNodeGetParams, (GraphNode * node, void** pointer),
        cudaGraphMemFreeNodeGetParams(node, pointer))

// ---- Nodes of any kind ----

namespace {

// The parameters in the runtime's layout: kernels and copies differ.
Status runtime_params(const DriverGraphNodeParams& given, GraphNodeParams& params) {
  static_assert(sizeof given == sizeof params);
  std::memcpy(&params, &given, sizeof params);
  if (given.kind == NodeKind::Kernel) params.kernel = plain(given.kernel);
  if (given.kind == NodeKind::Memcpy) {
    params.memcpy.flags = given.memcpy.flags;
    return runtime_copy(given.memcpy.copy, params.memcpy.copy);
  }
  return Status::Success;
}

// `call(GraphNodeParams*)` of the runtime. The address of an allocation node is returned in the parameters.
template <class Call>
Status with_params(DriverGraphNodeParams* given, Call call) {
  return in_context([&] {
    GraphNodeParams params;
    if (!given) return Status::InvalidValue;
    if (Status status = runtime_params(*given, params); status != Status::Success) return status;
    const Status status = call(&params);
    if (given->kind == NodeKind::Alloc) given->alloc = params.alloc;
    return status;
  });
}

}  // namespace

DRIVER_API Status cuGraphAddNode_v2(GraphNode** node, GraphHandle* graph, Nodes after, const EdgeData* edges,
                                    size_t count, DriverGraphNodeParams* given) {
  return with_params(given, [&](GraphNodeParams* params) {
    return cudaGraphAddNode(node, graph, after, edges, count, params);
  });
}
DRIVER_API Status cuGraphAddNode(GraphNode** node, GraphHandle* graph, Nodes after, size_t count,
                                 DriverGraphNodeParams* given) {
  return cuGraphAddNode_v2(node, graph, after, nullptr, count, given);
}
DRIVER_API Status cuGraphNodeSetParams(GraphNode* node, DriverGraphNodeParams* given) {
  return with_params(given, [&](GraphNodeParams* params) { return cudaGraphNodeSetParams(node, params); });
}
DRIVER_API Status cuGraphExecNodeSetParams(GraphExec* exec, GraphNode* node, DriverGraphNodeParams* given) {
  return with_params(given,
                     [&](GraphNodeParams* params) { return cudaGraphExecNodeSetParams(exec, node, params); });
}

// ---- Instantiated graphs ----

FORWARD(cuGraphInstantiateWithFlags, (GraphExec * *exec, GraphHandle* graph, unsigned long long flags),
        cudaGraphInstantiateWithFlags(exec, graph, flags))

namespace {

// Before CUDA 12 it said in words what was wrong.
Status instantiate_with_log(GraphExec** exec, GraphHandle* graph, GraphNode** error_node, char* log,
                            size_t bytes) {
  return in_context([&] {
    if (error_node) *error_node = nullptr;
    if (log && bytes) *log = '\0';
    return cudaGraphInstantiateWithFlags(exec, graph, 0);
  });
}

}  // namespace

DRIVER_API Status cuGraphInstantiate(GraphExec** exec, GraphHandle* graph, GraphNode** error_node, char* log,
                                     size_t bytes) {
  return instantiate_with_log(exec, graph, error_node, log, bytes);
}
DRIVER_API Status cuGraphInstantiate_v2(GraphExec** exec, GraphHandle* graph, GraphNode** error_node,
                                        char* log, size_t bytes) {
  return instantiate_with_log(exec, graph, error_node, log, bytes);
}
FORWARD(cuGraphInstantiateWithParams, (GraphExec * *exec, GraphHandle* graph, InstantiateParams* params),
        cudaGraphInstantiateWithParams(exec, graph, params))
FORWARD(cuGraphInstantiateWithParams_ptsz, (GraphExec * *exec, GraphHandle* graph, InstantiateParams* params),
        cudaGraphInstantiateWithParams(exec, graph, params))
FORWARD(cuGraphExecGetFlags, (GraphExec * exec, unsigned long long* flags),
        cudaGraphExecGetFlags(exec, flags))
FORWARD(cuGraphExecDestroy, (GraphExec * exec), cudaGraphExecDestroy(exec))
FORWARD_STREAM(cuGraphLaunch, (GraphExec * exec, StreamHandle* stream), cudaGraphLaunch(exec, stream))
FORWARD_STREAM(cuGraphUpload, (GraphExec * exec, StreamHandle* stream), cudaGraphUpload(exec, stream))
FORWARD(cuGraphExecUpdate_v2, (GraphExec * exec, GraphHandle* graph, UpdateResultInfo* info),
        cudaGraphExecUpdate(exec, graph, info))
DRIVER_API Status cuGraphExecUpdate(GraphExec* exec, GraphHandle* graph, GraphNode** error_node,
                                    UpdateResult* result) {
  return in_context([&] {
    UpdateResultInfo info{};
    const Status status = cudaGraphExecUpdate(exec, graph, &info);
    if (error_node) *error_node = info.error_node;
    if (result) *result = info.result;
    return status;
  });
}
FORWARD(cuGraphNodeSetEnabled, (GraphExec * exec, GraphNode* node, unsigned enabled),
        cudaGraphNodeSetEnabled(exec, node, enabled))
FORWARD(cuGraphNodeGetEnabled, (GraphExec * exec, GraphNode* node, unsigned* enabled),
        cudaGraphNodeGetEnabled(exec, node, enabled))

// ---- Objects whose life a graph prolongs ----

FORWARD(cuUserObjectCreate,
        (UserObject * *object, void* data, HostFunction destroy, unsigned references, unsigned flags),
        cudaUserObjectCreate(object, data, destroy, references, flags))
FORWARD(cuUserObjectRetain, (UserObject * object, unsigned count), cudaUserObjectRetain(object, count))
FORWARD(cuUserObjectRelease, (UserObject * object, unsigned count), cudaUserObjectRelease(object, count))
FORWARD(cuGraphRetainUserObject, (GraphHandle * graph, UserObject* object, unsigned count, unsigned flags),
        cudaGraphRetainUserObject(graph, object, count, flags))
FORWARD(cuGraphReleaseUserObject, (GraphHandle * graph, UserObject* object, unsigned count),
        cudaGraphReleaseUserObject(graph, object, count))
