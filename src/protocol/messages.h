// What the command and the worker say to each other, in this order:
//
//   command → worker   WorkerSetup   once
//   worker → command   Ready         once, when the subject is loaded or cannot be
//   command → worker   Request       one call, or two that overlap
//   worker → command   Building      when a Python subject begins to compile code, and when it has
//   worker → command   Reply         one per request
//
// Each message is one line of JSON. The contents of tensors are in the memory file; messages hold offsets
// into it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace assay::protocol {

struct WorkerSetup {
  bool real_gpu = false;     // NVIDIA's runtime, not the virtual device
  std::string folder;        // the worker's own: the only place that the subject may write to
  bool is_ptx = false;       // `path` is PTX text, not a shared library
  std::string path;          // of the subject
  std::string symbol;        // the function to call, or the kernel to launch
  bool is_kernel = false;    // the worker launches `symbol`
  bool returns_int = false;  // what the function returns; otherwise nothing
  bool is_witnessed =
      false;          // by a tool in the same process, which asks the system for much: no filter of its calls
  int64_t clock = 0;  // the time of day that the subject sees, in Unix time; 0: the real one
  // Of a real GPU.
  int gpu = 0;  // what it presents itself as, as far as it has as much: an index of kGpus; 0: as it is
  std::string other_code;  // file of device code that takes the place of the subject's; empty: none
  // A Python subject: `path` is its file, `symbol` the function.
  bool is_python = false;
  bool returns_outputs = false;     // otherwise the function writes them where its arguments are
  bool default_stream = false;      // calls are made on the default stream, not on streams of their own
  std::string build_folder;         // where compiled code is kept from one worker to the next
  std::vector<std::string> hidden;  // files and folders that it must not read: they say what is expected
  bool operator==(const WorkerSetup&) const = default;
};

struct Ready {
  std::string problem;          // why the worker cannot make calls; empty: it can
  bool subject_failed = false;  // the problem is the subject's fault, not this machine's
  bool files_guarded = false;   // the kernel can confine what the subject writes (Landlock)
  bool operator==(const Ready&) const = default;
};

// What a buffer holds before the call, by a function of the position (base/generated_values.h); the table of its values is
// in the memory file.
struct GeneratedBuffer {
  int64_t table = 0, table_bytes = 0;  // in the memory file
  int item = 1;                        // bytes of an element
  uint64_t seed = 0;
  int64_t last_value = 0, last_index = 0;
  int64_t room = 0;  // bytes of the memory file, from `out` on, for what the call wrote
  bool operator==(const GeneratedBuffer&) const = default;
};

// One allocation on the device. The subject gets its address plus `offset`.
struct BufferRequest {
  std::string name;
  int64_t bytes = 0;          // of the allocation
  int64_t offset = 0;         // where the tensor begins
  int64_t length = 0;         // bytes of the tensor
  int64_t in = 0, out = 0;    // where the memory file holds the allocation before the call, and after it
  bool is_input = false;      // the tensor holds data; otherwise its bytes are undefined
  bool is_read_only = false;  // a write to the tensor during the call is a finding
  bool is_result = false;     // the tensor holds what the call computes
  int shares = -1;            // which buffer's memory this one uses; -1: its own
  // [from, length) of the allocation that matter; empty: all of it. The other bytes are zeros, and are not
  // copied.
  std::vector<std::pair<int64_t, int64_t>> parts;
  // Of a call of which a sample is run: nothing is copied to the allocation, and of what it holds afterwards, only
  // what was written. `in` is not used, and at `out` lie, in numbers of 8 bytes: how many pieces, then the offset in
  // the allocation and the length of each; then the pieces themselves, one after another.
  std::optional<GeneratedBuffer> made;
  // Of an array of device pointers: the buffers of the call whose addresses it holds, in order.
  std::vector<int> pointers{};
  bool operator==(const BufferRequest&) const = default;
};

struct BufferArgument {
  int buffer = 0;
  // What a Python function is given is a tensor.
  std::string dtype;  // as a contract spells it
  std::vector<int64_t> extents;
  bool operator==(const BufferArgument&) const = default;
};
struct StreamArgument {
  bool operator==(const StreamArgument&) const = default;
};
struct ScalarArgument {
  int bytes = 4;  // 1, 2, 4 or 8
  uint64_t bits = 0;
  bool is_float = false, is_signed = false;
  std::string dtype;  // as a contract spells it
  bool operator==(const ScalarArgument&) const = default;
};
using Argument = std::variant<BufferArgument, StreamArgument, ScalarArgument>;

