// Work as the program describes it, and graphs of it.
//
// Whatever goes to a stream is first a NodeSpec. `dispatch` submits it, or, while the stream
// captures, makes it a node of the graph. Launching a graph turns its nodes into operations that
// keep the order of the graph.
#pragma once

#include <memory>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "cudart/abi.h"
#include "cudart/context.h"
#include "cudart/modules.h"
#include "vgpu/stream.h"

namespace assay::cudart {

struct EmptySpec {};
struct KernelSpec {
  FunctionEntry* function = nullptr;
  Dim grid{1, 1, 1}, block{1, 1, 1}, cluster{0, 0, 0};
  uint32_t shared_bytes = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters;
  uint64_t origin = 0;  // the Python stack that asked for it (python_frames.h)
  std::map<AttributeId, AttributeValue> attributes;
};
struct CopySpec {
  Copy3D params{};
  vgpu::CopyWork work;
};
struct MemsetSpec {
  MemsetParams params{};
  vgpu::FillWork work;
};
struct HostSpec {
  HostNodeParams params{};
};
struct ChildSpec {
  std::shared_ptr<GraphHandle> graph;
};
struct WaitSpec {
  EventHandle* event = nullptr;
};
struct RecordSpec {
  EventHandle* event = nullptr;
};
struct AllocSpec {
  AllocNodeParams params{};
};
struct FreeSpec {
  void* pointer = nullptr;
};

using NodeSpec = std::variant<EmptySpec, KernelSpec, CopySpec, MemsetSpec, HostSpec, ChildSpec, WaitSpec,
                              RecordSpec, AllocSpec, FreeSpec>;

NodeKind node_kind(const NodeSpec& spec);

struct GraphNode {
  GraphHandle* graph = nullptr;
  uint64_t origin = 0;  // kept by clones: which node it was cloned from
  NodeSpec spec;
  std::vector<GraphNode*> after;
  bool enabled = true;
  std::vector<void*> parameter_pointers;  // what cudaGraphKernelNodeGetParams hands out
};

struct UserObject {
  void* data = nullptr;
  HostFunction destroy = nullptr;
  unsigned references = 0;
};

struct GraphHandle {
  std::vector<std::unique_ptr<GraphNode>> nodes;  // in the order of creation
  std::unordered_map<UserObject*, unsigned> objects;
  uint64_t origin = 0;  // the graph that it was cloned from, or itself

  ~GraphHandle();
  GraphNode* add(NodeSpec spec, std::vector<GraphNode*> after);
  bool has(const GraphNode* node) const;
  // The node that was cloned from `node`, here or in a child.
  GraphNode* clone_of(const GraphNode* node) const;
  std::shared_ptr<GraphHandle> clone() const;
  // Positions in `nodes`, each after those it depends on; empty when there is a cycle.
  std::vector<size_t> order() const;
};

struct GraphExec {
  std::shared_ptr<GraphHandle> graph;
  unsigned long long flags = 0;
};

// A capture under way, shared by the streams that take part.
struct Capture {
  GraphHandle* graph = nullptr;
  uint64_t id = 0;
  CaptureMode mode = CaptureMode::Global;
  std::thread::id thread;
  StreamHandle* origin = nullptr;
  bool invalid = false;
};

// Handles of graphs; the runtime's own, not the context's.
class Graphs {
 public:
  static Graphs& get();
  GraphHandle* add(std::shared_ptr<GraphHandle> graph);
  bool has(GraphHandle* graph);
  bool has(const GraphNode* node);
  bool remove(GraphHandle* graph);
  std::shared_ptr<GraphHandle> share(GraphHandle* graph);
  GraphExec* add(GraphExec exec);
  GraphExec* exec(GraphExec* handle);
  bool remove(GraphExec* exec);
  std::size_t count();  // of both

 private:
  std::mutex mutex_;
  std::unordered_map<GraphHandle*, std::shared_ptr<GraphHandle>> graphs_;
  std::unordered_map<GraphExec*, std::unique_ptr<GraphExec>> execs_;
};

// Sends work to a stream, or captures it. `operation` is 0 when it was captured.
Status dispatch(Context& context, StreamHandle* stream, NodeSpec spec,
                vgpu::OperationId* operation = nullptr);
Status launch_graph(Context& context, const GraphExec& exec, StreamHandle* stream);

void release_user_object(UserObject* object, unsigned count);

// ---- Capture (capture.cpp) ----

// The status of a call that would touch `stream` (or the whole device, when null) while something captures.
Status check_capture(Context& context, StreamHandle* stream);
Status begin_capture(Context& context, StreamHandle* stream, GraphHandle* into, std::vector<GraphNode*> after,
                     CaptureMode mode);
Status end_capture(Context& context, StreamHandle* stream, GraphHandle*& graph);
CaptureMode& thread_capture_mode();

}  // namespace assay::cudart
