// The entry points of libcudart.so.13 that libcuda.so.1 is built on: the CUDA runtime API under our own types,
// and a few functions of ours for what that API cannot express. The runtime owns all state; the driver library
// translates.
//
// Example:
//
//     void* memory = nullptr;
//     *assay_in_driver() = true;
//     const Status status = cudaMalloc(&memory, 1024);
//     *assay_in_driver() = false;
//     if (status == Status::Success) cudaFree(memory);
#pragma once

#include "cudart/abi.h"

#define ASSAY_API extern "C" __attribute__((visibility("default")))

namespace assay::cudart {

// ---- The device, versions, errors ----
ASSAY_API const char* cudaGetErrorName(Status status);
ASSAY_API const char* cudaGetErrorString(Status status);
ASSAY_API Status cudaGetDeviceCount(int* count);
ASSAY_API Status cudaGetDeviceProperties(DeviceProperties* properties, int device);
ASSAY_API Status cudaDeviceGetAttribute(int* value, int attribute, int device);
ASSAY_API Status cudaDeviceSynchronize();
ASSAY_API Status cudaDeviceReset();
ASSAY_API Status cudaDeviceGetLimit(size_t* value, Limit limit);
ASSAY_API Status cudaDeviceSetLimit(Limit limit, size_t value);
ASSAY_API Status cudaDeviceGetCacheConfig(int* config);
ASSAY_API Status cudaDeviceSetCacheConfig(int config);
ASSAY_API Status cudaDeviceGetSharedMemConfig(int* config);
ASSAY_API Status cudaDeviceSetSharedMemConfig(int config);
ASSAY_API Status cudaCtxResetPersistingL2Cache();
ASSAY_API Status cudaDeviceGetPCIBusId(char* text, int size, int device);
ASSAY_API Status cudaDeviceGetByPCIBusId(int* device, const char* text);
ASSAY_API Status cudaDeviceCanAccessPeer(int* can, int device, int peer);
ASSAY_API Status cudaDeviceEnablePeerAccess(int device, unsigned);
ASSAY_API Status cudaDeviceDisablePeerAccess(int device);
ASSAY_API Status cudaDeviceGetP2PAttribute(int*, int, int, int);
ASSAY_API Status cudaDriverGetVersion(int* version);
ASSAY_API Status cudaProfilerStart();
ASSAY_API Status cudaProfilerStop();

// ---- Kernels and launches ----
ASSAY_API Status cudaGetFuncBySymbol(FunctionEntry** function, const void* symbol);
ASSAY_API Status cudaFuncGetName(const char** name, const void* function);
ASSAY_API Status cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* size);
ASSAY_API Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function);
ASSAY_API Status cudaFuncSetAttribute(const void* function, FunctionAttribute attribute, int value);
ASSAY_API Status cudaFuncSetCacheConfig(const void* function, int config);
ASSAY_API Status cudaFuncSetSharedMemConfig(const void* function, int config);
ASSAY_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                        int threads, size_t dynamic_shared,
                                                                        unsigned flags);
ASSAY_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                               size_t dynamic_shared);
ASSAY_API Status cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks,
                                                           int threads);
ASSAY_API Status cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                      const LaunchConfiguration* configuration);
ASSAY_API Status cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                const LaunchConfiguration* configuration);

// ---- Device code ----
ASSAY_API Status cudaLibraryLoadData(LibraryHandle** library, const void* code, int*, void**, unsigned, int*,
                                     void**, unsigned);
ASSAY_API Status cudaLibraryLoadFromFile(LibraryHandle** library, const char* path, int*, void**, unsigned,
                                         int*, void**, unsigned);
ASSAY_API Status cudaLibraryUnload(LibraryHandle* library);
ASSAY_API Status cudaLibraryGetKernel(FunctionEntry** kernel, LibraryHandle* library, const char* name);
ASSAY_API Status cudaLibraryGetKernelCount(unsigned* count, LibraryHandle* library);
ASSAY_API Status cudaLibraryEnumerateKernels(FunctionEntry** kernels, unsigned count, LibraryHandle* library);
ASSAY_API Status cudaLibraryGetGlobal(void** pointer, size_t* bytes, LibraryHandle* library,
                                      const char* name);
ASSAY_API Status cudaLibraryGetManaged(void** pointer, size_t* bytes, LibraryHandle* library,
                                       const char* name);

