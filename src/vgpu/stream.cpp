#include "vgpu/stream.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <optional>

#include "base/overload.h"
#include "base/random.h"

namespace assay::vgpu {
namespace {

using std::chrono::duration;

constexpr unsigned kStepsInARow = 16;  // of one grid before the next has its turn
constexpr uint64_t kMostTurns = 4;  // of the blocks of one of several grids before another may have its turn
constexpr auto kStallPause = std::chrono::microseconds(200);

double now() {
  return duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// While one lives, its thread runs operations and no other does.
class RunningTurn {
 public:
  explicit RunningTurn(bool& taken) : taken_(taken) { taken_ = true; }
  ~RunningTurn() { taken_ = false; }
  RunningTurn(const RunningTurn&) = delete;
  RunningTurn& operator=(const RunningTurn&) = delete;

 private:
  bool& taken_;
};

OperationInfo::Kind kind_of(const Work& work) {
  using Kind = OperationInfo::Kind;
  constexpr Kind kinds[] = {Kind::Marker,   Kind::Grid,   Kind::Copy,   Kind::Fill,
                            Kind::HostCall, Kind::Record, Kind::Release};
  return kinds[work.index()];
}

RangeInfo range_of(const Place& place, uint64_t width, uint64_t height, uint64_t depth) {
  return {place.address, place.host, width, height, depth, place.row_pitch, place.slice_pitch};
}

FaultInfo bad_range(std::string_view what, Address address, uint64_t bytes) {
  return {
      FaultInfo::Kind::IllegalAddress,
      fmt::format("{} of {} bytes at {:#x}, which is outside every live allocation", what, bytes, address)};
}

// Calls `row(offset in to, offset in from, bytes)` for each contiguous piece of a 3D range.
template <class Row>
void for_rows(const Place& to, const Place& from, uint64_t width, uint64_t height, uint64_t depth, Row row) {
  auto is_dense = [&](const Place& place) {
    return (height == 1 || place.row_pitch == width) && (depth == 1 || place.slice_pitch == width * height);
  };
  if (is_dense(to) && is_dense(from)) {
    row(0, 0, width * height * depth);
    return;
  }
  for (uint64_t z = 0; z < depth; ++z)
    for (uint64_t y = 0; y < height; ++y)
      row(z * to.slice_pitch + y * to.row_pitch, z * from.slice_pitch + y * from.row_pitch, width);
}

std::byte* bytes_at(const Memory& memory, const Place& place, uint64_t offset, uint64_t bytes) {
  return place.host ? place.host + offset : memory.host(place.address + offset, bytes);
}

void fill_bytes(std::byte* to, uint64_t bytes, uint32_t value, uint32_t value_bytes) {
  if (value_bytes == 1) {
    std::memset(to, static_cast<int>(value), bytes);
    return;
  }
  for (uint64_t i = 0; i + value_bytes <= bytes; i += value_bytes) std::memcpy(to + i, &value, value_bytes);
}

}  // namespace

Streams::Streams(Device& device, StreamOptions options)
    : device_(device), options_(std::move(options)), random_(options_.seed), last_activity_(now()) {
  streams_[kDefaultStream] = {};
  device_runner_ = std::thread([this] { device_thread(); });
  host_runner_ = std::thread([this] { host_thread(); });
}

Streams::~Streams() {
  {
    Lock lock(mutex_);
    stop_ = true;
    work_.notify_all();
    host_work_.notify_all();
  }
  device_runner_.join();
  host_runner_.join();
}

// ---- What the host asks for ----

StreamId Streams::create(bool blocking, int priority) {
  Lock lock(mutex_);
  StreamId id = ++streams_made_;
  streams_[id] = {.blocking = blocking, .priority = priority, .last = 0, .last_is_grid = false, .extra = {}};
  return id;
}

void Streams::destroy(StreamId stream) {
  Lock lock(mutex_);
  auto found = streams_.find(stream);
  if (found == streams_.end() || stream == kDefaultStream) return;
  // The default stream still waits for what a blocking stream leaves behind.
  if (found->second.blocking && !done_locked(found->second.last))
    streams_[kDefaultStream].extra.push_back(found->second.last);
  streams_.erase(found);
}

std::vector<OperationId> Streams::predecessors_locked(StreamId id) const {
  const Stream& stream = streams_.at(id);
  std::vector<OperationId> after = stream.extra;
  if (stream.last) after.push_back(stream.last);
  if (host_point_) after.push_back(host_point_);
  if (id == kDefaultStream) {
    for (const auto& [other, state] : streams_)
      if (other != kDefaultStream && state.blocking && state.last) after.push_back(state.last);
  } else if (OperationId last = streams_.at(kDefaultStream).last; stream.blocking && last) {
    after.push_back(last);
  }
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  return after;
}

// What work changes in device memory; nothing: it changes none.
std::optional<Streams::WorkLeft> Streams::change_by(const Work& work) {
  if (const auto* grid = std::get_if<GridWork>(&work))
    return WorkLeft{std::string(grid->kernel.name()), grid->config.origin};
  const auto* copy = std::get_if<CopyWork>(&work);
  const auto* fill = std::get_if<FillWork>(&work);
  if ((copy && !copy->to.host) || (fill && !fill->to.host)) return WorkLeft{};
  return std::nullopt;
}

void Streams::watch_order() {
  Lock lock(mutex_);
  watches_order_ = true;
  order_.clear();
  host_waited_.clear();
}

std::optional<Streams::WorkLeft> Streams::work_left(StreamId stream) {
  Lock lock(mutex_);
  if (!watches_order_) return std::nullopt;
  watches_order_ = false;
  const std::vector<Ordered> order = std::move(order_);
  std::vector<OperationId> waiting = std::move(host_waited_);
  if (streams_.contains(stream))
    for (const OperationId id : predecessors_locked(stream)) waiting.push_back(id);
  std::vector<bool> joined(order.size());
  while (!waiting.empty()) {
    const OperationId id = waiting.back();
    waiting.pop_back();
    const auto found =
        std::lower_bound(order.begin(), order.end(), id,
                         [](const Ordered& one, OperationId wanted) { return one.id < wanted; });
    if (found == order.end() || found->id != id) continue;
    const auto position = static_cast<std::size_t>(found - order.begin());
    if (joined[position]) continue;
    joined[position] = true;
    waiting.insert(waiting.end(), found->after.begin(), found->after.end());
  }
  std::optional<WorkLeft> left;  // a kernel, if there is one: it has a name
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i].work && !joined[i] && order[i].stream != stream && order[i].stream != kDefaultStream)
      if (!left || (left->kernel.empty() && !order[i].work->kernel.empty())) left = order[i].work;
  return left;
}

