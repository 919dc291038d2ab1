// Streams: the order in which the device executes what the host enqueues.
//
// Every request becomes an *operation* with a list of predecessors. A stream is not
// a queue, only a rule that adds predecessors: an operation comes after the last one of its
// stream; the default stream and the blocking streams wait for each other; waiting for an event or
// launching a graph adds edges. Ready operations run in an order that the seed chooses: equal
// seeds give equal orders, which may be ones that a real GPU rarely shows.
//
// Execution is deferred. A thread of its own runs operations while the host waits or polls, when
// many are pending, or when the host has been idle for a while (it may be polling memory that
// the device writes). A host thread that waits runs copies and fills itself. Concurrent grids take turns. Host functions run on a thread of their own,
// since they may wait for the host.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "vgpu/device.h"

namespace assay::vgpu {

using StreamId = uint64_t;
using OperationId = uint64_t;  // from 1, in the order of submission

inline constexpr StreamId kDefaultStream = 0;  // exists from the start

// One side of a copy: device memory by address, or host memory unknown to the device.
struct Place {
  Address address = 0;
  std::byte* host = nullptr;  // used when not null
  uint64_t row_pitch = 0;     // bytes from row to row, and from slice to slice
  uint64_t slice_pitch = 0;
};

struct CopyWork {
  Place to, from;
  uint64_t width = 0, height = 1, depth = 1;  // width in bytes
  // The source, read at submission; `from` then points into it.
  std::shared_ptr<std::vector<std::byte>> staged;
};

struct FillWork {
  Place to;
  uint64_t width = 0, height = 1, depth = 1;  // width in bytes
  uint32_t value = 0;
  uint32_t value_bytes = 1;  // 1, 2 or 4
};

struct GridWork {
  Kernel kernel;
  LaunchConfig config;
  std::vector<std::byte> parameters;
};

struct HostWork {
  std::function<void()> call;
  bool after_fault = false;  // runs even when the device has faulted
};

// A point in a stream that others can wait for, and the time it was passed.
struct StreamEvent {
  OperationId operation = 0;  // that passes it, of the latest record; 0: never recorded
  double seconds = 0;         // of a monotonic clock, when passed
};

struct RecordWork {
  std::shared_ptr<StreamEvent> event;
};

struct ReleaseWork {
  Address address = 0;
};

struct MarkerWork {};  // nothing but its place in the order

using Work = std::variant<MarkerWork, GridWork, CopyWork, FillWork, HostWork, RecordWork, ReleaseWork>;

// Work with an order of its own: `after` are positions in the span that it is given in.
struct OrderedWork {
  Work work;
  std::vector<uint32_t> after;
};

struct StreamOptions {
  uint64_t seed = 0;  // 0: the order of submission
  unsigned concurrent_grids = 16;
  unsigned pending_limit = 1024;  // more makes the device start, and twice as many the host wait
  double nudge_seconds = 0.02;    // of the host's silence
  double stall_seconds = 5;       // in which every grid polls and nobody could end that: a deadlock
  std::function<void(const GridRun&)> grid_ended;  // called on the device's thread
  std::function<void(const GridWork&)>
      grid_alone;  // likewise, before a grid starts while no other is under way
  // The same, of a grid that is about to start: it may still be changed.
  std::function<void(LaunchConfig&)> grid_starts{};
  // Whether a copy or a fill is not done at all: nobody is told.
  std::function<bool(const Work&)> leaves_out{};
};

// While one lives, the waits of its thread are not the program's own: listeners are not told, and what the program does
// later is not ordered by them.
class UnseenWaits {
 public:
  explicit UnseenWaits(bool on = true) : on_(on) { depth_ += on_; }
  ~UnseenWaits() { depth_ -= on_; }
  UnseenWaits(const UnseenWaits&) = delete;
  UnseenWaits& operator=(const UnseenWaits&) = delete;
  static bool here() { return depth_ > 0; }

 private:
  bool on_;
  static thread_local int depth_;
};

class Streams {
 public:
  Streams(Device& device, StreamOptions options);
  ~Streams();  // drops what is pending
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // A non-blocking stream does not wait for the default stream, nor it for the stream. Higher priority: lower
  // number.
  StreamId create(bool blocking, int priority = 0);
  void destroy(StreamId stream);  // what it holds still runs

  OperationId submit(StreamId stream, Work work);
  // All of it comes after the stream's last operation; returns the operation that ends it.
  OperationId submit(StreamId stream, std::span<const OrderedWork> works);
  OperationId record(StreamId stream, const std::shared_ptr<StreamEvent>& event);
  // What the stream does from now on comes after `operation`.
  void wait_for(StreamId stream, OperationId operation);

  bool done(OperationId operation);

  // Host waits. They return early once the device has faulted.
  void synchronise(OperationId operation);
  void synchronise_stream(StreamId stream);
  void synchronise_all();
  // Host asks whether it is done, and thereby gives the device time.
  bool poll(OperationId operation);
  bool poll_stream(StreamId stream);

  // The first fault, if any: nothing runs after it.
  FaultInfo fault() const;
  bool faulted() const { return __atomic_load_n(&faulted_, __ATOMIC_ACQUIRE); }

  // The host call that the calling thread is running; 0: none. Fit for a signal handler.
  OperationId host_call_here() const {
    const bool here = std::this_thread::get_id() == host_runner_.get_id();
    return here ? __atomic_load_n(&host_call_, __ATOMIC_RELAXED) : 0;
  }

