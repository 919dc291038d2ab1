// cudaStream*, cudaEvent*: order, waiting, capture.
#include <algorithm>

#include "cudart/graph.h"
#include "cudart/runtime.h"

using namespace assay::cudart;
namespace vgpu = assay::vgpu;

namespace {

constexpr int kLeastPriority = 0, kGreatestPriority = -5;
constexpr unsigned kNonBlocking = 1, kBlockingWait = 1, kNoTiming = 2, kBetweenProcesses = 4;

// `body(Context&, EventHandle&)`.
template <class Body>
Status event_api(EventHandle* event, Body body) {
  return api([&](Context& context) -> Status {
    return event && context.has(event) ? body(context, *event) : Status::InvalidResourceHandle;
  });
}

Status create_stream(StreamHandle** stream, unsigned flags, int priority) {
  return api([&](Context& context) {
    if (!stream || (flags & ~kNonBlocking)) return Status::InvalidValue;
    *stream = context.create_stream(flags, std::clamp(priority, kGreatestPriority, kLeastPriority));
    return Status::Success;
  });
}

// A call that asks about or waits for a stream that captures breaks the capture.
Status forbid_capturing(StreamHandle& stream) {
  if (!stream.capture) return Status::Success;
  stream.capture->invalid = true;
  return Status::StreamCaptureUnsupported;
}

Status record(Context& context, StreamHandle& stream, EventHandle& event, bool external) {
  if (Status status = check_capture(context, &stream); status != Status::Success) return status;
  if (stream.capture) {
    if (external) return dispatch(context, &stream, RecordSpec{&event});
    event.capture = stream.capture;
    event.capture_after = stream.capture_after;
    return Status::Success;
  }
  event.capture.reset();
  context.streams().record(stream.id, event.event);
  return Status::Success;
}

// A stream that waits for an event of a capture takes part in it from then on.
Status join_capture(StreamHandle& stream, EventHandle& event) {
  if (event.capture->invalid) return Status::StreamCaptureInvalidated;
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    return Status::StreamCaptureMerge;
  }
  stream.capture = event.capture;
  for (GraphNode* node : event.capture_after)
    if (std::find(stream.capture_after.begin(), stream.capture_after.end(), node) ==
        stream.capture_after.end())
      stream.capture_after.push_back(node);
  return Status::Success;
}

Status wait(Context& context, StreamHandle& stream, EventHandle& event, bool external) {
  if (event.capture && !external) {
    // A capture that ended leaves its events behind.
    auto capturing = context.capturing_streams();
    bool active = std::any_of(capturing.begin(), capturing.end(),
                              [&](StreamHandle* other) { return other->capture == event.capture; });
    if (active) {
      if (stream.id == vgpu::kDefaultStream) return Status::StreamCaptureImplicit;
      return join_capture(stream, event);
    }
    return Status::CapturedEvent;
  }
  if (Status status = check_capture(context, &stream); status != Status::Success) return status;
  if (stream.capture) {
    if (external) return dispatch(context, &stream, WaitSpec{&event});
    stream.capture->invalid = true;
    return Status::StreamCaptureIsolation;
  }
  context.streams().wait_for(stream.id, event.event->operation);
  return Status::Success;
}

}  // namespace

// ---- Streams ----

ASSAY_API Status cudaStreamCreate(StreamHandle** stream) {
  return create_stream(stream, 0, 0);
}
ASSAY_API Status cudaStreamCreateWithFlags(StreamHandle** stream, unsigned flags) {
  return create_stream(stream, flags, 0);
}
ASSAY_API Status cudaStreamCreateWithPriority(StreamHandle** stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority);
}

ASSAY_API Status cudaStreamDestroy(StreamHandle* handle) {
  return api([&](Context& context) {
    if (!handle || handle == kLegacyStream || handle == kPerThreadStream)
      return Status::InvalidResourceHandle;
    // A stream that joined a capture may go before the capture ends; the one that began it may not.
    StreamHandle* stream = context.stream(handle);
    if (stream && stream->capture && stream->capture->origin == stream) stream->capture->invalid = true;
    return context.destroy_stream(handle) ? Status::Success : Status::InvalidResourceHandle;
  });
}

