// The device: modules, launches, and a grid's way through its clusters.
#include "vgpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "base/parallel.h"
#include "base/random.h"
#include "base/schedule.h"
#include "base/thread_pool.h"
#include "vgpu/compiled.h"
#include "vgpu/program.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStep = std::chrono::milliseconds(50);  // how long step() runs before it lets other grids run
constexpr uint64_t kTurnsBeforeStalled =
    2000;  // in a row without any progress; and some for each resident cluster
constexpr uint64_t kClocksOfALaunch = 2000;  // from the end of one to the start of the next
constexpr uint64_t kSmallGrid = 64;          // warps; not worth waking the pool

uint32_t resident_blocks(uint64_t threads, uint64_t shared) {
  const uint64_t warps = (threads + kWarpSize - 1) / kWarpSize;
  uint64_t blocks = std::min<uint64_t>(32, 64 / std::max<uint64_t>(warps, 1));
  blocks = std::min<uint64_t>(blocks, uint64_t{228 << 10} / (shared + 1024));
  return static_cast<uint32_t>(blocks);
}

}  // namespace

struct Device::Impl {
  Options options;
  Memory memory;
  ThreadPool pool;
  std::vector<Worker> workers;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<Listener*> listeners;
  uint64_t launches = 0;
  uint64_t clock = 0;  // %clock64 after the launches that have ended

  static unsigned thread_count(const Options& o) {
    return static_cast<unsigned>(useful_threads(static_cast<int>(o.threads)));
  }
  explicit Impl(Options o)
      : options(std::move(o)),
        memory(options.capacity, options.watch),
        pool(thread_count(options)),
        workers(thread_count(options)) {
    for (size_t i = 0; i < workers.size(); ++i) workers[i].index = static_cast<uint32_t>(i);
    if (!options.print)
      options.print = [](std::string_view text) { fwrite(text.data(), 1, text.size(), stdout); };
  }
};

namespace {

class Run final : public GridRun {
 public:
  Run(Device::Impl& device, const LaunchInfo& info, std::vector<std::byte> parameters)
      : device_(device),
        parameters_(std::move(parameters)),
        listeners_(info.config.listeners.value_or(device.listeners)) {
    grid_.info = info;
    grid_.info.parameters = parameters_;
    grid_.program = grid_.info.kernel.program;
    grid_.entry = grid_.info.kernel.function;
    grid_.memory = &device.memory;
    grid_.parameters = parameters_.data();
    grid_.parameter_bytes = static_cast<uint32_t>(parameters_.size());
    grid_.options = &device.options;
    grid_.watched = device.options.watch;
    grid_.clock_begin = device.clock + kClocksOfALaunch;
    grid_.began = Clock::now();
    grid_.processor_began = processor_seconds();
    grid_.prior_runs = info.config.prior_runs;
    grid_.holds_at_trigger = info.config.holds_at_trigger;
    if (grid_.watched) grid_.listeners = listeners_;
    for (size_t space = 0; space < grid_.access_listeners.size(); ++space)
      std::copy_if(grid_.listeners.begin(), grid_.listeners.end(),
                   std::back_inserter(grid_.access_listeners[space]),
                   [&](const Listener* l) { return l->wants_accesses(static_cast<ptx::Space>(space)); });
    if (!grid_.listeners.empty()) {
      grid_.bounds = bounds_of(*grid_.entry, grid_.program->memory_sites + 1, parameters_, device.memory);
      grid_.info.bounds = &grid_.bounds;
    }
    place_cluster_and_shared();
    const std::vector<uint64_t>& only = grid_.info.config.only;
    total_ = only.empty() && !grid_.info.config.sampled
                 ? grid_.info.config.grid.count() / grid_.cluster.count()
                 : only.size();
    choose_resident_and_threads();
    if (grid_.info.config.sampled && grid_.info.config.iterations)
      grid_.loops = plan_loops(*grid_.entry, grid_.program->engine->join, *grid_.info.config.iterations,
                               grid_.info.config.iteration_seed);
    if (grid_.info.config.cooperative) make_workspace();
    for (Listener* listener : grid_.listeners) listener->on_launch(grid_.info);
    choose_order();
  }