// ---- Memory ----
ASSAY_API Status cudaMalloc(void** pointer, size_t size);
ASSAY_API Status cudaFree(void* pointer);
ASSAY_API Status cudaMallocManaged(void** pointer, size_t size, unsigned flags);
ASSAY_API Status cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height);
ASSAY_API Status cudaMallocHost(void** pointer, size_t size);
ASSAY_API Status cudaHostAlloc(void** pointer, size_t size, unsigned flags);
ASSAY_API Status cudaFreeHost(void* pointer);
ASSAY_API Status cudaHostRegister(void* pointer, size_t size, unsigned flags);
ASSAY_API Status cudaHostUnregister(void* pointer);
ASSAY_API Status cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
ASSAY_API Status cudaHostGetFlags(unsigned* flags, void* host);
ASSAY_API Status cudaMallocAsync(void** pointer, size_t size, StreamHandle* stream);
ASSAY_API Status cudaMallocFromPoolAsync(void** pointer, size_t size, PoolHandle* pool, StreamHandle* stream);
ASSAY_API Status cudaFreeAsync(void* pointer, StreamHandle* handle);
ASSAY_API Status cudaMemGetInfo(size_t* free, size_t* total);
ASSAY_API Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer);
ASSAY_API Status cudaMemPrefetchAsync(const void* pointer, size_t bytes, MemoryLocation location, unsigned,
                                      StreamHandle* stream);
ASSAY_API Status cudaMemAdvise(const void* pointer, size_t bytes, int advice, MemoryLocation);
ASSAY_API Status cudaStreamAttachMemAsync(StreamHandle* stream, void* pointer, size_t, unsigned);
ASSAY_API Status cudaDeviceGetDefaultMemPool(PoolHandle** pool, int device);
ASSAY_API Status cudaDeviceGetMemPool(PoolHandle** pool, int device);
ASSAY_API Status cudaDeviceSetMemPool(int device, PoolHandle* pool);
ASSAY_API Status cudaMemGetDefaultMemPool(PoolHandle** pool, MemoryLocation* location, int allocation_kind);
ASSAY_API Status cudaMemGetMemPool(PoolHandle** pool, MemoryLocation* location, int allocation_kind);
ASSAY_API Status cudaMemSetMemPool(MemoryLocation* location, int allocation_kind, PoolHandle* pool);
ASSAY_API Status cudaMemPoolCreate(PoolHandle** pool, const PoolProperties* properties);
ASSAY_API Status cudaMemPoolDestroy(PoolHandle* pool);
ASSAY_API Status cudaMemPoolTrimTo(PoolHandle* pool, size_t);
ASSAY_API Status cudaMemPoolSetAccess(PoolHandle* pool, const AccessDescription*, size_t);
ASSAY_API Status cudaMemPoolGetAccess(int* flags, PoolHandle* pool, MemoryLocation* location);
ASSAY_API Status cudaMemPoolGetAttribute(PoolHandle* pool, PoolAttribute attribute, void* value);
ASSAY_API Status cudaMemPoolSetAttribute(PoolHandle* pool, PoolAttribute attribute, void* value);
ASSAY_API Status cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value);
ASSAY_API Status cudaDeviceSetGraphMemAttribute(int device, int attribute, void* value);
ASSAY_API Status cudaDeviceGraphMemTrim(int device);

// ---- Copies and fills ----
ASSAY_API Status cudaMemcpy(void* to, const void* from, size_t bytes, CopyKind kind);
ASSAY_API Status cudaMemcpy_ptds(void* to, const void* from, size_t bytes, CopyKind kind);
ASSAY_API Status cudaMemcpyAsync(void* to, const void* from, size_t bytes, CopyKind kind,
                                 StreamHandle* stream);
ASSAY_API Status cudaMemcpy3D(const Copy3D* params);
ASSAY_API Status cudaMemcpy3D_ptds(const Copy3D* params);
ASSAY_API Status cudaMemcpy3DAsync(const Copy3D* params, StreamHandle* stream);
ASSAY_API Status cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes,
                                      size_t count, void*, size_t*, size_t, StreamHandle* handle);