void Streams::note_order_locked(Ordered one) {
  constexpr std::size_t kMost = 1 << 20;  // of one call; more are not judged
  if (order_.size() == kMost) watches_order_ = false;
  if (watches_order_) order_.push_back(std::move(one));
}

Streams::Operation& Streams::add_locked(StreamId stream, Work work, std::vector<OperationId> after) {
  auto owned = std::make_unique<Operation>();
  Operation& operation = *owned;
  operation.id = ++operations_;
  operation.stream = stream;
  operation.priority = streams_.at(stream).priority;
  operation.work = std::move(work);
  operation.after = std::move(after);
  if (watches_order_) note_order_locked({operation.id, stream, operation.after, change_by(operation.work)});
  if (auto* record = std::get_if<RecordWork>(&operation.work)) record->event->operation = operation.id;
  for (OperationId id : operation.after) {
    auto found = pending_.find(id);
    if (found == pending_.end()) continue;
    found->second->dependents.push_back(operation.id);
    ++operation.blockers;
  }
  pending_[operation.id] = std::move(owned);
  if (operation.blockers == 0) ready_.insert({operation.priority, operation.id});
  last_activity_ = now();
  if (idle_) work_.notify_all();  // the silence of the host is measured from here
  return operation;
}

OperationId Streams::submit_locked(StreamId stream, Work work) {
  if (!streams_.contains(stream)) stream = kDefaultStream;
  if (faulted_) {
    auto* call = std::get_if<HostWork>(&work);
    if (!call || !call->after_fault) return ++operations_;
  }
  const auto* grid = std::get_if<GridWork>(&work);
  const bool is_grid = grid != nullptr, early = grid && grid->config.early;
  Operation& operation = add_locked(stream, std::move(work), predecessors_locked(stream));
  Stream& state = streams_[stream];
  if (early && state.last_is_grid) operation.overlaps = state.last;
  state.last = operation.id;
  state.last_is_grid = is_grid;
  state.extra.clear();
  return operation.id;
}

