#include "cudart/graph.h"

#include <algorithm>

#include "base/overload.h"
#include "cudart/launch.h"
#include "cudart/recording.h"
#include "cudart/runtime.h"

namespace assay::cudart {
namespace {

uint64_t next_origin() {
  static std::atomic<uint64_t> origins{0};
  return ++origins;
}

// The operation that a node is, once it is not captured.
vgpu::Work make_work(const NodeSpec& spec) {
  return std::visit(
      Overload{
          [](const KernelSpec& kernel) -> vgpu::Work { return grid_work(kernel); },
          [](const CopySpec& copy) -> vgpu::Work { return copy.work; },
          [](const MemsetSpec& memset) -> vgpu::Work { return memset.work; },
          [](const HostSpec& host) -> vgpu::Work {
            return vgpu::HostWork{[call = host.params.call, data = host.params.data] { call(data); }, false};
          },
          [](const RecordSpec& record) -> vgpu::Work { return vgpu::RecordWork{record.event->event}; },
          [](const auto&) -> vgpu::Work { return vgpu::MarkerWork{}; },
      },
      spec);
}

// Appends the operations of a graph; `roots` are what its first nodes come after. Returns its last ones.
std::vector<uint32_t> append_graph(const GraphHandle& graph, const std::vector<uint32_t>& roots,
                                   std::vector<vgpu::OrderedWork>& works) {
  std::unordered_map<const GraphNode*, std::vector<uint32_t>> ends;
  std::unordered_map<const GraphNode*, bool> inner;
  for (size_t position : graph.order()) {
    const GraphNode& node = *graph.nodes[position];
    std::vector<uint32_t> after;
    for (const GraphNode* before : node.after) {
      after.insert(after.end(), ends[before].begin(), ends[before].end());
      inner[before] = true;
    }
    if (node.after.empty()) after = roots;
    if (auto* child = std::get_if<ChildSpec>(&node.spec); child && node.enabled) {
      ends[&node] = append_graph(*child->graph, after, works);
      continue;
    }
    ends[&node] = {static_cast<uint32_t>(works.size())};
    works.push_back({node.enabled ? make_work(node.spec) : vgpu::MarkerWork{}, std::move(after)});
  }
  std::vector<uint32_t> last;
  for (const auto& node : graph.nodes)
    if (!inner[node.get()]) last.insert(last.end(), ends[node.get()].begin(), ends[node.get()].end());
  return last.empty() ? roots : last;
}

void wait_for_events(Context& context, const GraphHandle& graph, vgpu::StreamId stream) {
  for (const auto& node : graph.nodes) {
    if (auto* wait = std::get_if<WaitSpec>(&node->spec); wait && context.has(wait->event))
      context.streams().wait_for(stream, wait->event->event->operation);
    if (auto* child = std::get_if<ChildSpec>(&node->spec)) wait_for_events(context, *child->graph, stream);
  }
}

}  // namespace

NodeKind node_kind(const NodeSpec& spec) {
  constexpr NodeKind kinds[] = {NodeKind::Empty, NodeKind::Kernel, NodeKind::Memcpy,    NodeKind::Memset,
                                NodeKind::Host,  NodeKind::Graph,  NodeKind::WaitEvent, NodeKind::RecordEvent,
                                NodeKind::Alloc, NodeKind::Free};
  return kinds[spec.index()];
}

GraphHandle::~GraphHandle() {
  for (auto& [object, count] : objects) release_user_object(object, count);
}

GraphNode* GraphHandle::add(NodeSpec spec, std::vector<GraphNode*> after) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->origin = next_origin();
  node->spec = std::move(spec);
  node->after = std::move(after);
  nodes.push_back(std::move(node));
  return nodes.back().get();
}

bool GraphHandle::has(const GraphNode* node) const {
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& own) {
    if (own.get() == node) return true;
    auto* child = std::get_if<ChildSpec>(&own->spec);
    return child && child->graph->has(node);
  });
}

GraphNode* GraphHandle::clone_of(const GraphNode* node) const {
  for (const auto& own : nodes) {
    if (own->origin == node->origin) return own.get();
    if (auto* child = std::get_if<ChildSpec>(&own->spec))
      if (GraphNode* found = child->graph->clone_of(node)) return found;
  }
  return nullptr;
}

std::shared_ptr<GraphHandle> GraphHandle::clone() const {
  auto copy = std::make_shared<GraphHandle>();
  std::unordered_map<const GraphNode*, GraphNode*> twins;
  for (const auto& node : nodes) {
    GraphNode* twin = copy->add(node->spec, {});
    twin->origin = node->origin;
    twin->enabled = node->enabled;
    if (auto* child = std::get_if<ChildSpec>(&twin->spec)) child->graph = child->graph->clone();
    twins[node.get()] = twin;
  }
  for (const auto& node : nodes)
    for (GraphNode* before : node->after) twins[node.get()]->after.push_back(twins[before]);
  for (const auto& [object, count] : objects) {
    object->references += count;
    copy->objects[object] = count;
  }
  return copy;
}