// ---- Streams, events, capture ----
ASSAY_API Status cudaStreamCreateWithFlags(StreamHandle** stream, unsigned flags);
ASSAY_API Status cudaStreamCreateWithPriority(StreamHandle** stream, unsigned flags, int priority);
ASSAY_API Status cudaStreamDestroy(StreamHandle* handle);
ASSAY_API Status cudaStreamSynchronize(StreamHandle* handle);
ASSAY_API Status cudaStreamQuery(StreamHandle* handle);
ASSAY_API Status cudaStreamWaitEvent(StreamHandle* handle, EventHandle* event, unsigned flags);
ASSAY_API Status cudaStreamAddCallback(StreamHandle* handle, StreamCallback callback, void* data,
                                       unsigned flags);
ASSAY_API Status cudaLaunchHostFunc(StreamHandle* handle, HostFunction call, void* data);
ASSAY_API Status cudaStreamGetPriority(StreamHandle* handle, int* priority);
ASSAY_API Status cudaStreamGetFlags(StreamHandle* handle, unsigned* flags);
ASSAY_API Status cudaStreamGetId(StreamHandle* handle, unsigned long long* id);
ASSAY_API Status cudaStreamGetDevice(StreamHandle* handle, int* device);
ASSAY_API Status cudaStreamSetAttribute(StreamHandle* handle, AttributeId id, const AttributeValue* value);
ASSAY_API Status cudaStreamGetAttribute(StreamHandle* handle, AttributeId id, AttributeValue* value);
ASSAY_API Status cudaStreamCopyAttributes(StreamHandle* to, StreamHandle* from);
ASSAY_API Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
ASSAY_API Status cudaEventCreateWithFlags(EventHandle** event, unsigned flags);
ASSAY_API Status cudaEventDestroy(EventHandle* event);
ASSAY_API Status cudaEventRecordWithFlags(EventHandle* event, StreamHandle* handle, unsigned flags);
ASSAY_API Status cudaEventRecord(EventHandle* event, StreamHandle* stream);
ASSAY_API Status cudaEventQuery(EventHandle* handle);
ASSAY_API Status cudaEventSynchronize(EventHandle* handle);
ASSAY_API Status cudaEventElapsedTime(float* milliseconds, EventHandle* start, EventHandle* end);
ASSAY_API Status cudaStreamBeginCapture(StreamHandle* handle, CaptureMode mode);
ASSAY_API Status cudaStreamBeginCaptureToGraph(StreamHandle* handle, GraphHandle* graph,
                                               GraphNode* const* after, const EdgeData*, size_t count,
                                               CaptureMode mode);
ASSAY_API Status cudaStreamEndCapture(StreamHandle* handle, GraphHandle** graph);
ASSAY_API Status cudaStreamIsCapturing(StreamHandle* handle, CaptureStatus* status);
ASSAY_API Status cudaStreamGetCaptureInfo(StreamHandle* handle, CaptureStatus* status, unsigned long long* id,
                                          GraphHandle** graph, GraphNode* const** after,
                                          const EdgeData** edges, size_t* count);
ASSAY_API Status cudaStreamUpdateCaptureDependencies(StreamHandle* handle, GraphNode** nodes, const EdgeData*,
                                                     size_t count, unsigned flags);
ASSAY_API Status cudaThreadExchangeStreamCaptureMode(CaptureMode* mode);

// ---- Graphs ----
ASSAY_API Status cudaGraphCreate(GraphHandle** graph, unsigned flags);
ASSAY_API Status cudaGraphDestroy(GraphHandle* graph);
ASSAY_API Status cudaGraphClone(GraphHandle** clone, GraphHandle* graph);
ASSAY_API Status cudaGraphNodeFindInClone(GraphNode** found, GraphNode* original, GraphHandle* clone);
ASSAY_API Status cudaGraphGetNodes(GraphHandle* graph, GraphNode** nodes, size_t* count);
ASSAY_API Status cudaGraphGetRootNodes(GraphHandle* graph, GraphNode** nodes, size_t* count);
ASSAY_API Status cudaGraphGetEdges(GraphHandle* graph, GraphNode** from, GraphNode** to, EdgeData* edges,
                                   size_t* count);
ASSAY_API Status cudaGraphNodeGetDependencies(GraphNode* node, GraphNode** found, EdgeData* edges,
                                              size_t* count);
ASSAY_API Status cudaGraphNodeGetDependentNodes(GraphNode* node, GraphNode** found, EdgeData* edges,
                                                size_t* count);
ASSAY_API Status cudaGraphNodeGetType(GraphNode* node, NodeKind* kind);
ASSAY_API Status cudaGraphAddDependencies(GraphHandle* graph, GraphNode* const* from, GraphNode* const* to,
                                          const EdgeData*, size_t count);
