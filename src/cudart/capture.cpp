// Stream capture: what a stream is asked to do becomes a graph instead.
#include <algorithm>

#include "cudart/graph.h"
#include "cudart/runtime.h"

namespace assay::cudart {
namespace {

uint64_t next_capture() {
  static std::atomic<uint64_t> captures{0};
  return ++captures;
}

// Whether the calling thread's unsafe calls break this capture.
bool forbids_unsafe(const Capture& capture) {
  if (thread_capture_mode() == CaptureMode::Relaxed || capture.mode == CaptureMode::Relaxed) return false;
  bool own = capture.thread == std::this_thread::get_id();
  return own || (capture.mode == CaptureMode::Global && thread_capture_mode() == CaptureMode::Global);
}

void collect_ancestors(const std::vector<GraphNode*>& from,
                       std::unordered_map<const GraphNode*, bool>& seen) {
  std::vector<GraphNode*> open = from;
  while (!open.empty()) {
    GraphNode* node = open.back();
    open.pop_back();
    if (std::exchange(seen[node], true)) continue;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
}

}  // namespace

CaptureMode& thread_capture_mode() {
  thread_local CaptureMode mode = CaptureMode::Global;
  return mode;
}

Status check_capture(Context& context, StreamHandle* stream) {
  if (stream && stream->capture)
    return stream->capture->invalid ? Status::StreamCaptureInvalidated : Status::Success;
  auto capturing = context.capturing_streams();
  if (capturing.empty()) return Status::Success;
  if (!stream) {  // a call that concerns the whole device
    bool unsafe = false;
    for (StreamHandle* other : capturing)
      if (forbids_unsafe(*other->capture)) other->capture->invalid = unsafe = true;
    return unsafe ? Status::StreamCaptureUnsupported : Status::Success;
  }
  if (stream->id == vgpu::kDefaultStream)  // would order itself with what is being captured
    for (StreamHandle* other : capturing)
      if (!(other->flags & 1)) {
        other->capture->invalid = true;
        return Status::StreamCaptureImplicit;
      }
  return Status::Success;
}

Status begin_capture(Context& context, StreamHandle* stream, GraphHandle* into, std::vector<GraphNode*> after,
                     CaptureMode mode) {
  if (stream->id == vgpu::kDefaultStream) return Status::StreamCaptureUnsupported;
  if (stream->capture) return Status::IllegalState;
  auto capture = std::make_shared<Capture>();
  capture->graph = into ? into : Graphs::get().add(std::make_shared<GraphHandle>());
  capture->id = next_capture();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  stream->capture = std::move(capture);
  stream->capture_after = std::move(after);
  (void)context;
  return Status::Success;
}

Status end_capture(Context& context, StreamHandle* stream, GraphHandle*& graph) {
  graph = nullptr;
  if (!stream->capture) return Status::IllegalState;
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id())
    return Status::StreamCaptureWrongThread;
  if (capture->origin != stream) {
    capture->invalid = true;
    return Status::StreamCaptureUnmatched;
  }
  std::unordered_map<const GraphNode*, bool> joined;
  collect_ancestors(stream->capture_after, joined);
  bool unjoined = false;
  for (StreamHandle* other : context.capturing_streams()) {
    if (other->capture != capture) continue;
    for (const GraphNode* node : other->capture_after) unjoined |= !joined[node];
    other->capture.reset();
    other->capture_after.clear();
  }
  if (capture->invalid || unjoined) {
    Graphs::get().remove(capture->graph);
    return capture->invalid ? Status::StreamCaptureInvalidated : Status::StreamCaptureUnjoined;
  }
  graph = capture->graph;
  return Status::Success;
}

}  // namespace assay::cudart