  ~Run() override {
    if (grid_.workspace) device_.memory.release(grid_.workspace);
  }

  State step(uint64_t turns) override {
    if (ended_) return State::Ended;
    const auto begin = Clock::now();
    const auto deadline = begin + kStep;
    {
      std::lock_guard lock(mutex_);
      fruitless_of_step_ = 0;
      turns_left_ = turns == 0 ? UINT64_MAX : turns;
    }
    choose_code();
    // Most steps of grids that run beside each other are a few short turns: more threads than turns would only be woken.
    const auto threads = static_cast<unsigned>(std::min<uint64_t>(threads_, turns_left_));
    device_.pool.run(threads, [&](unsigned i) { work(device_.workers[i], deadline); });
    outcome_.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    if (grid_.stopped || (started_ == total_ && suspended_.empty() && held_.empty())) {
      end();
      return State::Ended;
    }
    std::unique_lock lock(mutex_);
    if (!held_.empty() && suspended_.empty()) {
      if (started_ == total_ || grid_.prior_runs) return State::Held;
      if (resident_ < resident_limit_) return State::Running;
      lock.unlock();
      release();  // the other blocks find no room until some of these have ended
      return State::Running;
    }
    return fruitless_turns_ > patience() && !let_more_in() ? State::Stalled : State::Running;
  }

  void give_up() override {
    if (!ended_ && !suspended_.empty()) give_up_on(*suspended_.front());
  }

  void release() override {
    std::lock_guard lock(mutex_);
    grid_.holds_at_trigger = false;
    let_held_go();
  }
  void prior_ended() override {
    std::lock_guard lock(mutex_);
    grid_.prior_runs = false;
    let_held_go();
  }

  const LaunchOutcome& outcome() const override { return outcome_; }
  const LaunchInfo& info() const override { return grid_.info; }

 private:
  Device::Impl& device_;
  std::vector<std::byte> parameters_;
  std::vector<Listener*> listeners_;
  GridContext grid_;
  LaunchOutcome outcome_;
  bool ended_ = false;
  uint64_t counted_ = 0;  // warp instructions that choose_code() knows of
  uint64_t total_ = 0;    // clusters
  unsigned threads_ = 1;
  uint64_t resident_limit_ = 1;
  uint64_t multiplier_ = 1, shift_ = 0;  // order of clusters: (multiplier * i + shift) mod total

  std::mutex mutex_;  // of what follows
  uint64_t started_ = 0, resident_ = 0;
  uint64_t turns_left_ = UINT64_MAX;                      // of this step
  uint64_t fruitless_turns_ = 0, fruitless_of_step_ = 0;  // in a row: in all, and since the step began
  uint64_t fruitful_turns_ = 0;                           // so far
  std::deque<std::unique_ptr<Cluster>> suspended_, held_;

  // Compiles the kernel once it has run for long enough.
  void choose_code() {
    const uint64_t executed = grid_.executed.load(std::memory_order_relaxed);
    grid_.compiled = vgpu::choose_code(*grid_.info.kernel.program, grid_, executed - counted_);
    counted_ = executed;
  }

  void place_cluster_and_shared() {
    const ptx::Function& kernel = *grid_.entry->ptx;
    Dim3 cluster = grid_.info.config.cluster;
    if (cluster.count() == 0 && kernel.required_cluster[0])
      cluster = {kernel.required_cluster[0], std::max(kernel.required_cluster[1], 1u),
                 std::max(kernel.required_cluster[2], 1u)};
    grid_.cluster = cluster.count() == 0 ? Dim3{} : cluster;
    grid_.shared_bytes = grid_.entry->shared_bytes + grid_.info.config.dynamic_shared;
    grid_.reserved_shared = (shared_limit(grid_) + kSharedRedZone + 15) / 16 * 16;
    grid_.reserved_bytes = asks_for_reserved_shared() ? kReservedShared : 0;
  }