ASSAY_API Status cudaStreamSynchronize(StreamHandle* handle) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (Status status = forbid_capturing(stream); status != Status::Success) return status;
    if (Status status = check_capture(context, &stream); status != Status::Success) return status;
    return synchronised(context, [&] { context.streams().synchronise_stream(stream.id); });
  });
}
ASSAY_API_PTSZ(cudaStreamSynchronize, (StreamHandle * stream), own_stream(stream))

ASSAY_API Status cudaStreamQuery(StreamHandle* handle) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (Status status = forbid_capturing(stream); status != Status::Success) return status;
    if (!context.streams().poll_stream(stream.id)) return Status::NotReady;
    return synchronised(context, [] {});
  });
}
ASSAY_API_PTSZ(cudaStreamQuery, (StreamHandle * stream), own_stream(stream))

ASSAY_API Status cudaStreamWaitEvent(StreamHandle* handle, EventHandle* event, unsigned flags) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!event || !context.has(event)) return Status::InvalidResourceHandle;
    if (flags > 1) return Status::InvalidValue;
    return wait(context, stream, *event, flags == 1);
  });
}
ASSAY_API_PTSZ(cudaStreamWaitEvent, (StreamHandle * stream, EventHandle* event, unsigned flags),
               own_stream(stream), event, flags)

ASSAY_API Status cudaStreamAddCallback(StreamHandle* handle, StreamCallback callback, void* data,
                                       unsigned flags) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!callback || flags != 0) return Status::InvalidValue;
    if (Status status = forbid_capturing(stream); status != Status::Success) return status;
    Context* owner = &context;
    auto call = [=] { callback(handle, fault_status(owner->streams().fault()), data); };
    context.streams().submit(stream.id, vgpu::HostWork{call, true});
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamAddCallback,
               (StreamHandle * stream, StreamCallback callback, void* data, unsigned flags),
               own_stream(stream), callback, data, flags)

ASSAY_API Status cudaLaunchHostFunc(StreamHandle* handle, HostFunction call, void* data) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!call) return Status::InvalidValue;
    return dispatch(context, &stream, HostSpec{{call, data}});
  });
}
ASSAY_API_PTSZ(cudaLaunchHostFunc, (StreamHandle * stream, HostFunction call, void* data), own_stream(stream),
               call, data)

ASSAY_API Status cudaStreamGetPriority(StreamHandle* handle, int* priority) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!priority) return Status::InvalidValue;
    *priority = stream.priority;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamGetPriority, (StreamHandle * stream, int* priority), own_stream(stream), priority)

ASSAY_API Status cudaStreamGetFlags(StreamHandle* handle, unsigned* flags) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!flags) return Status::InvalidValue;
    *flags = stream.flags;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamGetFlags, (StreamHandle * stream, unsigned* flags), own_stream(stream), flags)

ASSAY_API Status cudaStreamGetId(StreamHandle* handle, unsigned long long* id) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!id) return Status::InvalidValue;
    *id = stream.id + 1;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamGetId, (StreamHandle * stream, unsigned long long* id), own_stream(stream), id)

ASSAY_API Status cudaStreamGetDevice(StreamHandle* handle, int* device) {
  return stream_api(handle, [&](Context&, StreamHandle&) {
    if (!device) return Status::InvalidValue;
    *device = 0;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamGetDevice, (StreamHandle * stream, int* device), own_stream(stream), device)

ASSAY_API Status cudaStreamSetAttribute(StreamHandle* handle, AttributeId id, const AttributeValue* value) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!value) return Status::InvalidValue;
    stream.attributes[id] = *value;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamSetAttribute, (StreamHandle * stream, AttributeId id, const AttributeValue* value),
               own_stream(stream), id, value)

