#include "subject/worker/load.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "subject/worker/failure.h"

namespace assay::worker {

using protocol::BufferRequest;
using protocol::CallRequest;
using protocol::LoadDifference;

namespace {

// PTX, because the GPU's driver compiles it, and nothing else on the machine needs to.
//
//   occupy:   each thread adds to words of `memory`, for so many cycles
//   compare:  found[0] += bytes that differ; found[1] = the first of them
constexpr const char* kCode = R"(.version 6.0
.target sm_60
.address_size 64
.visible .entry assay_occupy(.param .u64 cycles_, .param .u64 memory_, .param .u64 words_) {
  .reg .pred %more;
  .reg .b32 %a, %b, %c, %v;
  .reg .b64 %limit, %memory, %words, %start, %now, %i, %x, %at;
  ld.param.u64 %limit, [cycles_];
  ld.param.u64 %memory, [memory_];
  ld.param.u64 %words, [words_];
  cvta.to.global.u64 %memory, %memory;
  mov.u64 %start, %clock64;
  mov.u32 %a, %ctaid.x;
  mov.u32 %b, %ntid.x;
  mov.u32 %c, %tid.x;
  mul.wide.u32 %i, %a, %b;
  cvt.u64.u32 %x, %c;
  add.u64 %i, %i, %x;
NEXT:
  rem.u64 %x, %i, %words;
  mad.lo.u64 %at, %x, 4, %memory;
  ld.global.u32 %v, [%at];
  add.u32 %v, %v, 1;
  st.global.u32 [%at], %v;
  add.u64 %i, %i, 8191;
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %more, %now, %limit;
  @%more bra NEXT;
  ret;
}
.visible .entry assay_compare(.param .u64 one_, .param .u64 two_, .param .u64 bytes_, .param .u64 found_) {
  .reg .pred %done, %same;
  .reg .b16 %p, %q;
  .reg .b32 %a, %b, %c;
  .reg .b64 %one, %two, %bytes, %found, %i, %step, %x, %at;
  ld.param.u64 %one, [one_];
  ld.param.u64 %two, [two_];
  ld.param.u64 %bytes, [bytes_];
  ld.param.u64 %found, [found_];
  cvta.to.global.u64 %one, %one;
  cvta.to.global.u64 %two, %two;
  cvta.to.global.u64 %found, %found;
  mov.u32 %a, %ctaid.x;
  mov.u32 %b, %ntid.x;
  mov.u32 %c, %tid.x;
  mul.wide.u32 %i, %a, %b;
  cvt.u64.u32 %x, %c;
  add.u64 %i, %i, %x;
  mov.u32 %a, %nctaid.x;
  mul.wide.u32 %step, %a, %b;
NEXT:
  setp.ge.u64 %done, %i, %bytes;
  @%done bra END;
  add.u64 %at, %one, %i;
  ld.global.u8 %p, [%at];
  add.u64 %at, %two, %i;
  ld.global.u8 %q, [%at];
  setp.eq.u16 %same, %p, %q;
  @%same bra SAME;
  red.global.add.u64 [%found], 1;
  red.global.min.u64 [%found+8], %i;
SAME:
  add.u64 %i, %i, %step;
  bra NEXT;
END:
  ret;
}
)";

constexpr const char *kLoadStage = "the comparison of repeated calls",
                     *kPrepare = "the preparation of the call";
constexpr int64_t kMostBytes = int64_t{256} << 20;  // that a call may write to
constexpr uint64_t kScratchWords = 1 << 20;
constexpr unsigned kCompareThreads = 256, kMostBlocks = 1024;
constexpr int kClockRate = 13;     // cudaDevAttrClockRate
constexpr int64_t kShown = 16;     // bytes of what differs
constexpr int kGlobalCapture = 0;  // cudaStreamCaptureModeGlobal: what a replay would not repeat is refused
struct Found {
  uint64_t count = 0, first = ~uint64_t{0};
};

std::size_t bytes_of(int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

}  // namespace

Load::~Load() {
  for (std::byte* memory : {scratch_, found_, contents_, results_})
    if (memory) runtime_.cudaFree(memory);
}

bool Load::reserve(int64_t bytes) {
  if (bytes <= room_) return true;
  for (std::byte** memory : {&contents_, &results_}) {
    if (*memory) runtime_.cudaFree(*memory);
    *memory = nullptr;
  }
  room_ = 0;
  for (std::byte** memory : {&contents_, &results_}) {
    void* at = nullptr;
    if (runtime_.cudaMalloc(&at, bytes_of(bytes)) != 0) {
      runtime_.cudaGetLastError();  // there is no room: the call is not repeated
      return false;
    }
    *memory = static_cast<std::byte*>(at);
  }
  room_ = bytes;
  return true;
}

void Load::prepare() {
  if (kernels_.compare) return;
  void *library = nullptr, *at = nullptr;
  check(runtime_.cudaLibraryLoadData(&library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0), kPrepare);
  check(runtime_.cudaLibraryGetKernel(&kernels_.occupy, library, "assay_occupy"), kPrepare);
  check(runtime_.cudaLibraryGetKernel(&kernels_.compare, library, "assay_compare"), kPrepare);
  check(runtime_.cudaMalloc(&at, kScratchWords * 4), kPrepare);
  scratch_ = static_cast<std::byte*>(at);
  check(runtime_.cudaMemset(scratch_, 0, kScratchWords * 4), kPrepare);
  settle(kPrepare);
  for (Stream& stream : beside_) check(runtime_.cudaStreamCreateWithFlags(&stream, 1), kPrepare);
  int value = 0;
  if (runtime_.cudaDeviceGetAttribute(&value, kMultiprocessorCount, 0) == 0) multiprocessors_ = value;
  if (runtime_.cudaDeviceGetAttribute(&value, kClockRate, 0) == 0 && value > 0) clock_khz_ = value;
}

void Load::warm_up() {
  prepare();
  occupy(0, beside_[0], 1);
  check(runtime_.cudaLaunchHostFunc(
            beside_[0], [](void*) {}, nullptr),
        kPrepare);
  check(runtime_.cudaDeviceSynchronize(), kPrepare);
}

bool Load::keep_contents(const std::vector<CallRequest>& calls, bool ordered) {
  forget();
  int64_t bytes = 0;
  on_streams_ = true;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    on_streams_ &= std::any_of(
        calls[i].arguments.begin(), calls[i].arguments.end(),
        [](const protocol::Argument& a) { return std::holds_alternative<protocol::StreamArgument>(a); });
    for (std::size_t b = 0; b < calls[i].buffers.size(); ++b) {
      const BufferRequest& request = calls[i].buffers[b];
      if (request.is_read_only || request.shares >= 0 || request.length == 0) continue;
      if (request.made || !request.parts.empty()) {
        forget();
        return false;
      }
      const int buffer = static_cast<int>(b);
      regions_.push_back({request.name, i, request.is_result, buffers_.address(calls[i], i, buffer),
                          buffers_.filled(calls[i], i, buffer, ordered), request.length, bytes});
      bytes += (request.length + 255) / 256 * 256;
    }
  }
  calls_ = calls.size();
  if (bytes == 0 || bytes > kMostBytes || !reserve(bytes)) {
    forget();
    return false;
  }
  prepare();
  for (const Region& region : regions_)
    check(
        runtime_.cudaMemcpy(contents_ + region.kept, region.filled, bytes_of(region.bytes), kDeviceToDevice),
        kPrepare);
  return true;
}