  bool asks_for_reserved_shared() const {
    using S = ptx::SpecialRegister;
    const auto asks = [](const SpecialPlane& plane) {
      return plane.special >= S::ReservedSmemOffsetBegin && plane.special <= S::ReservedSmemOffset1;
    };
    const auto& functions = grid_.program->functions;
    return std::any_of(functions.begin(), functions.end(), [&](const Function& function) {
      return std::any_of(function.specials.begin(), function.specials.end(), asks);
    });
  }

  void choose_resident_and_threads() {
    const uint64_t blocks = resident_blocks(grid_.info.config.block.count(), grid_.shared_bytes);
    resident_limit_ = std::max<uint64_t>(
        1, device_.options.multiprocessors * std::max<uint64_t>(blocks, 1) / grid_.cluster.count());
    if (grid_.info.config.cooperative) resident_limit_ = std::max(resident_limit_, total_);
    const uint64_t warps = grid_.info.config.grid.count() * ((grid_.info.config.block.count() + 31) / 32);
    const bool alone = total_ == 1 || warps <= kSmallGrid || is_order_dependent();
    threads_ =
        alone || total_ == 0 ? 1 : static_cast<unsigned>(std::min<uint64_t>(device_.pool.size(), total_));
    grid_.threads = threads_;
    resident_limit_ = std::max<uint64_t>(resident_limit_, threads_);
  }

  bool is_order_dependent() const {
    for (const Function& f : grid_.program->functions)
      if (f.uses_order_dependent_atomics && (&f == grid_.entry || !f.ptx->is_entry)) return true;
    return false;
  }

  void make_workspace() {
    Result<Address> place = device_.memory.allocate(64, 256, MemoryKind::DeviceHeap, "grid barrier");
    if (!place) return;
    grid_.workspace = *place;
    device_.memory.mark_initialised(*place, 64);
    const uint32_t size = 64;
    std::memcpy(device_.memory.host(*place, 64), &size, sizeof size);
  }

  void choose_order() {
    const uint64_t seed = device_.options.seed;
    if (seed == 0 || total_ < 2 || grid_.info.config.sampled) return;
    const ScheduleKind kind = schedule_kind(seed);
    if (kind == ScheduleKind::LastFirst || kind == ScheduleKind::Starved) {
      multiplier_ = total_ - 1;  // backwards: from the last, or from the one before the starved block
      shift_ = kind == ScheduleKind::LastFirst ? total_ - 1 : (scramble(seed) % total_ + total_ - 1) % total_;
      return;
    }
    shift_ = seed % total_;
    multiplier_ = (seed * kGoldenStep >> 1) % total_;
    while (multiplier_ == 0 || std::gcd(multiplier_, total_) != 1) ++multiplier_;
  }

  // All resident clusters wait, perhaps for blocks with lower numbers, which GPUs do start first: a schedule that starts
  // others first has to let them in. Who waits for a block that a GPU would not have started shows in text order.
  bool let_more_in() {
    if (started_ == total_ || device_.options.seed == 0) return false;
    resident_limit_ *= 2;
    fruitless_turns_ = fruitless_of_step_ = 0;
    return true;
  }

  void let_held_go() {
    for (auto& cluster : held_) suspended_.push_back(std::move(cluster));
    held_.clear();
  }

  uint64_t patience() const { return kTurnsBeforeStalled + 20 * resident_; }

  uint64_t nth(uint64_t i) const {
    __extension__ using Wide = unsigned __int128;
    const auto place = static_cast<uint64_t>((static_cast<Wide>(multiplier_) * i + shift_) % total_);
    const std::vector<uint64_t>& only = grid_.info.config.only;
    return only.empty() ? place : only[place];
  }

  // A sampled launch has so much time for its clusters.
  void leave_out_late() {
    if (started_ == total_ || !is_late(grid_, 1)) return;
    outcome_.left_out = total_ - started_;
    total_ = started_;
  }

