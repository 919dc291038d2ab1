#include "vgpu/rehearsal.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/schedule.h"
#include "vgpu/grid.h"

namespace assay::vgpu {

namespace {

constexpr uint64_t kWord = 4;
constexpr size_t kMostTraced = 256;  // differing words of which the writers are looked for

// The order in which schedules are tried: each kind once, those first that chance brings about least.
uint64_t nth_schedule(uint64_t i) {
  constexpr uint64_t kKinds[] = {3, 4, 5, 7, 6, 1, 2, kScheduleKinds + 7};
  return i / std::size(kKinds) * 2 * kScheduleKinds + kKinds[i % std::size(kKinds)];
}

// What all live memory holds.
class Contents {
 public:
  static std::optional<Contents> of(const Memory& memory) {
    Contents contents;
    uint64_t bytes = 0;
    for (Allocation& allocation : memory.live()) {
      if (allocation.backing == nullptr) continue;
      bytes += allocation.size;
      if (bytes > kMostCompared) return std::nullopt;
      contents.add(std::move(allocation));
    }
    return contents;
  }

  void restore(Memory& memory) const {
    std::set<uint64_t> known;
    for (const Saved& saved : all_) {
      known.insert(saved.allocation.id);
      std::memcpy(saved.allocation.backing, saved.bytes.data(), saved.bytes.size());
      if (!saved.bits.empty())
        std::memcpy(saved.allocation.initialised, saved.bits.data(), saved.bits.size());
    }
    for (const Allocation& allocation : memory.live())
      if (!known.contains(allocation.id)) memory.release(allocation.base);
  }

  // Calls f(allocation, offset, mine, theirs) for every word that differs.
  template <class F>
  void each_difference(const Contents& other, F&& f) const {
    for (size_t i = 0; i < std::min(all_.size(), other.all_.size()); ++i) {
      const Saved &a = all_[i], &b = other.all_[i];
      if (a.allocation.id != b.allocation.id || a.bytes == b.bytes) continue;
      for (uint64_t at = 0; at < a.bytes.size(); at += kWord) {
        const size_t size = std::min<size_t>(kWord, a.bytes.size() - at);
        uint32_t mine = 0, theirs = 0;
        std::memcpy(&mine, a.bytes.data() + at, size);
        std::memcpy(&theirs, b.bytes.data() + at, size);
        if (mine != theirs) f(a.allocation, at, mine, theirs);
      }
    }
  }

 private:
  struct Saved {
    Allocation allocation;
    std::vector<std::byte> bytes;
    std::vector<uint8_t> bits;
  };
  void add(Allocation allocation) {
    Saved& saved = all_.emplace_back();
    saved.bytes.assign(allocation.backing, allocation.backing + allocation.size);
    if (allocation.initialised != nullptr)
      saved.bits.assign(allocation.initialised, allocation.initialised + (allocation.size + 7) / 8);
    saved.allocation = std::move(allocation);
  }
  std::vector<Saved> all_;
};

// An atomic or a reduction in memory; `add` itself has no such modifier.
bool is_float_sum(const ptx::Instruction& inst) {
  return inst.has(ptx::Mod::add) && std::any_of(inst.types.begin(), inst.types.end(), [](ptx::Type type) {
           return ptx::kind_of(type) == ptx::TypeKind::Float;
         });
}

// Notes who writes some words, and whether anybody adds floats by atomics.
class WriterLog final : public Listener {
 public:
  explicit WriterLog(std::set<Address> words) : words_(std::move(words)) {}

  bool wants_accesses(ptx::Space space) const override {
    return space == ptx::Space::Global || space == ptx::Space::Shared;
  }
  void on_loads(const Warp&, ptx::Space, std::span<const ShapedLoad>) override {}
  void on_access(const Warp& warp, const Inst& inst, const Access& access) override {
    if (access.kind == AccessKind::Load) return;
    std::lock_guard lock(mutex_);
    const bool is_atomic = access.kind != AccessKind::Store;
    const auto& body = warp.frame->function->ptx->body;
    if (is_atomic && inst.source < body.size()) adds_floats_ |= is_float_sum(body[inst.source]);
    if (access.space != ptx::Space::Global) return;
    for (uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
      const Address low = access.addresses[std::countr_zero(rest)], high = low + access.bytes;
      for (auto word = words_.lower_bound(low / kWord * kWord); word != words_.end() && *word < high; ++word)
        note(*word, warp, inst);
    }
  }

  bool adds_floats() const { return adds_floats_; }
  const std::vector<SourcePlace>& writers(Address word) { return writers_[word]; }

 private:
  void note(Address word, const Warp& warp, const Inst& inst) {
    if (!seen_.emplace(word, &inst).second) return;
    const SourcePlace place = place_of(*warp.grid->program, *warp.frame->function, inst);
    auto& known = writers_[word];
    if (std::none_of(known.begin(), known.end(),
                     [&](const SourcePlace& p) { return p.line == place.line && p.file == place.file; }))
      known.push_back(place);
  }