// Copies within the device, and fills, go to the default stream, and the host does not wait for them (nor for the end of a
// copy to the device). The streams of the calls do not wait for that one.
void Load::settle(const char* stage) {
  check(runtime_.cudaDeviceSynchronize(), stage);
}

void Load::keep_results() {
  for (const Region& region : regions_)
    check(runtime_.cudaMemcpy(results_ + region.kept, region.at, bytes_of(region.bytes), kDeviceToDevice),
          kLoadStage);
  settle(kLoadStage);
  if (static_cast<int64_t>(regions_.size()) <= found_room_) return;
  if (found_) runtime_.cudaFree(found_);
  found_room_ = static_cast<int64_t>(regions_.size());
  void* at = nullptr;
  check(runtime_.cudaMalloc(&at, regions_.size() * sizeof(Found)), kLoadStage);
  found_ = static_cast<std::byte*>(at);
}

// A kernel of some shape, for about so long. The GPU may be too full for one: then it is left out.
void Load::occupy(uint64_t seed, Stream stream, uint64_t microseconds) {
  if (!occupies_) return;
  constexpr unsigned kBlockSizes[] = {32, 64, 128, 256, 512, 1024};
  constexpr unsigned kShared[] = {0, 0, 8 << 10, 47 << 10};
  const unsigned threads = kBlockSizes[mix(seed, 1) % std::size(kBlockSizes)];
  const unsigned shared = kShared[mix(seed, 2) % std::size(kShared)];
  // From one block to twice as many as there are multiprocessors.
  const uint64_t most =
      std::max<uint64_t>(1, static_cast<uint64_t>(2 * multiprocessors_) >> (2 * restraint_));
  microseconds = std::max<uint64_t>(1, microseconds >> (2 * restraint_));
  const auto blocks = static_cast<unsigned>(1 + mix(seed, 3) % most);
  uint64_t cycles = microseconds * static_cast<uint64_t>(clock_khz_) / 1000, words = kScratchWords;
  void* arguments[] = {&cycles, &scratch_, &words};
  if (runtime_.cudaLaunchKernel(kernels_.occupy, {blocks}, {threads}, arguments, shared, stream) == 0) return;
  runtime_.cudaGetLastError();
  occupies_ = false;
}

