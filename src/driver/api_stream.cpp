// cuStream*, cuEvent*: order, waiting, capture.
#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

// ---- Streams ----

FORWARD(cuStreamCreate, (StreamHandle * *stream, unsigned flags), cudaStreamCreateWithFlags(stream, flags))
FORWARD(cuStreamCreateWithPriority, (StreamHandle * *stream, unsigned flags, int priority),
        cudaStreamCreateWithPriority(stream, flags, priority))
FORWARD(cuStreamDestroy_v2, (StreamHandle * stream), cudaStreamDestroy(stream))
FORWARD(cuStreamDestroy, (StreamHandle * stream), cudaStreamDestroy(stream))
FORWARD_STREAM(cuStreamSynchronize, (StreamHandle * stream), cudaStreamSynchronize(stream))
FORWARD_STREAM(cuStreamQuery, (StreamHandle * stream), cudaStreamQuery(stream))
FORWARD_STREAM(cuStreamWaitEvent, (StreamHandle * stream, EventHandle* event, unsigned flags),
               cudaStreamWaitEvent(stream, event, flags))
FORWARD_STREAM(cuStreamAddCallback,
               (StreamHandle * stream, StreamCallback callback, void* data, unsigned flags),
               cudaStreamAddCallback(stream, callback, data, flags))
FORWARD_STREAM(cuStreamAttachMemAsync, (StreamHandle * stream, void* pointer, size_t bytes, unsigned flags),
               cudaStreamAttachMemAsync(stream, pointer, bytes, flags))
FORWARD_STREAM(cuStreamGetPriority, (StreamHandle * stream, int* priority),
               cudaStreamGetPriority(stream, priority))
FORWARD_STREAM(cuStreamGetFlags, (StreamHandle * stream, unsigned* flags), cudaStreamGetFlags(stream, flags))
FORWARD_STREAM(cuStreamGetId, (StreamHandle * stream, unsigned long long* id), cudaStreamGetId(stream, id))
FORWARD_STREAM(cuStreamGetDevice, (StreamHandle * stream, int* device), cudaStreamGetDevice(stream, device))
FORWARD_STREAM(cuStreamGetAttribute, (StreamHandle * stream, AttributeId id, AttributeValue* value),
               cudaStreamGetAttribute(stream, id, value))
FORWARD_STREAM(cuStreamSetAttribute, (StreamHandle * stream, AttributeId id, const AttributeValue* value),
               cudaStreamSetAttribute(stream, id, value))
FORWARD(cuStreamCopyAttributes, (StreamHandle * to, StreamHandle* from), cudaStreamCopyAttributes(to, from))
FORWARD(cuStreamCopyAttributes_ptsz, (StreamHandle * to, StreamHandle* from),
        cudaStreamCopyAttributes(own_stream(to), own_stream(from)))

namespace {

// Streams belong to the device, not to one of its contexts: the current one is as good as any.
Status context_of(StreamHandle* stream, ContextHandle** context) {
  unsigned flags = 0;
  if (Status status = cudaStreamGetFlags(stream, &flags); status != Status::Success) return status;
  return give(context, current());
}
Status context_of(StreamHandle* stream, ContextHandle** context, void** green) {
  if (green) *green = nullptr;
  return context_of(stream, context);
}

}  // namespace

FORWARD_STREAM(cuStreamGetCtx, (StreamHandle * stream, ContextHandle** context), context_of(stream, context))
FORWARD_STREAM(cuStreamGetCtx_v2, (StreamHandle * stream, ContextHandle** context, void** green),
               context_of(stream, context, green))

// ---- Events ----

FORWARD(cuEventCreate, (EventHandle * *event, unsigned flags), cudaEventCreateWithFlags(event, flags))
FORWARD(cuEventDestroy_v2, (EventHandle * event), cudaEventDestroy(event))
FORWARD(cuEventDestroy, (EventHandle * event), cudaEventDestroy(event))
FORWARD_STREAM(cuEventRecord, (EventHandle * event, StreamHandle* stream), cudaEventRecord(event, stream))
FORWARD_STREAM(cuEventRecordWithFlags, (EventHandle * event, StreamHandle* stream, unsigned flags),
               cudaEventRecordWithFlags(event, stream, flags))
FORWARD(cuEventQuery, (EventHandle * event), cudaEventQuery(event))
FORWARD(cuEventSynchronize, (EventHandle * event), cudaEventSynchronize(event))
FORWARD(cuEventElapsedTime_v2, (float* milliseconds, EventHandle* start, EventHandle* end),
        cudaEventElapsedTime(milliseconds, start, end))
FORWARD(cuEventElapsedTime, (float* milliseconds, EventHandle* start, EventHandle* end),
        cudaEventElapsedTime(milliseconds, start, end))

// ---- Capture ----

using Nodes = GraphNode* const*;

FORWARD_STREAM(cuStreamBeginCapture_v2, (StreamHandle * stream, CaptureMode mode),
               cudaStreamBeginCapture(stream, mode))
FORWARD_STREAM(cuStreamBeginCapture, (StreamHandle * stream),
               cudaStreamBeginCapture(stream, CaptureMode::Global))
FORWARD_STREAM(cuStreamBeginCaptureToGraph,
               (StreamHandle * stream, GraphHandle* graph, Nodes after, const EdgeData* edges, size_t count,
                CaptureMode mode),
               cudaStreamBeginCaptureToGraph(stream, graph, after, edges, count, mode))
FORWARD_STREAM(cuStreamEndCapture, (StreamHandle * stream, GraphHandle** graph),
               cudaStreamEndCapture(stream, graph))
FORWARD_STREAM(cuStreamIsCapturing, (StreamHandle * stream, CaptureStatus* status),
               cudaStreamIsCapturing(stream, status))
FORWARD_STREAM(cuStreamGetCaptureInfo_v3,
               (StreamHandle * stream, CaptureStatus* status, unsigned long long* id, GraphHandle** graph,
                Nodes* after, const EdgeData** edges, size_t* count),
               cudaStreamGetCaptureInfo(stream, status, id, graph, after, edges, count))
FORWARD_STREAM(cuStreamGetCaptureInfo_v2,
               (StreamHandle * stream, CaptureStatus* status, unsigned long long* id, GraphHandle** graph,
                Nodes* after, size_t* count),
               cudaStreamGetCaptureInfo(stream, status, id, graph, after, nullptr, count))
FORWARD_STREAM(cuStreamGetCaptureInfo, (StreamHandle * stream, CaptureStatus* status, unsigned long long* id),
               cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr))
FORWARD_STREAM(cuStreamUpdateCaptureDependencies_v2,
               (StreamHandle * stream, GraphNode** nodes, const EdgeData* edges, size_t count,
                unsigned flags),
               cudaStreamUpdateCaptureDependencies(stream, nodes, edges, count, flags))
FORWARD_STREAM(cuStreamUpdateCaptureDependencies,
               (StreamHandle * stream, GraphNode** nodes, size_t count, unsigned flags),
               cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags))
FORWARD_WITHOUT_CONTEXT(cuThreadExchangeStreamCaptureMode, (CaptureMode * mode),
                        cudaThreadExchangeStreamCaptureMode(mode))