  // The next cluster to run: one that has waited and a new one in turn. Null: there is none, or all of them
  // poll.
  std::unique_ptr<Cluster> take(Worker& worker, uint64_t& fruitful_before) {
    std::unique_lock lock(mutex_);
    fruitful_before = fruitful_turns_;
    if (turns_left_ == 0) return nullptr;
    leave_out_late();
    const bool may_start = started_ < total_ && resident_ < resident_limit_;
    if (!may_start) {
      if (suspended_.empty()) return nullptr;
      if (fruitless_of_step_ > patience()) {
        if (!let_more_in()) return nullptr;
        lock.unlock();
        return take(worker, fruitful_before);
      }
      auto cluster = std::move(suspended_.front());
      suspended_.pop_front();
      --turns_left_;
      return cluster;
    }
    const uint64_t linear = nth(started_++);
    ++resident_;
    --turns_left_;
    lock.unlock();
    std::unique_ptr<Cluster> cluster;
    if (worker.idle.empty()) {
      cluster = std::make_unique<Cluster>();
    } else {
      cluster = std::move(worker.idle.back());
      worker.idle.pop_back();
    }
    prepare(*cluster, grid_, linear, worker);
    return cluster;
  }

  // A turn that another one's fruit came into counts as if it had not been: it may have looked before there was anything to
  // see, and the rest may be waiting for what it does next.
  void put_back(std::unique_ptr<Cluster> cluster, Turn turn, Worker& worker, uint64_t fruitful_before) {
    const bool ended = turn == Turn::Ended;
    const bool fruitful = ended || turn == Turn::Held || has_moved(*cluster) ||
                          cluster->polls == 0;  // who does not poll gets on
    {
      std::lock_guard lock(mutex_);
      const bool counts = !fruitful && fruitful_turns_ == fruitful_before;
      fruitless_turns_ = counts ? fruitless_turns_ + 1 : 0;
      fruitless_of_step_ = counts ? fruitless_of_step_ + 1 : 0;
      fruitful_turns_ += fruitful;
      if (ended)
        --resident_;
      else if (turn == Turn::Held)
        held_.push_back(std::move(cluster));
      else
        suspended_.push_back(std::move(cluster));
    }
    if (ended) worker.idle.push_back(std::move(cluster));
  }

  void make_ready(Worker& worker) {
    const uint64_t generation = device_.memory.generation();
    const bool same_bounds = worker.launch == grid_.info.id || grid_.bounds.bounds.empty();
    if (worker.generation == generation && worker.program == grid_.program && same_bounds) return;
    worker.launch = grid_.info.id;
    worker.sites.assign(grid_.program->memory_sites + 1, SiteRange{});
    if (worker.program != grid_.program) worker.idle.clear();
    worker.program = grid_.program;
    worker.generation = generation;
  }

  void work(Worker& worker, Clock::time_point deadline) {
    make_ready(worker);
    while (!grid_.stopped.load(std::memory_order_relaxed)) {
      uint64_t fruitful_before = 0;
      std::unique_ptr<Cluster> cluster = take(worker, fruitful_before);
      if (!cluster) return;
      const Turn turn = run_cluster(*cluster, worker);
      put_back(std::move(cluster), turn, worker, fruitful_before);
      if (Clock::now() > deadline) return;
    }
  }

  void end() {
    ended_ = true;
    choose_code();
    suspended_.clear();
    held_.clear();
    outcome_.fault = grid_.fault.kind == FaultInfo::Kind::None ? grid_.left_out : grid_.fault;
    outcome_.cut = grid_.cut;
    device_.clock = std::max({device_.clock, grid_.clock_begin, grid_.clock_end.load()});
    outcome_.warp_instructions = grid_.executed;
    for (Listener* listener : grid_.listeners) listener->on_launch_end(grid_.info);
  }
};

}  // namespace