  std::mutex mutex_;
  std::set<Address> words_;
  std::set<std::pair<Address, const Inst*>> seen_;
  std::map<Address, std::vector<SourcePlace>> writers_;
  bool adds_floats_ = false;
};

class Rehearsal {
 public:
  Rehearsal(Device& device, const Kernel& kernel, const LaunchConfig& config,
            std::span<const std::byte> parameters, const ScheduleWatch& watch)
      : device_(device),
        watch_(watch),
        kernel_(kernel),
        config_(config),
        parameters_(parameters.begin(), parameters.end()),
        own_(device.options().seed),
        print_(device.set_print([](std::string_view) {})) {}
  ~Rehearsal() {
    device_.set_seed(own_);
    device_.set_print(std::move(print_));
  }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  std::vector<ScheduleDifference> compare(uint64_t count) {
    if (allocates() || (!device_.options().watch && may_add_floats())) return {};
    before_ = Contents::of(device_.memory());
    if (!before_) return {};
    const std::optional<Contents> mine = run(own_, {});
    for (uint64_t i = 0, tried = 0; mine && tried < count; ++i) {
      const uint64_t schedule = nth_schedule(i);
      if (schedule == own_) continue;
      ++tried;
      const std::optional<Contents> other = run_watched(schedule);
      if (!other) return {};
      bool differs = false;
      mine->each_difference(*other, [&](const Allocation&, uint64_t, uint32_t, uint32_t) { differs = true; });
      if (differs) return explain(*mine, *other, schedule);
    }
    return {};
  }

 private:
  // Whether the kernel may allocate or free on the device's heap, which could not be undone.
  bool allocates() const {
    const auto& functions = kernel_.program->module.functions;
    return std::any_of(functions.begin(), functions.end(), [](const ptx::Function& f) {
      return f.is_extern && (f.name == "malloc" || f.name == "free");
    });
  }

  // Without checks, accesses are not reported: then the code has to tell.
  bool may_add_floats() const {
    for (const Function& f : kernel_.program->functions) {
      if (&f != kernel_.function && f.ptx->is_entry) continue;
      if (std::any_of(f.ptx->body.begin(), f.ptx->body.end(), is_float_sum)) return true;
    }
    return false;
  }

  // What memory holds after the launch; nothing where it did not end well.
  std::optional<Contents> run(uint64_t schedule, std::vector<Listener*> listeners) {
    device_.set_seed(schedule);
    LaunchConfig config = config_;
    config.listeners = std::move(listeners);
    const bool ended = device_.launch(kernel_, config, parameters_).fault.kind == FaultInfo::Kind::None;
    std::optional<Contents> after;
    if (ended) after = Contents::of(device_.memory());
    before_->restore(device_.memory());
    return after;
  }

  std::optional<Contents> run_watched(uint64_t schedule) {
    if (!watch_.begin || !device_.options().watch) return run(schedule, {});
    const std::vector<Listener*> listeners = watch_.begin();
    for (Listener* listener : listeners) device_.listen(listener);
    std::optional<Contents> after = run(schedule, listeners);
    for (Listener* listener : listeners) device_.ignore(listener);
    watch_.end(schedule);
    return after;
  }

  std::vector<ScheduleDifference> explain(const Contents& mine, const Contents& other, uint64_t schedule) {
    std::set<Address> words;
    mine.each_difference(other, [&](const Allocation& a, uint64_t at, uint32_t, uint32_t) {
      if (words.size() < kMostTraced) words.insert(a.base + at);
    });
    WriterLog log(words);
    run(own_, {&log});
    run(schedule, {&log});
    if (log.adds_floats()) return {};
    std::vector<ScheduleDifference> found;
    mine.each_difference(other, [&](const Allocation& a, uint64_t at, uint32_t first, uint32_t second) {
      const auto same = [&](const ScheduleDifference& d) {
        const auto& writers = log.writers(a.base + at);
        return d.allocation.id == a.id &&
               (!words.contains(a.base + at) ||
                std::equal(d.writers.begin(), d.writers.end(), writers.begin(), writers.end(),
                           [](const SourcePlace& p, const SourcePlace& q) {
                             return p.line == q.line && p.file == q.file;
                           }));
      };
      const auto known = std::find_if(found.begin(), found.end(), same);
      if (known != found.end())
        ++known->words;
      else if (words.contains(a.base + at))
        found.push_back({{own_, schedule}, a, 1, at, {first, second}, log.writers(a.base + at)});
    });
    return found;
  }

  Device& device_;
  const ScheduleWatch& watch_;
  const Kernel& kernel_;
  const LaunchConfig& config_;
  const std::vector<std::byte> parameters_;
  const uint64_t own_;
  std::function<void(std::string_view)> print_;
  std::optional<Contents> before_;
};

}  // namespace

std::vector<ScheduleDifference> compare_schedules(Device& device, const Kernel& kernel,
                                                  const LaunchConfig& config,
                                                  std::span<const std::byte> parameters, uint64_t count,
                                                  const ScheduleWatch& watch) {
  return Rehearsal(device, kernel, config, parameters, watch).compare(count);
}

}  // namespace assay::vgpu