// What runs beside the calls is to fill the device, not to hold them up.
void Load::adapt(double seconds) {
  constexpr double kFast = 0.25e-3, kSlow = 5e-3;
  constexpr int kMostRestraint = 4;
  if (seconds < kFast) restraint_ = std::max(0, restraint_ - 1);
  if (seconds > kSlow) restraint_ = std::min(kMostRestraint, restraint_ + 1);
}

void Load::restore() {
  for (const Region& region : regions_) {
    const std::byte* from = contents_ + region.kept;
    const int error = on_streams_
                          ? runtime_.cudaMemcpyAsync(region.at, from, bytes_of(region.bytes), kDeviceToDevice,
                                                     streams_[region.call])
                          : runtime_.cudaMemcpy(region.at, from, bytes_of(region.bytes), kDeviceToDevice);
    check(error, kPrepare);
  }
  if (!on_streams_) settle(kPrepare);  // a kernel that we launch ourselves runs on a stream all the same
}

void Load::wait() {
  check(runtime_.cudaGetLastError(), "the call");
  constexpr const char* kKernels = "the kernels of the call";
  if (!on_streams_) return check(runtime_.cudaDeviceSynchronize(), kKernels);
  for (std::size_t i = 0; i < calls_; ++i) check(runtime_.cudaStreamSynchronize(streams_[i]), kKernels);
}

LoadDifference Load::describe(const Region& region, int64_t first, int64_t bytes, const char* how) {
  LoadDifference difference{static_cast<int>(region.call), region.name, first, bytes, {}, {}, how};
  const int64_t from = first / kShown * kShown;
  const auto copy = [&](std::vector<uint8_t>& to, const std::byte* source) {
    to.resize(bytes_of(std::min(kShown, region.bytes - from)));
    check(runtime_.cudaMemcpy(to.data(), source + from, to.size(), kDeviceToHost), kLoadStage);
  };
  copy(difference.before, results_ + region.kept);
  copy(difference.after, region.at);
  return difference;
}

std::optional<LoadDifference> Load::compare(const char* how) {
  std::vector<Found> found(regions_.size());
  // On the first stream, which everything has been waited for on.
  const Stream stream = on_streams_ ? streams_[0] : nullptr;
  const std::size_t bytes = found.size() * sizeof(Found);
  check(runtime_.cudaMemcpyAsync(found_, found.data(), bytes, kHostToDevice, stream), kLoadStage);
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    if (!region.is_result) continue;
    std::byte *one = region.at, *two = results_ + region.kept, *result = found_ + i * sizeof(Found);
    auto length = static_cast<uint64_t>(region.bytes);
    void* arguments[] = {&one, &two, &length, &result};
    const auto blocks = static_cast<unsigned>(
        std::min<uint64_t>(kMostBlocks, (length + kCompareThreads - 1) / kCompareThreads));
    check(runtime_.cudaLaunchKernel(kernels_.compare, {blocks}, {kCompareThreads}, arguments, 0, stream),
          kLoadStage);
  }
  check(runtime_.cudaMemcpyAsync(found.data(), found_, bytes, kDeviceToHost, stream), kLoadStage);
  check(runtime_.cudaStreamSynchronize(stream), kLoadStage);
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (found[i].count > 0)
      return describe(regions_[i], static_cast<int64_t>(found[i].first), static_cast<int64_t>(found[i].count),
                      how);
  return std::nullopt;
}