struct LaunchShape {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint64_t shared_bytes = 0;
  bool operator==(const LaunchShape&) const = default;
};

struct CallRequest {
  std::vector<BufferRequest> buffers;
  std::vector<Argument> arguments;
  std::vector<BufferArgument> returned;  // of a Python function: where what it returns goes, in order
  std::optional<LaunchShape> launch;     // of a kernel
  bool operator==(const CallRequest&) const = default;
};

// Only some blocks of each grid are run (checks/block_sample.h).
struct SampleRequest {
  uint64_t seed = 0;
  uint64_t blocks = 0;           // of each launch, at most
  double seconds = 0;            // of each launch
  std::vector<double> shares;    // of the grid, 0 to 1: where blocks are worth running
  std::vector<uint64_t> wanted;  // blocks that are run in any case
  bool operator==(const SampleRequest&) const = default;
};

std::string encode(const SampleRequest& request);
Result<SampleRequest> decode_sample_request(std::string_view text);

// On a real GPU: the calls again and again while other kernels fill it, and compared with the first time.
struct LoadRequest {
  uint64_t seed = 0;   // of what runs beside them
  int repeats = 0;     // at most
  double seconds = 0;  // at most
  bool graph = false;  // at last from a CUDA graph, captured while the inputs held something else
  bool operator==(const LoadRequest&) const = default;
};

struct Request {
  uint64_t id = 0;           // random, and repeated in the reply: no subject can guess it
  int64_t memory_bytes = 0;  // of the memory file
  uint64_t seed = 0;         // of the device's schedule
  bool ordered = false;      // inputs arrive, and outputs leave, by work queued on the stream
  bool others_late = false;  // an ordered call delays the default stream instead of the call's own
  bool moved = false;        // buffers get new addresses
  bool guard_begin =
      false;            // on a real GPU, memory before a tensor is not mapped, rather than memory after it
  uint64_t cycles = 0;  // that the device's clock advances before the call
  int64_t shift = 0;    // bytes allocated before all buffers of a new process
  bool host_poison = true;   // malloc returns memory that is not zero
  uint64_t new_content = 0;  // what memory holds that a Python function allocates on the device: a pattern
  int earlier_calls = 0;     // times that the same calls are made before
  std::optional<SampleRequest> sample;
  std::optional<LoadRequest> load;
  // On a real GPU: a call is repeated as under load, from the reply until the next request comes. One without calls ends it.
  bool goes_on = false;
  std::vector<CallRequest> calls;
  bool operator==(const Request&) const = default;
};

// A CUDA call that failed.
struct CudaFailure {
  int code = 0;  // cudaError_t
  std::string name, text;
  std::string stage;     // what the worker was doing: "a copy to the device"
  bool is_ours = false;  // nothing of the subject had run
  bool operator==(const CudaFailure&) const = default;
};

// A Python function that raised, or returned something else than the outputs.
struct PythonFailure {
  std::string text;    // "ValueError: no such shape", or what is wrong with what it returned
  std::string output;  // that it returned wrongly; empty: it raised
  std::string file;    // of the innermost line of the subject's own code; empty: not known
  int line = 0;
  bool unsupported = false;  // by the virtual GPU: the subject is not to blame
  bool operator==(const PythonFailure&) const = default;
};

// What the blocks of a launch that were run to their end wrote to a buffer. All counts are of bytes.
struct SampledWrites {
  std::string buffer;
  uint64_t writers = 0;          // blocks that wrote to it
  uint64_t least = 0, most = 0;  // by one of them, with what iterations would have written that were left out
  uint64_t sum = 0, distinct = 0;  // by all of them
  uint64_t whole = 0;  // the same as `sum`, with what iterations would have written that were left out
  bool operator==(const SampledWrites&) const = default;
};
// A loop that cannot end.
struct EndlessLoop {
  std::string file;
  int line = 0;        // 0: not known
  bool wraps = false;  // because a number of 32 bits wraps; else because nothing grows
  bool operator==(const EndlessLoop&) const = default;
};
// What one block wrote to one buffer, in bytes: `length` of them, `count` times `stride` apart, and all that `count2` times
// `stride2` apart. A count of 0: it has no such form, or not all of it is known.
struct BlockPiece {
  uint64_t block = 0;                 // its number in the grid
  std::optional<std::size_t> writes;  // of SampledLaunch::writes; none: the block wrote nothing
  uint64_t offset = 0, length = 0;
  uint64_t stride = 0, count = 1, stride2 = 0, count2 = 1;
  bool operator==(const BlockPiece&) const = default;
};
struct SampledLaunch {
  std::string kernel;  // its symbol
  std::array<uint64_t, 3> grid{};
  uint64_t blocks = 0, run = 0;  // of the grid; to their end
  uint64_t left_out = 0;         // iterations of loops, by all warps
  std::optional<EndlessLoop> endless;
  std::vector<SampledWrites> writes;
  std::vector<BlockPiece> pieces;  // of every block that came to its end
  bool operator==(const SampledLaunch&) const = default;
};
// Of a device that runs all blocks, and of whose outputs only some places are looked at: one that was not written.
struct UnwrittenPlace {
  std::string buffer;
  uint64_t offset = 0;  // bytes from the start of the tensor
  bool operator==(const UnwrittenPlace&) const = default;
};
struct SampleReport {
  std::string ended;  // why what blocks do by themselves tells nothing, from some point on; empty: it does
  std::vector<SampledLaunch> launches;
  std::vector<std::string> reduced;  // buffers to which blocks add by atomics
  bool all_run = false;              // on a real GPU; what follows is known only then
  std::vector<UnwrittenPlace> unwritten;
  bool operator==(const SampleReport&) const = default;
};
std::string encode(const SampleReport& report);
Result<SampleReport> decode_sample_report(std::string_view text);