ASSAY_API Status cudaStreamGetAttribute(StreamHandle* handle, AttributeId id, AttributeValue* value) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!value) return Status::InvalidValue;
    auto found = stream.attributes.find(id);
    *value = found == stream.attributes.end() ? AttributeValue{} : found->second;
    if (id == AttributeId::Priority && found == stream.attributes.end()) value->number = stream.priority;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamGetAttribute, (StreamHandle * stream, AttributeId id, AttributeValue* value),
               own_stream(stream), id, value)

ASSAY_API Status cudaStreamCopyAttributes(StreamHandle* to, StreamHandle* from) {
  return stream_api(to, [&](Context& context, StreamHandle& target) {
    StreamHandle* source = context.stream(from);
    if (!source) return Status::InvalidResourceHandle;
    target.attributes = source->attributes;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamCopyAttributes, (StreamHandle * to, StreamHandle* from), own_stream(to),
               own_stream(from))

ASSAY_API Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&](Context&) {
    if (least) *least = kLeastPriority;
    if (greatest) *greatest = kGreatestPriority;
    return Status::Success;
  });
}

// ---- Events ----

ASSAY_API Status cudaEventCreateWithFlags(EventHandle** event, unsigned flags) {
  return api([&](Context& context) {
    if (!event || (flags & ~(kBlockingWait | kNoTiming | kBetweenProcesses))) return Status::InvalidValue;
    if ((flags & kBetweenProcesses) && !(flags & kNoTiming)) return Status::InvalidValue;
    *event = context.create_event(flags);
    return Status::Success;
  });
}
ASSAY_API Status cudaEventCreate(EventHandle** event) {
  return cudaEventCreateWithFlags(event, 0);
}

ASSAY_API Status cudaEventDestroy(EventHandle* event) {
  return api([&](Context& context) {
    return event && context.destroy_event(event) ? Status::Success : Status::InvalidResourceHandle;
  });
}

ASSAY_API Status cudaEventRecordWithFlags(EventHandle* event, StreamHandle* handle, unsigned flags) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!event || !context.has(event)) return Status::InvalidResourceHandle;
    if (flags > 1) return Status::InvalidValue;
    return record(context, stream, *event, flags == 1);
  });
}
ASSAY_API_PTSZ(cudaEventRecordWithFlags, (EventHandle * event, StreamHandle* stream, unsigned flags), event,
               own_stream(stream), flags)
ASSAY_API Status cudaEventRecord(EventHandle* event, StreamHandle* stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
ASSAY_API_PTSZ(cudaEventRecord, (EventHandle * event, StreamHandle* stream), event, own_stream(stream))

ASSAY_API Status cudaEventQuery(EventHandle* handle) {
  return event_api(handle, [&](Context& context, EventHandle& event) {
    if (event.capture) {
      event.capture->invalid = true;
      return Status::CapturedEvent;
    }
    if (!context.streams().poll(event.event->operation)) return Status::NotReady;
    return synchronised(context, [] {});
  });
}

ASSAY_API Status cudaEventSynchronize(EventHandle* handle) {
  return event_api(handle, [&](Context& context, EventHandle& event) {
    if (event.capture) {
      event.capture->invalid = true;
      return Status::InvalidValue;
    }
    return synchronised(context, [&] { context.streams().synchronise(event.event->operation); });
  });
}

ASSAY_API Status cudaEventElapsedTime(float* milliseconds, EventHandle* start, EventHandle* end) {
  return api([&](Context& context) {
    if (!milliseconds) return Status::InvalidValue;
    for (EventHandle* event : {start, end})
      if (!event || !context.has(event) || (event->flags & kNoTiming) || event->event->operation == 0)
        return Status::InvalidResourceHandle;
    for (EventHandle* event : {start, end})
      if (!context.streams().poll(event->event->operation)) return Status::NotReady;
    *milliseconds = static_cast<float>((end->event->seconds - start->event->seconds) * 1e3);
    return Status::Success;
  });
}

// ---- Capture ----

ASSAY_API Status cudaStreamBeginCapture(StreamHandle* handle, CaptureMode mode) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (static_cast<unsigned>(mode) > 2) return Status::InvalidValue;
    return begin_capture(context, &stream, nullptr, {}, mode);
  });
}
ASSAY_API_PTSZ(cudaStreamBeginCapture, (StreamHandle * stream, CaptureMode mode), own_stream(stream), mode)