OperationId Streams::submit(StreamId stream, Work work) {
  Lock lock(mutex_);
  OperationId id = submit_locked(stream, std::move(work));
  throttle_locked(lock);
  return id;
}

OperationId Streams::submit(StreamId stream, std::span<const OrderedWork> works) {
  Lock lock(mutex_);
  if (faulted_) return ++operations_;
  OperationId begin = submit_locked(stream, MarkerWork{});
  std::vector<OperationId> ids;
  std::set<OperationId> leaves;
  for (const OrderedWork& item : works) {
    std::vector<OperationId> after;
    for (uint32_t position : item.after) {
      after.push_back(ids.at(position));
      leaves.erase(ids[position]);
    }
    if (after.empty()) after.push_back(begin);
    ids.push_back(add_locked(stream, item.work, std::move(after)).id);
    leaves.insert(ids.back());
  }
  if (leaves.empty()) return begin;
  OperationId end = add_locked(stream, MarkerWork{}, {leaves.begin(), leaves.end()}).id;
  streams_[stream].last = end;
  streams_[stream].last_is_grid = false;
  throttle_locked(lock);
  return end;
}

OperationId Streams::record(StreamId stream, const std::shared_ptr<StreamEvent>& event) {
  Lock lock(mutex_);
  return submit_locked(stream, RecordWork{event});
}

void Streams::wait_for(StreamId stream, OperationId operation) {
  Lock lock(mutex_);
  if (!streams_.contains(stream)) stream = kDefaultStream;
  if (operation != 0) streams_[stream].extra.push_back(operation);
}

bool Streams::done(OperationId operation) {
  Lock lock(mutex_);
  return done_locked(operation);
}

void Streams::synchronise(OperationId operation) {
  Lock lock(mutex_);
  wait_locked(lock, {operation});
}

void Streams::synchronise_stream(StreamId stream) {
  Lock lock(mutex_);
  if (!streams_.contains(stream)) return;
  wait_locked(lock, predecessors_locked(stream));
}

void Streams::synchronise_all() {
  Lock lock(mutex_);
  std::vector<OperationId> all;
  for (const auto& [id, operation] : pending_) all.push_back(id);
  for (const auto& [id, stream] : streams_)
    if (stream.last) all.push_back(stream.last);
  wait_locked(lock, std::move(all));
}

void Streams::wait_locked(Lock& lock, std::vector<OperationId> targets) {
  last_activity_ = now();
  auto pending = [&](OperationId id) { return !done_locked(id); };
  help_locked(lock, targets);
  if (std::any_of(targets.begin(), targets.end(), pending)) {
    targets_.insert(targets_.end(), targets.begin(), targets.end());
    work_.notify_all();
    done_.wait(lock, [&] { return std::none_of(targets.begin(), targets.end(), pending); });
    for (OperationId id : targets) targets_.erase(std::find(targets_.begin(), targets_.end(), id));
  }
  note_wait_locked(targets);
}

void Streams::help_locked(Lock& lock, const std::vector<OperationId>& targets) {
  if (options_.seed != 0 || !running_.empty() || turning_) return;
  std::optional<RunningTurn> turn(std::in_place, turning_);
  const auto pending = [&](OperationId id) { return !done_locked(id); };
  while (std::any_of(targets.begin(), targets.end(), pending)) {
    Operation* next = pick_ready_locked();
    if (!next || std::holds_alternative<GridWork>(next->work) || std::holds_alternative<HostWork>(next->work))
      break;
    ready_.erase({next->priority, next->id});
    start_locked(lock, *next);
  }
  turn.reset();
  if (!pending_.empty()) work_.notify_all();  // the device's thread may have waited for its turn
}

