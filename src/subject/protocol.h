// What judge and worker say to each other: one JSON object a line over a socket (descriptor 3 of the
// worker), and bulk data in a shared memory file (descriptor 4) that both map. What the virtual device sees
// comes through a pipe (descriptor 5), one JSON object a line: what was said cannot be taken back.
//
// judge -> worker, one call or several that overlap:
//   {"id": to be repeated in the reply, "size": bytes of the memory file, "seed": schedule, "ordered": bool,
//   "others_late": bool, "moved": bool, "cycles": that the device's clock goes on by, "shift": bytes
//   that buffers lie further on (in a new process), "host_poison": malloc gives memory that is not zero,
//   "earlier": times that the same calls are made before,
//    "calls": [{"buffers": [{"name", "bytes", "offset", "length", "in", "out", "poison", "data", "read_only",
//               "share"}],
//               "args": [{"buffer": i} | {"stream": true} | {"bytes": n, "bits": u64, "float": bool,
//               "signed": bool}], "dims": [gx, gy, gz, bx, by, bz], "shared": bytes}]}
// A buffer is an allocation of `bytes`; the subject is given its address plus `offset`. Its image before
// the call lies at `in` of the memory file, and goes to `out` after it. `data` says that the `length` bytes
// at `offset` are an input, which in an ordered call arrives by work queued on the stream; otherwise they are
// undefined. `read_only`: a write to these bytes during the call is a finding. `share` (>= 0) names the buffer whose memory this one uses.
// Where a buffer has `parts` ([from, length] each), only those bytes are copied, there and back; the others
// are zeros that cost no memory where the device can do that.
//
// worker -> judge, when it is ready (`"ready": true, "files_guarded": bool`, or an error) and after every
// request:
//   {"id", "error": cudaError_t, "name", "text", "stage": what failed, "returned": [..], "seconds": s}
#pragma once

namespace assay::subject {

inline constexpr int kSocket = 3;
inline constexpr int kMemoryFile = 4;
inline constexpr int kEvents = 5;
// In the worker's folder: the worker itself and its libraries.
inline constexpr const char* kProgramFolder = ".run";

}  // namespace assay::subject