std::vector<size_t> GraphHandle::order() const {
  std::unordered_map<const GraphNode*, size_t> blockers;
  std::unordered_map<const GraphNode*, std::vector<size_t>> dependents;
  std::vector<size_t> sorted;
  for (size_t i = 0; i < nodes.size(); ++i) {
    blockers[nodes[i].get()] = nodes[i]->after.size();
    for (const GraphNode* before : nodes[i]->after) dependents[before].push_back(i);
    if (nodes[i]->after.empty()) sorted.push_back(i);
  }
  for (size_t next = 0; next < sorted.size(); ++next)
    for (size_t dependent : dependents[nodes[sorted[next]].get()])
      if (--blockers[nodes[dependent].get()] == 0) sorted.push_back(dependent);
  if (sorted.size() != nodes.size()) sorted.clear();
  return sorted;
}

Graphs& Graphs::get() {
  static Graphs* graphs = new Graphs;
  return *graphs;
}

GraphHandle* Graphs::add(std::shared_ptr<GraphHandle> graph) {
  std::lock_guard lock(mutex_);
  GraphHandle* key = graph.get();
  graphs_[key] = std::move(graph);
  return key;
}

std::shared_ptr<GraphHandle> Graphs::share(GraphHandle* graph) {
  std::lock_guard lock(mutex_);
  auto found = graphs_.find(graph);
  if (found != graphs_.end()) return found->second;
  for (auto& [handle, owned] : graphs_)  // the graph of a child node
    for (auto& node : owned->nodes)
      if (auto* child = std::get_if<ChildSpec>(&node->spec); child && child->graph.get() == graph)
        return child->graph;
  return nullptr;
}

bool Graphs::has(GraphHandle* graph) {
  return graph && share(graph) != nullptr;
}

bool Graphs::has(const GraphNode* node) {
  if (!node) return false;
  std::lock_guard lock(mutex_);
  return std::any_of(graphs_.begin(), graphs_.end(),
                     [&](const auto& item) { return item.second->has(node); });
}

bool Graphs::remove(GraphHandle* graph) {
  std::lock_guard lock(mutex_);
  return graphs_.erase(graph) == 1;
}

GraphExec* Graphs::add(GraphExec exec) {
  std::lock_guard lock(mutex_);
  auto owned = std::make_unique<GraphExec>(std::move(exec));
  GraphExec* key = owned.get();
  execs_[key] = std::move(owned);
  return key;
}

GraphExec* Graphs::exec(GraphExec* handle) {
  std::lock_guard lock(mutex_);
  return execs_.contains(handle) ? handle : nullptr;
}

bool Graphs::remove(GraphExec* exec) {
  std::lock_guard lock(mutex_);
  return execs_.erase(exec) == 1;
}

namespace {

// Settings::record: host code runs as usual, and the device only says what it was asked to do. During a call of the
// worker it may say so and do it.
void record(Context& context, vgpu::Work& work, uint64_t stream, uint32_t shared_limit) {
  Runtime& runtime = Runtime::get();
  const bool instead = runtime.settings().record;
  if (!instead && !runtime.in_call) return;
  const auto event = recorded(work, context.memory(), stream, shared_limit);
  if (!event) return;
  runtime.writer().write(*event);
  if (instead) work = vgpu::MarkerWork{};
}

}  // namespace

std::size_t Graphs::count() {
  std::lock_guard lock(mutex_);
  return graphs_.size() + execs_.size();
}

Status dispatch(Context& context, StreamHandle* stream, NodeSpec spec, vgpu::OperationId* operation) {
  if (operation) *operation = 0;
  if (Status status = check_capture(context, stream); status != Status::Success) return status;
  if (stream->capture) {
    GraphNode* node = stream->capture->graph->add(std::move(spec), stream->capture_after);
    stream->capture_after = {node};
    return Status::Success;
  }
  vgpu::OrderedWork item{make_work(spec), {}};
  const auto* kernel = std::get_if<KernelSpec>(&spec);
  record(context, item.work, stream->id, kernel ? dynamic_shared_limit(*kernel->function) : 0);
  Activity* activity = context.activity();
  const double called = activity ? activity->now() : 0;
  const vgpu::OperationId id = context.streams().submit(stream->id, item.work);
  if (activity) activity->submitted(id, 1, called);
  if (HostCheck* check = context.host_check()) check->submitted(id, {&item, 1});
  if (operation) *operation = id;
  return Status::Success;
}

Status launch_graph(Context& context, const GraphExec& exec, StreamHandle* stream) {
  if (Status status = check_capture(context, stream); status != Status::Success) return status;
  if (stream->capture) return dispatch(context, stream, ChildSpec{exec.graph->clone()});
  wait_for_events(context, *exec.graph, stream->id);
  std::vector<vgpu::OrderedWork> works;
  append_graph(*exec.graph, {}, works);
  // Which of them wait for which is not recorded: several may run at the same time.
  constexpr uint64_t kOfGraph = uint64_t{1} << 63;
  for (vgpu::OrderedWork& item : works)
    record(context, item.work,
           works.size() == 1 ? stream->id : kOfGraph + static_cast<uint64_t>(&item - works.data()), 0);
  Activity* activity = context.activity();
  const double called = activity ? activity->now() : 0;
  const vgpu::OperationId last = context.streams().submit(stream->id, works);
  // The operation that ends it is one more.
  if (activity) activity->submitted(last, works.size() + 1, called);
  if (HostCheck* check = context.host_check()) check->submitted(last, works);
  return Status::Success;
}

void release_user_object(UserObject* object, unsigned count) {
  if (object->references > count) {
    object->references -= count;
    return;
  }
  object->destroy(object->data);
  delete object;
}

}  // namespace assay::cudart