ASSAY_API Status cudaGraphRemoveDependencies(GraphHandle* graph, GraphNode* const* from, GraphNode* const* to,
                                             const EdgeData*, size_t count);
ASSAY_API Status cudaGraphDestroyNode(GraphNode* node);
ASSAY_API Status cudaGraphDebugDotPrint(GraphHandle* graph, const char* path, unsigned);
ASSAY_API Status cudaUserObjectCreate(UserObject** object, void* data, HostFunction destroy,
                                      unsigned references, unsigned flags);
ASSAY_API Status cudaUserObjectRetain(UserObject* object, unsigned count);
ASSAY_API Status cudaUserObjectRelease(UserObject* object, unsigned count);
ASSAY_API Status cudaGraphRetainUserObject(GraphHandle* graph, UserObject* object, unsigned count,
                                           unsigned flags);
ASSAY_API Status cudaGraphReleaseUserObject(GraphHandle* graph, UserObject* object, unsigned count);

// ---- Instantiated graphs ----
ASSAY_API Status cudaGraphInstantiateWithFlags(GraphExec** exec, GraphHandle* graph,
                                               unsigned long long flags);
ASSAY_API Status cudaGraphInstantiateWithParams(GraphExec** exec, GraphHandle* graph,
                                                InstantiateParams* params);
ASSAY_API Status cudaGraphExecGetFlags(GraphExec* exec, unsigned long long* flags);
ASSAY_API Status cudaGraphExecDestroy(GraphExec* exec);
ASSAY_API Status cudaGraphLaunch(GraphExec* exec, StreamHandle* handle);
ASSAY_API Status cudaGraphUpload(GraphExec* exec, StreamHandle* handle);
ASSAY_API Status cudaGraphExecUpdate(GraphExec* exec, GraphHandle* graph, UpdateResultInfo* info);
ASSAY_API Status cudaGraphNodeSetEnabled(GraphExec* exec, GraphNode* node, unsigned enabled);
ASSAY_API Status cudaGraphNodeGetEnabled(GraphExec* exec, GraphNode* node, unsigned* enabled);

// ---- Nodes of graphs ----
ASSAY_API Status cudaGraphAddEmptyNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                       size_t count);
ASSAY_API Status cudaGraphAddKernelNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                        size_t count, const KernelNodeParams* params);
ASSAY_API Status cudaGraphAddMemcpyNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                        size_t count, const Copy3D* params);
ASSAY_API Status cudaGraphAddMemsetNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                        size_t count, const MemsetParams* params);
ASSAY_API Status cudaGraphAddHostNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                      size_t count, const HostNodeParams* params);
ASSAY_API Status cudaGraphAddChildGraphNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                            size_t count, GraphHandle* child);
ASSAY_API Status cudaGraphAddEventRecordNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                             size_t count, EventHandle* event);
ASSAY_API Status cudaGraphAddEventWaitNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                           size_t count, EventHandle* event);
ASSAY_API Status cudaGraphAddMemAllocNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                          size_t count, AllocNodeParams* params);
ASSAY_API Status cudaGraphAddMemFreeNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                         size_t count, void* pointer);
ASSAY_API Status cudaGraphAddNode(GraphNode** node, GraphHandle* graph, GraphNode* const* after,
                                  const EdgeData*, size_t count, GraphNodeParams* params);
ASSAY_API Status cudaGraphKernelNodeGetParams(GraphNode* node, KernelNodeParams* params);
ASSAY_API Status cudaGraphMemcpyNodeGetParams(GraphNode* node, Copy3D* params);
ASSAY_API Status cudaGraphMemsetNodeGetParams(GraphNode* node, MemsetParams* params);
ASSAY_API Status cudaGraphHostNodeGetParams(GraphNode* node, HostNodeParams* params);
ASSAY_API Status cudaGraphChildGraphNodeGetGraph(GraphNode* node, GraphHandle** graph);
ASSAY_API Status cudaGraphEventRecordNodeGetEvent(GraphNode* node, EventHandle** event);
ASSAY_API Status cudaGraphEventWaitNodeGetEvent(GraphNode* node, EventHandle** event);
ASSAY_API Status cudaGraphMemAllocNodeGetParams(GraphNode* node, AllocNodeParams* params);
ASSAY_API Status cudaGraphMemFreeNodeGetParams(GraphNode* node, void* pointer);
ASSAY_API Status cudaGraphKernelNodeSetParams(GraphNode* node, const KernelNodeParams* params);
ASSAY_API Status cudaGraphExecKernelNodeSetParams(GraphExec* exec, GraphNode* node,
                                                  const KernelNodeParams* params);