ASSAY_API Status cudaStreamBeginCaptureToGraph(StreamHandle* handle, GraphHandle* graph,
                                               GraphNode* const* after, const EdgeData*, size_t count,
                                               CaptureMode mode) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!Graphs::get().has(graph) || static_cast<unsigned>(mode) > 2) return Status::InvalidValue;
    return begin_capture(context, &stream, graph, {after, after + (after ? count : 0)}, mode);
  });
}
ASSAY_API_PTSZ(cudaStreamBeginCaptureToGraph,
               (StreamHandle * stream, GraphHandle* graph, GraphNode* const* after, const EdgeData* edges,
                size_t count, CaptureMode mode),
               own_stream(stream), graph, after, edges, count, mode)

ASSAY_API Status cudaStreamEndCapture(StreamHandle* handle, GraphHandle** graph) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!graph) return Status::InvalidValue;
    return end_capture(context, &stream, *graph);
  });
}
ASSAY_API_PTSZ(cudaStreamEndCapture, (StreamHandle * stream, GraphHandle** graph), own_stream(stream), graph)

ASSAY_API Status cudaStreamIsCapturing(StreamHandle* handle, CaptureStatus* status) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!status) return Status::InvalidValue;
    if (stream.id == vgpu::kDefaultStream && !context.capturing_streams().empty()) {
      for (StreamHandle* other : context.capturing_streams())
        if (!(other->flags & kNonBlocking)) return Status::StreamCaptureImplicit;
    }
    *status = !stream.capture           ? CaptureStatus::None
              : stream.capture->invalid ? CaptureStatus::Invalidated
                                        : CaptureStatus::Active;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamIsCapturing, (StreamHandle * stream, CaptureStatus* status), own_stream(stream),
               status)

ASSAY_API Status cudaStreamGetCaptureInfo(StreamHandle* handle, CaptureStatus* status, unsigned long long* id,
                                          GraphHandle** graph, GraphNode* const** after,
                                          const EdgeData** edges, size_t* count) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!status) return Status::InvalidValue;
    *status = !stream.capture           ? CaptureStatus::None
              : stream.capture->invalid ? CaptureStatus::Invalidated
                                        : CaptureStatus::Active;
    if (*status != CaptureStatus::Active) return Status::Success;
    if (id) *id = stream.capture->id;
    if (graph) *graph = stream.capture->graph;
    if (after) *after = stream.capture_after.data();
    if (edges) *edges = nullptr;
    if (count) *count = stream.capture_after.size();
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamGetCaptureInfo,
               (StreamHandle * stream, CaptureStatus* status, unsigned long long* id, GraphHandle** graph,
                GraphNode* const** after, const EdgeData** edges, size_t* count),
               own_stream(stream), status, id, graph, after, edges, count)

ASSAY_API Status cudaStreamUpdateCaptureDependencies(StreamHandle* handle, GraphNode** nodes, const EdgeData*,
                                                     size_t count, unsigned flags) {
  return stream_api(handle, [&](Context&, StreamHandle& stream) {
    if (!stream.capture) return Status::IllegalState;
    if (flags > 1 || (count && !nodes)) return Status::InvalidValue;
    if (flags == 1) stream.capture_after.clear();
    stream.capture_after.insert(stream.capture_after.end(), nodes, nodes + count);
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaStreamUpdateCaptureDependencies,
               (StreamHandle * stream, GraphNode** nodes, const EdgeData* edges, size_t count,
                unsigned flags),
               own_stream(stream), nodes, edges, count, flags)

ASSAY_API Status cudaThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return plain_api([&] {
    if (!mode || static_cast<unsigned>(*mode) > 2) return Status::InvalidValue;
    std::swap(*mode, thread_capture_mode());
    return Status::Success;
  });
}