thread_local int UnseenWaits::depth_ = 0;

void Streams::note_wait_locked(const std::vector<OperationId>& targets) {
  if (watches_order_ && !UnseenWaits::here())
    host_waited_.insert(host_waited_.end(), targets.begin(), targets.end());
  if (listeners_.empty() || targets.empty() || UnseenWaits::here()) return;
  // Waiting again for the same work brings nothing new.
  if (host_point_ && targets.size() == 1 && targets.front() <= host_point_ && targets == last_wait_) return;
  std::vector<OperationId> after = targets;
  if (host_point_) after.push_back(host_point_);
  host_point_ = ++operations_;
  if (watches_order_) note_order_locked({host_point_, kDefaultStream, after, std::nullopt});
  const OperationInfo info{host_point_, kDefaultStream, OperationInfo::Kind::Marker, after};
  for (Listener* listener : listeners_) {
    listener->on_operation(info);
    listener->on_operation_end(info);
    listener->on_host_wait(targets);
  }
  last_wait_ = targets;
}

void Streams::ask_locked() {
  last_activity_ = now();
  if (pending_.empty() || background_stopped_) return;
  drain_ = true;
  work_.notify_all();
}

bool Streams::poll(OperationId operation) {
  Lock lock(mutex_);
  if (done_locked(operation)) {
    note_wait_locked({operation});
    return true;
  }
  ask_locked();
  return false;
}

bool Streams::poll_stream(StreamId stream) {
  Lock lock(mutex_);
  if (!streams_.contains(stream)) return true;
  auto targets = predecessors_locked(stream);
  if (std::all_of(targets.begin(), targets.end(), [&](OperationId id) { return done_locked(id); })) {
    note_wait_locked(targets);
    return true;
  }
  ask_locked();
  return false;
}

void Streams::throttle_locked(Lock& lock) {
  if (pending_.size() < options_.pending_limit) return;
  drain_ = true;
  work_.notify_all();
  ++throttled_;
  done_.wait(lock, [&] { return pending_.size() < 2 * options_.pending_limit || host_call_ != 0; });
  --throttled_;
}

FaultInfo Streams::fault() const {
  Lock lock(mutex_);
  return fault_;
}

void Streams::set_seed(uint64_t seed) {
  Lock lock(mutex_);
  options_.seed = random_ = seed;
}

void Streams::stop_background_work() {
  {
    Lock lock(mutex_);
    background_stopped_ = true;
    drain_ = false;
  }
  std::lock_guard wait_for_the_step_under_way(engine_);
}

void Streams::listen(Listener* listener) {
  Lock lock(mutex_);
  listeners_.push_back(listener);
}

// ---- The device's thread ----

void Streams::device_thread() {
  Lock lock(mutex_);
  while (!stop_) {
    if (pending_.empty()) {
      drain_ = false;
      idle_ = true;
      work_.wait(lock);
      idle_ = false;
    } else if (turning_) {
      idle_ = true;
      work_.wait(lock);
      idle_ = false;
    } else if (wanted_locked()) {
      bool went_on = false;
      {
        const RunningTurn turn(turning_);
        went_on = turn_locked(lock);
      }
      if (!went_on) work_.wait_for(lock, kStallPause);
    } else if (background_stopped_) {
      work_.wait(lock);
    } else if (double silent = now() - last_activity_; silent >= options_.nudge_seconds) {
      drain_ = true;
    } else {
      work_.wait_for(lock, duration<double>(options_.nudge_seconds - silent));
    }
  }
}

bool Streams::wanted_locked() const {
  return drain_ ||
         std::any_of(targets_.begin(), targets_.end(), [&](OperationId id) { return !done_locked(id); });
}

uint64_t Streams::choose(uint64_t count) {
  return scramble(random_ += kGoldenStep) % count;
}

bool Streams::all_stalled_locked() const {
  return std::all_of(running_.begin(), running_.end(),
                     [&](OperationId id) { return pending_.at(id)->stalled; });
}

