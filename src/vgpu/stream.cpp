// What the host asks of streams: work, events, waiting. stream_device.cpp does it.
#include "vgpu/stream.h"

#include <optional>

#include "base/random.h"
#include "vgpu/stream_turn.h"

namespace assay::vgpu {

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

}  // namespace assay::vgpu
