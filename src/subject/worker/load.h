// Calls of the subject again and again while other kernels fill a real GPU, each compared with the first.
//
//   Load load(runtime, buffers, streams);
//   load.keep_contents(calls, false);           // before the first time
//   …                                           // the calls
//   load.keep_results();                        // after it
//   if (auto difference = load.repeat(how, call)) …
//
// A race seldom shows on an idle GPU: blocks start in the same order each time, and warps of small grids have no competition. Beside
// each repetition run kernels of other grids, blocks and amounts of shared memory, for other times, so that it gets
// other multiprocessors, at other moments. Every other time a kernel is queued before it on the call's own stream, and now
// and then a call of the subject with another shape comes first; two calls that a request has are made at once, in turn from
// one host thread and from two.
//
// Where nothing but the results may differ, the worker compares them on the GPU: nothing is copied to the host unless
// they do.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "protocol/messages.h"
#include "subject/worker/buffers.h"
#include "subject/worker/runtime.h"

namespace assay::worker {

class Load {
 public:
  // Makes a call: which of them.
  using Call = std::function<void(std::size_t)>;

  Load(const Runtime& runtime, Buffers& buffers, const Stream* streams)
      : runtime_(runtime), buffers_(buffers), streams_(streams) {}
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load();

  // Makes the driver load and start what it does at the first launch, before the subject is confined.
  void warm_up();
  // What the calls may write to is kept as it is now, the buffers being filled. `ordered`: inputs will arrive by work on
  // the stream. False: there is too much of it, or nothing.
  bool keep_contents(const std::vector<protocol::CallRequest>& calls, bool ordered);
  void keep_results();
  void forget() { regions_.clear(); }
  bool is_ready() const { return !regions_.empty(); }

  // A call of another size, on buffers of its own, which is made before some of the repetitions.
  void set_between(std::function<void()> call) { between_ = std::move(call); }

  // All calls once more; where a result differs from the one that was kept.
  std::optional<protocol::LoadDifference> repeat(uint64_t seed, const Call& call);

  // The first call from a CUDA graph: captured while its inputs hold other bytes, replayed with those that they had. An
  // empty report: the results agree. `no_graph` says why the call cannot be captured.
  struct Replayed {
    std::optional<protocol::LoadDifference> difference;
    std::string no_graph;
  };
  Replayed replay_graph(const std::vector<protocol::CallRequest>& calls, const Call& call);

 private:
  // Memory that a call may write to.
  struct Region {
    std::string name;
    std::size_t call = 0;
    bool is_result = false;
    std::byte* at = nullptr;
    const std::byte* filled = nullptr;  // holds what it will hold when the call begins
    int64_t bytes = 0;
    int64_t kept = 0;  // offset of the copies
  };
  struct Kernels {
    void *occupy = nullptr, *compare = nullptr;
  };

  void prepare();
  void settle(const char* stage);
  void adapt(double seconds);
  void occupy(uint64_t seed, Stream stream, uint64_t microseconds);
  void restore();
  void call_from_threads(const Call& call);
  std::optional<protocol::LoadDifference> compare(const char* how);
  protocol::LoadDifference describe(const Region& region, int64_t first, int64_t bytes, const char* how);
  void wait();
  bool reserve(int64_t bytes);

  const Runtime& runtime_;
  Buffers& buffers_;
  const Stream* streams_;
  std::function<void()> between_;
  std::vector<Region> regions_;
  std::size_t calls_ = 0;
  bool on_streams_ = true;  // the calls are given streams; else they work on the default one
  Kernels kernels_;
  static constexpr int kBeside = 3;
  Stream beside_[kBeside] = {};
  bool occupies_ = true;  // other kernels can be launched
  int restraint_ = 4;     // they are smaller and shorter by this power of 4, until the device proves fast
  int multiprocessors_ = 1;
  int64_t clock_khz_ = 1000000;
  std::byte* scratch_ = nullptr;  // of the kernels that run beside
  std::byte* found_ = nullptr;    // by the comparison: a count and a place for each region
  int64_t found_room_ = 0;        // regions
  std::byte *contents_ = nullptr, *results_ = nullptr;
  int64_t room_ = 0;  // bytes of each
};

}  // namespace assay::worker