// The next operation to start; null when none may.
Streams::Operation* Streams::pick_ready_locked() {
  bool room = running_.size() < options_.concurrent_grids || all_stalled_locked();
  std::vector<Operation*> candidates;
  for (const Rank& rank : ready_) {
    Operation* operation = pending_.at(rank.second).get();
    if (!room && std::holds_alternative<GridWork>(operation->work)) continue;
    if (options_.seed == 0) return operation;
    candidates.push_back(operation);
  }
  return candidates.empty() ? nullptr : candidates[choose(candidates.size())];
}

bool Streams::turn_locked(Lock& lock) {
  Operation* next = pick_ready_locked();
  // A grid that could start beside another one mostly does: alone it would have ended before.
  bool start = next && (options_.seed == 0 || running_.empty() || choose(4) != 0);
  if (start) {
    ready_.erase({next->priority, next->id});
    start_locked(lock, *next);
    return true;
  }
  if (running_.empty()) return false;
  size_t position = options_.seed == 0 ? 0 : choose(running_.size());
  for (size_t tried = 0; pending_.at(running_[position])->held && tried < running_.size(); ++tried)
    position = (position + 1) % running_.size();
  return step_locked(lock, position);
}

// ---- Grids that start early (griddepcontrol) ----
//
// A GPU may start a grid with programmatic stream serialization once every block of the grid before it has executed
// griddepcontrol.launch_dependents or ended. Under a seed the device does its worst: blocks stop at that instruction,
// the dependent runs until it ends or waits (griddepcontrol.wait), and only then do they go on.

Streams::Operation* Streams::early_dependent_locked(const Operation& operation) {
  const auto* grid = std::get_if<GridWork>(&operation.work);
  if (options_.seed == 0 || !grid || grid->config.cooperative || grid->config.sampled || operation.started)
    return nullptr;
  for (const OperationId id : operation.dependents) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) continue;
    Operation& next = *found->second;
    const auto* work = std::get_if<GridWork>(&next.work);
    if (work && next.overlaps == operation.id && next.blockers == 1 && !next.started &&
        !work->config.cooperative)
      return &next;
  }
  return nullptr;
}

void Streams::let_dependent_ahead_locked(Lock& lock, Operation& operation) {
  if (operation.started && operation.blockers != 0) {  // it waits for the grid that it overtook
    operation.held = true;
    release_prior_locked(operation);
    return;
  }
  Operation* next = early_dependent_locked(operation);
  if (!next) {
    operation.run->release();
    return;
  }
  operation.held = next->started = true;
  std::get<GridWork>(next->work).config.prior_runs = true;
  start_locked(lock, *next);
}

// `dependent` waits, or has ended: the grid that it overtook goes on.
void Streams::release_prior_locked(const Operation& dependent) {
  const auto found = pending_.find(dependent.overlaps);
  if (found == pending_.end() || !found->second->held) return;
  found->second->held = false;
  found->second->run->release();
}

void Streams::start_locked(Lock& lock, Operation& operation) {
  OperationInfo info{operation.id, operation.stream, kind_of(operation.work), operation.after,
                     operation.overlaps};
  for (Listener* listener : listeners_) listener->on_operation(info);
  FaultInfo fault;
  bool ended = true;
  auto beside = [&](auto act) {  // the host goes on submitting meanwhile
    lock.unlock();
    {
      std::lock_guard hold(engine_);
      act();
    }
    lock.lock();
  };
  std::visit(Overload{
                 [&](const MarkerWork&) {},
                 [&](RecordWork& work) { work.event->seconds = now(); },
                 [&](const ReleaseWork& work) {
                   beside([&] {
                     // Giving memory back conflicts with every use that nothing orders before it.
                     if (const auto freed = device_.memory().find(work.address))
                       for (Listener* listener : listeners_)
                         listener->on_fill(info, {freed->base, nullptr, freed->size, 1, 1, 0, 0});
                     device_.memory().release(work.address);
                   });
                 },
                 [&](const CopyWork& work) { beside([&] { fault = run(operation, work); }); },
                 [&](const FillWork& work) { beside([&] { fault = run(operation, work); }); },
                 [&](const HostWork&) {
                   ended = false;
                   host_calls_.push_back(operation.id);
                   host_work_.notify_one();
                 },
                 [&](GridWork& work) {
                   ended = false;
                   const bool alone = running_.empty();
                   if (options_.grid_starts) options_.grid_starts(work.config);
                   work.config.holds_at_trigger = early_dependent_locked(operation) != nullptr;
                   beside([&] {
                     if (alone && options_.grid_alone) options_.grid_alone(work);
                     operation.run = device_.start(work.kernel, work.config, std::move(work.parameters),
                                                   operation.stream);
                   });
                   running_.push_back(operation.id);
                 },
             },
             operation.work);
  if (fault.kind != FaultInfo::Kind::None) {
    fail_locked(std::move(fault));
  } else if (ended) {
    for (Listener* listener : listeners_) listener->on_operation_end(info);
    complete_locked(operation.id);
  }
}