Device::Device(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Device::~Device() = default;

Memory& Device::memory() {
  return impl_->memory;
}
const Options& Device::options() const {
  return impl_->options;
}
void Device::set_seed(uint64_t seed) {
  impl_->options.seed = seed;
}
std::function<void(std::string_view)> Device::set_print(std::function<void(std::string_view)> print) {
  return std::exchange(impl_->options.print, std::move(print));
}
void Device::advance_clock(uint64_t cycles) {
  impl_->clock += cycles;
}

Result<Device::ModuleId> Device::load(std::string_view text, std::string_view name) {
  Result<ptx::Module> module = ptx::parse(text, name);
  if (!module) return module.error();
  auto program = decode(std::move(*module), std::string(name), impl_->memory, engine(impl_->options.watch),
                        impl_->options.instrumenter);
  if (!program) return program.error();
  impl_->programs.push_back(std::move(*program));
  return static_cast<ModuleId>(impl_->programs.size() - 1);
}

void Device::unload(ModuleId id) {
  if (id >= impl_->programs.size() || !impl_->programs[id]) return;
  Program& program = *impl_->programs[id];
  for (size_t v = 0; v < program.variables.size(); ++v)
    if (program.module.variables[v].space != ptx::Space::Shared) impl_->memory.release(program.variables[v]);
  for (Worker& worker : impl_->workers) {
    if (worker.program != &program) continue;
    worker.idle.clear();
    worker.program = nullptr;
  }
  impl_->programs[id].reset();
}

Result<Kernel> Device::kernel(ModuleId id, std::string_view name) const {
  if (id >= impl_->programs.size() || !impl_->programs[id]) return Error{"no such module"};
  Program& program = *impl_->programs[id];
  if (const Function* function = program.find(name)) return Kernel{&program, function};
  std::string known;
  for (const Function& f : program.functions)
    if (f.ptx->is_entry) known += (known.empty() ? "" : ", ") + f.ptx->name;
  return Error{
      fmt::format("no kernel `{}` in {} (it has: {})", name, program.name, known.empty() ? "none" : known)};
}

std::vector<Kernel> Device::kernels(ModuleId id) const {
  std::vector<Kernel> found;
  if (id >= impl_->programs.size() || !impl_->programs[id]) return found;
  for (const Function& f : impl_->programs[id]->functions)
    if (f.ptx->is_entry) found.push_back({impl_->programs[id].get(), &f});
  return found;
}

Result<Device::VariableInfo> Device::variable(ModuleId id, std::string_view name) const {
  if (id >= impl_->programs.size() || !impl_->programs[id]) return Error{"no such module"};
  const Program& program = *impl_->programs[id];
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const ptx::Variable& variable = program.module.variables[v];
    if (variable.name == name && variable.space != ptx::Space::Shared)
      return VariableInfo{program.variables[v], variable.size};
  }
  return Error{fmt::format("no variable `{}` in {}", name, program.name)};
}

std::unique_ptr<GridRun> Device::start(const Kernel& kernel, const LaunchConfig& config,
                                       std::vector<std::byte> parameters, uint64_t stream) {
  LaunchInfo info{
      .id = ++impl_->launches, .kernel = kernel, .config = config, .parameters = {}, .stream = stream};
  parameters.resize(std::max<size_t>(parameters.size(), kernel.function->parameter_bytes));
  return std::make_unique<Run>(*impl_, info, std::move(parameters));
}

LaunchOutcome Device::launch(const Kernel& kernel, const LaunchConfig& config,
                             std::vector<std::byte> parameters) {
  auto run = start(kernel, config, std::move(parameters));
  for (GridRun::State state = run->step(); state != GridRun::State::Ended; state = run->step())
    if (state == GridRun::State::Stalled) run->give_up();
  return run->outcome();
}

void Device::listen(Listener* listener) {
  uint32_t used = 0;
  for (const Listener* other : impl_->listeners) used |= 1u << other->slot();
  const auto free = static_cast<uint32_t>(std::countr_one(used));
  if (free >= kMostListeners) throw std::length_error("a device has too many listeners");
  listener->slot_ = free;
  impl_->listeners.push_back(listener);
}
void Device::ignore(Listener* listener) {
  std::erase(impl_->listeners, listener);
}

uint32_t Device::resident_blocks_per_multiprocessor(const Kernel& kernel, uint32_t threads,
                                                    uint32_t dynamic_shared) const {
  return resident_blocks(threads, kernel.function->shared_bytes + dynamic_shared);
}

}  // namespace assay::vgpu