ASSAY_API Status cudaGraphMemcpyNodeSetParams(GraphNode* node, const Copy3D* params);
ASSAY_API Status cudaGraphExecMemcpyNodeSetParams(GraphExec* exec, GraphNode* node, const Copy3D* params);
ASSAY_API Status cudaGraphMemsetNodeSetParams(GraphNode* node, const MemsetParams* params);
ASSAY_API Status cudaGraphExecMemsetNodeSetParams(GraphExec* exec, GraphNode* node,
                                                  const MemsetParams* params);
ASSAY_API Status cudaGraphHostNodeSetParams(GraphNode* node, const HostNodeParams* params);
ASSAY_API Status cudaGraphExecHostNodeSetParams(GraphExec* exec, GraphNode* node,
                                                const HostNodeParams* params);
ASSAY_API Status cudaGraphExecChildGraphNodeSetParams(GraphExec* exec, GraphNode* node, GraphHandle* child);
ASSAY_API Status cudaGraphEventRecordNodeSetEvent(GraphNode* node, EventHandle* event);
ASSAY_API Status cudaGraphExecEventRecordNodeSetEvent(GraphExec* exec, GraphNode* node, EventHandle* event);
ASSAY_API Status cudaGraphEventWaitNodeSetEvent(GraphNode* node, EventHandle* event);
ASSAY_API Status cudaGraphExecEventWaitNodeSetEvent(GraphExec* exec, GraphNode* node, EventHandle* event);
ASSAY_API Status cudaGraphNodeSetParams(GraphNode* node, GraphNodeParams* params);
ASSAY_API Status cudaGraphExecNodeSetParams(GraphExec* exec, GraphNode* node, GraphNodeParams* params);
ASSAY_API Status cudaGraphKernelNodeSetAttribute(GraphNode* node, AttributeId id,
                                                 const AttributeValue* value);
ASSAY_API Status cudaGraphKernelNodeGetAttribute(GraphNode* node, AttributeId id, AttributeValue* value);
ASSAY_API Status cudaGraphKernelNodeCopyAttributes(GraphNode* to, GraphNode* from);

// ---- What only the driver API can express (api_driver.cpp) ----

// Whether the calling thread is inside a call of the driver API. While it is, a failing call does not become the
// runtime's last error, and the thread does not count as one that uses the runtime.
ASSAY_API bool* assay_in_driver();
// Whether the program has called the runtime API, which initialises the driver.
ASSAY_API bool assay_runtime_called();
// Whether the process, or the calling thread, has used the device through the runtime API: the primary context is then
// active, or current.
ASSAY_API bool assay_process_uses_runtime();
ASSAY_API bool assay_thread_uses_runtime();
// Names a function that is not provided, once, on stderr and in the events; returns NotSupported.
ASSAY_API Status assay_not_supported(const char* function);

// A launch with its parameters as an array of pointers, or packed in a buffer that `extra` describes.
ASSAY_API Status assay_launch(const LaunchConfiguration* configuration, const void* function,
                              void** parameters, void** extra);
// A fill with elements of 1, 2 or 4 bytes.
ASSAY_API Status assay_fill(const MemsetParams* params, StreamHandle* stream, bool synchronous);

// The allocation that an address lies in; InvalidValue: none.
struct AllocationInfo {
  void* start;
  size_t bytes;
  PointerKind kind;
  unsigned long long id;  // never reused
  PoolHandle* pool;       // null: it came from no pool
};
ASSAY_API Status assay_find_allocation(AllocationInfo* info, const void* pointer);

// Unpacks, parses and decodes a library now, instead of when it is first used. `message`: what is wrong with it, valid
// until it is unloaded.
ASSAY_API Status assay_load_library(LibraryHandle* library, const char** message);
// The library that a kernel is in.
ASSAY_API Status assay_library_of(LibraryHandle** library, const void* function);
// Links PTX texts into one. `linked` null: only says how many bytes it takes, with the final zero.
ASSAY_API Status assay_link(const char* const* texts, size_t count, char* linked, size_t* bytes);

}  // namespace assay::cudart