bool Streams::step_locked(Lock& lock, size_t position) {
  OperationId id = running_[position];
  Operation& operation = *pending_.at(id);
  GridRun::State state;
  // Under a seed, grids that run beside each other change places after a few blocks, so that they meet half done.
  const bool beside = options_.seed != 0 && running_.size() > 1 && !operation.started;
  const uint64_t turns = beside ? 1 + choose(kMostTurns) : 0;
  lock.unlock();
  {
    std::lock_guard hold(engine_);
    state = operation.run->step(turns);
    if (state == GridRun::State::Ended && options_.grid_ended) options_.grid_ended(*operation.run);
  }
  lock.lock();
  if (state == GridRun::State::Ended) {
    steps_in_a_row_ = 0;
    std::erase(running_, id);
    if (FaultInfo fault = operation.run->outcome().fault; fault.kind != FaultInfo::Kind::None) {
      fail_locked(std::move(fault));
      return true;
    }
    OperationInfo info{operation.id, operation.stream, OperationInfo::Kind::Grid, operation.after};
    for (Listener* listener : listeners_) listener->on_operation_end(info);
    release_prior_locked(operation);
    operation.finished = true;
    if (operation.blockers == 0) complete_locked(id);
    return true;
  }
  if (state == GridRun::State::Held) {
    let_dependent_ahead_locked(lock, operation);
    return true;
  }
  operation.stalled = state == GridRun::State::Stalled;
  if (operation.stalled) release_prior_locked(operation);
  if (operation.stalled || ++steps_in_a_row_ >= kStepsInARow) {
    steps_in_a_row_ = 0;
    if (options_.seed == 0) rotate_locked();
  }
  if (!operation.stalled || !all_stalled_locked()) {
    stalled_since_ = 0;
    return true;
  }
  watch_stall_locked();
  return !ready_.empty();
}

// Every grid under way polls. Memory that the host can write, the host itself or a host call may end that.
void Streams::watch_stall_locked() {
  if (stalled_since_ == 0) stalled_since_ = now();
  bool alone = ready_.empty() && host_calls_.empty() && host_call_ == 0;
  if (!alone || host_could_help() ||
      now() - std::max(stalled_since_, last_activity_) < options_.stall_seconds)
    return;
  for (OperationId id : running_)
    pending_.at(id)->run->give_up();  // the next step ends it, with where it stands
}

bool Streams::host_could_help() const {
  for (const Allocation& allocation : device_.memory().live())
    if (allocation.kind == MemoryKind::Managed || allocation.kind == MemoryKind::Pinned) return true;
  return false;
}

void Streams::complete_locked(OperationId id) {
  auto node = pending_.extract(id);
  for (OperationId dependent : node.mapped()->dependents) {
    Operation& next = *pending_.at(dependent);
    if (--next.blockers != 0) continue;
    if (!next.started)
      ready_.insert({next.priority, next.id});
    else if (next.finished)
      complete_locked(dependent);
    else
      next.held = false, next.run->prior_ended();
  }
  bool wanted = std::find(targets_.begin(), targets_.end(), id) != targets_.end();
  if (wanted || throttled_) done_.notify_all();
}