// Where the result of a repeated call is not that of the first.
struct LoadDifference {
  int call = 0;
  std::string buffer;
  int64_t offset = 0;  // of the first byte that differs, from the start of the tensor
  int64_t bytes = 0;   // that differ
  // At least the element that the first of them is part of, as it was at first and then: 16 bytes from a multiple of 16.
  std::vector<uint8_t> before, after;
  std::string how;  // "while other kernels filled the GPU"
  bool operator==(const LoadDifference&) const = default;
};
struct LoadReport {
  int repeats = 0;
  std::optional<LoadDifference> difference;        // what the call left is then this other result
  std::optional<LoadDifference> graph_difference;  // … and here it is not
  std::string no_graph;  // why there was none; empty: there was, or none was asked for
  bool operator==(const LoadReport&) const = default;
};
// What came of a request that said `goes_on`.
struct GoneOn {
  uint64_t id = 0;  // of the request whose call was repeated
  int repeats = 0;
  bool differs = false;
  bool operator==(const GoneOn&) const = default;
};

// Where a tensor was, for what a witness says of addresses.
struct BufferPlace {
  std::string name;
  uint64_t address = 0;
  int64_t length = 0;
  bool operator==(const BufferPlace&) const = default;
};

// Seconds of a worker since its last reply, by what it did.
struct WorkerTime {
  double waiting = 0;    // for a request
  double preparing = 0;  // allocating and filling
  double calling = 0;
  double repeating = 0;  // under load
  double saving = 0;     // copying results back
  bool operator==(const WorkerTime&) const = default;
  WorkerTime& operator+=(const WorkerTime& other) {
    waiting += other.waiting;
    preparing += other.preparing;
    calling += other.calling;
    repeating += other.repeating;
    saving += other.saving;
    return *this;
  }
};

struct Reply {
  uint64_t id = 0;
  std::optional<CudaFailure> failure;
  std::optional<PythonFailure> python;
  std::vector<int> returned;  // by each call
  double seconds = 0;         // that the calls took
  WorkerTime time;
  std::optional<SampleReport> sample;
  std::optional<LoadReport> load;
  std::optional<GoneOn> gone_on;     // of an earlier request
  uint64_t goes_on_with = 0;         // the request whose call is repeated from now on; 0: none is
  std::vector<BufferPlace> buffers;  // where the setup says that a tool observes the worker
  bool operator==(const Reply&) const = default;
};

// To the interpreter that workers of a Python subject are forked from: one message, with the worker's files.
struct ForkRequest {
  std::string folder;        // the worker's own
  std::string build_folder;  // of what the subject compiles
  std::string settings;      // of the runtime library
};
std::string encode(const ForkRequest& request);

// Time that passes while code is compiled is not the call's.
struct Building {
  bool begins = false;
  bool operator==(const Building&) const = default;
};

std::string encode(const WorkerSetup& setup);
std::string encode(const Ready& ready);
std::string encode(const Request& request);
std::string encode(const Reply& reply);
std::string encode(const Building& building);

Result<WorkerSetup> decode_worker_setup(std::string_view line);
Result<Ready> decode_ready(std::string_view line);
Result<Request> decode_request(std::string_view line);
Result<Reply> decode_reply(std::string_view line);
// Nothing: the line is another message.
std::optional<Building> decode_building(std::string_view line);

}  // namespace assay::protocol