// Each call but the first from a thread of its own, which has an error state of its own.
void Load::call_from_threads(const Call& call) {
  std::vector<int> errors(calls_, 0);
  const auto make = [&](std::size_t i) {
    try {
      call(i);
      errors[i] = runtime_.cudaGetLastError();
    } catch (const Failed& failed) {
      errors[i] = failed.error;
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < calls_; ++i) others.emplace_back(make, i);
  make(0);
  for (std::thread& other : others) other.join();
  for (const int error : errors) check(error, "the call");
}

std::optional<LoadDifference> Load::repeat(uint64_t seed, const Call& call) {
  // Every fourth time the GPU is idle: what differs then needs no load.
  const auto begun = std::chrono::steady_clock::now();
  const bool idle = seed % 4 == 0, threads = calls_ > 1 && seed % 2 == 1;
  restore();
  if (!idle)
    for (int i = 0; i < kBeside; ++i)
      occupy(mix(seed, 10 + static_cast<uint64_t>(i)), beside_[i], 10 + mix(seed, 20) % 100);
  if (on_streams_ && seed % 3 == 1) occupy(mix(seed, 30), streams_[0], 1 + mix(seed, 31) % 20);
  const bool between = between_ && seed % 5 == 3;
  if (between) between_();
  if (threads) {
    call_from_threads(call);
  } else {
    for (std::size_t i = 0; i < calls_; ++i) call(i);
  }
  wait();
  if (!idle) adapt(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  return compare(between   ? "after a call with another shape"
                 : threads ? "from several host threads at once"
                 : idle    ? "one call after another"
                           : "while other kernels filled the GPU");
}

Load::Replayed Load::replay_graph(const std::vector<CallRequest>& calls, const Call& call) {
  constexpr int kOther = 0x11;  // bytes of the inputs while the call is captured: nothing reads them
  if (!on_streams_) return {std::nullopt, "the call takes no stream"};
  const Stream stream = streams_[0];
  check(runtime_.cudaDeviceSynchronize(), kPrepare);
  restore();
  buffers_.change_inputs(calls[0], 0, kOther);
  settle(kPrepare);
  void *graph = nullptr, *ready = nullptr;
  const auto refused = [&](int error) {
    runtime_.cudaGetLastError();
    return Replayed{std::nullopt, runtime_.cudaGetErrorString(error)};
  };
  if (const int error = runtime_.cudaStreamBeginCapture(stream, kGlobalCapture)) return refused(error);
  call(0);
  const int ended = runtime_.cudaStreamEndCapture(stream, &graph);
  if (ended != 0 || !graph) return refused(ended);
  if (const int error = runtime_.cudaGraphInstantiate(&ready, graph, 0)) return refused(error);
  buffers_.restore_inputs(calls[0], 0);
  settle(kPrepare);
  Replayed replayed;
  for (int i = 0; i < 2 && !replayed.difference; ++i) {
    restore();
    check(runtime_.cudaGraphLaunch(ready, stream), "the replay of a graph");
    settle("the replay of a graph");  // and for what was restored of the other calls
    // What the other calls wrote is what they wrote before: only the first was made.
    for (const Region& region : regions_)
      if (region.call != 0)
        check(runtime_.cudaMemcpy(region.at, results_ + region.kept, bytes_of(region.bytes), kDeviceToDevice),
              kLoadStage);
    settle(kLoadStage);
    replayed.difference = compare("from a CUDA graph");
  }
  runtime_.cudaGraphExecDestroy(ready);
  runtime_.cudaGraphDestroy(graph);
  return replayed;
}

}  // namespace assay::worker