// Nothing that is pending will run, except host calls that are to be notified of the fault.
void Streams::fail_locked(FaultInfo fault) {
  if (!faulted_) fault_ = std::move(fault);
  __atomic_store_n(&faulted_, true, __ATOMIC_RELEASE);
  ready_.clear();
  running_.clear();
  std::map<OperationId, std::unique_ptr<Operation>> kept;
  for (auto& [id, operation] : pending_) {
    auto* call = std::get_if<HostWork>(&operation->work);
    bool started =
        id == host_call_ || std::find(host_calls_.begin(), host_calls_.end(), id) != host_calls_.end();
    if (started || (call && call->after_fault)) kept[id] = std::move(operation);
  }
  pending_.clear();
  for (auto& [id, operation] : kept) {
    operation->dependents.clear();
    bool waits =
        operation->blockers != 0 ||
        (id != host_call_ && std::find(host_calls_.begin(), host_calls_.end(), id) == host_calls_.end());
    if (waits) host_calls_.push_back(id);
    operation->blockers = 0;
    pending_[id] = std::move(operation);
  }
  done_.notify_all();
  host_work_.notify_all();
}

// ---- Copies and fills ----

FaultInfo Streams::run(const Operation& operation, const CopyWork& work) {
  if (options_.leaves_out && options_.leaves_out(operation.work)) return {};
  Memory& memory = device_.memory();
  OperationInfo info{operation.id, operation.stream, OperationInfo::Kind::Copy, operation.after};
  for (Listener* listener : listeners_)
    listener->on_copy(info, range_of(work.to, work.width, work.height, work.depth),
                      range_of(work.from, work.width, work.height, work.depth));
  FaultInfo fault;
  for_rows(work.to, work.from, work.width, work.height, work.depth,
           [&](uint64_t to, uint64_t from, uint64_t bytes) {
             if (bytes == 0 || fault.kind != FaultInfo::Kind::None) return;
             std::byte* target = bytes_at(memory, work.to, to, bytes);
             const std::byte* source = bytes_at(memory, work.from, from, bytes);
             if (!target)
               fault = bad_range("copy to a range", work.to.address + to, bytes);
             else if (!source)
               fault = bad_range("copy from a range", work.from.address + from, bytes);
             else {
               std::memmove(target, source, bytes);
               if (work.to.host) return;
               if (work.from.host)
                 memory.mark_initialised(work.to.address + to, bytes);
               else
                 memory.copy_initialised(work.to.address + to, work.from.address + from, bytes);
             }
           });
  return fault;
}

FaultInfo Streams::run(const Operation& operation, const FillWork& work) {
  if (options_.leaves_out && options_.leaves_out(operation.work)) return {};
  Memory& memory = device_.memory();
  OperationInfo info{operation.id, operation.stream, OperationInfo::Kind::Fill, operation.after};
  for (Listener* listener : listeners_)
    listener->on_fill(info, range_of(work.to, work.width, work.height, work.depth));
  FaultInfo fault;
  for_rows(work.to, work.to, work.width, work.height, work.depth, [&](uint64_t to, uint64_t, uint64_t bytes) {
    if (bytes == 0 || fault.kind != FaultInfo::Kind::None) return;
    std::byte* target = bytes_at(memory, work.to, to, bytes);
    if (!target) {
      fault = bad_range("fill of a range", work.to.address + to, bytes);
      return;
    }
    fill_bytes(target, bytes, work.value, work.value_bytes);
    if (!work.to.host) memory.mark_initialised(work.to.address + to, bytes);
  });
  return fault;
}

// ---- The thread of host calls ----

void Streams::host_thread() {
  Lock lock(mutex_);
  for (;;) {
    host_work_.wait(lock, [&] { return stop_ || !host_calls_.empty(); });
    if (stop_) return;
    host_call_ = host_calls_.front();
    host_calls_.pop_front();
    if (throttled_) done_.notify_all();  // the call may wait for the host
    auto call = std::get<HostWork>(pending_.at(host_call_)->work).call;
    lock.unlock();
    call();
    lock.lock();
    OperationId ended = std::exchange(host_call_, 0);
    complete_locked(ended);
    work_.notify_all();
  }
}

}  // namespace assay::vgpu