  // Runs `use` while no grid is being stepped: for what must not happen beside execution.
  template <class Use>
  auto with_device(Use use) {
    std::lock_guard hold(engine_);
    return use(device_);
  }

  // Remembers from now on how operations are ordered, up to work_left().
  void watch_order();
  // An operation since watch_order() that changes device memory, and that neither the host nor `stream` has waited for: it
  // may run whenever it likes, also after what `stream` does next. Those of the default stream and of `stream` itself do
  // not count. Forgets the rest.
  struct WorkLeft {
    std::string kernel;  // empty: a copy or a fill
    uint64_t origin = 0;
  };
  std::optional<WorkLeft> work_left(StreamId stream);

  void set_seed(uint64_t seed);
  // Runs nothing any more unless a host thread waits for it: the process is ending.
  void stop_background_work();

  // Hears operations, copies and fills. Grids speak through Device::listen.
  void listen(Listener* listener);

 private:
  struct Stream {
    bool blocking = true;
    int priority = 0;
    OperationId last = 0;
    bool last_is_grid = false;
    std::vector<OperationId> extra;  // further predecessors of its next operation
  };
  struct Operation {
    OperationId id = 0;
    StreamId stream = 0;
    int priority = 0;
    Work work;
    std::vector<OperationId> after;       // direct predecessors, done or not
    OperationId overlaps = 0;             // as OperationInfo has it
    std::vector<OperationId> dependents;  // pending ones that come after it
    uint32_t blockers = 0;                // predecessors that are pending
    std::unique_ptr<GridRun> run;
    bool stalled = false;
    bool held = false;      // while a dependent runs ahead, or until the grid before has ended
    bool started = false;   // early: before all that it comes after was done …
    bool finished = false;  // … and it has ended as well; it counts as done when they are
  };
  // How an operation is ordered; kept while somebody watches.
  struct Ordered {
    OperationId id = 0;
    StreamId stream = 0;
    std::vector<OperationId> after;
    std::optional<WorkLeft> work;  // that changes device memory
  };
  using Lock = std::unique_lock<std::mutex>;
  using Rank = std::pair<int, OperationId>;

  static std::optional<WorkLeft> change_by(const Work& work);
  void note_order_locked(Ordered one);
  Operation& add_locked(StreamId stream, Work work, std::vector<OperationId> after);
  // What the next operation of a stream comes after.
  std::vector<OperationId> predecessors_locked(StreamId id) const;
  OperationId submit_locked(StreamId stream, Work work);
  bool done_locked(OperationId id) const { return !pending_.contains(id); }
  void throttle_locked(Lock& lock);
  void wait_locked(Lock& lock, std::vector<OperationId> targets);
  // Runs what is short and ready on the thread that waits for it: waking another thread takes longer.
  void help_locked(Lock& lock, const std::vector<OperationId>& targets);
  // The host knows that these are done: what it submits from now on comes after them.
  void note_wait_locked(const std::vector<OperationId>& targets);
  void ask_locked();

  void device_thread();
  bool wanted_locked() const;
  bool turn_locked(Lock& lock);  // one operation or one step; false: nothing could go on
  Operation* pick_ready_locked();
  void start_locked(Lock& lock, Operation& operation);
  bool step_locked(Lock& lock, size_t position);
  // The grid that may start while `operation`, which has a grid, still runs; null: none, or not under this schedule.
  Operation* early_dependent_locked(const Operation& operation);
  void let_dependent_ahead_locked(Lock& lock, Operation& operation);
  void release_prior_locked(const Operation& dependent);
  void rotate_locked() { std::rotate(running_.begin(), running_.begin() + 1, running_.end()); }
  bool all_stalled_locked() const;
  void complete_locked(OperationId id);
  void fail_locked(FaultInfo fault);
  void watch_stall_locked();
  bool host_could_help() const;
  FaultInfo run(const Operation& operation, const CopyWork& work);
  FaultInfo run(const Operation& operation, const FillWork& work);
  void host_thread();
  uint64_t choose(uint64_t count);

  Device& device_;
  StreamOptions options_;
  std::mutex engine_;  // held while a grid is stepped or memory is copied
  mutable std::mutex mutex_;
  std::condition_variable work_, done_, host_work_;
  std::map<StreamId, Stream> streams_;
  std::unordered_map<OperationId, std::unique_ptr<Operation>> pending_;
  std::set<Rank> ready_;
  std::deque<OperationId> running_;  // grids under way
  std::deque<OperationId> host_calls_;
  std::vector<Listener*> listeners_;
  std::vector<OperationId> targets_;  // what host threads wait for
  OperationId host_call_ = 0;         // under way
  bool watches_order_ = false;
  std::vector<Ordered> order_;            // by id
  std::vector<OperationId> host_waited_;  // for these, while the order is watched
  OperationId operations_ = 0;
  OperationId host_point_ =
      0;  // a marker after everything that the host has waited for; kept while somebody listens
  std::vector<OperationId> last_wait_;
  StreamId streams_made_ = 0;
  uint64_t random_ = 0;
  unsigned steps_in_a_row_ = 0;
  double stalled_since_ = 0;
  unsigned throttled_ = 0;  // host threads that submitted too much
  bool turning_ = false;    // some thread is in turn_locked() or help_locked(): no other may be
  bool idle_ = false;       // the device thread waits for work
  bool drain_ = false;      // run until nothing is pending
  bool stop_ = false;
  bool background_stopped_ = false;
  bool faulted_ = false;
  FaultInfo fault_;
  double last_activity_ = 0;
  std::thread device_runner_, host_runner_;
};

}  // namespace assay::vgpu
