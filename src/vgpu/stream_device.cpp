// The threads that do what streams hold: which operation is next, when a grid starts, takes turns with others and
// ends, and what becomes of everything after a fault.
#include <fmt/format.h>

#include <chrono>

#include "base/overload.h"
#include "base/random.h"
#include "vgpu/stream.h"
#include "vgpu/stream_turn.h"

namespace assay::vgpu {
namespace {

constexpr unsigned kStepsInARow = 16;  // of one grid before the next has its turn
constexpr uint64_t kMostTurns = 4;  // of the blocks of one of several grids before another may have its turn
constexpr auto kStallPause = std::chrono::microseconds(200);

OperationInfo::Kind kind_of(const Work& work) {
  using Kind = OperationInfo::Kind;
  constexpr Kind kinds[] = {Kind::Marker,   Kind::Grid,   Kind::Copy,   Kind::Fill,
                            Kind::HostCall, Kind::Record, Kind::Release};
  return kinds[work.index()];
}

}  // namespace

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
      work_.wait_for(lock, std::chrono::duration<double>(options_.nudge_seconds - silent));
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
